/* gguf_value.c - reading metadata after the file was checked: lookup, and widening of numbers without loss. */
#include "gguf/gguf_internal.h"

#include <math.h>
#include <string.h>

size_t gguf_scalar_bytes(uint32_t type) {
    static const unsigned char bytes[] = {
        [AF_GGUF_U8] = 1,  [AF_GGUF_I8] = 1,  [AF_GGUF_U16] = 2, [AF_GGUF_I16] = 2,
        [AF_GGUF_U32] = 4, [AF_GGUF_I32] = 4, [AF_GGUF_F32] = 4, [AF_GGUF_BOOL] = 1,
        [AF_GGUF_U64] = 8, [AF_GGUF_I64] = 8, [AF_GGUF_F64] = 8,
    };
    return type < sizeof bytes ? bytes[type] : 0;
}

/* ---- Scalars: little-endian bytes, of any alignment ---- */

static bool is_signed(af_gguf_type type) {
    return type == AF_GGUF_I8 || type == AF_GGUF_I16 || type == AF_GGUF_I32 || type == AF_GGUF_I64;
}

static bool is_integer(af_gguf_type type) {
    return is_signed(type) || type == AF_GGUF_U8 || type == AF_GGUF_U16 || type == AF_GGUF_U32 || type == AF_GGUF_U64;
}

/* An integer as 64 bits of two's complement; *negative tells how to read them. */
static bool scalar_integer(af_gguf_type type, const unsigned char *p, uint64_t *bits, bool *negative) {
    if (!is_integer(type)) return false;
    size_t bytes = gguf_scalar_bytes(type);
    uint64_t value = 0;
    memcpy(&value, p, bytes);
    *negative = is_signed(type) && (value >> (8 * bytes - 1) & 1);
    if (*negative && bytes < 8) value |= UINT64_MAX << (8 * bytes);
    *bits = value;
    return true;
}

static bool scalar_u64(af_gguf_type type, const unsigned char *p, uint64_t *out) {
    uint64_t bits;
    bool negative;
    if (!scalar_integer(type, p, &bits, &negative) || negative) return false;
    *out = bits;
    return true;
}

static bool scalar_i64(af_gguf_type type, const unsigned char *p, int64_t *out) {
    uint64_t bits;
    bool negative;
    if (!scalar_integer(type, p, &bits, &negative) || (!negative && bits > INT64_MAX)) return false;
    memcpy(out, &bits, sizeof *out);
    return true;
}

static bool scalar_f64(af_gguf_type type, const unsigned char *p, double *out) {
    float single;
    int64_t whole;
    uint64_t large;
    if (type == AF_GGUF_F64) {
        memcpy(out, p, sizeof *out);
    } else if (type == AF_GGUF_F32) {
        memcpy(&single, p, sizeof single);
        *out = single;
    } else if (scalar_i64(type, p, &whole)) {
        *out = (double)whole;
    } else if (scalar_u64(type, p, &large)) {
        *out = (double)large;
    } else {
        return false;
    }
    return true;
}

/* ---- Entries ---- */

const gguf_entry *gguf_find(const gguf_shard *shard, const char *key) {
    uint32_t index;
    return af_map_get(shard->keys, af_slice_text(key), &index) ? &shard->entries[index] : NULL;
}

static const gguf_entry *find(const af_gguf *file, const char *key) {
    return gguf_find(&file->shards[0], key);
}

bool gguf_entry_u64(const gguf_entry *entry, uint64_t *out) {
    return scalar_u64(entry->type, entry->value, out);
}

size_t af_gguf_kv_count(const af_gguf *file) {
    return file->shards[0].entry_count;
}

af_slice af_gguf_key_at(const af_gguf *file, size_t i) {
    return i < af_gguf_kv_count(file) ? file->shards[0].entries[i].key : (af_slice){0};
}

bool af_gguf_has(const af_gguf *file, const char *key) {
    return find(file, key) != NULL;
}

bool af_gguf_u64(const af_gguf *file, const char *key, uint64_t *out) {
    const gguf_entry *e = find(file, key);
    return e && gguf_entry_u64(e, out);
}

bool af_gguf_u32(const af_gguf *file, const char *key, uint32_t *out) {
    uint64_t value;
    if (!af_gguf_u64(file, key, &value) || value > UINT32_MAX) return false;
    *out = (uint32_t)value;
    return true;
}

bool af_gguf_i64(const af_gguf *file, const char *key, int64_t *out) {
    const gguf_entry *e = find(file, key);
    return e && scalar_i64(e->type, e->value, out);
}

bool af_gguf_f32(const af_gguf *file, const char *key, float *out) {
    const gguf_entry *e = find(file, key);
    double value;
    if (!e || !scalar_f64(e->type, e->value, &value)) return false;
    if (isfinite(value) && isinf((float)value)) return false;
    *out = (float)value;
    return true;
}

bool af_gguf_bool(const af_gguf *file, const char *key, bool *out) {
    const gguf_entry *e = find(file, key);
    if (!e || e->type != AF_GGUF_BOOL) return false;
    *out = *e->value != 0;
    return true;
}

bool af_gguf_string(const af_gguf *file, const char *key, af_slice *out) {
    const gguf_entry *e = find(file, key);
    if (!e || e->type != AF_GGUF_STRING) return false;
    *out = e->string;
    return true;
}

/* ---- Arrays ---- */

const af_gguf_array *af_gguf_get_array(const af_gguf *file, const char *key) {
    const gguf_entry *e = find(file, key);
    return e && e->type == AF_GGUF_ARRAY ? e->array : NULL;
}

af_gguf_type af_gguf_array_type(const af_gguf_array *array) {
    return array->type;
}

size_t af_gguf_array_count(const af_gguf_array *array) {
    return array->count;
}

bool af_gguf_array_string(const af_gguf_array *array, size_t i, af_slice *out) {
    if (array->type != AF_GGUF_STRING || i >= array->count) return false;
    const unsigned char *p = array->p + array->offsets[i];
    uint64_t n;
    memcpy(&n, p, sizeof n);
    *out = af_slice_of((const char *)p + sizeof n, n);
    return true;
}

static const unsigned char *element(const af_gguf_array *array, size_t i) {
    return array->p + i * gguf_scalar_bytes(array->type);
}

bool af_gguf_array_i64(const af_gguf_array *array, size_t i, int64_t *out) {
    return i < array->count && scalar_i64(array->type, element(array, i), out);
}

bool af_gguf_array_f64(const af_gguf_array *array, size_t i, double *out) {
    return i < array->count && scalar_f64(array->type, element(array, i), out);
}

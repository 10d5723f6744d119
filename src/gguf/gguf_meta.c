/* gguf_meta.c - reading the metadata: one pass that checks every length and notes where things lie.
 *
 * Limits beyond what the file's size implies, so that a small hostile file costs little: nesting of arrays, the number
 * of entries, the strings of one array and its extent (their offsets take 32 bits).
 */
#include "gguf/gguf_internal.h"

#include <string.h>

#define ENTRIES_MAX (1u << 20)
#define KEY_MAX     65535 /* bytes; the specification's */
#define ENTRY_MIN   14    /* bytes: key length, a byte of key, type, a value of one byte */
#define STRINGS_MAX (1u << 24)
#define NESTING_MAX 4

typedef struct array_head {
    uint32_t type;
    uint64_t count;
} array_head;

/* The fewest bytes an element can take. */
static uint64_t least_bytes(uint32_t type) {
    if (type == AF_GGUF_STRING) return 8;
    return type == AF_GGUF_ARRAY ? 12 : gguf_scalar_bytes(type);
}

static int check_type(const gguf_reader *r, uint32_t type, const char *what) {
    if (type <= AF_GGUF_F64) return 0;
    return gguf_fail(r, AF_EFORMAT, "%s type %u, allowed 0 to %d", what, type, AF_GGUF_F64);
}

static int take_head(gguf_reader *r, array_head *out) {
    int status = gguf_take_u32(r, "the type of an array", &out->type);
    if (!status) status = check_type(r, out->type, "array element");
    if (!status) status = gguf_take_u64(r, "the length of an array", &out->count);
    if (status) return status;
    uint64_t most = gguf_left(r) / least_bytes(out->type);
    if (out->count > most)
        return gguf_fail(r, AF_EFORMAT, "an array of %llu elements, but the file has room for %llu",
                         (unsigned long long)out->count, (unsigned long long)most);
    return 0;
}

static int check_bools(const gguf_reader *r, const unsigned char *p, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        if (p[i] > 1) return gguf_fail(r, AF_EFORMAT, "a bool of %u, allowed 0 and 1", p[i]);
    return 0;
}

/* Scalars one after another. */
static int take_scalars(gguf_reader *r, uint32_t type, uint64_t count, const unsigned char **out) {
    int status = gguf_take(r, count * gguf_scalar_bytes(type), count == 1 ? "its value" : "its values", out);
    return !status && type == AF_GGUF_BOOL ? check_bools(r, *out, count) : status;
}

/* Walks `count` strings; notes where each begins when offsets is not NULL. */
static int take_strings(gguf_reader *r, uint64_t count, uint32_t *offsets) {
    uint64_t start = r->at;
    af_slice string = {0};
    for (uint64_t i = 0; i < count; i++) {
        if (r->at - start > UINT32_MAX) return gguf_fail(r, AF_EUNSUPPORTED, "strings of more than 4 GiB together");
        if (offsets) offsets[i] = (uint32_t)(r->at - start);
        int status = gguf_take_string(r, "a string", &string);
        if (status) return status;
    }
    return 0;
}

/* Walks an array within an array, which can be checked but not read. */
static int skip_array(gguf_reader *r, unsigned depth) {
    if (depth > NESTING_MAX) return gguf_fail(r, AF_EFORMAT, "arrays nested more than %d deep", NESTING_MAX);
    array_head head;
    const unsigned char *p;
    int status = take_head(r, &head);
    if (status) return status;
    if (head.type == AF_GGUF_STRING) return take_strings(r, head.count, NULL);
    if (head.type != AF_GGUF_ARRAY) return take_scalars(r, head.type, head.count, &p);
    for (uint64_t i = 0; i < head.count && !status; i++) status = skip_array(r, depth + 1);
    return status;
}

static int take_string_array(gguf_reader *r, af_arena *arena, af_gguf_array *array) {
    if (array->count > STRINGS_MAX)
        return gguf_fail(r, AF_EUNSUPPORTED, "an array of %zu strings, allowed %u", array->count, STRINGS_MAX);
    uint32_t *offsets = af_arena_alloc(arena, array->count * sizeof *offsets);
    if (!offsets) return af_fail_memory(r->error, array->count * sizeof *offsets, r->path);
    array->offsets = offsets;
    return take_strings(r, array->count, offsets);
}

static int take_array(gguf_reader *r, af_arena *arena, const af_gguf_array **out) {
    array_head head;
    int status = take_head(r, &head);
    if (status) return status;
    af_gguf_array *array = af_arena_zalloc(arena, sizeof *array);
    if (!array) return af_fail_memory(r->error, sizeof *array, r->path);
    array->type = (af_gguf_type)head.type;
    array->count = head.count;
    array->p = r->p + r->at;
    *out = array;
    if (head.type == AF_GGUF_STRING) return take_string_array(r, arena, array);
    if (head.type != AF_GGUF_ARRAY) return take_scalars(r, head.type, head.count, &array->p);
    for (uint64_t i = 0; i < head.count && !status; i++) status = skip_array(r, 2);
    return status;
}

static int take_entry(gguf_reader *r, af_arena *arena, gguf_entry *entry) {
    uint32_t type;
    int status = gguf_take_name(r, KEY_MAX);
    if (!status) status = gguf_take_u32(r, "its type", &type);
    if (!status) status = check_type(r, type, "value");
    if (status) return status;
    entry->key = r->name;
    entry->type = (af_gguf_type)type;
    if (type == AF_GGUF_STRING) return gguf_take_string(r, "its string", &entry->string);
    if (type == AF_GGUF_ARRAY) return take_array(r, arena, &entry->array);
    return take_scalars(r, type, 1, &entry->value);
}

int gguf_read_entries(gguf_reader *r, af_arena *arena, gguf_shard *shard) {
    uint64_t count = shard->entry_count;
    int status = gguf_check_count(r, count, ENTRY_MIN, ENTRIES_MAX, "metadata keys");
    if (status) return status;
    shard->entries = af_arena_array(arena, count, sizeof *shard->entries);
    shard->keys = af_map_open(count);
    if (!shard->entries || !shard->keys) return af_fail_memory(r->error, count * sizeof *shard->entries, r->path);
    for (uint64_t i = 0; i < count; i++) {
        gguf_item(r, "key", i, count);
        status = take_entry(r, arena, &shard->entries[i]);
        if (status) return status;
        if (!af_map_put(shard->keys, shard->entries[i].key, (uint32_t)i))
            return gguf_fail(r, AF_EFORMAT, "is there twice");
    }
    r->item = NULL;
    return 0;
}

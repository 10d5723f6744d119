/* binder.c - metadata and tensors of a file, checked as they are taken into a plan. */
#include "model/binder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define NAME_MAX_BYTES 128

void af_bind_fail(af_binder *b, int code, const char *format, ...) {
    if (b->status != AF_OK) return;
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    b->status = af_fail(b->error, code, "%s: %s", af_gguf_path(b->file), text);
}

/* ---- Metadata ---- */

static const char *arch_key(const af_binder *b, const char *key, char out[NAME_MAX_BYTES]) {
    snprintf(out, NAME_MAX_BYTES, "%.*s.%s", (int)b->arch.n, b->arch.p, key);
    return out;
}

bool af_bind_has(const af_binder *b, const char *key) {
    char name[NAME_MAX_BYTES];
    return af_gguf_has(b->file, arch_key(b, key, name));
}

/* Some files give a number that layers share as an array of equal numbers, one for each layer. */
static bool shared_u32(const af_binder *b, const char *name, uint32_t *out) {
    if (af_gguf_u32(b->file, name, out)) return true;
    const af_gguf_array *array = af_gguf_get_array(b->file, name);
    int64_t first, other;
    if (!array || !af_gguf_array_i64(array, 0, &first) || first < 0 || first > UINT32_MAX) return false;
    for (size_t i = 1; i < af_gguf_array_count(array); i++)
        if (!af_gguf_array_i64(array, i, &other) || other != first) return false;
    *out = (uint32_t)first;
    return true;
}

static uint32_t take_u32(af_binder *b, const char *key, bool required, uint32_t fallback, uint32_t low, uint32_t high) {
    char name[NAME_MAX_BYTES];
    uint32_t value = fallback;
    arch_key(b, key, name);
    if (!shared_u32(b, name, &value)) {
        if (af_gguf_has(b->file, name))
            af_bind_fail(b, AF_EFORMAT, "%s: found another type, expected an unsigned integer the same for all layers",
                         name);
        else if (required)
            af_bind_fail(b, AF_EFORMAT, "%s: missing", name);
        return required ? low : fallback;
    }
    if (value < low || value > high) {
        af_bind_fail(b, AF_EFORMAT, "%s: found %u, allowed %u to %u", name, value, low, high);
        return low;
    }
    return value;
}

uint32_t af_bind_u32(af_binder *b, const char *key, uint32_t low, uint32_t high) {
    return take_u32(b, key, true, low, low, high);
}

uint32_t af_bind_u32_or(af_binder *b, const char *key, uint32_t fallback, uint32_t low, uint32_t high) {
    return take_u32(b, key, false, fallback, low, high);
}

float af_bind_f32_or(af_binder *b, const char *key, float fallback) {
    char name[NAME_MAX_BYTES];
    float value = fallback;
    arch_key(b, key, name);
    if (af_gguf_f32(b->file, name, &value)) {
        if (isfinite(value)) return value;
        af_bind_fail(b, AF_EFORMAT, "%s: found %g, expected a finite number", name, (double)value);
    } else if (af_gguf_has(b->file, name)) {
        af_bind_fail(b, AF_EFORMAT, "%s: found another type, expected a number", name);
    }
    return fallback;
}

bool af_bind_bool_or(af_binder *b, const char *key, bool fallback) {
    char name[NAME_MAX_BYTES];
    bool value = fallback;
    arch_key(b, key, name);
    if (!af_gguf_bool(b->file, name, &value) && af_gguf_has(b->file, name))
        af_bind_fail(b, AF_EFORMAT, "%s: found another type, expected true or false", name);
    return value;
}

bool af_bind_is(const af_binder *b, const char *key, const char *text) {
    char name[NAME_MAX_BYTES];
    af_slice found;
    return af_gguf_string(b->file, arch_key(b, key, name), &found) && af_slice_is(found, text);
}

static uint32_t vocabulary_size(af_binder *b) {
    const af_tensor *embd = af_gguf_tensor(b->file, "token_embd.weight");
    if (!embd || embd->n_dims != 2 || embd->dims[1] > INT32_MAX) {
        af_bind_fail(b, AF_EFORMAT, "tensor token_embd.weight: %s", embd ? "expected two dimensions" : "missing");
        return 1;
    }
    return (uint32_t)embd->dims[1];
}

void af_bind_hparams(af_binder *b, af_norm_kind norm, af_hparams *out) {
    memset(out, 0, sizeof *out);
    out->layers = af_bind_u32(b, "block_count", 1, 4096);
    out->width = af_bind_u32(b, "embedding_length", 1, 1u << 20);
    out->context = af_bind_u32_or(b, "context_length", 2048, 1, 1u << 30);
    out->ff = af_bind_u32(b, "feed_forward_length", 1, 1u << 22);
    out->heads = af_bind_u32(b, "attention.head_count", 1, 4096);
    out->kv_heads = af_bind_u32_or(b, "attention.head_count_kv", out->heads, 1, 4096);
    const uint32_t per_head = out->width / out->heads;
    out->k_dim = af_bind_u32_or(b, "attention.key_length", per_head ? per_head : 1, 1, 4096);
    out->v_dim = af_bind_u32_or(b, "attention.value_length", out->k_dim, 1, 4096);
    out->rotated = af_bind_u32_or(b, "rope.dimension_count", out->k_dim, 0, out->k_dim);
    out->window = af_bind_u32_or(b, "attention.sliding_window", 0, 0, 1u << 30);
    out->rope_base = af_bind_f32_or(b, "rope.freq_base", 10000.0f);
    out->norm = norm;
    out->yarn_fast = 32.0f;
    out->yarn_slow = 1.0f;
    out->eps = af_bind_f32_or(
        b, norm == AF_NORM_LAYER ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", 1e-5f);
    out->vocabulary = vocabulary_size(b);
    if (out->heads % out->kv_heads)
        af_bind_fail(b, AF_EFORMAT, "%.*s.attention.head_count: found %u, expected a multiple of head_count_kv (%u)",
                     (int)b->arch.n, b->arch.p, out->heads, out->kv_heads);
    if (out->rotated % 2)
        af_bind_fail(b, AF_EFORMAT, "%.*s.rope.dimension_count: found %u, expected an even number", (int)b->arch.n,
                     b->arch.p, out->rotated);
    if (!(out->rope_base > 0.0f))
        af_bind_fail(b, AF_EFORMAT, "%.*s.rope.freq_base: found %g, expected a number above 0", (int)b->arch.n,
                     b->arch.p, (double)out->rope_base);
    if (!(out->eps >= 0.0f))
        af_bind_fail(b, AF_EFORMAT, "%.*s.attention: found a norm epsilon of %g, expected at least 0", (int)b->arch.n,
                     b->arch.p, (double)out->eps);
    b->plan->vocabulary = out->vocabulary;
    b->plan->width = out->width;
    b->plan->layers = out->layers;
    b->plan->context = out->context;
}

/* ---- Tensors ---- */

static const af_tensor *find(af_binder *b, bool required, const char *name) {
    const af_tensor *t = af_gguf_tensor(b->file, name);
    if (!t && required) af_bind_fail(b, AF_EFORMAT, "tensor %s: missing", name);
    return t;
}

static af_matrix matrix_of(af_binder *b, const af_tensor *t, uint32_t rows, uint32_t cols, const char *name) {
    const char *kept = af_arena_copy(b->plan->arena, name, strlen(name));
    if (!kept) b->status = b->status ? b->status : af_fail_memory(b->error, strlen(name), "a tensor's name");
    return (af_matrix){.data = t->data, .format = t->format, .rows = rows, .cols = cols, .name = kept};
}

static af_matrix take_matrix(af_binder *b, bool required, uint32_t rows, uint32_t cols, const char *name) {
    const af_tensor *t = find(b, required, name);
    if (!t) return (af_matrix){0};
    if (t->dims[0] != cols || t->dims[1] != rows || t->dims[2] != 1 || t->dims[3] != 1) {
        af_bind_fail(b, AF_EFORMAT, "tensor %s: found %llu x %llu, expected %u x %u", name,
                     (unsigned long long)t->dims[0], (unsigned long long)t->dims[1], cols, rows);
        return (af_matrix){0};
    }
    return matrix_of(b, t, rows, cols, name);
}

static af_stack take_stack(af_binder *b, bool required, uint32_t experts, uint32_t rows, uint32_t cols,
                           const char *name) {
    const af_tensor *t = find(b, required, name);
    if (!t) return (af_stack){0};
    if (t->dims[0] != cols || t->dims[1] != rows || t->dims[2] != experts || t->dims[3] != 1) {
        af_bind_fail(b, AF_EFORMAT, "tensor %s: found %llu x %llu x %llu, expected %u x %u x %u", name,
                     (unsigned long long)t->dims[0], (unsigned long long)t->dims[1], (unsigned long long)t->dims[2],
                     cols, rows, experts);
        return (af_stack){0};
    }
    return (af_stack){.w = matrix_of(b, t, rows, cols, name), .stride = rows * af_row_bytes(t->format, cols)};
}

static const float *take_vector(af_binder *b, bool required, uint32_t n, const char *name) {
    const af_tensor *t = find(b, required, name);
    if (!t) return NULL;
    if (t->elements != n) {
        af_bind_fail(b, AF_EFORMAT, "tensor %s: found %llu elements, expected %u", name,
                     (unsigned long long)t->elements, n);
        return NULL;
    }
    float *out = af_arena_array(b->plan->arena, n, sizeof *out);
    if (!out) {
        b->status = b->status ? b->status : af_fail_memory(b->error, n * sizeof *out, name);
        return NULL;
    }
    t->format->decode(t->data, out, n);
    return out;
}

#define FORMAT_NAME(name, format)                                                                                      \
    char name[NAME_MAX_BYTES];                                                                                         \
    va_list args;                                                                                                      \
    va_start(args, format);                                                                                            \
    vsnprintf(name, sizeof name, format, args);                                                                        \
    va_end(args)

af_matrix af_bind_matrix(af_binder *b, uint32_t rows, uint32_t cols, const char *format, ...) {
    FORMAT_NAME(name, format);
    return take_matrix(b, true, rows, cols, name);
}

af_matrix af_bind_matrix_if(af_binder *b, uint32_t rows, uint32_t cols, const char *format, ...) {
    FORMAT_NAME(name, format);
    return take_matrix(b, false, rows, cols, name);
}

af_stack af_bind_stack(af_binder *b, uint32_t experts, uint32_t rows, uint32_t cols, const char *format, ...) {
    FORMAT_NAME(name, format);
    return take_stack(b, true, experts, rows, cols, name);
}

af_stack af_bind_stack_if(af_binder *b, uint32_t experts, uint32_t rows, uint32_t cols, const char *format, ...) {
    FORMAT_NAME(name, format);
    return take_stack(b, false, experts, rows, cols, name);
}

const float *af_bind_vector(af_binder *b, uint32_t n, const char *format, ...) {
    FORMAT_NAME(name, format);
    return take_vector(b, true, n, name);
}

const float *af_bind_vector_if(af_binder *b, uint32_t n, const char *format, ...) {
    FORMAT_NAME(name, format);
    return take_vector(b, false, n, name);
}

const float *af_bind_taps(af_binder *b, uint32_t taps, uint32_t channels, const char *format, ...) {
    FORMAT_NAME(name, format);
    const af_matrix w = take_matrix(b, true, channels, taps, name);
    const float *rows = take_vector(b, true, taps * channels, name);
    float *out = af_arena_array(b->plan->arena, (size_t)taps * channels, sizeof *out);
    if (!out && b->status == AF_OK) b->status = af_fail_memory(b->error, (size_t)taps * channels * sizeof *out, name);
    if (!out || !rows || !w.data) return NULL;
    for (size_t c = 0; c < channels; c++)
        for (size_t i = 0; i < taps; i++) out[i * channels + c] = rows[c * taps + i];
    return out;
}

af_norm af_bind_rms(af_binder *b, uint32_t width, float eps, const char *format, ...) {
    FORMAT_NAME(name, format);
    const float *weight = take_vector(b, true, width, name);
    if (!weight) return (af_norm){0};
    return (af_norm){.kind = AF_NORM_RMS, .eps = eps, .weight = weight, .width = width};
}

static af_norm take_norm(af_binder *b, bool required, const af_hparams *h, const char *name) {
    char full[NAME_MAX_BYTES + 8];
    snprintf(full, sizeof full, "%s.weight", name);
    const float *weight = take_vector(b, required, h->width, full);
    if (!weight) return (af_norm){0};
    snprintf(full, sizeof full, "%s.bias", name);
    const float *bias = h->norm == AF_NORM_LAYER ? take_vector(b, false, h->width, full) : NULL;
    return (af_norm){.kind = h->norm, .eps = h->eps, .weight = weight, .bias = bias, .width = h->width};
}

af_norm af_bind_norm(af_binder *b, const af_hparams *h, const char *format, ...) {
    FORMAT_NAME(name, format);
    return take_norm(b, true, h, name);
}

af_norm af_bind_norm_if(af_binder *b, const af_hparams *h, const char *format, ...) {
    FORMAT_NAME(name, format);
    return take_norm(b, false, h, name);
}

af_norm af_bind_heads_norm_if(af_binder *b, const af_hparams *h, uint32_t heads, const char *format, ...) {
    FORMAT_NAME(name, format);
    const float *weight = take_vector(b, false, heads * h->k_dim, name);
    if (!weight) return (af_norm){0};
    return (af_norm){.kind = h->norm, .eps = h->eps, .weight = weight, .width = h->k_dim, .per_head_weight = true};
}

/* ---- The plan ---- */

af_value af_bind_value(af_binder *b, uint32_t width) {
    af_value value = 0;
    if (b->status == AF_OK) b->status = af_plan_value(b->plan, width, &value, b->error);
    return value;
}

uint16_t af_bind_no_rope(af_binder *b) {
    uint16_t index = 0;
    if (b->status == AF_OK) b->status = af_plan_rope(b->plan, &(af_rope){.magnitude = 1.0f}, &index, b->error);
    return index;
}

uint16_t af_bind_cache(af_binder *b, uint32_t window, const af_hparams *h) {
    uint16_t index = 0;
    if (b->status == AF_OK)
        b->status = af_plan_cache(b->plan, window, h->kv_heads, h->k_dim, h->v_dim, &index, b->error);
    return index;
}

uint16_t af_bind_shared_cache(af_binder *b, uint32_t window, uint32_t k_dim, uint32_t v_dim) {
    uint16_t index = 0;
    if (b->status == AF_OK) b->status = af_plan_shared_cache(b->plan, window, k_dim, v_dim, &index, b->error);
    return index;
}

uint16_t af_bind_carry(af_binder *b, uint64_t floats) {
    uint16_t index = 0;
    if (b->status == AF_OK) b->status = af_plan_carry(b->plan, floats, &index, b->error);
    return index;
}

void af_bind_op(af_binder *b, int32_t layer, const char *name, af_op op) {
    if (b->status != AF_OK) return;
    char full[NAME_MAX_BYTES];
    if (layer < 0)
        snprintf(full, sizeof full, "%s", name);
    else
        snprintf(full, sizeof full, "blk.%d.%s", layer, name);
    op.layer = layer;
    op.name = full;
    b->status = af_plan_append(b->plan, &op, b->error);
}

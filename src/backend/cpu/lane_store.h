/* lane_store.h - a token's key and value into a page of the cache (kv_store.h), compiled once for each instruction set
 * (see lanes.h). Included by lane_kernels_*.c only. */
#ifndef AF_CPU_LANE_STORE_H
#define AF_CPU_LANE_STORE_H

#include "backend/cpu/lane_kernels.h"

#include <math.h>
#include <string.h>

/* Where a row goes: `stride` elements between neighbours, 1 unless keys are transposed. */
typedef struct kv_row {
    unsigned char *at; /* the row's first element */
    size_t stride;
    uint16_t *scales; /* of its first block; those of the next ones AF_KV_PAGE further on each */
} kv_row;

static inline kv_row key_row(const af_kv_shape *s, uint32_t slot, void *page) {
    const size_t first = s->shared ? (size_t)slot * s->k_stride : slot;
    unsigned char *const scales = (unsigned char *)page + af_kv_parts_of(s).key_scales;
    return (kv_row){.at = (unsigned char *)page + first * af_kv_elem_bytes(s->type),
                    .stride = s->shared ? 1 : AF_KV_PAGE,
                    .scales = (uint16_t *)(void *)scales + slot};
}

static inline kv_row value_row(const af_kv_shape *s, uint32_t slot, void *page) {
    const af_kv_parts parts = af_kv_parts_of(s);
    unsigned char *const p = page;
    return (kv_row){.at = p + parts.values + (size_t)slot * s->v_stride * af_kv_elem_bytes(s->type),
                    .stride = 1,
                    .scales = (uint16_t *)(void *)(p + parts.value_scales) + slot};
}

/* Elements i .. i + n - 1 of a row, from memory that holds them side by side, whole vectors with zeros behind the last
 * one; those go along where the row has room for them. */
static inline void put_elements(const kv_row *row, size_t i, const void *from, size_t n, const size_t elem) {
    unsigned char *to = row->at + i * row->stride * elem;
    if (row->stride == 1) {
        memcpy(to, from, (n + LANES - 1) / LANES * LANES * elem);
        return;
    }
    for (size_t j = 0; j < n; j++) memcpy(to + j * row->stride * elem, (const unsigned char *)from + j * elem, elem);
}

LANES_FN lanes lanes_abs(lanes x) {
    return lanes_max(x, lanes_sub(lanes_zero(), x));
}

/* Stores the scale of a block of magnitudes up to `peak` and gives what elements are multiplied with. A block of
 * nothing but numbers too small for any scale is one of zeros. */
LANES_FN lanes put_scale(uint16_t *scale, float peak) {
    const float wanted = peak / 127.0f, most = 65504.0f; /* f16's largest */
    uint16_t halves[LANES];
    lanes_store_f16(halves, lanes_set(wanted < most ? wanted : most));
    *scale = halves[0];
    const lanes d = lanes_set_f16(halves[0]);
    return lanes_select_lt(lanes_zero(), d, lanes_div(lanes_set(1.0f), d), lanes_zero());
}

/* To the nearest whole number, of two the even one: adding 1.5 * 2^23 leaves no bit for a fraction. Out of range, and
 * NaN, go to the ends: whatever is stored is a number. */
LANES_FN void put_codes(int8_t *to, lanes x, lanes factor) {
    const lanes magic = lanes_set(12582912.0f), most = lanes_set(127.0f);
    const lanes low = lanes_max(lanes_mul(x, factor), lanes_set(-127.0f));
    const lanes v = lanes_select_lt(most, low, most, low);
    lanes_store_i8(to, lanes_sub(lanes_add(v, magic), magic));
}

LANES_FN void put_row_q8_0(const kv_row *row, const float *v, size_t dim) {
    for (size_t i = 0; i < dim; i += AF_KV_BLOCK) {
        const size_t n = dim - i < AF_KV_BLOCK ? dim - i : AF_KV_BLOCK;
        const lanes a = lanes_load_n(v + i, n < LANES ? n : LANES);
        const lanes b = n > LANES ? lanes_load_n(v + i + LANES, n - LANES) : lanes_zero();
        const lanes sizes = lanes_max(lanes_abs(a), lanes_max(lanes_abs(b), lanes_zero())); /* no NaN */
        const lanes factor = put_scale(row->scales + i / AF_KV_BLOCK * AF_KV_PAGE, lanes_peak(sizes));
        int8_t codes[AF_KV_BLOCK];
        put_codes(codes, a, factor);
        put_codes(codes + LANES, b, factor);
        put_elements(row, i, codes, n, sizeof *codes);
    }
}

LANES_FN void put_row_f16(const kv_row *row, const float *v, size_t dim) {
    uint16_t part[LANES];
    for (size_t i = 0; i < dim; i += LANES) {
        const size_t n = lanes_left(dim, i);
        lanes_store_f16(part, lanes_load_n(v + i, n));
        put_elements(row, i, part, n, sizeof *part);
    }
}

LANES_FN void put_row_f32(const kv_row *row, const float *v, size_t dim) {
    float part[LANES];
    for (size_t i = 0; i < dim; i += LANES) {
        const size_t n = lanes_left(dim, i);
        lanes_store(part, lanes_load_n(v + i, n));
        put_elements(row, i, part, n, sizeof *part);
    }
}

#define STORE(name)                                                                                                    \
    LANES_TARGET static void store_##name(const af_kv_shape *shape, const float *k, const float *v, uint32_t slot,     \
                                          void *page) {                                                                \
        const kv_row keys = key_row(shape, slot, page);                                                                \
        put_row_##name(&keys, k, shape->k_dim);                                                                        \
        if (shape->shared) return;                                                                                     \
        const kv_row values = value_row(shape, slot, page);                                                            \
        put_row_##name(&values, v, shape->v_dim);                                                                      \
    }
STORE(f16)
STORE(f32)
STORE(q8_0)
#undef STORE

#endif

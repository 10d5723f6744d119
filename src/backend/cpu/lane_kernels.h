/* lane_kernels.h - the kernels of the CPU backend that are not matrix products, as one table for each instruction set.
 *
 * They work on one row, or on one tile of queries against one page of the cache; who runs which is cpu_*.c's business.
 * Every sum has an order of its own that does not depend on the instruction set (lanes.h), on how many rows are run
 * together or on how a context was cut into batches: that is design.md's promise 1.
 */
#ifndef AF_CPU_LANE_KERNELS_H
#define AF_CPU_LANE_KERNELS_H

#include "airframe.h"
#include "backend/cpu/kv_store.h"
#include "backend/cpu/linear.h"
#include "plan/plan.h"

/* Query rows that are run together against a page: some tokens of one sequence times some heads of one kv head. */
#define AF_ATTEND_ROWS 16

/* A tile of queries. Rows are token-major: row = token * heads + head. */
typedef struct af_attend_tile {
    uint32_t tokens, heads;        /* tokens * heads <= AF_ATTEND_ROWS */
    const af_kv_shape *kv;         /* of a page */
    float scale, softcap;          /* softcap 0: none */
    uint8_t begin[AF_ATTEND_ROWS]; /* for each token, the slots of the current page it sees: begin <= slot < end */
    uint8_t end[AF_ATTEND_ROWS];
    float *q; /* (k_dim, AF_ATTEND_ROWS): a column is a query; of a shared cache (AF_ATTEND_ROWS, k_stride), padded with
                 zeros: a row is */
    float *w; /* (AF_ATTEND_ROWS, AF_KV_PAGE): scores, then weights of the current page */
    const unsigned char *next; /* the page that comes after it, to be fetched meanwhile; NULL: none */
    size_t page_bytes;
} af_attend_tile;

/* The softmax of a tile so far, as floats one after another: the maximum of each row (AF_ATTEND_ROWS), the sum of its
 * weights (rows, 16 partial sums), its weighted values (rows, v_stride); weights are relative to the maximum. It begins
 * with maxima of -FLT_MAX and zeros. */
static inline size_t af_attend_state_floats(uint32_t rows, uint32_t v_stride) {
    return AF_ATTEND_ROWS + (size_t)rows * (16 + v_stride);
}

/* One value head of a gated delta rule (plan.h, af_op_delta) over some tokens of one sequence. Rows of token t begin
 * stride * t further on; q and k are divided by their lengths already. */
typedef struct af_delta_head {
    uint32_t tokens, k_dim, v_dim;
    const float *q, *k, *v, *decay, *beta; /* (tokens, ..): k_dim, k_dim, v_dim, 1, 1 */
    size_t stride, decay_stride, beta_stride;
    float *state; /* (k_dim, v_dim) */
    float *out;   /* (tokens, v_dim) */
    size_t out_stride;
} af_delta_head;

typedef struct af_lane_kernels {
    /* plan.h's norm over norm->width elements; `head` picks the weight's row if there is one for each head. out may be
     * in. */
    void (*norm)(const af_norm *norm, size_t head, const float *in, float *out);
    void (*scale)(float *v, float factor, size_t n);
    void (*add)(float *v, const float *bias, size_t n);
    void (*act)(af_act act, float *v, size_t n);                                                /* v = act(v) */
    void (*glu)(af_act act, float *v, const float *other, size_t n);                            /* v = act(v) * other */
    void (*residual)(float *out, const float *residual, const float *y, float scale, size_t n); /* residual + scale y */
    void (*softcap)(float *v, float cap, size_t n); /* v = cap tanh(v / cap) */
    void (*softmax)(float *v, size_t n);            /* v = softmax(v) */
    int32_t (*best)(const float *v, size_t n);      /* the lowest index of the largest; a NaN is never the largest */

    /* Rotates one head in place by one token's table (cpu_ops.c: adjacent pairs have entries doubled, sines signed). */
    void (*rotate)(const af_rope *rope, const float *cosines, const float *sines, float *head);

    /* Writes one token's k (k_dim) and v (v_dim; NULL where it is part of k) of one kv head into `slot` of a page. */
    void (*store[AF_KV_TYPES])(const af_kv_shape *shape, const float *k, const float *v, uint32_t slot, void *page);

    /* Attention (plan.h): one page into a state; a state into that of the earlier positions, `total`; and the end: the
     * result of token t and head h at out + t * stride + h * v_dim. sinks: NULL, or one for each head. */
    void (*attend_page[AF_KV_TYPES])(const af_attend_tile *tile, float *state, const void *page);
    void (*attend_merge)(const af_attend_tile *tile, float *total, const float *part);
    void (*attend_finish)(const af_attend_tile *tile, const float *state, const float *sinks, float *out,
                          size_t stride);

    /* Recurrent layers: v = v * act(gate); a token's row of a convolution, rows[i] being what tap i meets; a head. */
    void (*gate)(af_act act, float *v, const float *gate, size_t n);
    void (*conv)(const af_op_conv *conv, const float *const *rows, float *out, size_t width);
    void (*delta)(const af_delta_head *head);
} af_lane_kernels; /* store and attend_page are indexed by af_kv_type */

const af_lane_kernels *af_lane_kernels_of(af_isa isa);

extern const af_lane_kernels af_lane_kernels_scalar;
#if defined(__x86_64__)
extern const af_lane_kernels af_lane_kernels_avx2, af_lane_kernels_avx512;
#elif defined(__aarch64__)
extern const af_lane_kernels af_lane_kernels_neon;
#endif

#endif

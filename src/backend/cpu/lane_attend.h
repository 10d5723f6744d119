/* lane_attend.h - attention of a tile of queries over one page of the cache, compiled once for each instruction set
 * (see lanes.h). Included by lane_kernels_*.c only.
 *
 * A page holds 32 keys across (kv_store.h), so a key is a lane: its score is summed down the head's dimensions, one
 * fused multiply-add after another, and nothing is reduced across lanes. (Keys that are values too lie a slot a row;
 * their scores are dot products of rows.) Values are summed slot after slot, an output element a lane. The softmax is
 * one pass: each page raises the running maximum and rescales what was summed before. All three orders are those of the
 * positions alone, so a query's result is the same in a tile of one and in a tile of sixteen.
 *
 * A slot that a query does not see contributes nothing, not even a product with zero: its score is replaced before use,
 * its value is left out of the sum. Memory never written, or of later tokens, may hold anything.
 */
#ifndef AF_CPU_LANE_ATTEND_H
#define AF_CPU_LANE_ATTEND_H

#include "backend/cpu/lane_kernels.h"
#include "backend/cpu/vecmath.h"

#include <float.h>

#define TILE_MOST   8 /* rows of one register tile */
#define CHUNKS_MOST 4 /* vectors of value elements of one register tile */

/* Sixteen elements from the i-th on; of q8_0 without their scale. */
LANES_FN lanes kv_load(const void *p, size_t i, const af_kv_type type) {
    if (type == AF_KV_F16) return lanes_load_f16((const uint16_t *)p + i);
    if (type == AF_KV_Q8_0) return lanes_load_i8((const int8_t *)p + i);
    return lanes_load((const float *)p + i);
}

/* Keys or values that lie a slot a row: slot j's elements begin at j * stride, its scales at j, AF_KV_PAGE apart. */
typedef struct kv_rows {
    const void *elems;
    const uint16_t *scales;
    size_t stride;
} kv_rows;

/* Vector `chunk` of slot j. A block's scale is that of two vectors. */
LANES_FN lanes kv_row_load(const kv_rows *rows, size_t j, size_t chunk, const af_kv_type type) {
    const lanes v = kv_load(rows->elems, j * rows->stride + chunk * LANES, type);
    if (type != AF_KV_Q8_0) return v;
    return lanes_mul(v, lanes_set_f16(rows->scales[chunk / (AF_KV_BLOCK / LANES) * AF_KV_PAGE + j]));
}

/* The 32 keys of a page side by side, element after element. */
typedef struct kv_columns {
    const void *elems;
    const uint16_t *scales;
} kv_columns;

/* Asks for a part of the next page, `bytes` from `at` on. A page is two to ten of memory's own pages apart from the one
 * before, which is further than processors look ahead by themselves; asked for all at once it would fill their queue of
 * lines to come, so that the keys at hand wait. */
LANES_FN void expect_next(const af_attend_tile *tile, size_t at, size_t bytes) {
    if (!tile->next) return;
    for (size_t end = at + bytes; at < end && at < tile->page_bytes; at += 64) __builtin_prefetch(tile->next + at);
}

/* Dot products of `rows` queries from `row` on with the 32 keys of a page, into tile->w. */
LANES_FN void score_block(const af_attend_tile *tile, const kv_columns *keys, size_t row, const int rows,
                          const af_kv_type type) {
    lanes s[TILE_MOST][2];
    LANES_UNROLL
    for (int r = 0; r < rows; r++) s[r][0] = s[r][1] = lanes_zero();
    const float *q = tile->q + row;
    lanes scale0 = lanes_zero(), scale1 = lanes_zero();
    const size_t dims = tile->kv->k_dim, share = (tile->page_bytes + dims - 1) / dims;
    for (size_t d = 0; d < dims; d++, q += AF_ATTEND_ROWS) {
        if (row == 0) expect_next(tile, d * share, share);
        lanes k0 = kv_load(keys->elems, d * AF_KV_PAGE, type), k1 = kv_load(keys->elems, d * AF_KV_PAGE + LANES, type);
        if (type == AF_KV_Q8_0) {
            if (d % AF_KV_BLOCK == 0) { /* a block's scales for the 32 keys stand where its first element's row does */
                scale0 = lanes_load_f16(keys->scales + d);
                scale1 = lanes_load_f16(keys->scales + d + LANES);
            }
            k0 = lanes_mul(k0, scale0);
            k1 = lanes_mul(k1, scale1);
        }
        LANES_UNROLL
        for (int r = 0; r < rows; r++) {
            const lanes x = lanes_set(q[r]);
            s[r][0] = lanes_fma(x, k0, s[r][0]);
            s[r][1] = lanes_fma(x, k1, s[r][1]);
        }
    }
    float *w = tile->w + row * AF_KV_PAGE;
    LANES_UNROLL
    for (int r = 0; r < rows; r++) {
        lanes_store(w + r * AF_KV_PAGE, s[r][0]);
        lanes_store(w + r * AF_KV_PAGE + LANES, s[r][1]);
    }
}

/* The same where keys are rows: element vector after element vector, then the tree of lanes_sum. Slots that no query of
 * the tile sees are left out. */
LANES_FN void score_row_block(const af_attend_tile *tile, const kv_rows *keys, size_t row, const int rows,
                              const af_kv_type type) {
    const size_t stride = tile->kv->k_stride, share = tile->page_bytes / AF_KV_PAGE;
    for (size_t j = tile->begin[0]; j < tile->end[tile->tokens - 1]; j++) {
        if (row == 0) expect_next(tile, j * share, share);
        lanes s[TILE_MOST];
        LANES_UNROLL
        for (int r = 0; r < rows; r++) s[r] = lanes_zero();
        for (size_t chunk = 0; chunk < stride / LANES; chunk++) {
            const lanes k = kv_row_load(keys, j, chunk, type);
            LANES_UNROLL
            for (int r = 0; r < rows; r++)
                s[r] = lanes_fma(lanes_load(tile->q + (row + r) * stride + chunk * LANES), k, s[r]);
        }
        LANES_UNROLL
        for (int r = 0; r < rows; r++) tile->w[(row + r) * AF_KV_PAGE + j] = lanes_sum(s[r]);
    }
}

/* Runs `block(row, N)` over the rows from `row` up to `last` with the largest constant N that fits. */
#define BY_ROWS(row, last, block)                                                                                      \
    for (size_t left; (left = (last) - (row)) > 0;) {                                                                  \
        if (LANES_TILE >= 8 && left >= 8) {                                                                            \
            block((row), 8);                                                                                           \
            (row) += 8;                                                                                                \
        } else if (LANES_TILE >= 8 && left == 7) {                                                                     \
            block((row), 7);                                                                                           \
            (row) += 7;                                                                                                \
        } else if (LANES_TILE >= 4 && left >= 4) {                                                                     \
            block((row), 4);                                                                                           \
            (row) += 4;                                                                                                \
        } else if (LANES_TILE >= 3 && left >= 3) {                                                                     \
            block((row), 3);                                                                                           \
            (row) += 3;                                                                                                \
        } else if (LANES_TILE >= 2 && left >= 2) {                                                                     \
            block((row), 2);                                                                                           \
            (row) += 2;                                                                                                \
        } else {                                                                                                       \
            block((row), 1);                                                                                           \
            (row) += 1;                                                                                                \
        }                                                                                                              \
    }

LANES_FN void score_rows(const af_attend_tile *tile, const void *page, const af_kv_type type) {
    const size_t rows = (size_t)tile->tokens * tile->heads;
    const void *scales = (const unsigned char *)page + af_kv_parts_of(tile->kv).key_scales;
    size_t row = 0;
    if (tile->kv->shared) {
        const kv_rows keys = {page, scales, tile->kv->k_stride};
#define SCORE(at, count) score_row_block(tile, &keys, at, count, type)
        BY_ROWS(row, rows, SCORE)
#undef SCORE
        return;
    }
    const kv_columns keys = {page, scales};
#define SCORE(at, count) score_block(tile, &keys, at, count, type)
    BY_ROWS(row, rows, SCORE)
#undef SCORE
}

/* `none` for the slots of half a page (the h-th) that are not seen. Most pages are seen whole. */
LANES_FN lanes only_seen(lanes x, int h, int begin, int end, lanes none) {
    return lanes_within(begin - h * LANES, end - h * LANES, x, none);
}

/* Scores of row r, scaled, capped and masked, in place; their maximum is returned. */
LANES_FN float settle_scores(const af_attend_tile *tile, float *w, int begin, int end) {
    lanes s[2];
    for (int h = 0; h < 2; h++) {
        s[h] = lanes_mul(lanes_load(w + h * LANES), lanes_set(tile->scale));
        if (tile->softcap > 0.0f) s[h] = lanes_softcap(s[h], tile->softcap);
        if (begin > 0 || end < AF_KV_PAGE) s[h] = only_seen(s[h], h, begin, end, lanes_set(-INFINITY));
        lanes_store(w + h * LANES, s[h]);
    }
    return lanes_peak(lanes_max(s[0], s[1]));
}

/* Turns scores in tile->w into weights relative to the new maxima, and adds them to the sums. `corr` receives the
 * factor by which each row's earlier sums shrink; exactly 1 where the maximum stays. */
LANES_FN void weigh_rows(const af_attend_tile *tile, float *state, float *corr) {
    const size_t rows = (size_t)tile->tokens * tile->heads;
    float *const sums = state + AF_ATTEND_ROWS;
    float peaks[AF_ATTEND_ROWS];
    lanes_store(peaks, lanes_load(state));
    for (size_t r = 0; r < rows; r++) {
        const size_t t = r / tile->heads;
        const float peak = settle_scores(tile, tile->w + r * AF_KV_PAGE, tile->begin[t], tile->end[t]);
        peaks[r] = peak > peaks[r] ? peak : peaks[r];
    }
    lanes_store(corr, lanes_exp(lanes_sub(lanes_load(state), lanes_load(peaks))));
    lanes_store(state, lanes_load(peaks));
    for (size_t r = 0; r < rows; r++) {
        const int begin = tile->begin[r / tile->heads], end = tile->end[r / tile->heads];
        float *const w = tile->w + r * AF_KV_PAGE, *const sum = sums + r * LANES;
        const lanes peak = lanes_set(peaks[r]);
        lanes p0 = lanes_exp(lanes_sub(lanes_load(w), peak)), p1 = lanes_exp(lanes_sub(lanes_load(w + LANES), peak));
        if (begin > 0 || end < AF_KV_PAGE) {
            p0 = only_seen(p0, 0, begin, end, lanes_zero());
            p1 = only_seen(p1, 1, begin, end, lanes_zero());
        }
        lanes_store(w, p0);
        lanes_store(w + LANES, p1);
        lanes_store(sum, lanes_fma(lanes_load(sum), lanes_set(corr[r]), lanes_add(p0, p1)));
    }
}

/* What a block of value sums works on: acc (rows, v_stride) = acc * corr + sum of w_j v_j over begin <= j < end. */
typedef struct value_job {
    kv_rows values;
    const float *w, *corr;
    float *acc;
    size_t v_stride; /* of acc */
    int begin, end;
} value_job;

LANES_FN void value_block(const value_job *job, size_t row, const int rows, size_t chunk, const int chunks,
                          const af_kv_type type) {
    lanes a[TILE_MOST][CHUNKS_MOST];
    float *const acc = job->acc + row * job->v_stride + chunk * LANES;
    LANES_UNROLL
    for (int r = 0; r < rows; r++) LANES_UNROLL
    for (int c = 0; c < chunks; c++)
        a[r][c] = lanes_mul(lanes_load(acc + (size_t)r * job->v_stride + c * LANES), lanes_set(job->corr[row + r]));
    for (int j = job->begin; j < job->end; j++) {
        lanes v[CHUNKS_MOST];
        LANES_UNROLL
        for (int c = 0; c < chunks; c++) v[c] = kv_row_load(&job->values, (size_t)j, chunk + c, type);
        LANES_UNROLL
        for (int r = 0; r < rows; r++) {
            const lanes x = lanes_set(job->w[(row + r) * AF_KV_PAGE + j]);
            LANES_UNROLL
            for (int c = 0; c < chunks; c++) a[r][c] = lanes_fma(x, v[c], a[r][c]);
        }
    }
    LANES_UNROLL
    for (int r = 0; r < rows; r++) LANES_UNROLL
    for (int c = 0; c < chunks; c++) lanes_store(acc + (size_t)r * job->v_stride + c * LANES, a[r][c]);
}

/* Registers hold 8 rows x 2 vectors, or fewer rows x 4. */
LANES_FN void value_rows(const value_job *job, size_t row, const int rows, const af_kv_type type) {
    const size_t chunks = job->v_stride / LANES;
    size_t chunk = 0;
    if (rows > 4 || (rows > 1 && LANES_TILE <= 2)) {
        for (; chunk + 2 <= chunks; chunk += 2) value_block(job, row, rows, chunk, 2, type);
    } else {
        for (; chunk + 4 <= chunks; chunk += 4) value_block(job, row, rows, chunk, 4, type);
    }
    for (; chunk < chunks; chunk++) value_block(job, row, rows, chunk, 1, type);
}

LANES_FN void add_values(const value_job *job, size_t row, size_t last, const af_kv_type type){
#define VALUES(at, count) value_rows(job, at, count, type)
    BY_ROWS(row, last, VALUES)
#undef VALUES
}

LANES_FN bool same_slots(const af_attend_tile *tile) {
    for (uint32_t t = 1; t < tile->tokens; t++)
        if (tile->begin[t] != tile->begin[0] || tile->end[t] != tile->end[0]) return false;
    return true;
}

/* Values run over all rows together where all tokens see the same slots (every page but the last one or two, and those
 * at a window's edge), else token by token. */
LANES_FN void attend_page(const af_attend_tile *tile, float *state, const void *page, const af_kv_type type) {
    const size_t rows = (size_t)tile->tokens * tile->heads;
    const af_kv_shape *kv = tile->kv;
    const af_kv_parts parts = af_kv_parts_of(kv);
    const unsigned char *const p = page;
    float corr[AF_ATTEND_ROWS];
    score_rows(tile, page, type);
    weigh_rows(tile, state, corr);
    value_job job = {.values = {.elems = p + parts.values,
                                .scales = (const void *)(p + parts.value_scales),
                                .stride = kv->shared ? kv->k_stride : kv->v_stride},
                     .w = tile->w,
                     .corr = corr,
                     .acc = state + AF_ATTEND_ROWS + rows * LANES,
                     .v_stride = kv->v_stride};
    const bool together = same_slots(tile);
    const size_t step = together ? rows : tile->heads;
    for (size_t row = 0, t = 0; row < rows; row += step, t++) {
        job.begin = tile->begin[t];
        job.end = tile->end[t];
        add_values(&job, row, row + step, type);
    }
}

#define ATTEND_PAGE(name, type)                                                                                        \
    LANES_TARGET static void attend_page_##name(const af_attend_tile *tile, float *state, const void *page) {          \
        attend_page(tile, state, page, type);                                                                          \
    }
ATTEND_PAGE(f16, AF_KV_F16)
ATTEND_PAGE(f32, AF_KV_F32)
ATTEND_PAGE(q8_0, AF_KV_Q8_0)
#undef ATTEND_PAGE

/* to = to * a + from * b */
LANES_FN void blend(float *to, const float *from, float a, float b, size_t n) {
    for (size_t i = 0; i < n; i += LANES) {
        const lanes kept = lanes_mul(lanes_load(to + i), lanes_set(a));
        lanes_store(to + i, lanes_fma(lanes_load(from + i), lanes_set(b), kept));
    }
}

LANES_TARGET static void attend_merge(const af_attend_tile *tile, float *total, const float *part) {
    const size_t rows = (size_t)tile->tokens * tile->heads;
    const lanes peak = lanes_max(lanes_load(total), lanes_load(part));
    float a[AF_ATTEND_ROWS], b[AF_ATTEND_ROWS];
    lanes_store(a, lanes_exp(lanes_sub(lanes_load(total), peak)));
    lanes_store(b, lanes_exp(lanes_sub(lanes_load(part), peak)));
    lanes_store(total, peak);
    const size_t sums = AF_ATTEND_ROWS, accs = sums + rows * LANES;
    for (size_t r = 0; r < rows; r++) {
        blend(total + sums + r * LANES, part + sums + r * LANES, a[r], b[r], LANES);
        const size_t acc = accs + r * tile->kv->v_stride;
        blend(total + acc, part + acc, a[r], b[r], tile->kv->v_stride);
    }
}

/* What a row's values are multiplied by at the end: 1 / sum, a sink being one more weight of the sum. */
LANES_FN float finish_factor(float peak, float sum, const float *sink) {
    if (!sink) return 1.0f / sum;
    const float top = *sink > peak ? *sink : peak;
    float pair[LANES] = {peak - top, *sink - top};
    lanes_store(pair, lanes_exp(lanes_load(pair)));
    return pair[0] / fmaf(sum, pair[0], pair[1]);
}

LANES_TARGET static void attend_finish(const af_attend_tile *tile, const float *state, const float *sinks, float *out,
                                       size_t stride) {
    const size_t rows = (size_t)tile->tokens * tile->heads, v_dim = tile->kv->v_dim;
    const float *const sums = state + AF_ATTEND_ROWS, *const accs = sums + rows * LANES;
    for (size_t r = 0; r < rows; r++) {
        const size_t t = r / tile->heads, h = r % tile->heads;
        const float sum = lanes_sum(lanes_load(sums + r * LANES));
        const lanes factor = lanes_set(finish_factor(state[r], sum, sinks ? sinks + h : NULL));
        float *const to = out + t * stride + h * v_dim;
        for (size_t i = 0; i < v_dim; i += LANES)
            lanes_store_n(to + i, lanes_mul(lanes_load(accs + r * tile->kv->v_stride + i), factor),
                          lanes_left(v_dim, i));
    }
}

#endif

/* lane_recur.h - the kernels of recurrent layers, compiled once for each instruction set (see lanes.h): a convolution's
 * row, a gate, and the gated delta rule. Included by lane_kernels_*.c only.
 *
 * A lane is a channel, or a column of the delta rule's matrix: sums run down taps or rows, one fused multiply-add after
 * another, and nothing is reduced across lanes. A sequence's tokens follow each other whatever batch they came in, so
 * that a state has the same bits however a prompt was cut.
 */
#ifndef AF_CPU_LANE_RECUR_H
#define AF_CPU_LANE_RECUR_H

#include "backend/cpu/lane_kernels.h"
#include "backend/cpu/vecmath.h"

LANES_TARGET static void gate_row(af_act act, float *v, const float *gate, size_t n) {
    for (size_t i = 0; i < n; i += LANES) {
        const size_t left = lanes_left(n, i);
        const lanes open = act_lanes(act, lanes_load_n(gate + i, left));
        lanes_store_n(v + i, lanes_mul(lanes_load_n(v + i, left), open), left);
    }
}

LANES_TARGET static void conv_row(const af_op_conv *conv, const float *const *rows, float *out, size_t width) {
    for (size_t i = 0; i < width; i += LANES) {
        const size_t left = lanes_left(width, i);
        lanes sum = conv->bias ? lanes_load_n(conv->bias + i, left) : lanes_zero();
        for (uint32_t tap = 0; tap < conv->taps; tap++)
            sum = lanes_fma(lanes_load_n(conv->weight + tap * width + i, left), lanes_load_n(rows[tap] + i, left), sum);
        lanes_store_n(out + i, act_lanes(conv->act, sum), left);
    }
}

#define DELTA_VECTORS 4 /* columns that go together: so many sums hide each other's latency */

/* All tokens over `vectors` vectors of columns from `column` on: that part of the matrix stays in the nearest cache.
 * `left` is how many columns the last vector has. */
LANES_FN void delta_columns(const af_delta_head *h, size_t column, const int vectors, size_t left) {
    const size_t row = h->v_dim;
    for (uint32_t t = 0; t < h->tokens; t++) {
        const float *const q = h->q + t * h->stride, *const k = h->k + t * h->stride;
        const float *const v = h->v + t * h->stride + column;
        const lanes decay = lanes_set(h->decay[t * h->decay_stride]), beta = lanes_set(h->beta[t * h->beta_stride]);
        lanes u[DELTA_VECTORS], out[DELTA_VECTORS];
        LANES_UNROLL
        for (int c = 0; c < vectors; c++) u[c] = out[c] = lanes_zero();
        float *s = h->state + column;
        for (size_t i = 0; i < h->k_dim; i++, s += row) {
            LANES_UNROLL
            for (int c = 0; c < vectors; c++) {
                const size_t n = c + 1 < vectors ? LANES : left;
                const lanes faded = lanes_mul(decay, lanes_load_n(s + c * LANES, n));
                lanes_store_n(s + c * LANES, faded, n);
                u[c] = lanes_fma(faded, lanes_set(k[i]), u[c]);
            }
        }
        LANES_UNROLL
        for (int c = 0; c < vectors; c++) {
            const size_t n = c + 1 < vectors ? LANES : left;
            u[c] = lanes_mul(beta, lanes_sub(lanes_load_n(v + c * LANES, n), u[c]));
        }
        s = h->state + column;
        for (size_t i = 0; i < h->k_dim; i++, s += row) {
            LANES_UNROLL
            for (int c = 0; c < vectors; c++) {
                const size_t n = c + 1 < vectors ? LANES : left;
                const lanes next = lanes_fma(lanes_set(k[i]), u[c], lanes_load_n(s + c * LANES, n));
                lanes_store_n(s + c * LANES, next, n);
                out[c] = lanes_fma(next, lanes_set(q[i]), out[c]);
            }
        }
        float *const to = h->out + t * h->out_stride + column;
        LANES_UNROLL
        for (int c = 0; c < vectors; c++) lanes_store_n(to + c * LANES, out[c], c + 1 < vectors ? LANES : left);
    }
}

LANES_TARGET static void delta_head(const af_delta_head *h) {
    const size_t together = (size_t)DELTA_VECTORS * LANES;
    size_t column = 0;
    for (; h->v_dim - column >= together; column += together) delta_columns(h, column, DELTA_VECTORS, LANES);
    for (; column < h->v_dim; column += LANES) delta_columns(h, column, 1, lanes_left(h->v_dim, column));
}

#endif

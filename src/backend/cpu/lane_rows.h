/* lane_rows.h - norms, activations and rotation on one row, compiled once for each instruction set
 * (see lanes.h). Included by lane_kernels_*.c only. */
#ifndef AF_CPU_LANE_ROWS_H
#define AF_CPU_LANE_ROWS_H

#include "backend/cpu/lane_kernels.h"
#include "backend/cpu/lane_store.h"
#include "backend/cpu/vecmath.h"

/* Sum over n elements: lane i takes elements i, i + 16, ...; then the tree of lanes_sum. */
LANES_FN float row_sum(const float *v, size_t n) {
    lanes sum = lanes_zero();
    for (size_t i = 0; i < n; i += LANES) sum = lanes_add(sum, lanes_load_n(v + i, lanes_left(n, i)));
    return lanes_sum(sum);
}

/* Sum of (v - center)^2, in the same order. */
LANES_FN float row_squares(const float *v, float center, size_t n) {
    lanes sum = lanes_zero();
    for (size_t i = 0; i < n; i += LANES) {
        const size_t left = lanes_left(n, i);
        const lanes d = lanes_sub(lanes_load_n(v + i, left), lanes_set(center));
        sum = lanes_fma(d, lanes_within(0, (int)left, d, lanes_zero()), sum);
    }
    return lanes_sum(sum);
}

LANES_TARGET static void norm_row(const af_norm *norm, size_t head, const float *in, float *out) {
    const size_t n = norm->width, row = norm->per_head_weight ? head * n : 0;
    const float *weight = norm->weight ? norm->weight + row : NULL;
    const float *bias = norm->bias ? norm->bias + row : NULL;
    const float mean = norm->kind == AF_NORM_LAYER ? row_sum(in, n) / (float)n : 0.0f;
    const float deviation = sqrtf(row_squares(in, mean, n) / (float)n + norm->eps);
    const lanes center = lanes_set(mean), factor = lanes_set(1.0f / deviation);
    for (size_t i = 0; i < n; i += LANES) {
        const size_t left = lanes_left(n, i);
        lanes v = lanes_mul(lanes_sub(lanes_load_n(in + i, left), center), factor);
        if (weight) v = lanes_mul(v, lanes_load_n(weight + i, left));
        if (bias) v = lanes_add(v, lanes_load_n(bias + i, left));
        lanes_store_n(out + i, v, left);
    }
}

LANES_TARGET static void scale_row(float *v, float factor, size_t n) {
    for (size_t i = 0; i < n; i += LANES) {
        const size_t left = lanes_left(n, i);
        lanes_store_n(v + i, lanes_mul(lanes_load_n(v + i, left), lanes_set(factor)), left);
    }
}

LANES_TARGET static void add_row(float *v, const float *bias, size_t n) {
    for (size_t i = 0; i < n; i += LANES) {
        const size_t left = lanes_left(n, i);
        lanes_store_n(v + i, lanes_add(lanes_load_n(v + i, left), lanes_load_n(bias + i, left)), left);
    }
}

LANES_FN lanes act_lanes(af_act act, lanes v) {
    if (act == AF_ACT_SIGMOID) return lanes_sigmoid(v);
    return act == AF_ACT_SILU ? lanes_silu(v) : lanes_gelu(v);
}

LANES_TARGET static void act_row(af_act act, float *v, size_t n) {
    for (size_t i = 0; i < n; i += LANES) {
        const size_t left = lanes_left(n, i);
        lanes_store_n(v + i, act_lanes(act, lanes_load_n(v + i, left)), left);
    }
}

LANES_FN lanes glu_lanes(af_act act, lanes v, lanes other) {
    if (act == AF_ACT_CLAMPED) return lanes_clamped_glu(v, other, AF_CLAMP, AF_CLAMP_SLOPE);
    return lanes_mul(act_lanes(act, v), other);
}

LANES_TARGET static void glu_row(af_act act, float *v, const float *other, size_t n) {
    for (size_t i = 0; i < n; i += LANES) {
        const size_t left = lanes_left(n, i);
        lanes_store_n(v + i, glu_lanes(act, lanes_load_n(v + i, left), lanes_load_n(other + i, left)), left);
    }
}

LANES_TARGET static void residual_row(float *out, const float *residual, const float *y, float scale, size_t n) {
    for (size_t i = 0; i < n; i += LANES) {
        const size_t left = lanes_left(n, i);
        const lanes sum = lanes_fma(lanes_set(scale), lanes_load_n(y + i, left), lanes_load_n(residual + i, left));
        lanes_store_n(out + i, sum, left);
    }
}

/* Sums as row_sum does. */
LANES_TARGET static void softmax_row(float *v, size_t n) {
    float most = v[0];
    for (size_t i = 1; i < n; i++) most = v[i] > most ? v[i] : most;
    for (size_t i = 0; i < n; i += LANES) {
        const size_t left = lanes_left(n, i);
        lanes_store_n(v + i, lanes_exp(lanes_sub(lanes_load_n(v + i, left), lanes_set(most))), left);
    }
    const lanes sum = lanes_set(row_sum(v, n));
    for (size_t i = 0; i < n; i += LANES) {
        const size_t left = lanes_left(n, i);
        lanes_store_n(v + i, lanes_div(lanes_load_n(v + i, left), sum), left);
    }
}

LANES_TARGET static void softcap_row(float *v, float cap, size_t n) {
    for (size_t i = 0; i < n; i += LANES) {
        const size_t left = lanes_left(n, i);
        lanes_store_n(v + i, lanes_softcap(lanes_load_n(v + i, left), cap), left);
    }
}

/* First the largest value, in vectors, then the first place it stands: a row of logits is still in cache. */
LANES_TARGET static int32_t best_of_row(const float *v, size_t n) {
    lanes peak = lanes_set(-INFINITY);
    const size_t whole = n - n % LANES;
    for (size_t i = 0; i < whole; i += LANES) peak = lanes_max(lanes_load(v + i), peak);
    float best = lanes_peak(peak);
    for (size_t i = whole; i < n; i++) best = v[i] > best ? v[i] : best;
    for (size_t i = 0; i < n; i++)
        if (v[i] == best) return (int32_t)i;
    return 0; /* every logit is NaN */
}

/* (a, b) -> (a cos - b sin, b cos + a sin) in both layouts, each result one product and one fused multiply-add. */
LANES_TARGET static void rotate_head(const af_rope *rope, const float *cosines, const float *sines, float *head) {
    if (rope->adjacent) {
        for (size_t i = 0; i < rope->rotated; i += LANES) {
            const size_t left = lanes_left(rope->rotated, i);
            const lanes x = lanes_load_n(head + i, left);
            const lanes turned = lanes_mul(x, lanes_load_n(cosines + i, left));
            lanes_store_n(head + i, lanes_fma(lanes_swap_pairs(x), lanes_load_n(sines + i, left), turned), left);
        }
        return;
    }
    const size_t half = rope->rotated / 2;
    for (size_t i = 0; i < half; i += LANES) {
        const size_t left = lanes_left(half, i);
        const lanes a = lanes_load_n(head + i, left), b = lanes_load_n(head + half + i, left);
        const lanes c = lanes_load_n(cosines + i, left), s = lanes_load_n(sines + i, left);
        lanes_store_n(head + i, lanes_fma(lanes_sub(lanes_zero(), b), s, lanes_mul(a, c)), left);
        lanes_store_n(head + half + i, lanes_fma(a, s, lanes_mul(b, c)), left);
    }
}

#define AF_LANE_KERNELS_TABLE                                                                                          \
    {                                                                                                                  \
        .norm = norm_row, .scale = scale_row, .add = add_row, .act = act_row, .glu = glu_row,                          \
        .residual = residual_row, .softcap = softcap_row, .softmax = softmax_row, .best = best_of_row,                 \
        .rotate = rotate_head, .store = {[AF_KV_F16] = store_f16, [AF_KV_F32] = store_f32, [AF_KV_Q8_0] = store_q8_0}, \
        .attend_page =                                                                                                 \
            {[AF_KV_F16] = attend_page_f16, [AF_KV_F32] = attend_page_f32, [AF_KV_Q8_0] = attend_page_q8_0},           \
        .attend_merge = attend_merge, .attend_finish = attend_finish, .gate = gate_row, .conv = conv_row,              \
        .delta = delta_head                                                                                            \
    }

#endif

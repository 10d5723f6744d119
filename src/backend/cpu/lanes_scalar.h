/* lanes_scalar.h - sixteen floats in plain C: the reference, and what machines without vectors of ours run (see
 * lanes.h). */
#ifndef AF_CPU_LANES_SCALAR_H
#define AF_CPU_LANES_SCALAR_H

#include "quant/quant.h"

#include <math.h>
#include <string.h>

#define LANES_TARGET
/* Sanitizers check every element of every operation: inlined, a kernel is so much code that compiling takes minutes. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LANES_FN static __attribute__((noinline, unused))
#else
#define LANES_FN static inline __attribute__((always_inline))
#endif
#define LANES_TILE 1

typedef struct lanes {
    float at[LANES];
} lanes;

#define LANES_EACH(expression)                                                                                         \
    lanes out;                                                                                                         \
    for (int i = 0; i < LANES; i++) out.at[i] = (expression);                                                          \
    return out

LANES_FN lanes lanes_set(float x) {
    LANES_EACH(x);
}
LANES_FN lanes lanes_zero(void) {
    return lanes_set(0.0f);
}
LANES_FN lanes lanes_load(const float *p) {
    LANES_EACH(p[i]);
}
LANES_FN lanes lanes_load_n(const float *p, size_t n) {
    LANES_EACH((size_t)i < n ? p[i] : 0.0f);
}
LANES_FN void lanes_store_n(float *p, lanes a, size_t n) {
    for (size_t i = 0; i < n; i++) p[i] = a.at[i];
}
LANES_FN void lanes_store(float *p, lanes a) {
    lanes_store_n(p, a, LANES);
}
LANES_FN lanes lanes_load_f16(const uint16_t *p) {
    LANES_EACH(af_f16_to_f32(p[i]));
}
LANES_FN void lanes_store_f16(uint16_t *p, lanes a) {
    for (int i = 0; i < LANES; i++) p[i] = af_f32_to_f16(a.at[i]);
}
LANES_FN lanes lanes_set_f16(uint16_t x) {
    return lanes_set(af_f16_to_f32(x));
}
LANES_FN lanes lanes_load_i8(const int8_t *p) {
    LANES_EACH((float)p[i]);
}
LANES_FN void lanes_store_i8(int8_t *p, lanes a) {
    for (int i = 0; i < LANES; i++) p[i] = (int8_t)a.at[i];
}
LANES_FN lanes lanes_add(lanes a, lanes b) {
    LANES_EACH(a.at[i] + b.at[i]);
}
LANES_FN lanes lanes_sub(lanes a, lanes b) {
    LANES_EACH(a.at[i] - b.at[i]);
}
LANES_FN lanes lanes_mul(lanes a, lanes b) {
    LANES_EACH(a.at[i] * b.at[i]);
}
LANES_FN lanes lanes_div(lanes a, lanes b) {
    LANES_EACH(a.at[i] / b.at[i]);
}
LANES_FN lanes lanes_fma(lanes a, lanes b, lanes c) {
    LANES_EACH(fmaf(a.at[i], b.at[i], c.at[i]));
}
LANES_FN lanes lanes_max(lanes a, lanes b) {
    LANES_EACH(a.at[i] > b.at[i] ? a.at[i] : b.at[i]);
}
LANES_FN lanes lanes_select_lt(lanes a, lanes b, lanes x, lanes y) {
    LANES_EACH(a.at[i] < b.at[i] ? x.at[i] : y.at[i]);
}
LANES_FN lanes lanes_within(int begin, int end, lanes x, lanes y) {
    LANES_EACH(begin <= i && i < end ? x.at[i] : y.at[i]);
}
LANES_FN lanes lanes_pow2(lanes t) {
    uint32_t bits[LANES];
    memcpy(bits, t.at, sizeof bits);
    for (int i = 0; i < LANES; i++) bits[i] = (bits[i] + 127) << 23;
    memcpy(t.at, bits, sizeof bits);
    return t;
}
LANES_FN lanes lanes_swap_pairs(lanes a) {
    LANES_EACH(a.at[i ^ 1]);
}
LANES_FN float lanes_sum(lanes a) {
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) a.at[i] += a.at[i + half];
    return a.at[0];
}
LANES_FN float lanes_peak(lanes a) {
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) a.at[i] = a.at[i] > a.at[i + half] ? a.at[i] : a.at[i + half];
    return a.at[0];
}

#undef LANES_EACH

#endif

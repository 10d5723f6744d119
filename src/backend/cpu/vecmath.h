/* vecmath.h - exp, tanh and the activations on lanes, as fixed sequences of IEEE operations: the same bits whatever the
 * instruction set and the C library.
 *
 * Constants are those of S. Moshier's Cephes library (expf.c, tanhf.c); errors stay within two units in the last place
 * of a float where the result is a normal number. exp gives 0 below -87 and infinity above 88, the last arguments whose
 * results are normal; NaN stays NaN.
 */
#ifndef AF_CPU_VECMATH_H
#define AF_CPU_VECMATH_H

#include "backend/cpu/lanes.h"

#include <math.h>

/* exp(x) = 2^n exp(r), n = round(x / ln 2): adding 1.5 * 2^23 leaves n in the low bits of the sum. ln 2 is taken in two
 * pieces so that r keeps its bits. */
LANES_FN lanes lanes_exp(lanes x) {
    const lanes magic = lanes_set(12582912.0f);
    const lanes t = lanes_fma(x, lanes_set(1.44269504088896341f), magic);
    const lanes n = lanes_sub(t, magic);
    lanes r = lanes_fma(n, lanes_set(-0.693359375f), x);
    r = lanes_fma(n, lanes_set(2.12194440e-4f), r);
    lanes p = lanes_set(1.9875691500e-4f);
    p = lanes_fma(p, r, lanes_set(1.3981999507e-3f));
    p = lanes_fma(p, r, lanes_set(8.3334519073e-3f));
    p = lanes_fma(p, r, lanes_set(4.1665795894e-2f));
    p = lanes_fma(p, r, lanes_set(1.6666665459e-1f));
    p = lanes_fma(p, r, lanes_set(5.0000001201e-1f));
    p = lanes_add(lanes_fma(p, lanes_mul(r, r), r), lanes_set(1.0f));
    const lanes y = lanes_mul(p, lanes_pow2(t));
    const lanes low = lanes_select_lt(x, lanes_set(-87.0f), lanes_zero(), y);
    return lanes_select_lt(lanes_set(88.0f), x, lanes_set(INFINITY), low);
}

/* Odd polynomial near 0, where 1 - 2 / (exp(2 |x|) + 1) would cancel. */
LANES_FN lanes lanes_tanh(lanes x) {
    const lanes zero = lanes_zero(), one = lanes_set(1.0f);
    const lanes size = lanes_max(x, lanes_sub(zero, x));
    const lanes z = lanes_mul(x, x);
    lanes p = lanes_set(-5.70498872745e-3f);
    p = lanes_fma(p, z, lanes_set(2.06390887954e-2f));
    p = lanes_fma(p, z, lanes_set(-5.37397155531e-2f));
    p = lanes_fma(p, z, lanes_set(1.33314422036e-1f));
    p = lanes_fma(p, z, lanes_set(-3.33332819422e-1f));
    const lanes near_zero = lanes_fma(lanes_mul(p, z), x, x);
    const lanes e = lanes_exp(lanes_add(size, size));
    const lanes far = lanes_sub(one, lanes_div(lanes_set(2.0f), lanes_add(e, one)));
    const lanes signed_far = lanes_select_lt(x, zero, lanes_sub(zero, far), far);
    return lanes_select_lt(size, lanes_set(0.625f), near_zero, signed_far);
}

LANES_FN lanes lanes_silu(lanes v) {
    const lanes e = lanes_exp(lanes_sub(lanes_zero(), v));
    return lanes_div(v, lanes_add(lanes_set(1.0f), e));
}

LANES_FN lanes lanes_sigmoid(lanes v) {
    return lanes_div(lanes_set(1.0f), lanes_add(lanes_set(1.0f), lanes_exp(lanes_sub(lanes_zero(), v))));
}

/* 0.5 v (1 + tanh(u)) = v / (1 + exp(-2 u)), u = sqrt(2 / pi) (v + 0.044715 v^3) */
LANES_FN lanes lanes_gelu(lanes v) {
    const lanes cubic = lanes_mul(lanes_mul(lanes_set(0.044715f), v), lanes_mul(v, v));
    const lanes minus_2u = lanes_mul(lanes_set(-1.5957691216057308f), lanes_add(v, cubic));
    return lanes_div(v, lanes_add(lanes_set(1.0f), lanes_exp(minus_2u)));
}

LANES_FN lanes lanes_min(lanes a, lanes b) { /* a NaN in a stays */
    return lanes_select_lt(b, a, b, a);
}

/* plan.h, AF_ACT_CLAMPED: g / (1 + exp(-slope g)) * (u + 1) */
LANES_FN lanes lanes_clamped_glu(lanes gate, lanes up, float limit, float slope) {
    const lanes g = lanes_min(gate, lanes_set(limit));
    const lanes u = lanes_select_lt(up, lanes_set(-limit), lanes_set(-limit), lanes_min(up, lanes_set(limit)));
    const lanes e = lanes_exp(lanes_mul(lanes_set(-slope), g));
    return lanes_mul(lanes_div(g, lanes_add(lanes_set(1.0f), e)), lanes_add(u, lanes_set(1.0f)));
}

/* c tanh(s / c) */
LANES_FN lanes lanes_softcap(lanes s, float cap) {
    return lanes_mul(lanes_tanh(lanes_div(s, lanes_set(cap))), lanes_set(cap));
}

#endif

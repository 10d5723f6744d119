/* f16.c - IEEE 754 half floats (binary16), 2 bytes an element, blocks of one.
 *
 *     bit   15      14..10        9..0
 *           sign    exponent e    fraction f
 *
 *     e = 1..30   (1 + f / 1024) * 2^(e - 15)
 *     e = 0       f * 2^-24                     zero and the subnormals
 *     e = 31      infinity if f = 0, else not a number
 *
 * Conversions work on bits and so do not depend on the processor's rounding mode or its handling of subnormals.
 */
#include "quant/formats.h"

#include <string.h>

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float af_f16_to_f32(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 0x3ff;
    if (exponent == 31) return float_of(sign | 0x7f800000 | fraction << 13);
    if (exponent) return float_of(sign | (exponent + 112) << 23 | fraction << 13);
    float magnitude = (float)fraction * 0x1p-24f; /* exact */
    return float_of(sign | bits_of(magnitude));
}

/* value >> shift (1..31), to the nearest, ties to the even one. */
static uint32_t shift_rounded(uint32_t value, uint32_t shift) {
    uint32_t rest = value & ((1u << shift) - 1), half = 1u << (shift - 1), kept = value >> shift;
    return kept + (rest > half || (rest == half && (kept & 1)));
}

uint16_t af_f32_to_f16(float value) {
    uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x1ff)); /* a quiet NaN */
    if (magnitude >= 0x47800000) return (uint16_t)(sign | 0x7c00);                            /* 2^16 and more */
    if (magnitude >= 0x38800000)                                                              /* 2^-14: normal */
        return (uint16_t)(sign | shift_rounded(magnitude - (112u << 23), 13)); /* a carry makes the next power */
    uint32_t exponent = magnitude >> 23;
    if (exponent < 102) return (uint16_t)sign; /* below half of the smallest subnormal */
    uint32_t significand = (magnitude & 0x7fffff) | 0x800000;
    return (uint16_t)(sign | shift_rounded(significand, 126 - exponent));
}

static void decode(const void *blocks, float *out, size_t n) {
    const uint16_t *halves = blocks;
    for (size_t i = 0; i < n; i++) out[i] = af_f16_to_f32(halves[i]);
}

const af_format af_format_f16 = {AF_TYPE_F16, "F16", 1, 2, decode};

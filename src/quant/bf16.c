/* bf16.c - bfloat16: the upper 16 bits of an IEEE 32-bit float, 2 bytes an element, blocks of one.
 *
 *     bit   15      14..7       6..0
 *           sign    exponent    fraction
 */
#include "quant/formats.h"

#include <string.h>

float af_bf16_to_f32(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void decode(const void *blocks, float *out, size_t n) {
    const uint16_t *halves = blocks;
    for (size_t i = 0; i < n; i++) out[i] = af_bf16_to_f32(halves[i]);
}

const af_format af_format_bf16 = {AF_TYPE_BF16, "BF16", 1, 2, decode};

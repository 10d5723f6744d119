/* q5_1.c - 32 elements of 5 bits from a minimum, one scale: 6 bits an element.
 *
 *     byte   0    2    4        8                          24
 *            d    m    qh[4]    qs[16]
 *                      |        low nibble of qs[i]: element i      high nibble: element i + 16
 *                      bit i % 8 of qh[i / 8]: the fifth bit of element i
 *
 *     element = d * q + m
 */
#include "quant/blocks.h"
#include "quant/formats.h"

_Static_assert(sizeof(af_block_q5_1) == 24, "Q5_1 blocks are packed");

static void decode(const void *blocks, float *out, size_t n) {
    for (const af_block_q5_1 *b = blocks; n; b++, out += AF_BLOCK, n -= AF_BLOCK) {
        float d = af_f16_to_f32(b->d), m = af_f16_to_f32(b->m);
        for (uint32_t i = 0; i < AF_BLOCK; i++) out[i] = d * (float)af_q5_value(b->qh, b->qs, i) + m;
    }
}

const af_format af_format_q5_1 = {AF_TYPE_Q5_1, "Q5_1", AF_BLOCK, sizeof(af_block_q5_1), decode};

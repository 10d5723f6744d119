/* q5_0.c - 32 elements of 5 bits around 16, one scale: 5.5 bits an element.
 *
 *     byte   0    2        6                          22
 *            d    qh[4]    qs[16]
 *                 |        low nibble of qs[i]: element i      high nibble: element i + 16
 *                 bit i % 8 of qh[i / 8]: the fifth bit of element i
 *
 *     element = d * (q - 16)
 */
#include "quant/blocks.h"
#include "quant/formats.h"

_Static_assert(sizeof(af_block_q5_0) == 22, "Q5_0 blocks are packed");

static void decode(const void *blocks, float *out, size_t n) {
    for (const af_block_q5_0 *b = blocks; n; b++, out += AF_BLOCK, n -= AF_BLOCK) {
        float d = af_f16_to_f32(b->d);
        for (uint32_t i = 0; i < AF_BLOCK; i++) out[i] = d * (float)(af_q5_value(b->qh, b->qs, i) - 16);
    }
}

const af_format af_format_q5_0 = {AF_TYPE_Q5_0, "Q5_0", AF_BLOCK, sizeof(af_block_q5_0), decode};

/* q8_0.c - 32 signed bytes, one scale: 8.5 bits an element.
 *
 *     byte   0    2         34
 *            d    qs[32]
 *
 *     element = d * q
 */
#include "quant/blocks.h"
#include "quant/formats.h"

_Static_assert(sizeof(af_block_q8_0) == 34, "Q8_0 blocks are packed");

static void decode(const void *blocks, float *out, size_t n) {
    for (const af_block_q8_0 *b = blocks; n; b++, out += AF_BLOCK, n -= AF_BLOCK) {
        float d = af_f16_to_f32(b->d);
        for (int i = 0; i < AF_BLOCK; i++) out[i] = d * (float)b->qs[i];
    }
}

const af_format af_format_q8_0 = {AF_TYPE_Q8_0, "Q8_0", AF_BLOCK, sizeof(af_block_q8_0), decode};

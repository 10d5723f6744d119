/* q4_0.c - 32 elements of 4 bits around 8, one scale: 4.5 bits an element.
 *
 *     byte   0    2                          18
 *            d    qs[16]
 *                 low nibble of qs[i]: element i      high nibble: element i + 16
 *
 *     element = d * (q - 8)
 */
#include "quant/blocks.h"
#include "quant/formats.h"

_Static_assert(sizeof(af_block_q4_0) == 18, "Q4_0 blocks are packed");

static void decode(const void *blocks, float *out, size_t n) {
    for (const af_block_q4_0 *b = blocks; n; b++, out += AF_BLOCK, n -= AF_BLOCK) {
        float d = af_f16_to_f32(b->d);
        for (int i = 0; i < 16; i++) {
            out[i] = d * (float)((b->qs[i] & 15) - 8);
            out[i + 16] = d * (float)((b->qs[i] >> 4) - 8);
        }
    }
}

const af_format af_format_q4_0 = {AF_TYPE_Q4_0, "Q4_0", AF_BLOCK, sizeof(af_block_q4_0), decode};

/* q4_1.c - 32 elements of 4 bits from a minimum, one scale: 5 bits an element.
 *
 *     byte   0    2    4                          20
 *            d    m    qs[16]
 *                      low nibble of qs[i]: element i      high nibble: element i + 16
 *
 *     element = d * q + m
 */
#include "quant/blocks.h"
#include "quant/formats.h"

_Static_assert(sizeof(af_block_q4_1) == 20, "Q4_1 blocks are packed");

static void decode(const void *blocks, float *out, size_t n) {
    for (const af_block_q4_1 *b = blocks; n; b++, out += AF_BLOCK, n -= AF_BLOCK) {
        float d = af_f16_to_f32(b->d), m = af_f16_to_f32(b->m);
        for (int i = 0; i < 16; i++) {
            out[i] = d * (float)(b->qs[i] & 15) + m;
            out[i + 16] = d * (float)(b->qs[i] >> 4) + m;
        }
    }
}

const af_format af_format_q4_1 = {AF_TYPE_Q4_1, "Q4_1", AF_BLOCK, sizeof(af_block_q4_1), decode};

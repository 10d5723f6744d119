/* iq1_s.c - 256 elements as 32 points of a grid of 2048, in 8 groups of 32 that have a scale of 3 bits and are all an
 * eighth up or down: 1.5625 bits an element.
 *
 *     byte   0    2         34       50
 *            d    qs[32]    qh[8]
 *                 |         |
 *                 |         16 bits a group: 3 k to 3 k + 2 the high bits of index k, 12 to 14 the scale, 15: down
 *                 low bits of the index of the point for elements 8 g ..
 *
 *     element = (d * (2 scale + 1)) * (-1, 0 or 1, + or - 1/8), grid in iq_grids.h
 */
#include "quant/formats.h"
#include "quant/iq_blocks.h"

_Static_assert(sizeof(af_block_iq1_s) == 50, "IQ1_S blocks are packed");

static void decode_block(const af_block_iq1_s *b, float *out) {
    const float d = af_f16_to_f32(b->d);
    for (uint32_t g = 0; g < AF_EIGHTS; g++) {
        const af_iq_eight eight = af_iq1_s_eight(b, g);
        af_iq1_decode(&eight, d, out + 8 * g);
    }
}

static void decode(const void *blocks, float *out, size_t n) {
    const af_block_iq1_s *b = blocks;
    for (; n; b++, out += AF_SUPERBLOCK, n -= AF_SUPERBLOCK) decode_block(b, out);
}

const af_format af_format_iq1_s = {AF_TYPE_IQ1_S, "IQ1_S", AF_SUPERBLOCK, sizeof(af_block_iq1_s), decode};

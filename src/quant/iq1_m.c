/* iq1_m.c - 256 elements as 32 points of a grid of 2048, each an eighth up or down; 16 elements have a scale of 3
 * bits: 1.75 bits an element.
 *
 *     byte   0         32        48           56
 *            qs[32]    qh[16]    scales[4]
 *            |         |         |
 *            |         |         16 bits: 3 k to 3 k + 2 the scale of elements 64 j + 16 k ..; 12 to 15 of all four
 *            |         |         together d, lowest bits first
 *            |         a nibble for each point, low one first: 0 to 2 the high bits of its index, 3: down
 *            low bits of the index of the point for elements 8 g ..
 *
 *     element = (d * (2 scale + 1)) * (-1, 0 or 1, + or - 1/8), grid in iq_grids.h
 */
#include "quant/formats.h"
#include "quant/iq_blocks.h"

_Static_assert(sizeof(af_block_iq1_m) == 56, "IQ1_M blocks are packed");

static void decode_block(const af_block_iq1_m *b, float *out) {
    const float d = af_f16_to_f32(af_iq1_m_d(b));
    for (uint32_t g = 0; g < AF_EIGHTS; g++) {
        const af_iq_eight eight = af_iq1_m_eight(b, g);
        af_iq1_decode(&eight, d, out + 8 * g);
    }
}

static void decode(const void *blocks, float *out, size_t n) {
    const af_block_iq1_m *b = blocks;
    for (; n; b++, out += AF_SUPERBLOCK, n -= AF_SUPERBLOCK) decode_block(b, out);
}

const af_format af_format_iq1_m = {AF_TYPE_IQ1_M, "IQ1_M", AF_SUPERBLOCK, sizeof(af_block_iq1_m), decode};

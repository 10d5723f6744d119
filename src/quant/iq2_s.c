/* iq2_s.c - 256 elements as 32 points of a grid of 1024, with their signs; 16 elements have a scale of 4 bits: 2.5625
 * bits an element.
 *
 *     byte   0    2         34           66       74           82
 *            d    qs[32]    signs[32]    qh[8]    scales[8]
 *                 |         |            |        |
 *                 |         |            |        low nibble of scales[j]: scale of elements 32 j .., high: 32 j + 16
 * .. |         |            bits 2 k, 2 k + 1 of qh[j]: high bits of index 4 j + k |         bit i of signs[g]: element
 * 8 g + i is negative low bits of the index of the point for elements 8 g ..
 *
 *     element = (d * (scale + 1/2) / 4) * (+ or - magnitude), grid and magnitudes in iq_grids.h
 */
#include "quant/formats.h"
#include "quant/iq_blocks.h"

_Static_assert(sizeof(af_block_iq2_s) == 82, "IQ2_S blocks are packed");

static const uint8_t MAGNITUDES[4] = {AF_IQ2_VALUES(AF_BOOK_ENTRY)};

static void decode_block(const af_block_iq2_s *b, float *out) {
    const float d = af_f16_to_f32(b->d) * 0.125f;
    for (uint32_t g = 0; g < AF_EIGHTS; g++) {
        const af_iq_eight eight = af_iq2_s_eight(b, g);
        af_iq_decode(&eight, 2, MAGNITUDES, d, out + 8 * g);
    }
}

static void decode(const void *blocks, float *out, size_t n) {
    const af_block_iq2_s *b = blocks;
    for (; n; b++, out += AF_SUPERBLOCK, n -= AF_SUPERBLOCK) decode_block(b, out);
}

const af_format af_format_iq2_s = {AF_TYPE_IQ2_S, "IQ2_S", AF_SUPERBLOCK, sizeof(af_block_iq2_s), decode};

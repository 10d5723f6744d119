/* iq3_s.c - 256 elements as 64 points of a grid of 512, with their signs, in 8 groups of 32 that have a scale of 4
 * bits: 3.4375 bits an element.
 *
 *     byte   0    2         66       74           106          110
 *            d    qs[64]    qh[8]    signs[32]    scales[4]
 *                 |         |        |            |
 *                 |         |        |            low nibble of scales[j]: scale of group 2 j, high nibble: of 2 j + 1
 *                 |         |        bit i of signs[g]: element 8 g + i is negative
 *                 |         bit k of qh[j]: the ninth bit of index 8 j + k
 *                 low bits of the index of the point for elements 4 i ..
 *
 *     element = (d * (2 scale + 1)) * (+ or - magnitude), grid and magnitudes in iq_grids.h
 */
#include "quant/formats.h"
#include "quant/iq_blocks.h"

_Static_assert(sizeof(af_block_iq3_s) == 110, "IQ3_S blocks are packed");

static const uint8_t MAGNITUDES[8] = {AF_IQ3_S_VALUES(AF_BOOK_ENTRY)};

static void decode_block(const af_block_iq3_s *b, float *out) {
    const float d = af_f16_to_f32(b->d);
    for (uint32_t g = 0; g < AF_EIGHTS; g++) {
        const af_iq_eight eight = af_iq3_s_eight(b, g);
        af_iq_decode(&eight, 4, MAGNITUDES, d, out + 8 * g);
    }
}

static void decode(const void *blocks, float *out, size_t n) {
    const af_block_iq3_s *b = blocks;
    for (; n; b++, out += AF_SUPERBLOCK, n -= AF_SUPERBLOCK) decode_block(b, out);
}

const af_format af_format_iq3_s = {AF_TYPE_IQ3_S, "IQ3_S", AF_SUPERBLOCK, sizeof(af_block_iq3_s), decode};

/* iq2_xs.c - 256 elements as 32 points of a grid of 512, with their signs; 16 elements have a scale of 4 bits: 2.3125
 * bits an element.
 *
 *     byte   0    2         66           74
 *            d    qs[32]    scales[8]
 *                 |         |
 *                 |         low nibble of scales[j]: scale of elements 32 j .., high nibble: of 32 j + 16 ..
 *                 16 bits: 0 to 8 the index of the point for elements 8 g .., 9 to 15 its signs, the eighth making
 * their number even
 *
 *     element = (d * (scale + 1/2) / 4) * (+ or - magnitude), grid and magnitudes in iq_grids.h
 */
#include "quant/formats.h"
#include "quant/iq_blocks.h"

_Static_assert(sizeof(af_block_iq2_xs) == 74, "IQ2_XS blocks are packed");

static const uint8_t MAGNITUDES[4] = {AF_IQ2_VALUES(AF_BOOK_ENTRY)};

static void decode_block(const af_block_iq2_xs *b, float *out) {
    const float d = af_f16_to_f32(b->d) * 0.125f;
    for (uint32_t g = 0; g < AF_EIGHTS; g++) {
        const af_iq_eight eight = af_iq2_xs_eight(b, g);
        af_iq_decode(&eight, 2, MAGNITUDES, d, out + 8 * g);
    }
}

static void decode(const void *blocks, float *out, size_t n) {
    const af_block_iq2_xs *b = blocks;
    for (; n; b++, out += AF_SUPERBLOCK, n -= AF_SUPERBLOCK) decode_block(b, out);
}

const af_format af_format_iq2_xs = {AF_TYPE_IQ2_XS, "IQ2_XS", AF_SUPERBLOCK, sizeof(af_block_iq2_xs), decode};

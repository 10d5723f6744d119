/* iq2_xxs.c - 256 elements as 32 points of a grid of 256, with their signs, in 8 groups of 32 that have a scale of 4
 * bits: 2.0625 bits an element.
 *
 *     byte   0    2                           66
 *            d    8 groups of 8 bytes:
 *                 0            4
 *                 index[4]     32 bits: 7 k to 7 k + 6 the signs of point k, the eighth making their number even;
 *                 |            28 to 31 the scale
 *                 the grid's point for elements 8 k .. 8 k + 7 of the group
 *
 *     element = (d * (scale + 1/2) / 4) * (+ or - magnitude), grid and magnitudes in iq_grids.h
 */
#include "quant/formats.h"
#include "quant/iq_blocks.h"

_Static_assert(sizeof(af_block_iq2_xxs) == 66, "IQ2_XXS blocks are packed");

static const uint8_t MAGNITUDES[4] = {AF_IQ2_VALUES(AF_BOOK_ENTRY)};

static void decode_block(const af_block_iq2_xxs *b, float *out) {
    const float d = af_f16_to_f32(b->d) * 0.125f;
    for (uint32_t g = 0; g < AF_EIGHTS; g++) {
        const af_iq_eight eight = af_iq2_xxs_eight(b, g);
        af_iq_decode(&eight, 2, MAGNITUDES, d, out + 8 * g);
    }
}

static void decode(const void *blocks, float *out, size_t n) {
    const af_block_iq2_xxs *b = blocks;
    for (; n; b++, out += AF_SUPERBLOCK, n -= AF_SUPERBLOCK) decode_block(b, out);
}

const af_format af_format_iq2_xxs = {AF_TYPE_IQ2_XXS, "IQ2_XXS", AF_SUPERBLOCK, sizeof(af_block_iq2_xxs), decode};

/* iq3_xxs.c - 256 elements as 64 points of a grid of 256, with their signs, in 8 groups of 32 that have a scale of 4
 * bits: 3.0625 bits an element.
 *
 *     byte   0    2         66                      98
 *            d    qs[64]    scales_and_signs[16]
 *                 |         |
 *                 |         32 bits a group: 7 k to 7 k + 6 the signs of its elements 8 k .., the eighth making their
 *                 |         number even; 28 to 31 its scale
 *                 index of the point for elements 4 i ..
 *
 *     element = (d * (scale + 1/2) / 2) * (+ or - magnitude), grid and magnitudes in iq_grids.h
 */
#include "quant/formats.h"
#include "quant/iq_blocks.h"

_Static_assert(sizeof(af_block_iq3_xxs) == 98, "IQ3_XXS blocks are packed");

static const uint8_t MAGNITUDES[8] = {AF_IQ3_XXS_VALUES(AF_BOOK_ENTRY)};

static void decode_block(const af_block_iq3_xxs *b, float *out) {
    const float d = af_f16_to_f32(b->d) * 0.25f;
    for (uint32_t g = 0; g < AF_EIGHTS; g++) {
        const af_iq_eight eight = af_iq3_xxs_eight(b, g);
        af_iq_decode(&eight, 4, MAGNITUDES, d, out + 8 * g);
    }
}

static void decode(const void *blocks, float *out, size_t n) {
    const af_block_iq3_xxs *b = blocks;
    for (; n; b++, out += AF_SUPERBLOCK, n -= AF_SUPERBLOCK) decode_block(b, out);
}

const af_format af_format_iq3_xxs = {AF_TYPE_IQ3_XXS, "IQ3_XXS", AF_SUPERBLOCK, sizeof(af_block_iq3_xxs), decode};

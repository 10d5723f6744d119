/* iq4_xs.c - 256 elements of 4 bits that stand for 16 uneven steps, in 8 groups of 32, each with a signed 6-bit scale:
 * 4.25 bits an element.
 *
 *     byte   0    2              4                8          136
 *            d    scales_high    scales_low[4]    qs[128]
 *                 |              |                |
 *                 |              |                low nibble of qs[16 g + i]: element 32 g + i, high: 32 g + 16 + i
 *                 |              low nibble of scales_low[j]: low bits of scale 2 j, high nibble: of 2 j + 1
 *                 bits 2g, 2g+1: high bits of scale g; all are raised by 32
 *
 *     element = (d * scale) * value[code], values in blocks.h
 */
#include "quant/blocks.h"
#include "quant/formats.h"

_Static_assert(sizeof(af_block_iq4_xs) == 136, "IQ4_XS blocks are packed");

static const int8_t VALUES[16] = {AF_IQ4_VALUES(AF_BOOK_ENTRY)};

static void decode_block(const af_block_iq4_xs *b, float *out) {
    float d = af_f16_to_f32(b->d);
    for (uint32_t group = 0; group < 8; group++, out += AF_BLOCK) {
        float step = d * (float)af_iq4_xs_scale(b, group);
        const uint8_t *qs = b->qs + group * 16;
        for (int i = 0; i < 16; i++) {
            out[i] = step * (float)VALUES[qs[i] & 15];
            out[i + 16] = step * (float)VALUES[qs[i] >> 4];
        }
    }
}

static void decode(const void *blocks, float *out, size_t n) {
    const af_block_iq4_xs *b = blocks;
    for (; n; b++, out += AF_SUPERBLOCK, n -= AF_SUPERBLOCK) decode_block(b, out);
}

const af_format af_format_iq4_xs = {AF_TYPE_IQ4_XS, "IQ4_XS", AF_SUPERBLOCK, sizeof(af_block_iq4_xs), decode};

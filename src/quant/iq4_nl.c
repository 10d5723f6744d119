/* iq4_nl.c - 32 elements of 4 bits that stand for 16 uneven steps, one scale: 4.5 bits an element.
 *
 *     byte   0    2                          18
 *            d    qs[16]
 *                 low nibble of qs[i]: element i      high nibble: element i + 16
 *
 *     element = d * value[code], values in blocks.h
 */
#include "quant/blocks.h"
#include "quant/formats.h"

_Static_assert(sizeof(af_block_iq4_nl) == 18, "IQ4_NL blocks are packed");

static const int8_t VALUES[16] = {AF_IQ4_VALUES(AF_BOOK_ENTRY)};

static void decode(const void *blocks, float *out, size_t n) {
    for (const af_block_iq4_nl *b = blocks; n; b++, out += AF_BLOCK, n -= AF_BLOCK) {
        float d = af_f16_to_f32(b->d);
        for (int i = 0; i < 16; i++) {
            out[i] = d * (float)VALUES[b->qs[i] & 15];
            out[i + 16] = d * (float)VALUES[b->qs[i] >> 4];
        }
    }
}

const af_format af_format_iq4_nl = {AF_TYPE_IQ4_NL, "IQ4_NL", AF_BLOCK, sizeof(af_block_iq4_nl), decode};

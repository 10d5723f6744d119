/* tq2_0.c - 256 elements of -1, 0 or 1 in two bits, one scale: 2.0625 bits an element.
 *
 *     byte   0         64   66
 *            qs[64]    d
 *            |
 *            bits 2s, 2s+1 of qs[32 h + i]: element 128 h + 32 s + i      h < 2, s < 4, i < 32
 *
 *     element = d * (q - 1); q = 3, which no quantizer writes, is 2 d
 */
#include "quant/formats.h"
#include "quant/iq_blocks.h"

_Static_assert(sizeof(af_block_tq2_0) == 66, "TQ2_0 blocks are packed");

static void decode_block(const af_block_tq2_0 *b, float *out) {
    const float d = af_f16_to_f32(b->d);
    for (uint32_t e = 0; e < AF_SUPERBLOCK; e++) out[e] = d * (float)((int)af_q2_value(b->qs, e) - 1);
}

static void decode(const void *blocks, float *out, size_t n) {
    const af_block_tq2_0 *b = blocks;
    for (; n; b++, out += AF_SUPERBLOCK, n -= AF_SUPERBLOCK) decode_block(b, out);
}

const af_format af_format_tq2_0 = {AF_TYPE_TQ2_0, "TQ2_0", AF_SUPERBLOCK, sizeof(af_block_tq2_0), decode};

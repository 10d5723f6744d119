/* q3_k.c - 256 elements of 3 bits in 16 groups of 16, each with a signed 6-bit scale: 3.4375 bits an element.
 *
 *     byte   0            32        96            108   110
 *            hmask[32]    qs[64]    scales[12]    d
 *            |            |         |
 *            |            |         16 scales of 6 bits, drawn at af_q3_k_scales in blocks.h
 *            |            bits 2s, 2s+1 of qs[32 h + i]: low bits of element 128 h + 32 s + i      h < 2, s < 4, i < 32
 *            bit k of hmask[i]: 1 if element 32 k + i is not lowered by 4
 *
 *     element = (d * scale) * (low bits - 4 * (1 - high bit))
 */
#include "quant/blocks.h"
#include "quant/formats.h"

_Static_assert(sizeof(af_block_q3_k) == 110, "Q3_K blocks are packed");

static void decode_block(const af_block_q3_k *b, float *out) {
    float d = af_f16_to_f32(b->d);
    int8_t scales[16];
    af_q3_k_scales(b->scales, scales);
    for (uint32_t e = 0; e < AF_SUPERBLOCK; e++) {
        int high = b->hmask[e % 32] >> (e / 32) & 1;
        int q = af_q2_value(b->qs, e) - 4 * (1 - high);
        out[e] = d * (float)scales[e / 16] * (float)q;
    }
}

static void decode(const void *blocks, float *out, size_t n) {
    const af_block_q3_k *b = blocks;
    for (; n; b++, out += AF_SUPERBLOCK, n -= AF_SUPERBLOCK) decode_block(b, out);
}

const af_format af_format_q3_k = {AF_TYPE_Q3_K, "Q3_K", AF_SUPERBLOCK, sizeof(af_block_q3_k), decode};

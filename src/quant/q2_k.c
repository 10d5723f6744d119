/* q2_k.c - 256 elements of 2 bits in 16 groups of 16, each with a 4-bit scale and a 4-bit minimum: 2.625 bits an
 * element.
 *
 *     byte   0             16        80   82     84
 *            scales[16]    qs[64]    d    dmin
 *            |             |
 *            |             bits 2s, 2s+1 of qs[32 h + i]: element 128 h + 32 s + i      h < 2, s < 4, i < 32
 *            low nibble of scales[g]: scale of group g (elements 16 g ..), high nibble: its minimum
 *
 *     element = (d * scale) * q - (dmin * minimum)
 */
#include "quant/blocks.h"
#include "quant/formats.h"

_Static_assert(sizeof(af_block_q2_k) == 84, "Q2_K blocks are packed");

static void decode_block(const af_block_q2_k *b, float *out) {
    float d = af_f16_to_f32(b->d), dmin = af_f16_to_f32(b->dmin);
    for (uint32_t e = 0; e < AF_SUPERBLOCK; e++) {
        uint8_t packed = b->scales[e / 16];
        float scale = d * (float)(packed & 15), min = dmin * (float)(packed >> 4);
        out[e] = scale * (float)af_q2_value(b->qs, e) - min;
    }
}

static void decode(const void *blocks, float *out, size_t n) {
    const af_block_q2_k *b = blocks;
    for (; n; b++, out += AF_SUPERBLOCK, n -= AF_SUPERBLOCK) decode_block(b, out);
}

const af_format af_format_q2_k = {AF_TYPE_Q2_K, "Q2_K", AF_SUPERBLOCK, sizeof(af_block_q2_k), decode};

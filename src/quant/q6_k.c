/* q6_k.c - 256 elements of 6 bits around 32 in 16 groups of 16, each with a signed 8-bit scale: 6.5625 bits an element.
 *
 *     byte   0          128       192           208   210
 *            ql[128]    qh[64]    scales[16]    d
 *            |          |
 *            |          bits 2s, 2s+1 of qh[32 h + i]: high bits of element 128 h + 32 s + i      h < 2, s < 4, i < 32
 *            low nibble of ql[64 h + j]: low bits of element 128 h + j, high nibble: of 128 h + 64 + j      j < 64
 *
 *     element = (d * scale) * (q - 32)
 */
#include "quant/blocks.h"
#include "quant/formats.h"

_Static_assert(sizeof(af_block_q6_k) == 210, "Q6_K blocks are packed");

static void decode_block(const af_block_q6_k *b, float *out) {
    float d = af_f16_to_f32(b->d);
    for (uint32_t e = 0; e < AF_SUPERBLOCK; e++) {
        int low = b->ql[e / 128 * 64 + e % 64] >> (e % 128 / 64 * 4) & 15;
        int q = (low | af_q2_value(b->qh, e) << 4) - 32;
        out[e] = d * (float)b->scales[e / 16] * (float)q;
    }
}

static void decode(const void *blocks, float *out, size_t n) {
    const af_block_q6_k *b = blocks;
    for (; n; b++, out += AF_SUPERBLOCK, n -= AF_SUPERBLOCK) decode_block(b, out);
}

const af_format af_format_q6_k = {AF_TYPE_Q6_K, "Q6_K", AF_SUPERBLOCK, sizeof(af_block_q6_k), decode};

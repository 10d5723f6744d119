/* q5_k.c - 256 elements of 5 bits in 8 groups of 32, each with a 6-bit scale and a 6-bit minimum: 5.5 bits an element.
 *
 *     byte   0    2       4             16        48         176
 *            d    dmin    scales[12]    qh[32]    qs[128]
 *                         |             |         |
 *                         |             |         low nibble of qs[32 p + i]: element 64 p + i, high: 64 p + 32 + i
 *                         |             bit g of qh[i]: the fifth bit of element 32 g + i
 *                         8 scales and 8 minima, drawn at af_k_scale_min in blocks.h
 *
 *     element = (d * scale) * q - (dmin * minimum)
 */
#include "quant/blocks.h"
#include "quant/formats.h"

_Static_assert(sizeof(af_block_q5_k) == 176, "Q5_K blocks are packed");

static void decode_block(const af_block_q5_k *b, float *out) {
    float d = af_f16_to_f32(b->d), dmin = af_f16_to_f32(b->dmin);
    for (uint32_t group = 0; group < 8; group++) {
        uint8_t scale, min;
        af_k_scale_min(b->scales, group, &scale, &min);
        float step = d * (float)scale, low = dmin * (float)min;
        const uint8_t *qs = b->qs + group / 2 * 32;
        for (int i = 0; i < 32; i++) {
            int q = (qs[i] >> (group % 2 * 4) & 15) | (b->qh[i] >> group & 1) << 4;
            *out++ = step * (float)q - low;
        }
    }
}

static void decode(const void *blocks, float *out, size_t n) {
    const af_block_q5_k *b = blocks;
    for (; n; b++, out += AF_SUPERBLOCK, n -= AF_SUPERBLOCK) decode_block(b, out);
}

const af_format af_format_q5_k = {AF_TYPE_Q5_K, "Q5_K", AF_SUPERBLOCK, sizeof(af_block_q5_k), decode};

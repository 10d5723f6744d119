/* q4_k.c - 256 elements of 4 bits in 8 groups of 32, each with a 6-bit scale and a 6-bit minimum: 4.5 bits an element.
 *
 *     byte   0    2       4             16         144
 *            d    dmin    scales[12]    qs[128]
 *                         |             |
 *                         |             low nibble of qs[32 p + i]: element 64 p + i, high: 64 p + 32 + i    p < 4, i <
 * 32 8 scales and 8 minima, drawn at af_k_scale_min in blocks.h
 *
 *     element = (d * scale) * q - (dmin * minimum)
 */
#include "quant/blocks.h"
#include "quant/formats.h"

_Static_assert(sizeof(af_block_q4_k) == 144, "Q4_K blocks are packed");

static void decode_block(const af_block_q4_k *b, float *out) {
    float d = af_f16_to_f32(b->d), dmin = af_f16_to_f32(b->dmin);
    for (uint32_t group = 0; group < 8; group++) {
        uint8_t scale, min;
        af_k_scale_min(b->scales, group, &scale, &min);
        float step = d * (float)scale, low = dmin * (float)min;
        const uint8_t *qs = b->qs + group / 2 * 32;
        for (int i = 0; i < 32; i++) *out++ = step * (float)(qs[i] >> (group % 2 * 4) & 15) - low;
    }
}

static void decode(const void *blocks, float *out, size_t n) {
    const af_block_q4_k *b = blocks;
    for (; n; b++, out += AF_SUPERBLOCK, n -= AF_SUPERBLOCK) decode_block(b, out);
}

const af_format af_format_q4_k = {AF_TYPE_Q4_K, "Q4_K", AF_SUPERBLOCK, sizeof(af_block_q4_k), decode};

/* tq1_0.c - 256 elements of -1, 0 or 1, five to a byte, one scale: 1.6875 bits an element.
 *
 *     byte   0         48       52   54
 *            qs[48]    qh[4]    d
 *            |         |
 *            |         digit n of qh[i]: element 240 + 4 n + i       n < 4
 *            digit n of qs[i]: element 32 n + i; of qs[32 + i]: element 160 + 16 n + i       n < 5
 *
 * Digits to base 3 follow the point: a byte is what 256 times their fraction rounds up to (af_tq1_0_value).
 *
 *     element = d * (digit - 1)
 */
#include "quant/formats.h"
#include "quant/iq_blocks.h"

_Static_assert(sizeof(af_block_tq1_0) == 54, "TQ1_0 blocks are packed");

static void decode_block(const af_block_tq1_0 *b, float *out) {
    const float d = af_f16_to_f32(b->d);
    for (uint32_t e = 0; e < AF_SUPERBLOCK; e++) out[e] = d * (float)((int)af_tq1_0_value(b, e) - 1);
}

static void decode(const void *blocks, float *out, size_t n) {
    const af_block_tq1_0 *b = blocks;
    for (; n; b++, out += AF_SUPERBLOCK, n -= AF_SUPERBLOCK) decode_block(b, out);
}

const af_format af_format_tq1_0 = {AF_TYPE_TQ1_0, "TQ1_0", AF_SUPERBLOCK, sizeof(af_block_tq1_0), decode};

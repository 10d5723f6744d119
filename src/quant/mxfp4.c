/* mxfp4.c - 32 floats of 4 bits (e2m1) and the exponent they share (e8m0): 4.25 bits an element. OCP Microscaling
 * Formats 1.0; gpt-oss keeps its experts in it.
 *
 *     byte   0    1                          17
 *            e    qs[16]
 *                 low nibble of qs[i]: element i      high nibble: element i + 16
 *
 *     element = 2^(e - 128) * value[code], the values doubled, in blocks.h
 *
 * The standard's e = 255, not a number, is read as the next power of two: as ggml reads it.
 */
#include "quant/blocks.h"
#include "quant/formats.h"

_Static_assert(sizeof(af_block_mxfp4) == 17, "MXFP4 blocks are packed");

static const int8_t VALUES[16] = {AF_E2M1_VALUES(AF_BOOK_ENTRY)};

static void decode(const void *blocks, float *out, size_t n) {
    for (const af_block_mxfp4 *b = blocks; n; b++, out += AF_BLOCK, n -= AF_BLOCK) {
        float d = af_bf16_to_f32(af_e8m0_half(b->e));
        for (int i = 0; i < 16; i++) {
            out[i] = d * (float)VALUES[b->qs[i] & 15];
            out[i + 16] = d * (float)VALUES[b->qs[i] >> 4];
        }
    }
}

const af_format af_format_mxfp4 = {AF_TYPE_MXFP4, "MXFP4", AF_BLOCK, sizeof(af_block_mxfp4), decode};

/* pack.c - from rows of blocks, as a file has them, to panels of 16 rows (layout.h).
 *
 * A format says two things: the 32 codes of a block of a row, as 8 words of 4 (`codes`), and the row's scales in the
 * head of a step (`head`). One body cuts codes into planes and places them; it is specialized for each format. Words
 * are handled four bytes at a time, which is fast enough to need no instruction set: a row's words land in vectors that
 * stay in the first-level cache until all 16 rows have passed. Bytes are little-endian throughout.
 */
#include "backend/cpu/kernels.h"

#include <assert.h>
#include <string.h>

#define BYTES(x) ((x)*0x01010101u) /* x in each of four bytes */

AF_LAYOUT_INLINE uint32_t word(const void *p) {
    uint32_t w;
    memcpy(&w, p, sizeof w);
    return w;
}

/* Bits 0..3 of x, one to a byte. */
AF_LAYOUT_INLINE uint32_t spread(uint32_t x) {
    return (x & 15) * 0x00204081u & BYTES(1);
}

/* ---- Codes of block b of a row ---- */

AF_LAYOUT_INLINE void nibbles(const uint8_t qs[16], uint32_t c[8]) {
    AF_UNROLL
    for (uint32_t g = 0; g < 4; g++) {
        c[g] = word(qs + 4 * g) & BYTES(15);
        c[g + 4] = word(qs + 4 * g) >> 4 & BYTES(15);
    }
}

AF_LAYOUT_INLINE void fifth_bits(const uint8_t qh[4], uint32_t c[8]) {
    AF_UNROLL
    for (uint32_t g = 0; g < 8; g++) c[g] |= spread(word(qh) >> 4 * g) << 4;
}

AF_LAYOUT_INLINE void codes_q4_0(const void *row, uint32_t b, uint32_t c[8]) {
    nibbles(((const af_block_q4_0 *)row)[b].qs, c);
}

AF_LAYOUT_INLINE void codes_q4_1(const void *row, uint32_t b, uint32_t c[8]) {
    nibbles(((const af_block_q4_1 *)row)[b].qs, c);
}

AF_LAYOUT_INLINE void codes_q5_0(const void *row, uint32_t b, uint32_t c[8]) {
    const af_block_q5_0 *block = (const af_block_q5_0 *)row + b;
    nibbles(block->qs, c);
    fifth_bits(block->qh, c);
}

AF_LAYOUT_INLINE void codes_q5_1(const void *row, uint32_t b, uint32_t c[8]) {
    const af_block_q5_1 *block = (const af_block_q5_1 *)row + b;
    nibbles(block->qs, c);
    fifth_bits(block->qh, c);
}

AF_LAYOUT_INLINE void codes_q8_0(const void *row, uint32_t b, uint32_t c[8]) {
    const af_block_q8_0 *block = (const af_block_q8_0 *)row + b;
    AF_UNROLL
    for (uint32_t g = 0; g < 8; g++) c[g] = word(block->qs + 4 * g) ^ BYTES(128);
}

AF_LAYOUT_INLINE void codes_iq4_nl(const void *row, uint32_t b, uint32_t c[8]) {
    nibbles(((const af_block_iq4_nl *)row)[b].qs, c);
}

AF_LAYOUT_INLINE void codes_iq4_xs(const void *row, uint32_t b, uint32_t c[8]) {
    nibbles(((const af_block_iq4_xs *)row)[b / 8].qs + b % 8 * 16, c);
}

AF_LAYOUT_INLINE void codes_mxfp4(const void *row, uint32_t b, uint32_t c[8]) {
    nibbles(((const af_block_mxfp4 *)row)[b].qs, c);
}

AF_LAYOUT_INLINE void quarter_bytes(const uint8_t qs[64], uint32_t b, uint32_t c[8]) {
    AF_UNROLL
    for (uint32_t g = 0; g < 8; g++) c[g] = word(qs + b / 4 * 32 + 4 * g) >> 2 * (b % 4) & BYTES(3);
}

AF_LAYOUT_INLINE void codes_q2_k(const void *row, uint32_t b, uint32_t c[8]) {
    quarter_bytes(((const af_block_q2_k *)row)[b / 8].qs, b % 8, c);
}

AF_LAYOUT_INLINE void codes_q3_k(const void *row, uint32_t b, uint32_t c[8]) {
    const af_block_q3_k *block = (const af_block_q3_k *)row + b / 8;
    const uint8_t *qs = block->qs + b % 8 / 4 * 32;
    AF_UNROLL
    for (uint32_t g = 0; g < 8; g++)
        c[g] = (word(qs + 4 * g) >> 2 * (b % 4) & BYTES(3)) | (word(block->hmask + 4 * g) >> b % 8 & BYTES(1)) << 2;
}

AF_LAYOUT_INLINE void codes_q4_k(const void *row, uint32_t b, uint32_t c[8]) {
    const uint8_t *qs = ((const af_block_q4_k *)row)[b / 8].qs + b % 8 / 2 * 32;
    AF_UNROLL
    for (uint32_t g = 0; g < 8; g++) c[g] = word(qs + 4 * g) >> 4 * (b % 2) & BYTES(15);
}

AF_LAYOUT_INLINE void codes_q5_k(const void *row, uint32_t b, uint32_t c[8]) {
    const af_block_q5_k *block = (const af_block_q5_k *)row + b / 8;
    const uint8_t *qs = block->qs + b % 8 / 2 * 32;
    AF_UNROLL
    for (uint32_t g = 0; g < 8; g++)
        c[g] = (word(qs + 4 * g) >> 4 * (b % 2) & BYTES(15)) | (word(block->qh + 4 * g) >> b % 8 & BYTES(1)) << 4;
}

AF_LAYOUT_INLINE void codes_q6_k(const void *row, uint32_t b, uint32_t c[8]) {
    const af_block_q6_k *block = (const af_block_q6_k *)row + b / 8;
    const uint8_t *ql = block->ql + b % 8 / 4 * 64 + b % 2 * 32, *qh = block->qh + b % 8 / 4 * 32;
    AF_UNROLL
    for (uint32_t g = 0; g < 8; g++)
        c[g] = (word(ql + 4 * g) >> b % 4 / 2 * 4 & BYTES(15)) | (word(qh + 4 * g) >> 2 * (b % 4) & BYTES(3)) << 4;
}

/* ---- Scales: row r of the head of a step that starts at block b, of which `blocks` exist ---- */

AF_LAYOUT_INLINE void put_bits(unsigned char *head, size_t at, uint32_t r, uint16_t bits) {
    memcpy(head + at + 2 * r, &bits, sizeof bits);
}

/* An infinite half float, which no quantizer writes, becomes NaN: its products with integers would not be the same in
 * every kernel (linear_amx.c). */
AF_LAYOUT_INLINE void put_half(unsigned char *head, size_t at, uint32_t r, uint16_t half) {
    put_bits(head, at, r, (half & 0x7fff) == 0x7c00 ? half | 1 : half);
}

#define SIMPLE_HEAD(name, put, scale, put_minimum)                                                                     \
    AF_LAYOUT_INLINE void head_##name(const void *row, uint32_t b, uint32_t blocks, unsigned char *head, uint32_t r) { \
        const af_block_##name *block = (const af_block_##name *)row + b;                                               \
        for (uint32_t i = 0; i < blocks; i++) {                                                                        \
            put(head, i * 32, r, scale);                                                                               \
            put_minimum;                                                                                               \
        }                                                                                                              \
    }
SIMPLE_HEAD(q4_0, put_half, block[i].d, (void)0)
SIMPLE_HEAD(q5_0, put_half, block[i].d, (void)0)
SIMPLE_HEAD(q8_0, put_half, block[i].d, (void)0)
SIMPLE_HEAD(q4_1, put_half, block[i].d, put_half(head, 64 + i * 32, r, block[i].m))
SIMPLE_HEAD(q5_1, put_half, block[i].d, put_half(head, 64 + i * 32, r, block[i].m))
SIMPLE_HEAD(iq4_nl, put_half, block[i].d, (void)0)
SIMPLE_HEAD(mxfp4, put_bits, af_e8m0_half(block[i].e), (void)0)
#undef SIMPLE_HEAD

AF_LAYOUT_INLINE void sub_scales(const uint8_t *scales, uint32_t count, unsigned char *head, uint32_t r) {
    for (uint32_t j = 0; j < count; j++) head[64 + j * AF_PANEL + r] = scales[j];
}

AF_LAYOUT_INLINE void head_q2_k(const void *row, uint32_t b, uint32_t blocks, unsigned char *head, uint32_t r) {
    (void)blocks;
    const af_block_q2_k *block = (const af_block_q2_k *)row + b / 8;
    put_half(head, 0, r, block->d);
    put_half(head, 32, r, block->dmin);
    sub_scales(block->scales, 16, head, r);
}

AF_LAYOUT_INLINE void head_q3_k(const void *row, uint32_t b, uint32_t blocks, unsigned char *head, uint32_t r) {
    (void)blocks;
    const af_block_q3_k *block = (const af_block_q3_k *)row + b / 8;
    int8_t scales[16];
    af_q3_k_scales(block->scales, scales);
    put_half(head, 0, r, block->d);
    sub_scales((const uint8_t *)scales, 16, head, r);
}

AF_LAYOUT_INLINE void head_six_bits(const uint8_t *packed, uint16_t d, uint16_t dmin, unsigned char *head, uint32_t r) {
    uint8_t scales_and_minima[16];
    for (uint32_t j = 0; j < 8; j++) af_k_scale_min(packed, j, &scales_and_minima[j], &scales_and_minima[8 + j]);
    put_half(head, 0, r, d);
    put_half(head, 32, r, dmin);
    sub_scales(scales_and_minima, 16, head, r);
}

AF_LAYOUT_INLINE void head_q4_k(const void *row, uint32_t b, uint32_t blocks, unsigned char *head, uint32_t r) {
    (void)blocks;
    const af_block_q4_k *block = (const af_block_q4_k *)row + b / 8;
    head_six_bits(block->scales, block->d, block->dmin, head, r);
}

AF_LAYOUT_INLINE void head_q5_k(const void *row, uint32_t b, uint32_t blocks, unsigned char *head, uint32_t r) {
    (void)blocks;
    const af_block_q5_k *block = (const af_block_q5_k *)row + b / 8;
    head_six_bits(block->scales, block->d, block->dmin, head, r);
}

AF_LAYOUT_INLINE void head_q6_k(const void *row, uint32_t b, uint32_t blocks, unsigned char *head, uint32_t r) {
    (void)blocks;
    const af_block_q6_k *block = (const af_block_q6_k *)row + b / 8;
    put_half(head, 0, r, block->d);
    sub_scales((const uint8_t *)block->scales, 16, head, r);
}

AF_LAYOUT_INLINE void head_iq4_xs(const void *row, uint32_t b, uint32_t blocks, unsigned char *head, uint32_t r) {
    (void)blocks;
    const af_block_iq4_xs *block = (const af_block_iq4_xs *)row + b / 8;
    uint8_t scales[8];
    for (uint32_t j = 0; j < 8; j++) scales[j] = (uint8_t)af_iq4_xs_scale(block, j);
    put_half(head, 0, r, block->d);
    sub_scales(scales, 8, head, r);
}

#include "backend/cpu/pack_iq.h"

/* ---- The body ---- */

typedef void (*codes_fn)(const void *row, uint32_t b, uint32_t c[8]);
typedef void (*head_fn)(const void *row, uint32_t b, uint32_t blocks, unsigned char *head, uint32_t r);

/* The lanes of row r in the plane of p bits of one block, if codes have one. */
AF_LAYOUT_INLINE void put_plane(af_layout l, uint32_t p, const uint32_t c[8], unsigned char *block, uint32_t r) {
    if (!(l.bits & p)) return;
    uint32_t below = l.bits & ~(2 * p - 1); /* bits in wider planes, and so their vectors */
    AF_UNROLL
    for (uint32_t v = 0; v < p; v++) {
        uint32_t w = 0;
        AF_UNROLL
        for (uint32_t g = v; g < 8; g += p) w |= (c[g] >> below & BYTES((1u << p) - 1)) << p * (g / p);
        memcpy(block + (below + v) * AF_VECTOR + 4 * r, &w, sizeof w);
    }
}

AF_LAYOUT_INLINE void put_codes(af_layout l, const uint32_t c[8], unsigned char *block, uint32_t r) {
    put_plane(l, 8, c, block, r);
    put_plane(l, 4, c, block, r);
    put_plane(l, 2, c, block, r);
    put_plane(l, 1, c, block, r);
}

AF_LAYOUT_INLINE void pack(af_layout l, codes_fn codes, head_fn head, const unsigned char *source, size_t row_bytes,
                           uint32_t rows, uint32_t cols, unsigned char *panel) {
    uint32_t blocks = cols / AF_BLOCK, step = af_layout_blocks(l);
    for (uint32_t b = 0; b < blocks; b += step, panel += af_layout_step_bytes(l)) {
        uint32_t here = blocks - b < step ? blocks - b : step;
        for (uint32_t r = 0; r < rows; r++) {
            const unsigned char *row = source + r * row_bytes;
            head(row, b, here, panel, r);
            for (uint32_t i = 0; i < here; i++) {
                uint32_t c[8];
                codes(row, b + i, c);
                put_codes(l, c, panel + af_layout_head_bytes(l) + i * af_layout_block_bytes(l), r);
            }
        }
    }
}

#define X(name, TYPE, ...)                                                                                             \
    static void pack_##name(const unsigned char *source, size_t row_bytes, uint32_t rows, uint32_t cols,               \
                            unsigned char *panel) {                                                                    \
        pack((af_layout){__VA_ARGS__}, codes_##name, head_##name, source, row_bytes, rows, cols, panel);               \
    }
AF_LAYOUTS(X)
#undef X

/* Rows of floats, to columns of 16. */
AF_LAYOUT_INLINE void pack_floats(size_t size, const unsigned char *source, size_t row_bytes, uint32_t rows,
                                  uint32_t cols, unsigned char *panel) {
    for (uint32_t k = 0; k < cols; k++) {
        for (uint32_t r = 0; r < rows; r++)
            memcpy(panel + ((size_t)k * AF_PANEL + r) * size, source + r * row_bytes + k * size, size);
    }
}

static void pack_32_bits(const unsigned char *source, size_t row_bytes, uint32_t rows, uint32_t cols,
                         unsigned char *panel) {
    pack_floats(4, source, row_bytes, rows, cols, panel);
}

static void pack_16_bits(const unsigned char *source, size_t row_bytes, uint32_t rows, uint32_t cols,
                         unsigned char *panel) {
    pack_floats(2, source, row_bytes, rows, cols, panel);
}

static const struct {
    af_type type;
    void (*pack)(const unsigned char *source, size_t row_bytes, uint32_t rows, uint32_t cols, unsigned char *panel);
} KINDS[AF_PANEL_KINDS] = {
#define X(name, TYPE, ...) [AF_PANEL_##TYPE] = {AF_TYPE_##TYPE, pack_##name},
    AF_LAYOUTS(X)
#undef X
        [AF_PANEL_F32] = {AF_TYPE_F32, pack_32_bits},
    [AF_PANEL_F16] = {AF_TYPE_F16, pack_16_bits},
    [AF_PANEL_BF16] = {AF_TYPE_BF16, pack_16_bits},
};

af_panel_kind af_panel_kind_of(af_type type) {
    uint32_t kind = 0;
    while (kind < AF_PANEL_KINDS && KINDS[kind].type != type) kind++;
    assert(kind < AF_PANEL_KINDS);
    return (af_panel_kind)kind;
}

static size_t quantized_bytes(af_layout l, uint32_t cols) {
    uint32_t blocks = cols / AF_BLOCK, step = af_layout_blocks(l);
    return (blocks + step - 1) / step * af_layout_step_bytes(l);
}

size_t af_panel_bytes(af_panel_kind kind, uint32_t cols) {
    switch (kind) {
#define X(name, TYPE, ...)                                                                                             \
    case AF_PANEL_##TYPE:                                                                                              \
        return quantized_bytes((af_layout){__VA_ARGS__}, cols);
        AF_LAYOUTS(X)
#undef X
    case AF_PANEL_F32:
        return (size_t)cols * AF_PANEL * 4;
    default:
        return (size_t)cols * AF_PANEL * 2;
    }
}

void af_pack_panel(af_panel_kind kind, const unsigned char *source, size_t row_bytes, uint32_t rows, uint32_t cols,
                   unsigned char *panel) {
    assert(rows >= 1 && rows <= AF_PANEL);
    KINDS[kind].pack(source, row_bytes, rows, cols, panel);
}

#define CHUNK AF_SUPERBLOCK /* columns decoded at a time: a multiple of every format's block */

void af_decode_panel(const af_format *format, const unsigned char *source, size_t row_bytes, uint32_t rows,
                     uint32_t cols, float *panel) {
    float decoded[AF_PANEL][CHUNK];
    memset(decoded, 0, sizeof decoded);
    for (uint32_t k = 0; k < cols; k += CHUNK) {
        uint32_t n = cols - k < CHUNK ? cols - k : CHUNK;
        for (uint32_t r = 0; r < rows; r++)
            format->decode(source + r * row_bytes + af_row_bytes(format, k), decoded[r], n);
        for (uint32_t i = 0; i < n; i++, panel += AF_PANEL) {
            for (uint32_t r = 0; r < AF_PANEL; r++) panel[r] = decoded[r][i];
        }
    }
}

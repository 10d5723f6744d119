/* gpu_pack.c - the table of layouts and their packing. */
#include "backend/webgpu/gpu_pack.h"

#include "quant/blocks.h"

#include <assert.h>
#include <string.h>

/* ---- A block of each format ---- */

static void set_pair(af_gpu_block *out, float scale, float added) {
    out->scale[0] = out->scale[1] = scale;
    out->added[0] = out->added[1] = added;
}

static void set_halves(af_gpu_block *out, float first, float last, float offset) {
    out->scale[0] = first;
    out->scale[1] = last;
    out->added[0] = -offset * first;
    out->added[1] = -offset * last;
}

static void unpack_nibbles(const uint8_t qs[16], af_gpu_block *out) {
    for (uint32_t i = 0; i < 16; i++) {
        out->q[i] = (int8_t)(qs[i] & 15);
        out->q[i + 16] = (int8_t)(qs[i] >> 4);
    }
}

static void unpack_q4_0(const void *row, uint32_t index, af_gpu_block *out) {
    const af_block_q4_0 *b = (const af_block_q4_0 *)row + index;
    const float d = af_f16_to_f32(b->d);
    unpack_nibbles(b->qs, out);
    set_pair(out, d, -8.0f * d);
}

static void unpack_q4_1(const void *row, uint32_t index, af_gpu_block *out) {
    const af_block_q4_1 *b = (const af_block_q4_1 *)row + index;
    unpack_nibbles(b->qs, out);
    set_pair(out, af_f16_to_f32(b->d), af_f16_to_f32(b->m));
}

static void unpack_q5_0(const void *row, uint32_t index, af_gpu_block *out) {
    const af_block_q5_0 *b = (const af_block_q5_0 *)row + index;
    const float d = af_f16_to_f32(b->d);
    for (uint32_t i = 0; i < 32; i++) out->q[i] = (int8_t)af_q5_value(b->qh, b->qs, i);
    set_pair(out, d, -16.0f * d);
}

static void unpack_q5_1(const void *row, uint32_t index, af_gpu_block *out) {
    const af_block_q5_1 *b = (const af_block_q5_1 *)row + index;
    for (uint32_t i = 0; i < 32; i++) out->q[i] = (int8_t)af_q5_value(b->qh, b->qs, i);
    set_pair(out, af_f16_to_f32(b->d), af_f16_to_f32(b->m));
}

static void unpack_q8_0(const void *row, uint32_t index, af_gpu_block *out) {
    const af_block_q8_0 *b = (const af_block_q8_0 *)row + index;
    memcpy(out->q, b->qs, sizeof b->qs);
    set_pair(out, af_f16_to_f32(b->d), 0.0f);
}

static void unpack_q2_k(const void *row, uint32_t index, af_gpu_block *out) {
    const af_block_q2_k *b = (const af_block_q2_k *)row + index / 8;
    const uint32_t group = index % 8;
    const float d = af_f16_to_f32(b->d), dmin = af_f16_to_f32(b->dmin);
    for (uint32_t i = 0; i < 32; i++) out->q[i] = (int8_t)af_q2_value(b->qs, group * 32 + i);
    for (uint32_t half = 0; half < 2; half++) {
        const uint8_t both = b->scales[group * 2 + half];
        out->scale[half] = d * (float)(both & 15);
        out->added[half] = -dmin * (float)(both >> 4);
    }
}

static void unpack_q3_k(const void *row, uint32_t index, af_gpu_block *out) {
    const af_block_q3_k *b = (const af_block_q3_k *)row + index / 8;
    const uint32_t group = index % 8;
    const float d = af_f16_to_f32(b->d);
    int8_t scales[16];
    af_q3_k_scales(b->scales, scales);
    for (uint32_t i = 0; i < 32; i++)
        out->q[i] = (int8_t)(af_q2_value(b->qs, group * 32 + i) | (b->hmask[i] >> group & 1) << 2);
    set_halves(out, d * (float)scales[group * 2], d * (float)scales[group * 2 + 1], 4.0f);
}

/* Nibbles of group g of a q4_k or q5_k superblock: low ones for even groups, high ones for odd. */
static void unpack_k_nibbles(const uint8_t qs[128], uint32_t group, af_gpu_block *out) {
    for (uint32_t i = 0; i < 32; i++) out->q[i] = (int8_t)(qs[group / 2 * 32 + i] >> (group % 2 * 4) & 15);
}

static void set_k_pair(const uint8_t packed[AF_K_SCALE_BYTES], uint16_t d, uint16_t dmin, uint32_t group,
                       af_gpu_block *out) {
    uint8_t scale, min;
    af_k_scale_min(packed, group, &scale, &min);
    set_pair(out, af_f16_to_f32(d) * (float)scale, -af_f16_to_f32(dmin) * (float)min);
}

static void unpack_q4_k(const void *row, uint32_t index, af_gpu_block *out) {
    const af_block_q4_k *b = (const af_block_q4_k *)row + index / 8;
    unpack_k_nibbles(b->qs, index % 8, out);
    set_k_pair(b->scales, b->d, b->dmin, index % 8, out);
}

static void unpack_q5_k(const void *row, uint32_t index, af_gpu_block *out) {
    const af_block_q5_k *b = (const af_block_q5_k *)row + index / 8;
    const uint32_t group = index % 8;
    unpack_k_nibbles(b->qs, group, out);
    for (uint32_t i = 0; i < 32; i++) out->q[i] = (int8_t)(out->q[i] | (b->qh[i] >> group & 1) << 4);
    set_k_pair(b->scales, b->d, b->dmin, group, out);
}

static void unpack_q6_k(const void *row, uint32_t index, af_gpu_block *out) {
    const af_block_q6_k *b = (const af_block_q6_k *)row + index / 8;
    const uint32_t group = index % 8, half = group / 4, part = group % 4;
    const float d = af_f16_to_f32(b->d);
    const uint8_t *low = b->ql + half * 64 + part % 2 * 32;
    for (uint32_t i = 0; i < 32; i++)
        out->q[i] = (int8_t)((low[i] >> (part / 2 * 4) & 15) | af_q2_value(b->qh, group * 32 + i) << 4);
    set_halves(out, d * (float)b->scales[group * 2], d * (float)b->scales[group * 2 + 1], 32.0f);
}

static void unpack_iq4_nl(const void *row, uint32_t index, af_gpu_block *out) {
    const af_block_iq4_nl *b = (const af_block_iq4_nl *)row + index;
    unpack_nibbles(b->qs, out);
    set_pair(out, af_f16_to_f32(b->d), 0.0f);
}

static void unpack_iq4_xs(const void *row, uint32_t index, af_gpu_block *out) {
    const af_block_iq4_xs *b = (const af_block_iq4_xs *)row + index / 8;
    unpack_nibbles(b->qs + index % 8 * 16, out);
    set_pair(out, af_f16_to_f32(b->d) * (float)af_iq4_xs_scale(b, index % 8), 0.0f);
}

static void unpack_mxfp4(const void *row, uint32_t index, af_gpu_block *out) {
    const af_block_mxfp4 *b = (const af_block_mxfp4 *)row + index;
    unpack_nibbles(b->qs, out);
    set_pair(out, af_bf16_to_f32(af_e8m0_half(b->e)), 0.0f);
}

/* ---- The table ---- */

static const af_gpu_layout layouts[] = {
    {AF_TYPE_F32, AF_GPU_F32, 0, AF_GPU_PAIR_MIN, 0.0f, NULL},
    {AF_TYPE_F16, AF_GPU_F16, 0, AF_GPU_PAIR_MIN, 0.0f, NULL},
    {AF_TYPE_BF16, AF_GPU_BF16, 0, AF_GPU_PAIR_MIN, 0.0f, NULL},
    {AF_TYPE_Q4_0, AF_GPU_QUANTIZED, 0, AF_GPU_PAIR_MIN, 0.0f, unpack_q4_0},
    {AF_TYPE_Q4_1, AF_GPU_QUANTIZED, 0, AF_GPU_PAIR_MIN, 0.0f, unpack_q4_1},
    {AF_TYPE_Q5_0, AF_GPU_QUANTIZED, 1, AF_GPU_PAIR_MIN, 0.0f, unpack_q5_0},
    {AF_TYPE_Q5_1, AF_GPU_QUANTIZED, 1, AF_GPU_PAIR_MIN, 0.0f, unpack_q5_1},
    {AF_TYPE_Q8_0, AF_GPU_QUANTIZED, 4, AF_GPU_PAIR_MIN, 0.0f, unpack_q8_0},
    {AF_TYPE_Q2_K, AF_GPU_QUANTIZED, 0, AF_GPU_PAIR_BOTH, 0.0f, unpack_q2_k},
    {AF_TYPE_Q3_K, AF_GPU_QUANTIZED, 0, AF_GPU_PAIR_HALVES, 4.0f, unpack_q3_k},
    {AF_TYPE_Q4_K, AF_GPU_QUANTIZED, 0, AF_GPU_PAIR_MIN, 0.0f, unpack_q4_k},
    {AF_TYPE_Q5_K, AF_GPU_QUANTIZED, 1, AF_GPU_PAIR_MIN, 0.0f, unpack_q5_k},
    {AF_TYPE_Q6_K, AF_GPU_QUANTIZED, 2, AF_GPU_PAIR_HALVES, 32.0f, unpack_q6_k},
    {AF_TYPE_IQ4_NL, AF_GPU_QUANTIZED, 0, AF_GPU_PAIR_IQ4, 0.0f, unpack_iq4_nl},
    {AF_TYPE_IQ4_XS, AF_GPU_QUANTIZED, 0, AF_GPU_PAIR_IQ4, 0.0f, unpack_iq4_xs},
    {AF_TYPE_MXFP4, AF_GPU_QUANTIZED, 0, AF_GPU_PAIR_E2M1, 0.0f, unpack_mxfp4},
};

const af_gpu_layout *af_gpu_layout_of(af_type type) {
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i].type == type) return &layouts[i];
    return NULL;
}

const af_gpu_layout *af_gpu_layout_for(const af_format *format, bool exact) {
    const af_gpu_layout *own = af_gpu_layout_of(format->type);
    if (exact && format->block_elems > 1) return af_gpu_layout_of(AF_TYPE_F32);
    return own ? own : af_gpu_layout_of(AF_TYPE_F16);
}

/* ---- Streams ---- */

static uint64_t round16(uint64_t n) {
    return (n + 15) & ~(uint64_t)15;
}

static uint32_t plain_row_bytes(const af_gpu_layout *layout, uint32_t cols) {
    return layout->kind == AF_GPU_F32 ? cols * 4 : (cols + 1) / 2 * 4;
}

af_gpu_streams af_gpu_streams_of(const af_gpu_layout *layout, uint32_t rows, uint32_t cols) {
    af_gpu_streams s = {.low = 0};
    if (layout->kind != AF_GPU_QUANTIZED) {
        s.low_bytes = (uint64_t)rows * plain_row_bytes(layout, cols);
    } else {
        const uint64_t blocks = (uint64_t)rows * (cols / AF_BLOCK);
        s.low_bytes = blocks * (layout->high_bits == 4 ? 32 : 16);
        s.high_bytes = layout->high_bits == 4 ? 0 : blocks * layout->high_bits * 4;
        s.scale_bytes = blocks * (layout->pairing == AF_GPU_PAIR_BOTH ? 8 : 4);
    }
    s.high = round16(s.low_bytes);
    s.scale = s.high + round16(s.high_bytes);
    s.bytes = s.scale + round16(s.scale_bytes);
    return s;
}

static uint32_t pack_pair(float a, float b) {
    return (uint32_t)af_f32_to_f16(a) | (uint32_t)af_f32_to_f16(b) << 16;
}

static void pack_low(const af_gpu_block *b, uint32_t out[4]) {
    for (uint32_t word = 0; word < 4; word++) {
        out[word] = 0;
        for (uint32_t j = 0; j < 4; j++) {
            out[word] |= (uint32_t)(b->q[8 * word + j] & 15) << (8 * j);
            out[word] |= (uint32_t)(b->q[8 * word + 4 + j] & 15) << (8 * j + 4);
        }
    }
}

static void pack_one_bit(const af_gpu_block *b, uint32_t out[1]) {
    out[0] = 0;
    for (uint32_t e = 0; e < 32; e++) out[0] |= (uint32_t)(b->q[e] >> 4 & 1) << (8 * (e % 4) + e / 4);
}

static void pack_two_bits(const af_gpu_block *b, uint32_t out[2]) {
    out[0] = out[1] = 0;
    for (uint32_t e = 0; e < 32; e++) out[e / 16] |= (uint32_t)(b->q[e] >> 4 & 3) << (8 * (e % 4) + 2 * (e % 16 / 4));
}

static void pack_block(const af_gpu_layout *layout, const af_gpu_block *b, uint64_t at, uint32_t *low, uint32_t *high,
                       uint32_t *scale) {
    if (layout->high_bits == 4)
        memcpy(low + at * 8, b->q, sizeof b->q);
    else
        pack_low(b, low + at * 4);
    if (layout->high_bits == 1) pack_one_bit(b, high + at);
    if (layout->high_bits == 2) pack_two_bits(b, high + at * 2);
    if (layout->pairing >= AF_GPU_PAIR_IQ4) memcpy(scale + at, b->scale, sizeof *scale);
    if (layout->pairing == AF_GPU_PAIR_MIN) scale[at] = pack_pair(b->scale[0], b->added[0]);
    if (layout->pairing == AF_GPU_PAIR_HALVES) scale[at] = pack_pair(b->scale[0], b->scale[1]);
    if (layout->pairing == AF_GPU_PAIR_BOTH) {
        scale[at * 2] = pack_pair(b->scale[0], b->added[0]);
        scale[at * 2 + 1] = pack_pair(b->scale[1], b->added[1]);
    }
}

static void pack_plain(const af_gpu_layout *layout, const af_matrix *w, uint32_t row_begin, uint32_t row_end,
                       unsigned char *out) {
    const size_t from = af_row_bytes(w->format, w->cols), to = plain_row_bytes(layout, w->cols);
    for (uint32_t r = row_begin; r < row_end; r++, out += to) {
        memcpy(out, (const unsigned char *)w->data + r * from, from);
        memset(out + from, 0, to - from);
    }
}

/* A row decoded to numbers of `layout`; it is whole blocks, so nothing needs padding. */
static void widen_row(const af_gpu_layout *layout, const af_format *format, const unsigned char *row, uint32_t cols,
                      unsigned char *out) {
    if (layout->kind == AF_GPU_F32) {
        format->decode(row, (float *)(void *)out, cols);
        return;
    }
    float decoded[AF_SUPERBLOCK];
    uint16_t *halves = (uint16_t *)(void *)out;
    for (uint32_t c = 0; c < cols; c += format->block_elems, row += format->block_bytes) {
        format->decode(row, decoded, format->block_elems);
        for (uint32_t i = 0; i < format->block_elems; i++) halves[c + i] = af_f32_to_f16(decoded[i]);
    }
}

static void widen(const af_gpu_layout *layout, const af_matrix *w, uint32_t row_begin, uint32_t row_end,
                  unsigned char *out) {
    const size_t row_bytes = af_row_bytes(w->format, w->cols);
    for (uint32_t r = row_begin; r < row_end; r++, out += plain_row_bytes(layout, w->cols))
        widen_row(layout, w->format, (const unsigned char *)w->data + r * row_bytes, w->cols, out);
}

void af_gpu_pack(const af_gpu_layout *layout, const af_matrix *w, uint32_t row_begin, uint32_t row_end, void *out) {
    if (layout->type != w->format->type) {
        widen(layout, w, row_begin, row_end, out);
        return;
    }
    if (layout->kind != AF_GPU_QUANTIZED) {
        pack_plain(layout, w, row_begin, row_end, out);
        return;
    }
    const uint32_t rows = row_end - row_begin, blocks = w->cols / AF_BLOCK;
    const af_gpu_streams s = af_gpu_streams_of(layout, rows, w->cols);
    uint32_t *low = (uint32_t *)out, *high = low + s.high / 4, *scale = low + s.scale / 4;
    const size_t row_bytes = af_row_bytes(w->format, w->cols);
    for (uint32_t r = 0; r < rows; r++) {
        const unsigned char *row = (const unsigned char *)w->data + (row_begin + r) * row_bytes;
        for (uint32_t i = 0; i < blocks; i++) {
            af_gpu_block b;
            layout->unpack(row, i, &b);
            pack_block(layout, &b, (uint64_t)r * blocks + i, low, high, scale);
        }
    }
}

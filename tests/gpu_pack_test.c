/* gpu_pack_test.c - weights packed for the GPU are the file's weights: unpacked here from the layout's description
 * (shaders/block.wgsl), not by the shaders' code, and compared with the reference decode. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/webgpu/gpu_pack.h"
#include "random_blocks.h"

#include <string.h>

#define ROWS       19u
#define COLS       512u
#define HALF_STEP  (1.0f / 2048) /* relative rounding of a half float */
#define HALF_LEAST 0x1p-25f      /* ... and of its subnormals */

static void decode_row(const af_matrix *w, uint32_t row, float *out) {
    w->format->decode((const unsigned char *)w->data + row * af_row_bytes(w->format, w->cols), out, w->cols);
}

/* ---- The layout, read as it is described ---- */

typedef struct packed {
    const af_gpu_layout *layout;
    unsigned char *bytes;
    af_gpu_streams streams;
    uint32_t rows, cols;
} packed;

static packed pack(const af_matrix *w, uint32_t row_begin, uint32_t row_end) {
    packed p = {.layout = af_gpu_layout_of(w->format->type), .rows = row_end - row_begin, .cols = w->cols};
    assert_non_null(p.layout);
    p.streams = af_gpu_streams_of(p.layout, p.rows, p.cols);
    p.bytes = malloc(p.streams.bytes);
    assert_non_null(p.bytes);
    memset(p.bytes, 0xA5, p.streams.bytes);
    af_gpu_pack(p.layout, w, row_begin, row_end, p.bytes);
    return p;
}

static uint32_t word(const packed *p, uint64_t stream, uint64_t index) {
    uint32_t w;
    assert_true(stream + index * 4 + 4 <= p->streams.bytes);
    memcpy(&w, p->bytes + stream + index * 4, sizeof w);
    return w;
}

static uint32_t byte_of(uint32_t w, uint32_t byte) {
    return w >> (8 * byte) & 255;
}

static const int8_t IQ4[] = {AF_IQ4_VALUES(AF_BOOK_ENTRY)}, E2M1[] = {AF_E2M1_VALUES(AF_BOOK_ENTRY)};

static bool is_coded(const af_gpu_layout *layout) {
    return layout->pairing == AF_GPU_PAIR_IQ4 || layout->pairing == AF_GPU_PAIR_E2M1;
}

static int quant(const packed *p, uint64_t block, uint32_t e) {
    if (p->layout->high_bits == 4) return (int8_t)byte_of(word(p, p->streams.low, block * 8 + e / 4), e % 4);
    const uint32_t low = byte_of(word(p, p->streams.low, block * 4 + e / 8), e % 4);
    int q = (int)(e % 8 < 4 ? low & 15 : low >> 4);
    if (p->layout->pairing == AF_GPU_PAIR_IQ4) return IQ4[q];
    if (p->layout->pairing == AF_GPU_PAIR_E2M1) return E2M1[q];
    if (p->layout->high_bits == 1) q |= (int)(byte_of(word(p, p->streams.high, block), e % 4) >> (e / 4) & 1) << 4;
    if (p->layout->high_bits == 2)
        q |= (int)(byte_of(word(p, p->streams.high, block * 2 + e / 16), e % 4) >> (2 * (e % 16 / 4)) & 3) << 4;
    return q;
}

typedef struct line {
    float scale, added;
} line;

static line scale_of(const packed *p, uint64_t block, uint32_t e) {
    const bool both = p->layout->pairing == AF_GPU_PAIR_BOTH;
    const uint32_t w = word(p, p->streams.scale, both ? block * 2 + e / 16 : block);
    if (is_coded(p->layout)) {
        line l = {.added = 0};
        memcpy(&l.scale, &w, sizeof w);
        return l;
    }
    const float first = af_f16_to_f32((uint16_t)w), second = af_f16_to_f32((uint16_t)(w >> 16));
    if (p->layout->pairing != AF_GPU_PAIR_HALVES) return (line){first, second};
    const float scale = e < 16 ? first : second;
    return (line){scale, -p->layout->offset * scale};
}

/* ---- Tests ---- */

static bool is_superblock(const af_matrix *w) {
    return w->format->block_elems == AF_SUPERBLOCK;
}

/* Superblocks' products of scales are rounded to half floats; every other scale is held as it is. */
static void check_weight(const af_matrix *w, line l, int q, float expected) {
    const float found = l.scale * (float)q + l.added;
    const float rounding = (fabsf(l.scale * (float)q) + fabsf(l.added)) * HALF_STEP + (float)(abs(q) + 32) * HALF_LEAST;
    const float allowed = is_superblock(w) ? rounding : 0;
    if (!(fabsf(found - expected) <= allowed))
        fail_msg("%s: found %.9g, expected %.9g, allowed %g", w->format->name, (double)found, (double)expected,
                 (double)allowed);
}

static void check_quantized(af_type type) {
    const af_matrix w = random_matrix(type, ROWS, COLS);
    const packed p = pack(&w, 0, ROWS);
    float expected[COLS];
    for (uint32_t r = 0; r < ROWS; r++) {
        decode_row(&w, r, expected);
        for (uint32_t c = 0; c < COLS; c++) {
            const uint64_t block = (uint64_t)r * (COLS / AF_BLOCK) + c / AF_BLOCK;
            check_weight(&w, scale_of(&p, block, c % AF_BLOCK), quant(&p, block, c % AF_BLOCK), expected[c]);
        }
    }
    free(p.bytes);
    free((void *)w.data);
}

static const af_type quantized[] = {AF_TYPE_Q4_0,   AF_TYPE_Q4_1,   AF_TYPE_Q5_0, AF_TYPE_Q5_1, AF_TYPE_Q8_0,
                                    AF_TYPE_Q2_K,   AF_TYPE_Q3_K,   AF_TYPE_Q4_K, AF_TYPE_Q5_K, AF_TYPE_Q6_K,
                                    AF_TYPE_IQ4_NL, AF_TYPE_IQ4_XS, AF_TYPE_MXFP4};
#define QUANTIZED (sizeof quantized / sizeof *quantized)

static void every_quantized_format_holds_the_weights_of_the_file(void **state) {
    for (size_t i = 0; i < QUANTIZED; i++) check_quantized(quantized[i]);
}

static const af_type widened[] = {AF_TYPE_IQ2_XXS, AF_TYPE_IQ2_XS, AF_TYPE_IQ2_S, AF_TYPE_IQ3_XXS, AF_TYPE_IQ3_S,
                                  AF_TYPE_IQ1_S,   AF_TYPE_IQ1_M,  AF_TYPE_TQ1_0, AF_TYPE_TQ2_0};
#define WIDENED (sizeof widened / sizeof *widened)

static bool is_widened(af_type type) {
    for (size_t i = 0; i < WIDENED; i++)
        if (widened[i] == type) return true;
    return false;
}

static void every_format_has_a_layout_or_is_widened(void **state) {
    for (size_t i = 0; af_format_at(i); i++) {
        const af_format *format = af_format_at(i);
        const af_type found = af_gpu_layout_for(format, false)->type;
        if (found != (is_widened(format->type) ? AF_TYPE_F16 : format->type)) fail_msg("%s", format->name);
        const af_type exact = af_gpu_layout_for(format, true)->type;
        if (exact != (format->block_elems > 1 ? AF_TYPE_F32 : format->type)) fail_msg("%s, exact", format->name);
    }
}

static void widened_weights_are_the_nearest_half_floats(void **state) {
    for (size_t i = 0; i < WIDENED; i++) {
        const af_matrix w = random_matrix(widened[i], 3, COLS);
        uint16_t halves[2 * COLS];
        float expected[COLS];
        af_gpu_pack(af_gpu_layout_for(w.format, false), &w, 1, 3, halves);
        for (uint32_t r = 0; r < 2; r++) {
            decode_row(&w, 1 + r, expected);
            for (uint32_t c = 0; c < COLS; c++) assert_int_equal(halves[r * COLS + c], af_f32_to_f16(expected[c]));
        }
        free((void *)w.data);
    }
}

/* The rows of a part are those of the whole, stream by stream: what lets an upload go in portions of 16 rows. */
static void a_part_of_the_rows_is_packed_as_in_the_whole(void **state) {
    for (size_t i = 0; i < QUANTIZED; i++) {
        const af_matrix w = random_matrix(quantized[i], 48, AF_SUPERBLOCK);
        const packed all = pack(&w, 0, 48), part = pack(&w, 16, 32), first = pack(&w, 0, 16);
        const uint64_t starts[][3] = {{all.streams.low, part.streams.low, part.streams.high},
                                      {all.streams.high, part.streams.high, part.streams.scale},
                                      {all.streams.scale, part.streams.scale, part.streams.bytes}};
        for (size_t s = 0; s < 3; s++) {
            const uint64_t bytes = starts[s][2] - starts[s][1]; /* the same for the 16 rows before */
            assert_memory_equal(all.bytes + starts[s][0] + bytes, part.bytes + starts[s][1], bytes);
        }
        assert_int_equal(first.streams.bytes, part.streams.bytes);
        free(all.bytes);
        free(part.bytes);
        free(first.bytes);
        free((void *)w.data);
    }
}

static void streams_start_where_sixteen_bytes_can_be_read(void **state) {
    for (size_t i = 0; i < QUANTIZED; i++)
        for (uint32_t rows = 1; rows < 9; rows++) {
            const af_gpu_streams s = af_gpu_streams_of(af_gpu_layout_of(quantized[i]), rows, AF_SUPERBLOCK);
            assert_true(s.low % 16 == 0 && s.high % 16 == 0 && s.scale % 16 == 0 && s.bytes % 16 == 0);
            assert_true(s.low <= s.high && s.high <= s.scale && s.scale < s.bytes);
        }
}

/* Rows of half floats of an odd width are filled up with a zero, so that each begins on a whole word. */
static void plain_numbers_keep_their_bits(void **state) {
    static const af_type plain[] = {AF_TYPE_F32, AF_TYPE_F16, AF_TYPE_BF16};
    for (size_t i = 0; i < 3; i++)
        for (uint32_t cols = 5; cols < 9; cols++) {
            const af_matrix w = random_matrix(plain[i], 3, cols);
            const packed p = pack(&w, 0, 3);
            const size_t row_bytes = af_row_bytes(w.format, cols), stride = (row_bytes + 3) / 4 * 4;
            assert_int_equal(p.streams.bytes, (3 * stride + 15) / 16 * 16);
            for (size_t r = 0; r < 3; r++) {
                assert_memory_equal(p.bytes + r * stride, (const char *)w.data + r * row_bytes, row_bytes);
                for (size_t pad = row_bytes; pad < stride; pad++) assert_int_equal(p.bytes[r * stride + pad], 0);
            }
            free(p.bytes);
            free((void *)w.data);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_has_a_layout_or_is_widened),
        cmocka_unit_test(widened_weights_are_the_nearest_half_floats),
        cmocka_unit_test(every_quantized_format_holds_the_weights_of_the_file),
        cmocka_unit_test(a_part_of_the_rows_is_packed_as_in_the_whole),
        cmocka_unit_test(streams_start_where_sixteen_bytes_can_be_read),
        cmocka_unit_test(plain_numbers_keep_their_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

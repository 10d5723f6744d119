/* gpu_upload_test.c - matrices arrive on a GPU bit for bit as gpu_pack.c lays them out, whoever packs them, however
 * they are cut. On lavapipe, or the adapter that SHIMMY_TEST_GPU names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/webgpu/gpu_backend.h"
#include "random_blocks.h"

#include <stdlib.h>
#include <string.h>

#define MOST_PARTS 3

static const af_type formats[] = {AF_TYPE_Q4_0,    AF_TYPE_Q4_1,   AF_TYPE_Q5_0,  AF_TYPE_Q5_1, AF_TYPE_Q8_0,
                                  AF_TYPE_Q2_K,    AF_TYPE_Q3_K,   AF_TYPE_Q4_K,  AF_TYPE_Q5_K, AF_TYPE_Q6_K,
                                  AF_TYPE_IQ4_NL,  AF_TYPE_IQ4_XS, AF_TYPE_MXFP4, AF_TYPE_F32,  AF_TYPE_F16,
                                  AF_TYPE_IQ2_XXS, AF_TYPE_TQ1_0};
#define FORMATS (sizeof formats / sizeof *formats)

static af_gpu *open_gpu(void) {
    const char *named = getenv("SHIMMY_TEST_GPU");
    af_gpu *gpu;
    af_error error;
    if (af_gpu_open(named ? named : "llvm", &gpu, &error) == AF_OK) return gpu;
    print_message("no such adapter: %s\n", error.text);
    skip();
    return NULL;
}

/* ---- A matrix on the device ---- */

/* Rows of one format joined of several matrices, at an address that is no multiple of four. */
typedef struct stack {
    af_matrix joined, parts[MOST_PARTS];
    size_t count;
    unsigned char *memory;
} stack;

static stack joined_of(af_matrix w, const uint32_t *rows, size_t count) {
    const size_t row_bytes = af_row_bytes(w.format, w.cols), bytes = w.rows * row_bytes;
    stack s = {.joined = w, .count = count, .memory = malloc(bytes + 2)};
    assert_non_null(s.memory);
    memcpy(s.memory + 2, w.data, bytes);
    const unsigned char *at = s.memory + 2;
    for (size_t i = 0; i < count; at += rows[i++] * row_bytes) {
        s.parts[i] = w;
        s.parts[i].data = at;
        s.parts[i].rows = rows[i];
    }
    return s;
}

static void drop(stack *s) {
    free((void *)s->joined.data);
    free(s->memory);
}

static void check_bytes(const af_gpu_matrix *m, const char *what, const unsigned char *found,
                        const unsigned char *expected, uint64_t bytes) {
    for (uint64_t i = 0; i < bytes; i++)
        if (found[i] != expected[i])
            fail_msg("%s, %u x %u: byte %llu of %s: found %02x, expected %02x", af_format_of(m->layout->type)->name,
                     m->rows, m->cols, (unsigned long long)i, what, found[i], expected[i]);
}

static void check_segment(af_gpu *gpu, const af_gpu_matrix *m, const af_gpu_segment *seg, const af_matrix *w) {
    const af_gpu_streams s = af_gpu_streams_of(m->layout, seg->rows, m->cols);
    unsigned char *expected = malloc(s.bytes), *found = malloc(s.bytes);
    assert_true(expected && found);
    af_error error;
    af_gpu_pack(m->layout, w, seg->row_begin, seg->row_begin + seg->rows, expected);
    if (af_gpu_read(gpu, seg->chunk, seg->offset, found, s.bytes, &error)) fail_msg("%s", error.text);
    check_bytes(m, "low bits", found + s.low, expected + s.low, s.low_bytes);
    check_bytes(m, "high bits", found + s.high, expected + s.high, s.high_bytes);
    check_bytes(m, "scales", found + s.scale, expected + s.scale, s.scale_bytes);
    free(expected);
    free(found);
}

/* Uploads and compares; returns how many segments there were. */
static size_t check_stack(af_gpu *gpu, const char *who, const stack *s) {
    af_gpu_weights *weights;
    const af_gpu_matrix *m;
    const af_matrix *parts[MOST_PARTS];
    af_error error;
    for (size_t i = 0; i < s->count; i++) parts[i] = &s->parts[i];
    setenv("AIRFRAME_GPU_PACK", who, 1);
    if (af_gpu_weights_open(gpu, false, 2, &weights, &error)) fail_msg("%s", error.text);
    if (af_gpu_weights_add(weights, parts, s->count, &m, &error)) fail_msg("%s", error.text);
    af_gpu_weights_done(weights);
    uint32_t rows = 0;
    for (size_t i = 0; i < m->segment_count; rows += m->segments[i++].rows) {
        assert_int_equal(m->segments[i].row_begin, rows);
        check_segment(gpu, m, &m->segments[i], &s->joined);
    }
    assert_int_equal(rows, s->joined.rows);
    const size_t segments = m->segment_count;
    af_gpu_weights_close(weights);
    return segments;
}

static void check_both(af_gpu *gpu, const stack *s) {
    check_stack(gpu, "host", s);
    check_stack(gpu, "device", s);
}

/* ---- Tests ---- */

static void every_format_arrives_as_the_host_packs_it(void **state) {
    static const uint32_t shapes[][2] = {{1, 256}, {19, 512}, {37, 768}};
    af_gpu *gpu = open_gpu();
    for (size_t i = 0; i < FORMATS; i++)
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
            stack s = joined_of(random_matrix(formats[i], shapes[k][0], shapes[k][1]), &shapes[k][0], 1);
            check_both(gpu, &s);
            drop(&s);
        }
    af_gpu_close(gpu);
}

static void stacked_matrices_arrive_as_one(void **state) {
    static const uint32_t rows[] = {17, 3, 5};
    af_gpu *gpu = open_gpu();
    for (size_t i = 0; i < FORMATS; i++) {
        stack s = joined_of(random_matrix(formats[i], 25, 256), rows, 3);
        check_both(gpu, &s);
        drop(&s);
    }
    af_gpu_close(gpu);
}

static void a_matrix_larger_than_a_binding_arrives_in_segments(void **state) {
    static const uint32_t rows[] = {200, 177};
    setenv("AIRFRAME_GPU_BINDING_LIMIT", "65536", 1);
    af_gpu *gpu = open_gpu();
    for (size_t i = 0; i < FORMATS; i++) {
        stack s = joined_of(random_matrix(formats[i], 377, 1024), rows, 2);
        assert_true(check_stack(gpu, "device", &s) > 1);
        drop(&s);
    }
    af_gpu_close(gpu);
    unsetenv("AIRFRAME_GPU_BINDING_LIMIT");
}

/* More than all of a ring's buffers hold, so that each is filled again. */
static void a_matrix_larger_than_the_ring_arrives_whole(void **state) {
    static const uint32_t rows = 9001;
    af_gpu *gpu = open_gpu();
    stack s = joined_of(random_matrix(AF_TYPE_Q8_0, rows, 1024), &rows, 1);
    check_both(gpu, &s);
    drop(&s);
    af_gpu_close(gpu);
}

/* The bits of d, where a block of the format has it. */
static void set_scale(af_type type, unsigned char *block, uint16_t bits) {
    if (type == AF_TYPE_Q4_0) ((af_block_q4_0 *)(void *)block)->d = bits;
    if (type == AF_TYPE_Q4_K) ((af_block_q4_k *)(void *)block)->d = ((af_block_q4_k *)(void *)block)->dmin = bits;
    if (type == AF_TYPE_Q6_K) ((af_block_q6_k *)(void *)block)->d = bits;
    if (type == AF_TYPE_IQ4_XS) ((af_block_iq4_xs *)(void *)block)->d = bits;
}

/* All that are numbers: what is tiny, what a product rounds, what a product carries beyond the largest. */
static void every_half_float_is_a_scale(void **state) {
    static const af_type types[] = {AF_TYPE_Q4_0, AF_TYPE_Q4_K, AF_TYPE_Q6_K, AF_TYPE_IQ4_XS};
    const uint32_t rows = 62; /* of 1024 blocks: the halves below infinity, of both signs */
    af_gpu *gpu = open_gpu();
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const af_format *format = af_format_of(types[i]);
        af_matrix w = random_matrix(types[i], rows, 1024 * format->block_elems);
        for (uint32_t b = 0; b < rows * 1024; b++)
            set_scale(types[i], (unsigned char *)w.data + (size_t)b * format->block_bytes,
                      (uint16_t)(b % 2 << 15 | b / 2));
        stack s = joined_of(w, &rows, 1);
        check_stack(gpu, "device", &s);
        drop(&s);
    }
    af_gpu_close(gpu);
}

static void a_row_longer_than_a_buffer_of_the_ring_is_refused(void **state) {
    static const uint32_t rows = 1;
    af_gpu *gpu = open_gpu();
    stack s = joined_of(random_matrix(AF_TYPE_F32, rows, 1u << 20), &rows, 1);
    af_gpu_weights *weights;
    const af_matrix *part = s.parts;
    const af_gpu_matrix *m;
    af_error error;
    if (af_gpu_weights_open(gpu, false, 2, &weights, &error)) fail_msg("%s", error.text);
    assert_int_equal(af_gpu_weights_add(weights, &part, 1, &m, &error), AF_EUNSUPPORTED);
    assert_non_null(strstr(error.text, "1048576 columns"));
    af_gpu_weights_close(weights);
    drop(&s);
    af_gpu_close(gpu);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_arrives_as_the_host_packs_it),
        cmocka_unit_test(stacked_matrices_arrive_as_one),
        cmocka_unit_test(a_matrix_larger_than_a_binding_arrives_in_segments),
        cmocka_unit_test(a_matrix_larger_than_the_ring_arrives_whole),
        cmocka_unit_test(every_half_float_is_a_scale),
        cmocka_unit_test(a_row_longer_than_a_buffer_of_the_ring_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

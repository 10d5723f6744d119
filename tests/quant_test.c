/* quant_test.c - the table of formats, half floats, and one hand-made block of each format. That random blocks decode
 * as elsewhere is quant_decode_test.py's business. */
#include "quant/blocks.h"
#include "quant/quant.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define ONE  0x3c00 /* half floats */
#define HALF 0x3800

static float as_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void every_format_is_found_by_its_type_and_names_itself(void **state) {
    size_t count = 0;
    for (const af_format *f; (f = af_format_at(count)) != NULL; count++) {
        assert_ptr_equal(af_format_of((uint32_t)f->type), f);
        assert_string_equal(af_type_name((uint32_t)f->type), f->name);
        assert_true(f->block_elems == 1 || f->block_elems == 32 || f->block_elems == 256);
    }
    assert_int_equal(count, 25);
}

static void types_not_read_here_have_names_but_no_format(void **state) {
    const struct {
        uint32_t type;
        const char *name;
    } cases[] = {{4, "Q4_2"}, {9, "Q8_1"},      {15, "Q8_K"},       {24, "I8"},
                 {28, "F64"}, {31, "Q4_0_4_4"}, {36, "IQ4_NL_4_4"}, {40, "NVFP4"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_null(af_format_of(cases[i].type));
        assert_string_equal(af_type_name(cases[i].type), cases[i].name);
    }
}

static void removed_types_are_told_from_those_that_are_only_not_read(void **state) {
    const uint32_t removed[] = {4, 5, 31, 32, 33, 36, 37, 38};
    size_t count = 0;
    for (uint32_t type = 0; type < 256; type++) count += af_type_removed(type);
    assert_int_equal(count, sizeof removed / sizeof *removed);
    for (size_t i = 0; i < sizeof removed / sizeof *removed; i++) assert_true(af_type_removed(removed[i]));
}

static void numbers_that_are_no_type_have_neither(void **state) {
    const uint32_t numbers[] = {42, 255, 65536, UINT32_MAX};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        assert_null(af_format_of(numbers[i]));
        assert_null(af_type_name(numbers[i]));
    }
}

static void row_bytes_are_whole_blocks(void **state) {
    assert_int_equal(af_row_bytes(af_format_of(AF_TYPE_F32), 7), 28);
    assert_int_equal(af_row_bytes(af_format_of(AF_TYPE_Q8_0), 64), 68);
    assert_int_equal(af_row_bytes(af_format_of(AF_TYPE_Q6_K), 512), 420);
}

static void halves_survive_the_way_to_f32_and_back(void **state) {
    for (uint32_t half = 0; half <= UINT16_MAX; half++) {
        float value = af_f16_to_f32((uint16_t)half);
        uint16_t back = af_f32_to_f16(value);
        if (isnan(value))
            assert_true(isnan(af_f16_to_f32(back)));
        else
            assert_int_equal(back, half);
    }
}

static void encoding_a_half_rounds_to_nearest_even(void **state) {
    const struct {
        float value;
        uint16_t half;
    } cases[] = {
        {1.0f, 0x3c00},         {-2.0f, 0xc000},           {65504.0f, 0x7bff},
        {65519.0f, 0x7bff},     {65520.0f, 0x7c00},        {-1e30f, 0xfc00},
        {INFINITY, 0x7c00},     {1.0f + 0x1p-11f, 0x3c00}, {1.0f + 0x1.8p-10f, 0x3c02},
        {0x1p-24f, 0x0001},     {0x1p-25f, 0x0000},        {0x1.000002p-25f, 0x0001},
        {0x1.8p-24f, 0x0002},   {0x1p-14f, 0x0400},        {0x1.ff8p-15f, 0x03ff},
        {0x1.ffcp-15f, 0x0400}, {0x1p-149f, 0x0000},       {-0.0f, 0x8000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(af_f32_to_f16(cases[i].value), cases[i].half);
    assert_true(isnan(af_f16_to_f32(af_f32_to_f16(NAN))));
    assert_true(isnan(af_f16_to_f32(af_f32_to_f16(as_float(0x7f800001)))));
}

/* Every f32 between two neighbouring halves goes to the nearer, checked against distances in double. */
static void encoding_a_half_picks_the_nearer_of_two(void **state) {
    for (uint32_t bits = 0x33000000; bits < 0x47800000; bits += 4099) {
        float value = as_float(bits);
        uint16_t half = af_f32_to_f16(value);
        double error = fabs((double)af_f16_to_f32(half) - value);
        if (half < 0x7bff) assert_true(error <= fabs((double)af_f16_to_f32(half + 1) - value));
        if (half > 0 && half < 0x7c00) assert_true(error <= fabs((double)af_f16_to_f32(half - 1) - value));
    }
}

static void bfloat_is_the_upper_half_of_f32(void **state) {
    assert_true(af_bf16_to_f32(0x3f80) == 1.0f);
    assert_true(af_bf16_to_f32(0xc040) == -3.0f);
    assert_true(isinf(af_bf16_to_f32(0x7f80)));
}

/* Decodes one block and compares some of its elements. */
static void expect_elements(af_type type, const void *block, size_t n, const uint32_t *at, const float *expected) {
    float out[AF_SUPERBLOCK];
    const af_format *f = af_format_of((uint32_t)type);
    f->decode(block, out, f->block_elems);
    for (size_t i = 0; i < n; i++) assert_true(out[at[i]] == expected[i]);
}

static void simple_blocks_decode_by_their_drawing(void **state) {
    const uint32_t at[] = {0, 1, 16, 31};
    af_block_q4_0 q40 = {.d = HALF, .qs = {0x9f, 0x00, [15] = 0xf0}};
    expect_elements(AF_TYPE_Q4_0, &q40, 4, at, (const float[]){3.5f, -4.0f, 0.5f, 3.5f});
    af_block_q4_1 q41 = {.d = HALF, .m = ONE, .qs = {0x9f, 0x00, [15] = 0xf0}};
    expect_elements(AF_TYPE_Q4_1, &q41, 4, at, (const float[]){8.5f, 1.0f, 5.5f, 8.5f});
    af_block_q5_0 q50 = {.d = ONE, .qh = {0x01, 0, 0, 0x80}, .qs = {0x9f, 0x00, [15] = 0xf0}};
    expect_elements(AF_TYPE_Q5_0, &q50, 4, at, (const float[]){15, -16, -7, 15});
    af_block_q5_1 q51 = {.d = ONE, .m = HALF, .qh = {0x01, 0, 0, 0x80}, .qs = {0x9f, 0x00, [15] = 0xf0}};
    expect_elements(AF_TYPE_Q5_1, &q51, 4, at, (const float[]){31.5f, 0.5f, 9.5f, 31.5f});
    af_block_q8_0 q80 = {.d = HALF, .qs = {-128, 127, [16] = 1, [31] = -1}};
    expect_elements(AF_TYPE_Q8_0, &q80, 4, at, (const float[]){-64, 63.5f, 0.5f, -0.5f});
}

static void superblocks_decode_by_their_drawing(void **state) {
    const uint32_t at[] = {0, 32, 160, 255};
    af_block_q2_k q2 = {.scales = {0x12, [2] = 0x03, [10] = 0xf0, [15] = 0x21},
                        .qs = {0x0d, [32] = 0x00, [63] = 0xc0},
                        .d = ONE,
                        .dmin = HALF};
    expect_elements(AF_TYPE_Q2_K, &q2, 4, at, (const float[]){2 * 1 - 0.5f, 3 * 3, -7.5f, 1 * 3 - 1});
    af_block_q3_k q3 = {.hmask = {0x01, [31] = 0x80},
                        .qs = {0x0d, [63] = 0xc0},
                        .scales = {0x01, 0, 0x02, [7] = 0xf0, [8] = 0xaa, [9] = 0xaa, [10] = 0xaa, [11] = 0xea},
                        .d = ONE};
    expect_elements(AF_TYPE_Q3_K, &q3, 4, at, (const float[]){1, -2, 0, 31 * 3});
    af_block_q4_k q4 = {.d = ONE,
                        .dmin = HALF,
                        .scales = {1, 0xc2, [3] = 0xc0, 2, 0x44, [7] = 0xc0, [9] = 0x35, [11] = 0xff},
                        .qs = {0x3f, [64] = 0x20, [127] = 0xf0}};
    expect_elements(AF_TYPE_Q4_K, &q4, 4, at,
                    (const float[]){15 - 1, 2 * 3 - 2, (5 + 48) * 2 - 0.5f * (3 + 16), 63 * 15 - 0.5f * 63});
    af_block_q5_k q5 = {.d = ONE,
                        .dmin = HALF,
                        .scales = {1, 0xc2, [3] = 0xc0, 2, 0x44, [7] = 0xc0, [9] = 0x35, [11] = 0xff},
                        .qh = {0x01, [31] = 0x80},
                        .qs = {0x3f, [64] = 0x20, [127] = 0xf0}};
    expect_elements(AF_TYPE_Q5_K, &q5, 4, at,
                    (const float[]){31 - 1, 2 * 3 - 2, (5 + 48) * 2 - 0.5f * (3 + 16), 63 * 31 - 0.5f * 63});
    af_block_q6_k q6 = {.ql = {0x0f, [32] = 0x01, [96] = 0x02, [127] = 0xf0},
                        .qh = {0x0d, [32] = 0x08, [63] = 0xc0},
                        .scales = {2, [2] = -1, [10] = 3, [15] = -128},
                        .d = HALF};
    expect_elements(AF_TYPE_Q6_K, &q6, 4, at,
                    (const float[]){(31 - 32) * 1.0f, -0.5f * (49 - 32), 1.5f * (34 - 32), -64.0f * 31});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_is_found_by_its_type_and_names_itself),
        cmocka_unit_test(types_not_read_here_have_names_but_no_format),
        cmocka_unit_test(removed_types_are_told_from_those_that_are_only_not_read),
        cmocka_unit_test(numbers_that_are_no_type_have_neither),
        cmocka_unit_test(row_bytes_are_whole_blocks),
        cmocka_unit_test(halves_survive_the_way_to_f32_and_back),
        cmocka_unit_test(encoding_a_half_rounds_to_nearest_even),
        cmocka_unit_test(encoding_a_half_picks_the_nearer_of_two),
        cmocka_unit_test(bfloat_is_the_upper_half_of_f32),
        cmocka_unit_test(simple_blocks_decode_by_their_drawing),
        cmocka_unit_test(superblocks_decode_by_their_drawing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* gguf_test.c - what a GGUF file says is what is read, and what is wrong with one is said in a line. */
#include "base/os.h"
#include "gguf_writer.h"
#include "temp_file.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Writes b as a file, clears it and opens the file. */
static int open_buf(af_buf *b, af_gguf **out, af_error *error) {
    const char *path = temp_write("model.gguf", b->p, b->len);
    af_buf_clear(b);
    return af_gguf_open(path, out, error);
}

static af_gguf *opened(af_buf *b) {
    af_gguf *file = NULL;
    af_error error = {0};
    if (open_buf(b, &file, &error)) fail_msg("%s", error.text);
    return file;
}

/* The buffer does not open; the message is the file's path and then `expected`. */
static void refused(af_buf *b, int code, const char *expected) {
    af_gguf *file = NULL;
    af_error error = {0};
    int status = open_buf(b, &file, &error);
    assert_int_equal(status, code);
    assert_int_equal(error.code, code);
    assert_null(file);
    const char *message = strstr(error.text, "model.gguf: ");
    assert_non_null(message);
    assert_string_equal(message + strlen("model.gguf: "), expected);
}

/* ---- What is read ---- */

static void all_scalar_types_are_read_and_widened(void **state) {
    af_buf b = {0};
    put_header(&b, 3, 0, 13);
    put_scalar(&b, "u8", AF_GGUF_U8, &(uint8_t){200}, 1);
    put_scalar(&b, "i8", AF_GGUF_I8, &(int8_t){-5}, 1);
    put_scalar(&b, "u16", AF_GGUF_U16, &(uint16_t){60000}, 2);
    put_scalar(&b, "i16", AF_GGUF_I16, &(int16_t){-300}, 2);
    put_kv_u32(&b, "u32", 4000000000u);
    put_scalar(&b, "i32", AF_GGUF_I32, &(int32_t){-70000}, 4);
    put_scalar(&b, "u64", AF_GGUF_U64, &(uint64_t){UINT64_MAX}, 8);
    put_scalar(&b, "i64", AF_GGUF_I64, &(int64_t){INT64_MIN}, 8);
    put_scalar(&b, "f32", AF_GGUF_F32, &(float){1.5f}, 4);
    put_scalar(&b, "f64", AF_GGUF_F64, &(double){1e300}, 8);
    put_scalar(&b, "bool", AF_GGUF_BOOL, &(uint8_t){1}, 1);
    put_kv_string(&b, "string", "text");
    put_scalar(&b, "i32+", AF_GGUF_I32, &(int32_t){70000}, 4);
    af_gguf *f = opened(&b);
    uint32_t u32 = 7;
    uint64_t u64 = 7;
    int64_t i64 = 7;
    float f32 = 7;
    bool flag = false;
    af_slice text;
    assert_true(af_gguf_u32(f, "u8", &u32) && u32 == 200);
    assert_true(af_gguf_i64(f, "i8", &i64) && i64 == -5);
    assert_true(af_gguf_u64(f, "u16", &u64) && u64 == 60000);
    assert_true(af_gguf_i64(f, "i16", &i64) && i64 == -300);
    assert_true(af_gguf_i64(f, "u32", &i64) && i64 == 4000000000);
    assert_true(af_gguf_i64(f, "i32", &i64) && i64 == -70000);
    assert_true(af_gguf_u64(f, "u64", &u64) && u64 == UINT64_MAX);
    assert_true(af_gguf_i64(f, "i64", &i64) && i64 == INT64_MIN);
    assert_true(af_gguf_f32(f, "f32", &f32) && f32 == 1.5f);
    assert_true(af_gguf_f32(f, "i16", &f32) && f32 == -300);
    assert_true(af_gguf_bool(f, "bool", &flag) && flag);
    assert_true(af_gguf_string(f, "string", &text) && af_slice_is(text, "text"));
    assert_true(af_gguf_u32(f, "i32+", &u32) && u32 == 70000);
    af_gguf_close(f);
}

static void a_value_that_does_not_fit_leaves_the_default(void **state) {
    af_buf b = {0};
    put_header(&b, 3, 0, 5);
    put_scalar(&b, "negative", AF_GGUF_I32, &(int32_t){-1}, 4);
    put_scalar(&b, "large", AF_GGUF_U64, &(uint64_t){UINT64_MAX}, 8);
    put_scalar(&b, "huge", AF_GGUF_F64, &(double){1e300}, 8);
    put_scalar(&b, "bool", AF_GGUF_BOOL, &(uint8_t){1}, 1);
    put_kv_string(&b, "string", "1");
    af_gguf *f = opened(&b);
    uint32_t u32 = 7;
    uint64_t u64 = 7;
    int64_t i64 = 7;
    float f32 = 7;
    bool flag = false;
    af_slice text = {0};
    assert_false(af_gguf_u64(f, "negative", &u64) || af_gguf_u32(f, "negative", &u32) || af_gguf_u32(f, "large", &u32));
    assert_false(af_gguf_i64(f, "large", &i64) || af_gguf_f32(f, "huge", &f32) || af_gguf_u32(f, "bool", &u32));
    assert_false(af_gguf_u32(f, "string", &u32) || af_gguf_bool(f, "large", &flag) || af_gguf_string(f, "bool", &text));
    assert_false(af_gguf_u32(f, "absent", &u32) || af_gguf_has(f, "absent"));
    assert_true(af_gguf_has(f, "negative"));
    assert_null(af_gguf_get_array(f, "string"));
    assert_true(u32 == 7 && u64 == 7 && i64 == 7 && f32 == 7 && !flag && !text.p);
    af_gguf_close(f);
}

static void arrays_are_read_element_by_element(void **state) {
    af_buf b = {0};
    put_header(&b, 2, 0, 4);
    put_kv_array(&b, "words", AF_GGUF_STRING, 3);
    put_string(&b, "one");
    put_string(&b, "");
    put_string(&b, "three");
    put_kv_array(&b, "numbers", AF_GGUF_I16, 2);
    af_buf_append(&b, (int16_t[]){-2, 300}, 4);
    put_kv_array(&b, "floats", AF_GGUF_F32, 2);
    af_buf_append(&b, (float[]){0.5f, -1.0f}, 8);
    put_kv_array(&b, "none", AF_GGUF_STRING, 0);
    af_gguf *f = opened(&b);
    assert_int_equal(af_gguf_version(f), 2);
    const af_gguf_array *words = af_gguf_get_array(f, "words"), *numbers = af_gguf_get_array(f, "numbers");
    const af_gguf_array *floats = af_gguf_get_array(f, "floats");
    af_slice s;
    int64_t i;
    double d;
    assert_int_equal(af_gguf_array_type(words), AF_GGUF_STRING);
    assert_int_equal(af_gguf_array_count(words), 3);
    assert_true(af_gguf_array_string(words, 0, &s) && af_slice_is(s, "one"));
    assert_true(af_gguf_array_string(words, 1, &s) && af_slice_is(s, ""));
    assert_true(af_gguf_array_string(words, 2, &s) && af_slice_is(s, "three"));
    assert_false(af_gguf_array_string(words, 3, &s) || af_gguf_array_i64(words, 0, &i));
    assert_true(af_gguf_array_i64(numbers, 0, &i) && i == -2);
    assert_true(af_gguf_array_f64(numbers, 1, &d) && d == 300);
    assert_false(af_gguf_array_i64(numbers, 2, &i) || af_gguf_array_string(numbers, 0, &s));
    assert_true(af_gguf_array_f64(floats, 1, &d) && d == -1);
    assert_false(af_gguf_array_i64(floats, 1, &i));
    assert_int_equal(af_gguf_array_count(af_gguf_get_array(f, "none")), 0);
    af_gguf_close(f);
}

static void tensors_lie_where_their_offsets_say(void **state) {
    af_buf b = {0};
    put_header(&b, 3, 3, 1);
    put_kv_u32(&b, "general.alignment", 64);
    put_tensor(&b, "late", AF_TYPE_Q8_0, 64, 2, 128); /* 136 bytes; listed before one that lies before it */
    put_tensor(&b, "early", AF_TYPE_F32, 8, 0, 0);
    put_tensor(&b, "half", AF_TYPE_F16, 3, 5, 64);
    put_data(&b, 64, 128 + 136);
    size_t data = b.len - (128 + 136), bytes = b.len;
    af_gguf *f = opened(&b);
    assert_int_equal(af_gguf_tensor_count(f), 3);
    assert_int_equal(af_gguf_file_bytes(f), bytes);
    assert_int_equal(data % 64, 0);
    const af_tensor *late = af_gguf_tensor(f, "late"), *half = af_gguf_tensor(f, "half");
    assert_ptr_equal(late, af_gguf_tensor_at(f, 0));
    assert_true(af_slice_is(late->name, "late"));
    assert_int_equal(late->n_dims, 2);
    assert_true(late->dims[0] == 64 && late->dims[1] == 2 && late->dims[2] == 1 && late->dims[3] == 1);
    assert_int_equal(late->elements, 128);
    assert_int_equal(late->bytes, 136);
    assert_int_equal(late->data[0], 0); /* data bytes count up to 127 and begin again */
    assert_int_equal(late->data[135], 135 & 7);
    assert_int_equal(half->data[0], 64);
    assert_int_equal(half->bytes, 30);
    assert_null(af_gguf_tensor(f, "absent"));
    assert_null(af_gguf_tensor_at(f, 3));
    af_gguf_close(f);
}

static void a_file_may_have_nothing_in_it(void **state) {
    af_buf b = {0};
    put_header(&b, 3, 0, 0);
    af_gguf *f = opened(&b);
    assert_int_equal(af_gguf_kv_count(f) + af_gguf_tensor_count(f), 0);
    assert_int_equal(af_gguf_shards(f), 1);
    af_gguf_close(f);
    af_gguf_close(NULL);
}

static void values_are_shown_short_and_printable(void **state) {
    af_buf b = {0}, text = {0};
    put_header(&b, 3, 0, 5);
    put_kv_string(&b, "template",
                  "line\n\x1b[2J and then so much more text that nobody would want to see it all at once");
    put_kv_array(&b, "many", AF_GGUF_U8, 7);
    af_buf_append(&b, "\1\2\3\4\5\6\7", 7);
    put_kv_array(&b, "nested", AF_GGUF_ARRAY, 1);
    put_u32(&b, AF_GGUF_STRING);
    put_u64(&b, 1);
    put_string(&b, "inner");
    put_scalar(&b, "on", AF_GGUF_BOOL, &(uint8_t){1}, 1);
    put_scalar(&b, "eps", AF_GGUF_F32, &(float){0.25f}, 4);
    af_gguf *f = opened(&b);
    for (size_t i = 0; i <= af_gguf_kv_count(f); i++) {
        af_slice key = af_gguf_key_at(f, i);
        af_buf_append(&text, key.p, key.n);
        af_buf_byte(&text, ' ');
        af_gguf_value_text(f, i, &text);
        af_buf_byte(&text, '\n');
    }
    assert_string_equal(text.p,
                        "template \"line\\n\\x1b[2J and then so much more text that nobody would want to see it "
                        "al\"...\nmany [1, 2, 3, 4, 5, ... 7 in all]\nnested [[...]]\non true\neps 0.25\n \n");
    af_buf_clear(&text);
    af_gguf_close(f);
}

/* ---- What is refused ---- */

static void other_files_are_refused_by_their_beginning(void **state) {
    af_buf b = {0};
    af_buf_text(&b, "PK\x03\x04 something");
    refused(&b, AF_EFORMAT, "is not a GGUF file: begins with \"PK\\x03\\x04\", expected \"GGUF\"");
    af_buf_text(&b, "GG");
    refused(&b, AF_EFORMAT, "is not a GGUF file: begins with \"GG\", expected \"GGUF\"");
    af_buf_text(&b, "GGUF");
    refused(&b, AF_EFORMAT, "the version takes 4 bytes at byte 4, but the file ends after 0 more");
}

static void other_versions_are_refused(void **state) {
    af_buf b = {0};
    put_header(&b, 1, 0, 0);
    refused(&b, AF_EUNSUPPORTED, "GGUF version 1, allowed 2 and 3");
    put_header(&b, 4, 0, 0);
    refused(&b, AF_EUNSUPPORTED, "GGUF version 4, allowed 2 and 3");
    put_header(&b, 0x03000000, 0, 0);
    refused(&b, AF_EUNSUPPORTED, "is a big-endian GGUF file; only little-endian ones are read");
}

static void counts_are_bounded_by_the_bytes_left(void **state) {
    af_buf b = {0};
    put_header(&b, 3, 0, UINT64_MAX);
    refused(&b, AF_EFORMAT, "18446744073709551615 metadata keys, but there is room for 0");
    put_header(&b, 3, UINT64_MAX, 0);
    refused(&b, AF_EFORMAT, "18446744073709551615 tensors, but there is room for 0");
    put_header(&b, 3, 0, 1);
    put_kv_array(&b, "a", AF_GGUF_U64, (uint64_t)1 << 61); /* eight times that wraps to 0 */
    refused(&b, AF_EFORMAT, "key a: an array of 2305843009213693952 elements, but the file has room for 0");
    put_header(&b, 3, 0, 1);
    put_kv_array(&b, "a", AF_GGUF_STRING, 3);
    af_buf_fill(&b, 0, 16);
    refused(&b, AF_EFORMAT, "key a: an array of 3 elements, but the file has room for 2");
}

static void lengths_that_pass_the_end_are_refused(void **state) {
    af_buf b = {0};
    put_header(&b, 3, 0, 1);
    put_key(&b, "general.name", AF_GGUF_STRING);
    put_u64(&b, UINT64_MAX - 7);
    refused(&b, AF_EFORMAT,
            "key general.name: its string takes 18446744073709551608 bytes at byte 56, but the file ends after 0 more");
    put_header(&b, 3, 0, 1);
    put_u64(&b, 1000);
    af_buf_fill(&b, 'k', 20);
    refused(&b, AF_EFORMAT, "key 1 of 1: its name takes 1000 bytes at byte 32, but the file ends after 20 more");
    put_header(&b, 3, 0, 1);
    put_key(&b, "", AF_GGUF_U8);
    af_buf_fill(&b, 0, 8);
    refused(&b, AF_EFORMAT, "key 1 of 1: its name has 0 bytes, allowed 1 to 65535");
}

static void types_of_values_are_checked(void **state) {
    af_buf b = {0};
    put_header(&b, 3, 0, 1);
    put_scalar(&b, "k", 13, "\0\0", 2);
    refused(&b, AF_EFORMAT, "key k: value type 13, allowed 0 to 12");
    put_header(&b, 3, 0, 1);
    put_kv_array(&b, "k", 99, 0);
    refused(&b, AF_EFORMAT, "key k: array element type 99, allowed 0 to 12");
    put_header(&b, 3, 0, 1);
    put_scalar(&b, "k", AF_GGUF_BOOL, "\2", 1);
    refused(&b, AF_EFORMAT, "key k: a bool of 2, allowed 0 and 1");
}

static void arrays_nest_four_deep_and_no_deeper(void **state) {
    for (int depth = 4; depth <= 5; depth++) {
        af_buf b = {0};
        put_header(&b, 3, 0, 1);
        put_kv_array(&b, "deep", depth > 1 ? AF_GGUF_ARRAY : AF_GGUF_U8, 1);
        for (int i = 2; i <= depth; i++) {
            put_u32(&b, i < depth ? AF_GGUF_ARRAY : AF_GGUF_U8);
            put_u64(&b, 1);
        }
        af_buf_byte(&b, 1);
        if (depth == 4)
            af_gguf_close(opened(&b));
        else
            refused(&b, AF_EFORMAT, "key deep: arrays nested more than 4 deep");
    }
}

static void names_are_unique(void **state) {
    af_buf b = {0};
    put_header(&b, 3, 0, 2);
    put_kv_u32(&b, "k", 1);
    put_kv_u32(&b, "k", 2);
    refused(&b, AF_EFORMAT, "key k: is there twice");
    put_header(&b, 3, 2, 0);
    put_tensor(&b, "t", AF_TYPE_F32, 8, 0, 0);
    put_tensor(&b, "t", AF_TYPE_F32, 8, 0, 32);
    put_data(&b, 32, 64);
    refused(&b, AF_EFORMAT, "tensor t: is there twice");
}

static void alignments_are_bounded_powers_of_two(void **state) {
    const uint32_t wrong[] = {0, 1, 4, 33, 48, 1u << 21, 1u << 31};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        af_buf b = {0};
        char expected[128];
        put_header(&b, 3, 0, 1);
        put_kv_u32(&b, "general.alignment", wrong[i]);
        snprintf(expected, sizeof expected, "key general.alignment: %u, allowed a power of two from 8 to 1048576",
                 wrong[i]);
        refused(&b, AF_EFORMAT, expected);
    }
    af_buf b = {0};
    put_header(&b, 3, 0, 1);
    put_kv_string(&b, "general.alignment", "32");
    refused(&b, AF_EFORMAT, "key general.alignment: is not a positive integer");
    put_header(&b, 3, 0, 1);
    put_kv_u32(&b, "general.alignment", 1 << 20); /* the data would begin past the end, but there is none */
    af_gguf_close(opened(&b));
}

/* A file with the one tensor that the arguments describe, and 256 bytes of data. */
static af_buf one_tensor(uint32_t type, uint64_t cols, uint64_t rows, uint64_t offset) {
    af_buf b = {0};
    put_header(&b, 3, 1, 0);
    put_tensor(&b, "blk.0.w", type, cols, rows, offset);
    put_data(&b, 32, 256);
    return b;
}

static void types_of_tensors_are_named_where_they_have_a_name(void **state) {
    af_buf b = one_tensor(40, 256, 1, 0);
    refused(&b, AF_EUNSUPPORTED, "tensor blk.0.w: type NVFP4 (40) is not one this build reads");
    b = one_tensor(4, 32, 1, 0);
    refused(&b, AF_EUNSUPPORTED,
            "tensor blk.0.w: type Q4_2 (4) has been removed from the format; convert the model again");
    b = one_tensor(38, 32, 1, 0);
    refused(&b, AF_EUNSUPPORTED,
            "tensor blk.0.w: type IQ4_NL_8_8 (38) has been removed from the format; convert the model again");
    b = one_tensor(777, 32, 1, 0);
    refused(&b, AF_EFORMAT, "tensor blk.0.w: type 777 is not known");
}

static void a_row_that_is_not_whole_blocks_is_refused_in_every_format(void **state) {
    for (size_t i = 0; af_format_at(i); i++) {
        const af_format *f = af_format_at(i);
        char line[128];
        if (f->block_elems == 1) continue;
        af_buf b = one_tensor((uint32_t)f->type, f->block_elems + f->block_elems / 2, 1, 0);
        snprintf(line, sizeof line, "tensor blk.0.w: rows of %u elements, but %s has blocks of %u",
                 f->block_elems + f->block_elems / 2, f->name, f->block_elems);
        refused(&b, AF_EFORMAT, line);
    }
}

static void shapes_of_tensors_are_checked(void **state) {
    af_buf b = one_tensor(AF_TYPE_F32, 8, UINT64_MAX / 4, 0);
    refused(&b, AF_EFORMAT,
            "tensor blk.0.w: its dimensions multiply to more than 2^63 elements (dimension 1 is "
            "4611686018427387903)");
    b = one_tensor(AF_TYPE_F32, 8, (uint64_t)1 << 59, 0);
    refused(&b, AF_EFORMAT, "tensor blk.0.w: 4611686018427387904 elements of F32 are more than 2^63 bytes");
    b = one_tensor(AF_TYPE_F32, 0, 0, 0);
    refused(&b, AF_EFORMAT, "tensor blk.0.w: dimension 0 is 0, allowed 1 and more");
    b = one_tensor(AF_TYPE_Q4_K, 128, 2, 0);
    refused(&b, AF_EFORMAT, "tensor blk.0.w: rows of 128 elements, but Q4_K has blocks of 256");
    const uint32_t counts[] = {0, 5, UINT32_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        char expected[128];
        put_header(&b, 3, 1, 0);
        put_string(&b, "t");
        put_u32(&b, counts[i]);
        af_buf_fill(&b, 1, 64);
        snprintf(expected, sizeof expected, "tensor t: %u dimensions, allowed 1 to 4", counts[i]);
        refused(&b, AF_EFORMAT, expected);
    }
}

static void places_of_tensors_are_checked(void **state) {
    af_buf b = one_tensor(AF_TYPE_F32, 64, 0, 16);
    refused(&b, AF_EFORMAT, "tensor blk.0.w: offset 16, allowed multiples of the alignment 32");
    b = one_tensor(AF_TYPE_F32, 64, 0, 32);
    refused(&b, AF_EFORMAT,
            "tensor blk.0.w: offset 32 and 256 bytes, but the file has 256 bytes of tensor data (cut short?)");
    b = one_tensor(AF_TYPE_F32, 64, 0, UINT64_MAX - 31); /* offset and size wrap */
    refused(&b, AF_EFORMAT,
            "tensor blk.0.w: offset 18446744073709551584 and 256 bytes, but the file has 256 bytes of "
            "tensor data (cut short?)");
    put_header(&b, 3, 2, 0);
    put_tensor(&b, "b", AF_TYPE_F32, 8, 0, 32);
    put_tensor(&b, "a", AF_TYPE_F32, 9, 0, 0);
    put_data(&b, 32, 64);
    refused(&b, AF_EFORMAT, "tensor a: overlaps tensor b: ends at offset 36, which begins at 32");
}

/* ---- Splits ---- */

static const char *put_shard(uint32_t no, uint32_t count, uint32_t file_no, uint32_t file_count, uint64_t total) {
    af_buf b = {0};
    char file[64], tensor[16];
    put_header(&b, 3, 1, 4);
    put_scalar(&b, "split.no", AF_GGUF_U16, &no, 2);
    put_scalar(&b, "split.count", AF_GGUF_U16, &count, 2);
    put_scalar(&b, "split.tensors.count", AF_GGUF_I32, &total, 4);
    put_kv_u32(&b, "which", no);
    snprintf(tensor, sizeof tensor, "t%u", no);
    put_tensor(&b, tensor, AF_TYPE_F32, 8, 0, 0);
    put_data(&b, 32, 32);
    b.p[b.len - 32] = (char)no;
    snprintf(file, sizeof file, "set-%05u-of-%05u.gguf", file_no, file_count);
    const char *path = temp_write(file, b.p, b.len);
    af_buf_clear(&b);
    return path;
}

static void any_shard_opens_the_set(void **state) {
    const char *paths[3];
    for (uint32_t i = 0; i < 3; i++) paths[i] = put_shard(i, 3, i + 1, 3, 3);
    for (int i = 0; i < 3; i++) {
        af_gguf *f;
        uint32_t which = 9;
        assert_int_equal(af_gguf_open(paths[i], &f, NULL), 0);
        assert_int_equal(af_gguf_shards(f), 3);
        assert_int_equal(af_gguf_tensor_count(f), 3);
        assert_string_equal(af_gguf_path(f), paths[0]);
        assert_true(af_gguf_u32(f, "which", &which) && which == 0);
        assert_int_equal(af_gguf_tensor(f, "t2")->data[0], 2);
        assert_int_equal(af_gguf_file_bytes(f), 3 * af_os_stat(paths[0]).size);
        af_gguf_close(f);
    }
}

static void expect_split_error(const char *path, int code, const char *expected) {
    af_gguf *f = NULL;
    af_error error = {0};
    assert_int_equal(af_gguf_open(path, &f, &error), code);
    if (!strstr(error.text, expected)) fail_msg("\"%s\" does not contain \"%s\"", error.text, expected);
}

static void a_missing_shard_is_named(void **state) {
    const char *first = put_shard(0, 3, 1, 3, 3);
    put_shard(2, 3, 3, 3, 3);
    unlink(temp_path("set-00002-of-00003.gguf"));
    expect_split_error(first, AF_EIO, "set-00002-of-00003.gguf: is missing: shard 2 of the 3 that ");
}

static void shards_that_contradict_each_other_are_refused(void **state) {
    const char *first = put_shard(0, 2, 1, 2, 2);
    put_shard(0, 2, 2, 2, 2);
    expect_split_error(first, AF_EFORMAT, "set-00002-of-00002.gguf: says it is shard 1 of 2, expected 2 of 2");
    put_shard(1, 3, 2, 2, 2);
    expect_split_error(first, AF_EFORMAT, "says it is shard 2 of 3, expected 2 of 2");
    put_shard(1, 2, 2, 2, 2);
    expect_split_error(put_shard(0, 2, 1, 2, 5), AF_EFORMAT,
                       "split.tensors.count: does not state the 2 tensors of the 2 shards");
}

static void a_shard_with_another_name_is_refused(void **state) {
    expect_split_error(put_shard(0, 2, 7, 9, 2), AF_EFORMAT,
                       "is shard 1 of 2, so its name must end in \"-00001-of-00002.gguf\"");
    expect_split_error(put_shard(4, 2, 1, 2, 2), AF_EFORMAT,
                       "key split.no: is not an integer below split.count, which is 2");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_scalar_types_are_read_and_widened),
        cmocka_unit_test(a_value_that_does_not_fit_leaves_the_default),
        cmocka_unit_test(arrays_are_read_element_by_element),
        cmocka_unit_test(tensors_lie_where_their_offsets_say),
        cmocka_unit_test(a_file_may_have_nothing_in_it),
        cmocka_unit_test(values_are_shown_short_and_printable),
        cmocka_unit_test(other_files_are_refused_by_their_beginning),
        cmocka_unit_test(other_versions_are_refused),
        cmocka_unit_test(counts_are_bounded_by_the_bytes_left),
        cmocka_unit_test(lengths_that_pass_the_end_are_refused),
        cmocka_unit_test(types_of_values_are_checked),
        cmocka_unit_test(arrays_nest_four_deep_and_no_deeper),
        cmocka_unit_test(names_are_unique),
        cmocka_unit_test(alignments_are_bounded_powers_of_two),
        cmocka_unit_test(types_of_tensors_are_named_where_they_have_a_name),
        cmocka_unit_test(a_row_that_is_not_whole_blocks_is_refused_in_every_format),
        cmocka_unit_test(shapes_of_tensors_are_checked),
        cmocka_unit_test(places_of_tensors_are_checked),
        cmocka_unit_test(any_shard_opens_the_set),
        cmocka_unit_test(a_missing_shard_is_named),
        cmocka_unit_test(shards_that_contradict_each_other_are_refused),
        cmocka_unit_test(a_shard_with_another_name_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* gguf_damage_test.c - a damaged file gives one line or opens as something consistent; it never crashes and never
 * hangs.
 *
 * A small file with every kind of value and several formats is damaged in every way that fits on a page: cut at each
 * byte, each bit of its header flipped, each place overwritten with sizes that wrap and with numbers that are no type,
 * and random bytes. What opens all the same is read from end to end and checked against gguf.h's invariants.
 */
#include "base/os.h"
#include "gguf/gguf_internal.h"
#include "gguf_writer.h"
#include "temp_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#define SECONDS_MAX 240

static void put_metadata(af_buf *b) {
    const unsigned char eight[8] = {1};
    put_kv_string(b, "general.architecture", "llama");
    put_kv_u32(b, "general.alignment", 32);
    for (uint32_t type = 0; type <= AF_GGUF_F64; type++) {
        char key[16];
        snprintf(key, sizeof key, "k%u", type);
        if (gguf_scalar_bytes(type)) put_scalar(b, key, type, eight, gguf_scalar_bytes(type));
    }
    put_kv_array(b, "tokens", AF_GGUF_STRING, 3);
    put_string(b, "<s>");
    put_string(b, "");
    put_string(b, "\xe2\x96\x81the");
    put_kv_array(b, "scores", AF_GGUF_F32, 3);
    af_buf_fill(b, 0, 12);
    put_kv_array(b, "nested", AF_GGUF_ARRAY, 2);
    put_u32(b, AF_GGUF_U8);
    put_u64(b, 2);
    af_buf_fill(b, 1, 2);
    put_u32(b, AF_GGUF_STRING);
    put_u64(b, 1);
    put_string(b, "inner");
    put_scalar(b, "split.count", AF_GGUF_U16, "\1", 2); /* damage makes it a set whose shards are missing */
}

/* The whole file; *header is where its list of tensors ends. */
static af_buf sound_file(size_t *header) {
    af_buf b = {0};
    put_header(&b, 3, 4, 2 + 11 + 4);
    put_metadata(&b);
    put_tensor(&b, "token_embd.weight", AF_TYPE_Q8_0, 64, 4, 0);      /* 272 bytes */
    put_tensor(&b, "blk.0.attn_q.weight", AF_TYPE_Q4_K, 256, 2, 288); /* 288 */
    put_tensor(&b, "output_norm.weight", AF_TYPE_F32, 64, 0, 576);    /* 256 */
    put_tensor(&b, "blk.0.ffn_up.weight", AF_TYPE_F16, 8, 8, 832);    /* 128 */
    *header = b.len;
    put_data(&b, 32, 960);
    return b;
}

/* ---- Checking what opened ---- */

static bool inside(const gguf_shard *s, const void *p, uint64_t n) {
    uintptr_t at = (uintptr_t)p, start = (uintptr_t)s->map.p;
    return at >= start && n <= s->map.size && at - start <= s->map.size - n;
}

static void check_tensors(const af_gguf *f) {
    for (size_t i = 0; i < af_gguf_tensor_count(f); i++) {
        const af_tensor *t = af_gguf_tensor_at(f, i);
        assert_true(inside(&f->shards[0], t->data, t->bytes) && inside(&f->shards[0], t->name.p, t->name.n));
        uint64_t elements = 1;
        for (int d = 0; d < 4; d++) assert_false(__builtin_mul_overflow(elements, t->dims[d], &elements));
        assert_int_equal(elements, t->elements);
        assert_int_equal(t->bytes, af_row_bytes(t->format, t->elements));
        assert_int_equal(t->dims[0] % t->format->block_elems, 0);
        for (size_t j = 0; j < i; j++) {
            const af_tensor *u = af_gguf_tensor_at(f, j);
            assert_true(t->data + t->bytes <= u->data || u->data + u->bytes <= t->data);
            assert_false(af_slice_equal(t->name, u->name));
        }
    }
}

static void check_array(const gguf_shard *s, const af_gguf_array *array) {
    af_slice text;
    double number;
    for (size_t i = 0; i < array->count; i++)
        if (af_gguf_array_string(array, i, &text))
            assert_true(inside(s, text.p, text.n));
        else
            af_gguf_array_f64(array, i, &number);
    assert_true(inside(s, array->p, array->count * gguf_scalar_bytes((uint32_t)array->type)));
}

static void check_metadata(const af_gguf *f) {
    af_buf text = {0};
    for (size_t i = 0; i < af_gguf_kv_count(f); i++) {
        const gguf_entry *e = &f->shards[0].entries[i];
        assert_true(inside(&f->shards[0], e->key.p, e->key.n));
        if (e->type == AF_GGUF_STRING) assert_true(inside(&f->shards[0], e->string.p, e->string.n));
        if (e->type == AF_GGUF_ARRAY) check_array(&f->shards[0], e->array);
        af_gguf_value_text(f, i, &text);
    }
    assert_false(text.failed);
    af_buf_clear(&text);
}

static void check_message(const af_error *error, int status) {
    assert_int_equal(error->code, status);
    assert_true(status == AF_EFORMAT || status == AF_EUNSUPPORTED || status == AF_EIO);
    assert_non_null(strstr(error->text, "damaged.gguf: "));
    assert_null(strchr(error->text, '\n'));
}

/* Returns true if the bytes open. */
static bool survives(const void *bytes, size_t n) {
    af_gguf *f = NULL;
    af_error error = {0};
    int status = af_gguf_open(temp_write("damaged.gguf", bytes, n), &f, &error);
    if (status) {
        check_message(&error, status);
        return false;
    }
    check_tensors(f);
    check_metadata(f);
    af_gguf_close(f);
    return true;
}

/* ---- The kinds of damage ---- */

static void the_file_without_damage_opens(void **state) {
    size_t header;
    af_buf b = sound_file(&header);
    assert_true(survives(b.p, b.len));
    af_buf_clear(&b);
}

static void every_truncation_is_refused(void **state) {
    size_t header;
    af_buf b = sound_file(&header);
    for (size_t n = 0; n < b.len; n += n < header ? 1 : 64) assert_false(survives(b.p, n));
    assert_false(survives(b.p, b.len - 1));
    af_buf_clear(&b);
}

/* Writes `n` bytes over every place of the header in turn. */
static void overwrite_everywhere(const void *bytes, size_t n) {
    size_t header;
    af_buf b = sound_file(&header);
    char saved[8];
    for (size_t at = 0; at + n <= header; at++) {
        memcpy(saved, b.p + at, n);
        memcpy(b.p + at, bytes, n);
        survives(b.p, b.len);
        memcpy(b.p + at, saved, n);
    }
    af_buf_clear(&b);
}

static void sizes_that_wrap_are_survived_everywhere(void **state) {
    const uint64_t sizes[] = {UINT64_MAX,
                              UINT64_MAX - 7,
                              (uint64_t)INT64_MAX + 1,
                              INT64_MAX,
                              (uint64_t)1 << 62,
                              (uint64_t)1 << 61,
                              (uint64_t)1 << 32,
                              UINT32_MAX,
                              1 << 20,
                              0};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) overwrite_everywhere(&sizes[i], sizeof sizes[i]);
}

static void numbers_that_are_other_types_are_survived_everywhere(void **state) {
    for (uint32_t type = 0; type <= 40; type++) overwrite_everywhere(&type, sizeof type);
    const uint32_t numbers[] = {255, 65536, INT32_MAX, UINT32_MAX};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) overwrite_everywhere(&numbers[i], sizeof numbers[i]);
}

static void every_flipped_bit_of_the_header_is_survived(void **state) {
    size_t header;
    af_buf b = sound_file(&header);
    for (size_t bit = 0; bit < header * 8; bit++) {
        b.p[bit / 8] = (char)(b.p[bit / 8] ^ 1 << bit % 8);
        survives(b.p, b.len);
        b.p[bit / 8] = (char)(b.p[bit / 8] ^ 1 << bit % 8);
    }
    af_buf_clear(&b);
}

/* xorshift64, so that a failure can be repeated. */
static uint64_t random_next(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static void random_bytes_in_several_places_are_survived(void **state) {
    size_t header;
    af_buf sound = sound_file(&header), b = {0};
    uint64_t seed = 20240229;
    for (int round = 0; round < 5000; round++) {
        b.len = 0;
        af_buf_append(&b, sound.p, sound.len);
        for (uint64_t i = random_next(&seed) % 6 + 1; i > 0; i--)
            b.p[random_next(&seed) % header] = (char)(random_next(&seed) >> 32);
        survives(b.p, b.len);
    }
    af_buf_clear(&b);
    af_buf_clear(&sound);
}

/* A few hundred bytes must not make the opener hold much memory or take long, whatever they claim. */
static void a_small_file_costs_little_whatever_it_claims(void **state) {
    uint64_t before = af_os_memory_resident(), start = af_os_nanoseconds();
    af_buf b = {0};
    for (uint64_t count = 1; count; count <<= 1) {
        b.len = 0;
        put_header(&b, 3, count, count);
        put_kv_array(&b, "a", AF_GGUF_ARRAY, count);
        for (int i = 0; i < 40; i++) {
            put_u32(&b, AF_GGUF_ARRAY);
            put_u64(&b, count);
        }
        survives(b.p, b.len);
    }
    af_buf_clear(&b);
    assert_true(af_os_memory_resident() < before + (32 << 20));
    assert_true(af_os_nanoseconds() - start < 5000000000);
}

static void arrays_nested_as_deep_as_a_large_file_allows_are_refused(void **state) {
    af_buf b = {0};
    put_header(&b, 3, 0, 1);
    put_kv_array(&b, "a", AF_GGUF_ARRAY, 1);
    for (int i = 0; i < 400000; i++) {
        put_u32(&b, AF_GGUF_ARRAY);
        put_u64(&b, 1);
    }
    assert_false(survives(b.p, b.len));
    af_buf_clear(&b);
}

int main(void) {
    alarm(SECONDS_MAX); /* a hang ends as a failure */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_without_damage_opens),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(sizes_that_wrap_are_survived_everywhere),
        cmocka_unit_test(numbers_that_are_other_types_are_survived_everywhere),
        cmocka_unit_test(every_flipped_bit_of_the_header_is_survived),
        cmocka_unit_test(random_bytes_in_several_places_are_survived),
        cmocka_unit_test(a_small_file_costs_little_whatever_it_claims),
        cmocka_unit_test(arrays_nested_as_deep_as_a_large_file_allows_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

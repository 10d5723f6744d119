/* detok_test.c - generated ids become whole characters, and bad bytes what Python's errors="replace" makes of them. */
#include "base/utf8.h"
#include "vocab_writer.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define R "\xEF\xBF\xBD"

/* One token a byte, and two of several bytes that cut characters apart. */
static int open_bytes(void **state) {
    static opened_vocab o;
    static const written_token more[] = {
        {"<|end|>", AF_TOKEN_CONTROL, 0},                                  /* 256 */
        {"\xC3\xA2\xC4\xA4", AF_TOKEN_NORMAL, 0},                          /* 257: "âĤ", bytes E2 82 */
        {"\xC2\xAC\xC3\xB0\xC5\x81", AF_TOKEN_NORMAL, 0},                  /* 258: "¬ðŁ", bytes AC F0 9F */
        {"\xC4\xBB\xC4\xA4!\xC3\xB0\xC5\x81\xC4\xBB", AF_TOKEN_NORMAL, 0}, /* 259: bytes 99 82 21 F0 9F 99 */
        {"\xC4\xA0hi", AF_TOKEN_NORMAL, 0},                                /* 260: " hi" */
    };
    vocab_writer w = {0};
    write_bpe(&w, "gpt-2", more, 5, NULL, 0);
    o = open_vocab(&w);
    *state = &o;
    return o.status;
}

static int close_bytes(void **state) {
    close_vocab(*state);
    return 0;
}

static const af_tokenizer *tokenizer(void **state) {
    return ((opened_vocab *)*state)->tok;
}

static void gives(const af_tokenizer *tok, const char *bytes, size_t n, const char *expected) {
    af_detok d;
    af_buf out = {0};
    af_detok_start(&d, tok);
    for (size_t i = 0; i < n; i++) {
        assert_true(af_detok_push(&d, (unsigned char)bytes[i], &out));
        if (out.len) assert_true(af_utf8_valid(out.p, out.len));
    }
    assert_true(af_detok_finish(&d, &out));
    assert_string_equal(out.p ? out.p : "", expected);
    af_buf_clear(&out);
}

#define GIVES(bytes, expected) gives(tok, bytes, sizeof bytes - 1, expected)

/* Expected values: Python 3, bytes.decode(errors="replace"). */
static void bad_bytes_become_replacement_characters_as_in_python(void **state) {
    const af_tokenizer *tok = tokenizer(state);
    GIVES("", "");
    GIVES("plain", "plain");
    GIVES("\xE2\x82\xAC", "\xE2\x82\xAC");
    GIVES("\xE2\x82", R);
    GIVES("\xE2\x82x", R "x");
    GIVES("\xE2\xE2\x82\xAC", R "\xE2\x82\xAC");
    GIVES("\xF0\x9F\x99", R);
    GIVES("\xF0\x9F\x99\xF0", R R);
    GIVES("\xC0\x80", R R);
    GIVES("\xE0\x80\x80", R R R);
    GIVES("\xED\xA0\x80", R R R);
    GIVES("\xF4\x90\x80\x80", R R R R);
    GIVES("\xF5\x80\x80", R R R);
    GIVES("\xF0\x80\x80\x41", R R R "A");
    GIVES("\x80\xBF", R R);
    GIVES("\xFF\xFE", R R);
    GIVES("a\xF1\x80\x80z\xE1\x80", "a" R "z" R);
}

static void characters_are_given_out_once_whole(void **state) {
    af_detok d;
    af_buf out = {0};
    af_detok_start(&d, tokenizer(state));
    af_detok_push(&d, 257, &out);
    assert_int_equal(out.len, 0);
    af_detok_push(&d, 258, &out);
    assert_string_equal(out.p, "\xE2\x82\xAC");
    af_detok_push(&d, 259, &out);
    assert_string_equal(out.p, "\xE2\x82\xAC\xF0\x9F\x99\x82!");
    af_detok_push(&d, 0x82, &out);
    assert_string_equal(out.p, "\xE2\x82\xAC\xF0\x9F\x99\x82!\xF0\x9F\x99\x82");
    af_detok_finish(&d, &out);
    assert_int_equal(out.len, 12);
    af_buf_clear(&out);
}

static void control_tokens_and_ids_out_of_range_give_no_text(void **state) {
    af_detok d;
    af_buf out = {0};
    af_detok_start(&d, tokenizer(state));
    const int32_t ids[] = {'a', 256, -1, 1000000, 'b'};
    for (size_t i = 0; i < 5; i++) assert_true(af_detok_push(&d, ids[i], &out));
    assert_string_equal(out.p, "ab");
    af_buf_clear(&out);
}

static void what_is_given_out_does_not_depend_on_how_bytes_fall_to_tokens(void **state) {
    static const int32_t whole[] = {257, 258, 259, 258, 257, 257, 259, 260};
    uint32_t draw = 3;
    for (int round = 0; round < 500; round++) {
        af_detok by_token, by_byte;
        af_buf first = {0}, second = {0};
        af_detok_start(&by_token, tokenizer(state));
        af_detok_start(&by_byte, tokenizer(state));
        for (int i = 0; i < 12; i++) {
            draw = draw * 1664525 + 1013904223;
            const int32_t id = draw >> 31 ? whole[(draw >> 8) % 8] : (int32_t)(128 + (draw >> 8) % 128);
            const af_slice bytes = af_tokenizer_piece(tokenizer(state), id, false);
            af_detok_push(&by_token, id, &first);
            for (size_t k = 0; k < bytes.n; k++) af_detok_push(&by_byte, (unsigned char)bytes.p[k], &second);
        }
        af_detok_finish(&by_token, &first);
        af_detok_finish(&by_byte, &second);
        assert_string_equal(first.p, second.p);
        assert_true(af_utf8_valid(first.p, first.len));
        af_buf_clear(&first);
        af_buf_clear(&second);
    }
}

static void a_byte_level_text_keeps_its_first_space(void **state) {
    af_detok d;
    af_buf out = {0};
    af_detok_start(&d, tokenizer(state));
    af_detok_push(&d, 260, &out);
    assert_string_equal(out.p, " hi");
    af_buf_clear(&out);
}

/* After `last`, the tokens "▁hi" and "▁hi". */
static void resumes(const af_tokenizer *tok, int32_t last, const char *expected) {
    af_detok d;
    af_buf out = {0};
    af_detok_resume(&d, tok, last);
    af_detok_push(&d, 259, &out);
    af_detok_push(&d, 259, &out);
    assert_string_equal(out.p, expected);
    af_buf_clear(&out);
}

static void the_space_a_vocabulary_puts_before_a_text_is_taken_off(void **state) {
    static const written_token more[] = {{"\xE2\x96\x81hi", AF_TOKEN_NORMAL, -1}, {"<tag>", AF_TOKEN_USER, 0}};
    vocab_writer w = {0};
    write_spm(&w, more, 2);
    opened_vocab o = open_vocab(&w);
    assert_int_equal(o.status, AF_OK);
    af_detok d;
    af_buf out = {0};
    af_detok_start(&d, o.tok);
    af_detok_push(&d, 1, &out); /* <s> */
    af_detok_push(&d, 259, &out);
    af_detok_push(&d, 259, &out);
    assert_string_equal(out.p, "hi hi");
    af_buf_clear(&out);
    resumes(o.tok, -1, "hi hi");
    resumes(o.tok, 1, "hi hi");
    resumes(o.tok, 260, "hi hi");
    resumes(o.tok, 259, " hi hi");
    resumes(o.tok, 3 + 'x', " hi hi");
    close_vocab(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_bytes_become_replacement_characters_as_in_python),
        cmocka_unit_test(characters_are_given_out_once_whole),
        cmocka_unit_test(control_tokens_and_ids_out_of_range_give_no_text),
        cmocka_unit_test(what_is_given_out_does_not_depend_on_how_bytes_fall_to_tokens),
        cmocka_unit_test(a_byte_level_text_keeps_its_first_space),
        cmocka_unit_test(the_space_a_vocabulary_puts_before_a_text_is_taken_off),
    };
    return cmocka_run_group_tests(tests, open_bytes, close_bytes);
}

/* pretok_test.c - each pre-tokenizer cuts text where its models' own tokenizers do. */
#include "text/pretok.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The pieces of `text`, each followed by "|". */
static void cut(const char *rule, const char *text, size_t n, af_buf *out) {
    af_pretok *pre = NULL;
    af_error error = {0};
    const af_pretok_rule *found = af_pretok_find(af_slice_text(rule));
    assert_non_null(found);
    if (af_pretok_open(found, &pre, &error)) fail_msg("%s", error.text);
    af_pretok_walk walk;
    assert_int_equal(af_pretok_start(&walk, pre, text, n, &error), AF_OK);
    for (;;) {
        af_slice piece;
        if (af_pretok_next(&walk, &piece, &error)) fail_msg("%s: %s", rule, error.text);
        if (!piece.n) break;
        af_buf_append(out, piece.p, piece.n);
        af_buf_byte(out, '|');
    }
    af_pretok_finish(&walk);
    af_pretok_close(pre);
}

static void cuts(const char *rule, const char *text, const char *expected) {
    af_buf pieces = {0};
    cut(rule, text, strlen(text), &pieces);
    assert_string_equal(pieces.p ? pieces.p : "", expected);
    af_buf_clear(&pieces);
}

static void words_keep_the_space_before_them(void **unused) {
    cuts("gpt-2", "", "");
    cuts("gpt-2", "Hello  world, it's 2024!\n\n x", "Hello| | world|,| it|'s| 2024|!|\n\n| x|");
    cuts("qwen2", "I'LL go\r\n\r\n  now", "I|'LL| go|\r\n\r\n| | now|");
    cuts("llama-bpe", "x = f(a)\n", "x| =| f|(a|)\n|");
}

static void digits_group_as_each_family_groups_them(void **unused) {
    cuts("gpt-2", "12345", "12345|");
    cuts("smollm", "a 12345", "a| |1|2|3|4|5|");
    cuts("llama-bpe", "12345", "123|45|");
    cuts("qwen2", "12345", "1|2|3|4|5|");
    cuts("deepseek-llm", "12345", "12345|");
    cuts("deepseek-coder", "12345", "1|2|3|4|5|");
    cuts("falcon", "a,b 12345!!", "a|,|b| |123|45|!!|");
    cuts("default", "a,b 12345!!", "a|,|b| |123|45|!!|");
}

static void marks_stay_with_letters_where_the_family_says_so(void **unused) {
    cuts("qwen2", "e\xCC\x81t", "e|\xCC\x81t|");
    cuts("qwen35", "e\xCC\x81t", "e\xCC\x81t|");
}

static void white_space_is_what_unicode_calls_so(void **unused) {
    cuts("gpt-2", "\xC2\xA0\xE3\x80\x80\xC2\x85 a", "\xC2\xA0\xE3\x80\x80\xC2\x85| a|");
    cuts("gpt-2", "\xE1\xA0\x8E\xE1\xA0\x8E!", "\xE1\xA0\x8E\xE1\xA0\x8E!|"); /* U+180E is a format character */
}

static void look_ahead_stops_at_the_piece_an_earlier_pattern_cut(void **unused) {
    cuts("smollm", "a   1", "a|   |1|");
    cuts("gpt-2", "a   1", "a|  | 1|");
}

static void nothing_is_lost_whatever_the_text(void **unused) {
    static const char *const parts[] = {"a",
                                        "Zz",
                                        " ",
                                        "  ",
                                        "\n",
                                        "\r\n",
                                        "\t",
                                        "7",
                                        "99",
                                        "'s",
                                        "'LL",
                                        "!?",
                                        "$<",
                                        "\xC3\xA9",
                                        "\xE4\xB8\xAD",
                                        "\xED\x95\x9C",
                                        "\xF0\x9F\x99\x82",
                                        "\xE3\x80\x80"};
    uint32_t state = 7;
    for (size_t index = 0; af_pretok_at(index); index++) {
        const af_pretok_rule *rule = af_pretok_at(index);
        char name[64] = {0};
        memcpy(name, rule->names, strcspn(rule->names, " "));
        for (int round = 0; round < 50; round++) {
            af_buf text = {0}, pieces = {0};
            for (int i = 0; i < 40; i++) {
                state = state * 1664525 + 1013904223;
                af_buf_text(&text, parts[(state >> 8) % (sizeof parts / sizeof *parts)]);
            }
            cut(name, text.p, text.len, &pieces);
            size_t kept = 0;
            for (size_t i = 0; i < pieces.len; i++) {
                if (pieces.p[i] != '|') pieces.p[kept++] = pieces.p[i];
            }
            assert_int_equal(kept, text.len);
            assert_memory_equal(pieces.p, text.p, kept);
            af_buf_clear(&text);
            af_buf_clear(&pieces);
        }
    }
}

static void a_nul_is_text(void **unused) {
    af_buf pieces = {0};
    cut("gpt-2", "a\0b", 3, &pieces);
    assert_int_equal(pieces.len, 6);
    assert_memory_equal(pieces.p, "a|\0|b|", 6);
    af_buf_clear(&pieces);
}

static void unknown_names_have_no_rule(void **unused) {
    assert_null(af_pretok_find(af_slice_text("no-such-rule")));
    assert_null(af_pretok_find(af_slice_text("")));
    assert_null(af_pretok_find(af_slice_text("gpt")));
    assert_ptr_equal(af_pretok_find(af_slice_text("default")), af_pretok_default());
    assert_ptr_equal(af_pretok_find(af_slice_text("olmo")), af_pretok_find(af_slice_text("gpt-2")));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_keep_the_space_before_them),
        cmocka_unit_test(digits_group_as_each_family_groups_them),
        cmocka_unit_test(marks_stay_with_letters_where_the_family_says_so),
        cmocka_unit_test(white_space_is_what_unicode_calls_so),
        cmocka_unit_test(look_ahead_stops_at_the_piece_an_earlier_pattern_cut),
        cmocka_unit_test(nothing_is_lost_whatever_the_text),
        cmocka_unit_test(a_nul_is_text),
        cmocka_unit_test(unknown_names_have_no_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

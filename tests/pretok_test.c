/* pretok_test.c - each pre-tokenizer cuts text where its models' own tokenizers do. */
#include "text/pretok.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

static void words_of_the_later_families_are_capitals_then_small_letters(void **unused) {
    cuts("gpt-4o", "HelloWorld it's ABCdef", "Hello|World| it's| ABCdef|");
    cuts("tekken", "it's 123/\n", "it|'s| |1|2|3|/\n|");
    cuts("gpt-4o", "a/\n/b", "a|/\n/|b|");
    cuts("kimi-k2",
         "ab\xE4\xB8\xAD\xE6\x96\x87"
         "cd \xE4\xB8\xAD 1234",
         "ab|\xE4\xB8\xAD\xE6\x96\x87|cd| |\xE4\xB8\xAD| |123|4|");
    cuts("deepseek-v3",
         "(abc) \xE4\xB8\xAD"
         "d",
         "(abc|)| |\xE4\xB8\xAD|d|");
}

static void some_families_group_digits_from_the_right(void **unused) {
    cuts("superbpe", "ab 1234567 cd", "ab |1|234|567| cd|");
    cuts("superbpe", "123456", "123|456|");
    cuts("afmoe", "x12345", "x|12|345|");
    cuts("tiny_aya", "1234 56789a", "1|234| |567|89|a|"); /* a letter follows: from the left, by the second pattern */
    cuts("tiny_aya", "12345.6", "12|345|.|6|");
}

static void some_families_keep_several_words_together(void **unused) {
    cuts("exaone-moe", "one two  three 4", "one two| | three| |4|");
    cuts("superbpe", "one two, three", "one two, three|");
    cuts("bloom", "one two, three", "one| two|,| three|");
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
    assert_ptr_equal(af_pretok_find(af_slice_text("jais")), af_pretok_find(af_slice_text("gpt-2")));
}

/* The names that llama.cpp's converter writes, for issue 5's list and beyond. */
static void every_name_of_public_files_has_a_rule(void **unused) {
    static const char *const names[] = {"a.x-4.0",
                                        "afmoe",
                                        "bailingmoe",
                                        "bailingmoe2",
                                        "bloom",
                                        "chameleon",
                                        "chatglm-bpe",
                                        "codeshell",
                                        "cohere2moe",
                                        "command-r",
                                        "dbrx",
                                        "deepseek-coder",
                                        "deepseek-llm",
                                        "deepseek-r1-qwen",
                                        "deepseek-v3",
                                        "default",
                                        "exaone",
                                        "exaone-moe",
                                        "exaone4",
                                        "f2llmv2",
                                        "falcon",
                                        "falcon-h1",
                                        "falcon3",
                                        "gigachat",
                                        "glm4",
                                        "gpt-2",
                                        "gpt-4o",
                                        "gpt3-finnish",
                                        "granite-docling",
                                        "granite-embed-multi-97m",
                                        "grok-2",
                                        "hunyuan",
                                        "hunyuan-dense",
                                        "hy_v4",
                                        "jais",
                                        "jais-2",
                                        "jina-de",
                                        "jina-es",
                                        "jina-v1-en",
                                        "jina-v2-code",
                                        "jina-v2-de",
                                        "jina-v2-es",
                                        "jina-v5-nano",
                                        "joyai-llm",
                                        "kanana2",
                                        "kimi-k2",
                                        "kormo",
                                        "laguna",
                                        "lfm2",
                                        "llada-moe",
                                        "llama-bpe",
                                        "llama-v3",
                                        "llama3",
                                        "llama4",
                                        "megrez",
                                        "mellum",
                                        "mellum2",
                                        "midm-2.0",
                                        "minerva-7b",
                                        "minicpm5",
                                        "minimax-m2",
                                        "modern-bert",
                                        "mpt",
                                        "olmo",
                                        "phi-2",
                                        "pixtral",
                                        "poro-chat",
                                        "qwen2",
                                        "qwen35",
                                        "refact",
                                        "roberta-bpe",
                                        "seed-coder",
                                        "smaug-bpe",
                                        "smollm",
                                        "solar-open",
                                        "spark2_5",
                                        "stablelm2",
                                        "starcoder",
                                        "superbpe",
                                        "talkie",
                                        "tekken",
                                        "tiny_aya",
                                        "trillion",
                                        "ufakzeka",
                                        "viking",
                                        "youtu"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!af_pretok_find(af_slice_text(names[i]))) fail_msg("%s has no rule", names[i]);
    }
}

static void no_name_stands_in_two_rules(void **unused) {
    for (size_t index = 0; af_pretok_at(index); index++) {
        const af_pretok_rule *rule = af_pretok_at(index);
        for (const char *word = rule->names; *word; word += strspn(word, " ")) {
            const size_t length = strcspn(word, " ");
            assert_ptr_equal(af_pretok_find(af_slice_of(word, length)), rule);
            word += length;
        }
    }
}

/* ---- Time ---- */

/* Processor time to cut `n` bytes of repeated text. */
static double seconds_to_cut(const char *rule, const char *unit, size_t n) {
    af_buf text = {0}, pieces = {0};
    while (text.len < n) af_buf_text(&text, unit);
    const clock_t from = clock();
    cut(rule, text.p, text.len, &pieces);
    const double seconds = (double)(clock() - from) / CLOCKS_PER_SEC;
    af_buf_clear(&text);
    af_buf_clear(&pieces);
    return seconds;
}

/* A pattern whose time grows with the square needs seconds where one that is linear needs milliseconds. */
static void every_rule_takes_long_runs_in_linear_time(void **unused) {
    static const char *const units[] = {"a",
                                        "A",
                                        " ",
                                        "\n",
                                        "\t",
                                        "7",
                                        "!",
                                        "\xE4\xB8\xAD",
                                        "\xCC\x81",
                                        "e\xCC\x81",
                                        " a",
                                        "A b",
                                        " \n",
                                        "'s",
                                        "\xE3\x80\x80",
                                        "\xF0\x9F\x99\x82",
                                        "1a",
                                        "IMGIMGA"};
    for (size_t index = 0; af_pretok_at(index); index++) {
        char name[64] = {0};
        memcpy(name, af_pretok_at(index)->names, strcspn(af_pretok_at(index)->names, " "));
        for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
            const double seconds = seconds_to_cut(name, units[i], 200000);
            if (seconds > 0.5) fail_msg("%s needs %.2f s for 200 KB of \"%s\"", name, seconds, units[i]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_keep_the_space_before_them),
        cmocka_unit_test(digits_group_as_each_family_groups_them),
        cmocka_unit_test(marks_stay_with_letters_where_the_family_says_so),
        cmocka_unit_test(white_space_is_what_unicode_calls_so),
        cmocka_unit_test(words_of_the_later_families_are_capitals_then_small_letters),
        cmocka_unit_test(some_families_group_digits_from_the_right),
        cmocka_unit_test(some_families_keep_several_words_together),
        cmocka_unit_test(look_ahead_stops_at_the_piece_an_earlier_pattern_cut),
        cmocka_unit_test(nothing_is_lost_whatever_the_text),
        cmocka_unit_test(a_nul_is_text),
        cmocka_unit_test(unknown_names_have_no_rule),
        cmocka_unit_test(every_name_of_public_files_has_a_rule),
        cmocka_unit_test(no_name_stands_in_two_rules),
        cmocka_unit_test(every_rule_takes_long_runs_in_linear_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* reasoning_test.c - what a model thinks is told from what it answers, whatever way the text is cut. */
#include "openai/reasoning.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static const shimmy_tags *tags_of(const char *open) {
    for (size_t i = 0; i < shimmy_tags_count; i++)
        if (strcmp(shimmy_tags_table[i].open, open) == 0) return &shimmy_tags_table[i];
    fail_msg("%s: not in the table", open);
    return NULL;
}

#define THINK   "<think>"
#define CHANNEL "<|channel|>analysis<|message|>"

/* tags, what the template wrote last, what the model says, what becomes of it */
static const struct row {
    const char *tags, *prompt, *text, *reasoning, *content;
} rows[] = {
    {THINK, "", "hello", "", "hello"},
    {THINK, "", "", "", ""},
    {THINK, "", "<think>why</think>because", "why", "because"},
    {THINK, "", "\n<think>\n why, \n oh why \n\n</think>\n\n because \n", "why, \n oh why", "because \n"},
    {THINK, "", "<think>\n\n</think>\n\nbecause", "", "because"},
    {THINK, "", "<think>  ", "", ""},
    {THINK, "", "<think>why </thi", "why </thi", ""},
    {THINK, "", "<think>a </think b <</think>c", "a </think b <", "c"},
    {THINK, "", "<think>a</think", "a</think", ""},
    {THINK, "", "<think>a </thi </think>b", "a </thi", "b"},
    {THINK, "", " <thin", "", " <thin"},
    {THINK, "", " \n <b>bold</b>", "", " \n <b>bold</b>"},
    {THINK, "", "<thinker>", "", "<thinker>"},
    {THINK, "", "I <think>so</think>", "", "I <think>so</think>"}, /* talks about it */
    {THINK, "", "</think>x", "", "</think>x"},
    {THINK, "", "<think>a</think>b<think>c</think>", "a", "b<think>c</think>"},
    {THINK, "", "<think>\xC3\xA9</think>\xF0\x9F\x8D\xB5", "\xC3\xA9", "\xF0\x9F\x8D\xB5"},
    {THINK, "A:<think>", "why</think>because", "why", "because"},
    {THINK, "A:<think>\n", "why</think>because", "why", "because"},
    {THINK, "A:<think>\n", "why", "why", ""},
    {THINK, "A:<think>\n\n</think>\n\n", "because", "", "because"},
    {THINK, "A:<think>\n\n</think>\n\n", "<think>why</think>because", "why", "because"},
    {"[THINK]", "", "[THINK]why[/THINK]because", "why", "because"},
    {"[THINK]", "", "[T]", "", "[T]"},
    {"<seed:think>", "", "<seed:think>why</seed:think>because", "why", "because"},
    {"<|channel>thought", "", "<|channel>thought\nwhy\n<channel|>because", "why", "because"},
    {CHANNEL, "<|start|>assistant", CHANNEL "why<|end|><|start|>assistant<|channel|>final<|message|>because", "why",
     "because"},
    {CHANNEL, "<|start|>assistant", "<|channel|>final<|message|>because", "", "because"},
    {CHANNEL, "<|start|>assistant", CHANNEL "why<|end|><|start|>assistant<|channel|>commentary", "why",
     "<|start|>assistant<|channel|>commentary"},
    {CHANNEL, "<|start|>assistant",
     CHANNEL "why<|end|><|start|>assistant<|channel|>commentary<|message|>I look. <|end|><|start|>assistant" CHANNEL
             " and how<|end|><|start|>assistant<|channel|>final<|message|>because <|end|>",
     "whyand how", "I look. because <|end|>"},
    {CHANNEL, "<|start|>assistant", "<|channel|>commentary<|message|>I <|en look<|e", "", "I <|en look<|e"},
    {CHANNEL, "<|start|>assistant",
     CHANNEL "why<|end|><|start|>assistant<|channel|>commentary to=functions.f<|message|>{}", "why",
     "<|start|>assistant<|channel|>commentary to=functions.f<|message|>{}"}, /* a call: left to whoever reads it */
    {CHANNEL, "<|start|>assistant", CHANNEL "why<|end|>" CHANNEL "x", "why", CHANNEL "x"},
    {CHANNEL, "<|start|>assistant", "<|channel|>analysis<|mess", "", "<|channel|>analysis<|mess"},
    {"<|think|>", "<|begin|>assistant", "<|think|>why<|end|><|begin|>assistant<|content|>because", "why", "because"},
};

static void assert_text(const char *wanted, const af_buf *found, const struct row *row, size_t a, size_t b) {
    if (strlen(wanted) != found->len || memcmp(wanted, found->p ? found->p : "", found->len) != 0)
        fail_msg("%s, cut at %zu and %zu: found '%.*s', wanted '%s'", row->text, a, b, (int)found->len,
                 found->p ? found->p : "", wanted);
}

static af_prompt prompt_of(const char *text, uint8_t origin) {
    af_prompt prompt = {.text = strdup(text), .origin = malloc(strlen(text) + 1), .length = strlen(text)};
    memset(prompt.origin, origin, prompt.length);
    return prompt;
}

static void prompt_done(af_prompt *prompt) {
    free(prompt->text);
    free(prompt->origin);
}

static void split_in_three(const struct row *row, const af_prompt *prompt, size_t a, size_t b) {
    shimmy_split split;
    shimmy_said said = {0};
    size_t n = strlen(row->text);
    shimmy_split_begin(&split, tags_of(row->tags), prompt, false);
    assert_true(shimmy_split_push(&split, row->text, a, &said));
    assert_true(shimmy_split_push(&split, row->text + a, b - a, &said));
    assert_true(shimmy_split_push(&split, row->text + b, n - b, &said));
    assert_true(shimmy_split_finish(&split, &said));
    assert_text(row->reasoning, &said.reasoning, row, a, b);
    assert_text(row->content, &said.content, row, a, b);
    shimmy_split_clear(&split);
    shimmy_said_clear(&said);
}

static void every_way_of_cutting_gives_the_same(void **state) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        af_prompt prompt = prompt_of(rows[i].prompt, 0);
        size_t n = strlen(rows[i].text);
        for (size_t a = 0; a <= n; a++)
            for (size_t b = a; b <= n; b++) split_in_three(&rows[i], &prompt, a, b);
        prompt_done(&prompt);
    }
}

static void nothing_waits_that_is_clear(void **state) {
    const af_prompt prompt = {0};
    shimmy_split split;
    shimmy_said said = {0};
    shimmy_split_begin(&split, tags_of(THINK), &prompt, false);
    shimmy_split_push(&split, "<think>why, ", 12, &said);
    assert_string_equal(said.reasoning.p, "why,");
    shimmy_split_push(&split, "oh</think> be", 13, &said);
    assert_string_equal(said.reasoning.p, "why, oh");
    assert_string_equal(said.content.p, "be");
    shimmy_split_clear(&split);
    shimmy_said_clear(&said);
}

static void without_tags_all_is_content(void **state) {
    const af_prompt prompt = {0};
    shimmy_split split;
    shimmy_said said = {0};
    shimmy_split_begin(&split, NULL, &prompt, false);
    shimmy_split_push(&split, " <think>why</think>", 19, &said);
    shimmy_split_finish(&split, &said);
    assert_string_equal(said.content.p, " <think>why</think>");
    assert_int_equal(said.reasoning.len, 0);
    shimmy_said_clear(&said);
}

static bool begins_in_thought(const char *template_text, const char *message, bool continues) {
    char both[256] = "";
    strcat(strcat(both, template_text), message);
    af_prompt prompt = prompt_of(both, 0);
    memset(prompt.origin + strlen(template_text), 1, strlen(message));
    shimmy_split split;
    shimmy_split_begin(&split, tags_of(THINK), &prompt, continues);
    prompt_done(&prompt);
    return split.state == SHIMMY_SPLIT_THINK;
}

static void a_message_that_is_continued_may_have_opened_the_span(void **state) {
    assert_true(begins_in_thought("A:", "<think>\nwell, ", true));
    assert_true(begins_in_thought("A:<think>\n", "", true));
    assert_false(begins_in_thought("A:", "<think>a</think>b", true));
    assert_false(begins_in_thought("A:<think>\n\n</think>\n", "b", true));
    assert_false(begins_in_thought("A:", "so", true));
    assert_false(begins_in_thought("U:", "say <think>", false)); /* a user's words open nothing */
}

static void time_is_linear_in_white_space(void **state) {
    const size_t n = 4 << 20;
    const af_prompt prompt = {0};
    char *blank = malloc(n);
    memset(blank, ' ', n);
    shimmy_split split;
    shimmy_said said = {0};
    shimmy_split_begin(&split, tags_of(THINK), &prompt, false);
    shimmy_split_push(&split, blank, n, &said);
    shimmy_split_push(&split, "<think>x", 8, &said);
    shimmy_split_push(&split, blank, n, &said);
    shimmy_split_push(&split, "y</think>", 9, &said);
    assert_int_equal(said.reasoning.len, n + 2);
    shimmy_split_clear(&split);
    shimmy_said_clear(&said);
    free(blank);
}

/* What push_thought relies on: after half a closing tag, nothing of it can begin a new one. */
static void a_closing_tag_begins_once(void **state) {
    for (size_t i = 0; i < shimmy_tags_count; i++)
        assert_null(strchr(shimmy_tags_table[i].close + 1, shimmy_tags_table[i].close[0]));
}

static bool contains(const void *user, const char *text) {
    return strstr(user, text) != NULL;
}

static void the_template_chooses_the_tags(void **state) {
    static const char knows[] = "{{ content.split('</seed:think>')[-1] }}", plain[] = "{{ content }}";
    assert_ptr_equal(shimmy_choose_tags(SHIMMY_REASONING_AUTO, contains, knows), tags_of("<seed:think>"));
    assert_ptr_equal(shimmy_choose_tags(SHIMMY_REASONING_DEEPSEEK, contains, knows), tags_of("<seed:think>"));
    assert_null(shimmy_choose_tags(SHIMMY_REASONING_NONE, contains, knows));
    assert_null(shimmy_choose_tags(SHIMMY_REASONING_AUTO, contains, plain));
    assert_ptr_equal(shimmy_choose_tags(SHIMMY_REASONING_DEEPSEEK, contains, plain), tags_of("<think>"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_of_cutting_gives_the_same),
        cmocka_unit_test(nothing_waits_that_is_clear),
        cmocka_unit_test(without_tags_all_is_content),
        cmocka_unit_test(a_message_that_is_continued_may_have_opened_the_span),
        cmocka_unit_test(time_is_linear_in_white_space),
        cmocka_unit_test(a_closing_tag_begins_once),
        cmocka_unit_test(the_template_chooses_the_tags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* reasoning.c - see reasoning.h. Goes byte by byte; what is held back is white space and less than a tag, and each byte
 * is looked at once, so that time is linear whatever a model says. */
#include "openai/reasoning.h"

#include <string.h>

/* As the models' own templates write them. */
const shimmy_tags shimmy_tags_table[] = {
    {"<think>", "</think>", NULL, NULL, "</think>"}, /* DeepSeek R1, Qwen 3, GLM, SmolLM3, MiniMax, ... */
    {"<seed:think>", "</seed:think>", NULL, NULL, "</seed:think>"},              /* Seed-OSS */
    {"<mm:think>", "</mm:think>", NULL, NULL, "</mm:think>"},                    /* MiniMax M3 */
    {"[THINK]", "[/THINK]", NULL, NULL, "[/THINK]"},                             /* Magistral, Ministral 3 */
    {"<|START_THINKING|>", "<|END_THINKING|>", NULL, NULL, "<|END_THINKING|>"},  /* Command R7B, A */
    {"<|inner_prefix|>", "<|inner_suffix|>", NULL, NULL, "<|inner_suffix|>"},    /* Apertus */
    {"<|channel>thought", "<channel|>", NULL, NULL, "<channel|>"},               /* Gemma 4 */
    {"<|channel|>analysis<|message|>", "<|end|>", "<|channel|>final<|message|>", /* gpt-oss */
     "<|start|>assistant<|channel|>final<|message|>", "<|channel|>analysis<|message|>"},
    {"<|think|>", "<|end|>", "<|content|>", "<|begin|>assistant<|content|>", "<|begin|>assistant<|think|>"}, /* Solar */
    {"<thinking>", "</thinking>", NULL, NULL, "</thinking>"}, /* Apriel 1.5 */
    {"<reasoning>", "</reasoning>", NULL, NULL, "</reasoning>"},
};
const size_t shimmy_tags_count = sizeof shimmy_tags_table / sizeof *shimmy_tags_table;

const shimmy_tags *shimmy_choose_tags(shimmy_reasoning mode, bool (*mentions)(const void *user, const char *text),
                                      const void *user) {
    if (mode == SHIMMY_REASONING_NONE) return NULL;
    for (size_t i = 0; i < shimmy_tags_count; i++)
        if (mentions(user, shimmy_tags_table[i].mark)) return &shimmy_tags_table[i];
    return mode == SHIMMY_REASONING_DEEPSEEK ? shimmy_tags_table : NULL;
}

void shimmy_said_clear(shimmy_said *said) {
    af_buf_clear(&said->reasoning);
    af_buf_clear(&said->content);
    af_buf_clear(&said->chances);
}

static bool is_blank(char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* ---- How the prompt ends ---- */

/* Whether the text's last tag opens. */
static bool stays_open(const char *text, size_t n, const shimmy_tags *tags) {
    const char *found = NULL, *closed = NULL;
    const size_t open = strlen(tags->open), close = strlen(tags->close);
    for (const char *at = text; (at = memmem(at, n - (size_t)(at - text), tags->open, open)); at += open) found = at;
    for (const char *at = text; (at = memmem(at, n - (size_t)(at - text), tags->close, close)); at += close)
        closed = at;
    return found && (!closed || closed < found);
}

/* Whether it ends with the opening tag and white space, all written by the template. */
static bool template_opened(const af_prompt *prompt, const char *open) {
    const size_t n = strlen(open);
    size_t end = prompt->length;
    while (end && is_blank(prompt->text[end - 1])) end--;
    return end >= n && memcmp(prompt->text + end - n, open, n) == 0 && !memchr(prompt->origin + end - n, 1, n);
}

/* The message to be continued is the stretch of the request's own text at the end. */
static bool message_opened(const af_prompt *prompt, const shimmy_tags *tags) {
    size_t start = prompt->length;
    while (start && prompt->origin[start - 1]) start--;
    return stays_open(prompt->text + start, prompt->length - start, tags);
}

void shimmy_split_begin(shimmy_split *split, const shimmy_tags *tags, const af_prompt *prompt, bool continues) {
    *split = (shimmy_split){.tags = tags};
    if (!tags) return;
    if (template_opened(prompt, tags->open) || (continues && message_opened(prompt, tags)))
        split->state = SHIMMY_SPLIT_THINK;
    else if (!continues)
        split->state = SHIMMY_SPLIT_HEAD;
}

void shimmy_split_clear(shimmy_split *split) {
    af_buf_clear(&split->held);
}

/* ---- The answer ---- */

/* The held bytes from `from` on become text. */
static void give_held(shimmy_split *split, size_t from, af_buf *to) {
    if (split->held.len > from) af_buf_append(to, split->held.p + from, split->held.len - from);
    split->held.len = split->blank = 0;
}

/* Whether the word held is the tag, or its beginning. */
typedef enum { MATCH_NONE, MATCH_PART, MATCH_WHOLE } match;

static match match_held(const shimmy_split *split, const char *tag) {
    const size_t n = split->held.len - split->blank;
    if (!tag || n > strlen(tag) || memcmp(split->held.p + split->blank, tag, n) != 0) return MATCH_NONE;
    return tag[n] ? MATCH_PART : MATCH_WHOLE;
}

/* Before an answer or after its span: white space, then perhaps a tag. */
static void push_edge(shimmy_split *split, char c, shimmy_said *out) {
    const bool head = split->state == SHIMMY_SPLIT_HEAD;
    if (!af_buf_byte(&split->held, c)) return;
    if (is_blank(c) && split->held.len == split->blank + 1) {
        split->blank++;
        return;
    }
    const match open = match_held(split, head ? split->tags->open : NULL);
    const match other = match_held(split, head ? split->tags->instead : split->tags->after);
    if (open == MATCH_WHOLE || other == MATCH_WHOLE) {
        split->held.len = split->blank = 0;
        split->state = open == MATCH_WHOLE ? SHIMMY_SPLIT_THINK : SHIMMY_SPLIT_CONTENT;
    } else if (open == MATCH_NONE && other == MATCH_NONE) {
        split->state = SHIMMY_SPLIT_CONTENT;
        give_held(split, head ? 0 : split->blank, &out->content);
    }
}

/* What was held and the part of the closing tag seen are thoughts after all. */
static void give_thought(shimmy_split *split, shimmy_said *out) {
    give_held(split, 0, &out->reasoning);
    af_buf_append(&out->reasoning, split->tags->close, split->matched);
    split->matched = 0;
    split->thought = true;
}

static void push_thought(shimmy_split *split, char c, shimmy_said *out) {
    const char *close = split->tags->close;
    if (split->matched && c != close[split->matched]) give_thought(split, out);
    if (c == close[split->matched]) {
        if (close[++split->matched]) return;
        split->held.len = split->matched = 0;
        split->state = SHIMMY_SPLIT_TAIL;
    } else if (is_blank(c)) {
        if (split->thought) af_buf_byte(&split->held, c);
    } else {
        give_thought(split, out);
        af_buf_byte(&out->reasoning, c);
    }
}

static bool kept(const shimmy_split *split, const shimmy_said *out) {
    return !split->held.failed && !out->reasoning.failed && !out->content.failed;
}

bool shimmy_split_push(shimmy_split *split, const char *text, size_t length, shimmy_said *out) {
    for (size_t i = 0; i < length; i++) {
        switch (split->state) {
        case SHIMMY_SPLIT_CONTENT:
            af_buf_append(&out->content, text + i, length - i);
            return kept(split, out);
        case SHIMMY_SPLIT_THINK:
            push_thought(split, text[i], out);
            break;
        default:
            push_edge(split, text[i], out);
        }
    }
    return kept(split, out);
}

bool shimmy_split_finish(shimmy_split *split, shimmy_said *out) {
    if (split->state == SHIMMY_SPLIT_THINK && split->matched)
        give_thought(split, out);
    else if (split->state == SHIMMY_SPLIT_HEAD)
        give_held(split, 0, &out->content);
    else if (split->state == SHIMMY_SPLIT_TAIL)
        give_held(split, split->blank, &out->content);
    return kept(split, out);
}

/* reasoning.c - see reasoning.h. Goes byte by byte; what is held back is white space and less than a tag, and each byte
 * is looked at once, so that time is linear whatever a model says. */
#include "openai/reasoning.h"

#include <string.h>

/* As the models' own templates write them. */
const shimmy_tags shimmy_tags_table[] = {
    {.open = "<think>", .close = "</think>", .mark = "</think>"}, /* DeepSeek R1, Qwen 3, GLM, SmolLM3, MiniMax, ... */
    {.open = "<seed:think>", .close = "</seed:think>", .mark = "</seed:think>"},             /* Seed-OSS */
    {.open = "<mm:think>", .close = "</mm:think>", .mark = "</mm:think>"},                   /* MiniMax M3 */
    {.open = "[THINK]", .close = "[/THINK]", .mark = "[/THINK]"},                            /* Ministral 3 */
    {.open = "<|START_THINKING|>", .close = "<|END_THINKING|>", .mark = "<|END_THINKING|>"}, /* Command R7B, A */
    {.open = "<|inner_prefix|>", .close = "<|inner_suffix|>", .mark = "<|inner_suffix|>"},   /* Apertus */
    {.open = "<|channel>thought", .close = "<channel|>", .mark = "<channel|>"},              /* Gemma 4 */
    {.open = "<|channel|>analysis<|message|>", /* gpt-oss: OpenAI's harmony format */
     .close = "<|end|>",
     .instead = "<|channel|>final<|message|>",
     .aside = "<|channel|>commentary<|message|>",
     .turn = "<|start|>assistant",
     .mark = "<|channel|>analysis<|message|>"},
    {.open = "<|think|>", /* Solar */
     .close = "<|end|>",
     .instead = "<|content|>",
     .turn = "<|begin|>assistant",
     .mark = "<|begin|>assistant<|think|>"},
    {.open = "<thinking>", .close = "</thinking>", .mark = "</thinking>"}, /* Apriel 1.5 */
    {.open = "<reasoning>", .close = "</reasoning>", .mark = "</reasoning>"},
};
const size_t shimmy_tags_count = sizeof shimmy_tags_table / sizeof *shimmy_tags_table;

bool shimmy_reasoning_named(const char *name, shimmy_reasoning *out) {
    static const char *const names[SHIMMY_REASONINGS] = {
        [SHIMMY_REASONING_AUTO] = "auto", [SHIMMY_REASONING_NONE] = "none", [SHIMMY_REASONING_DEEPSEEK] = "deepseek"};
    for (int i = 0; i < SHIMMY_REASONINGS; i++) {
        if (strcmp(name, names[i]) != 0) continue;
        *out = (shimmy_reasoning)i;
        return true;
    }
    return false;
}

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

/* Whether the word held is `turn` (NULL: nothing) and the tag, or the beginning of both. */
typedef enum { MATCH_NONE, MATCH_PART, MATCH_WHOLE } match;

static match match_held(const shimmy_split *split, const char *turn, const char *tag) {
    const char *word = split->held.p + split->blank;
    const size_t n = split->held.len - split->blank, before = turn ? strlen(turn) : 0;
    if (!tag || memcmp(word, turn ? turn : "", n < before ? n : before) != 0) return MATCH_NONE;
    if (n <= before) return MATCH_PART;
    if (n - before > strlen(tag) || memcmp(word + before, tag, n - before) != 0) return MATCH_NONE;
    return tag[n - before] ? MATCH_PART : MATCH_WHOLE;
}

/* Takes the word held for a tag, or waits while it may become one; false if it is none. */
static bool take_tag(shimmy_split *split, const char *turn) {
    const struct {
        const char *tag;
        shimmy_split_state then;
    } ways[] = {{split->tags->open, SHIMMY_SPLIT_THINK},
                {split->tags->instead, SHIMMY_SPLIT_CONTENT},
                {split->tags->aside, SHIMMY_SPLIT_ASIDE}};
    bool part = false;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const match found = match_held(split, turn, ways[i].tag);
        part |= found == MATCH_PART;
        if (found != MATCH_WHOLE) continue;
        split->held.len = split->blank = 0;
        split->thought = false;
        split->state = ways[i].then;
        return true;
    }
    return part;
}

/* Before an answer or after its span: white space, then perhaps a tag. After a span a further one needs its turn. */
static void push_edge(shimmy_split *split, char c, shimmy_said *out) {
    const bool head = split->state == SHIMMY_SPLIT_HEAD;
    const char *turn = head ? NULL : split->tags->turn;
    if (!af_buf_byte(&split->held, c)) return;
    if (is_blank(c) && split->held.len == split->blank + 1) {
        split->blank++;
    } else if (!(head || turn) || !take_tag(split, turn)) {
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

/* Words to the user: as they are, up to the closing tag. */
static void push_aside(shimmy_split *split, char c, shimmy_said *out) {
    const char *close = split->tags->close;
    if (c != close[split->matched]) {
        af_buf_append(&out->content, close, split->matched);
        split->matched = 0;
    }
    if (c != close[split->matched]) {
        af_buf_byte(&out->content, c);
    } else if (!close[++split->matched]) {
        split->matched = 0;
        split->state = SHIMMY_SPLIT_TAIL;
    }
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
        case SHIMMY_SPLIT_ASIDE:
            push_aside(split, text[i], out);
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
    else if (split->state == SHIMMY_SPLIT_ASIDE)
        af_buf_append(&out->content, split->tags->close, split->matched);
    else if (split->state == SHIMMY_SPLIT_HEAD)
        give_held(split, 0, &out->content);
    else if (split->state == SHIMMY_SPLIT_TAIL)
        give_held(split, split->blank, &out->content);
    return kept(split, out);
}

/* reasoning.h - tells what a model thinks from what it answers, while the text arrives.
 *
 * A thinking model writes `<think>...</think>answer`, or its template has written the opening tag already. What lies
 * between the tags goes to reasoning_content, the rest to content. Pure: pieces of text in, two buffers out; the same
 * whatever way the text is cut.
 *
 *   - A span counts at the beginning of an answer only: later on, a tag is something the model talks about. Where an
 *     answer is several messages (gpt-oss), each may be a span or content.
 *   - White space around a span belongs to neither side.
 *   - A tag that never closes leaves all of the answer in the reasoning; half a tag at the end is text.
 */
#ifndef SHIMMY_OPENAI_REASONING_H
#define SHIMMY_OPENAI_REASONING_H

#include "base/buf.h"

/* What encloses the thinking of a family of models. The first character of `close` occurs once in it. */
typedef struct shimmy_tags {
    const char *open, *close;
    const char *instead; /* opens the answer of a model that did not think, or NULL; not part of the answer */
    const char *aside;   /* opens words to the user before the answer, which `close` ends too, or NULL */
    const char *turn;    /* may stand before open, instead and aside after the first `close`, or NULL */
    const char *mark;    /* what a template contains that knows these tags */
} shimmy_tags;

extern const shimmy_tags shimmy_tags_table[];
extern const size_t shimmy_tags_count;

typedef enum shimmy_reasoning {
    SHIMMY_REASONING_AUTO,    /* split where the template knows tags */
    SHIMMY_REASONING_NONE,    /* everything is content */
    SHIMMY_REASONING_DEEPSEEK /* split everywhere; <think> where the template knows none */
} shimmy_reasoning;

enum { SHIMMY_REASONINGS = SHIMMY_REASONING_DEEPSEEK + 1 };

/* The names that options and requests give them. Returns false for others; *out is left alone then. */
bool shimmy_reasoning_named(const char *name, shimmy_reasoning *out);

/* The tags to look for, or NULL. `mentions` says whether the template contains a text. */
const shimmy_tags *shimmy_choose_tags(shimmy_reasoning mode, bool (*mentions)(const void *user, const char *text),
                                      const void *user);

/* An answer, or what has come of it. */
typedef struct shimmy_said {
    af_buf reasoning, content;
    af_buf chances; /* logprobs.h: of its tokens, where they are asked for */
} shimmy_said;

void shimmy_said_clear(shimmy_said *said);

typedef enum shimmy_split_state {
    SHIMMY_SPLIT_CONTENT, /* to the end */
    SHIMMY_SPLIT_HEAD,
    SHIMMY_SPLIT_THINK,
    SHIMMY_SPLIT_ASIDE,
    SHIMMY_SPLIT_TAIL
} shimmy_split_state;

typedef struct shimmy_split {
    const shimmy_tags *tags;
    shimmy_split_state state;
    af_buf held;    /* white space, then in HEAD and TAIL the beginning of a tag: not clear yet what they are */
    size_t blank;   /* of the held, the white space at the front */
    size_t matched; /* THINK, ASIDE: bytes of `close` seen */
    bool thought;   /* THINK: something other than white space was said */
} shimmy_split;

/* Zero-initialised, a split passes everything to content. This one starts as the prompt left it: inside a span that
 * the template, or a message to be continued, has opened. tags may be NULL. */
void shimmy_split_begin(shimmy_split *split, const shimmy_tags *tags, const af_prompt *prompt, bool continues);
/* Both return false when out of memory. */
bool shimmy_split_push(shimmy_split *split, const char *text, size_t length, shimmy_said *out);
bool shimmy_split_finish(shimmy_split *split, shimmy_said *out);
void shimmy_split_clear(shimmy_split *split);

#endif

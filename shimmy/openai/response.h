/* response.h - answers in OpenAI's shapes: whole completions, chunks of a stream, usage, lists of models. */
#ifndef SHIMMY_OPENAI_RESPONSE_H
#define SHIMMY_OPENAI_RESPONSE_H

#include "base/buf.h"

/* What every object of one answer repeats. */
typedef struct shimmy_answer_head {
    bool chat;
    bool include_usage; /* chunks carry "usage": null until the last */
    char id[40];
    int64_t created;
    const char *model;
    const af_model *pieces; /* what the texts of tokens are taken from; NULL: no log-probabilities were asked for */
} shimmy_answer_head;

typedef struct shimmy_usage {
    uint64_t prompt, cached, completion;
} shimmy_usage;

/* One choice of a whole answer, or what a chunk brings of it. */
typedef struct shimmy_piece {
    size_t index;
    bool opens; /* chunk: the first of its choice */
    const char *text;
    size_t length;
    const char *reasoning; /* chat: what it thought, before the text; length 0: nothing */
    size_t reasoning_length;
    const af_buf *chances; /* of the tokens, where they were asked for; may be NULL */
    af_finish finish;      /* AF_FINISH_NONE: goes on */
} shimmy_piece;

/* A new name, "chatcmpl-..." or "cmpl-...". */
void shimmy_answer_begin(shimmy_answer_head *head, bool chat, const char *model, int64_t created);

void shimmy_write_chunk(af_buf *out, const shimmy_answer_head *head, const shimmy_piece *piece);
void shimmy_write_usage_chunk(af_buf *out, const shimmy_answer_head *head, const shimmy_usage *usage);
void shimmy_write_answer(af_buf *out, const shimmy_answer_head *head, const shimmy_piece *choices, size_t count,
                         const shimmy_usage *usage);

typedef struct shimmy_model_card {
    const char *name;
    int64_t created;
    uint32_t context;
    const af_model_info *info;
} shimmy_model_card;

void shimmy_write_model(af_buf *out, const shimmy_model_card *card);
void shimmy_write_model_list(af_buf *out, const shimmy_model_card *cards, size_t count);

#endif

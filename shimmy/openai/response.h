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
    uint64_t accepted, rejected; /* drafted by speculation */
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

/* What is told of a model that may be asked for. */
typedef struct shimmy_model_card {
    const char *name, *architecture, *quantization;
    int64_t created;
    uint64_t bytes;
    const af_model_info *info; /* NULL: it is not loaded */
    uint32_t context;          /* where it is */
    const char *status;        /* "loaded", "loading" or "unloaded" */
    double progress;           /* of loading, 0 to 1; negative: it is not */
    const char *error;         /* why it did not load when it last should; or "" */
} shimmy_model_card;

void shimmy_write_model(af_buf *out, const shimmy_model_card *card);

#endif

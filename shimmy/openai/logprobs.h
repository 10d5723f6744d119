/* logprobs.h - how likely the tokens of an answer were, kept while it grows and written in OpenAI's two shapes.
 *
 * Chat: an array of objects, one a token. Completions: arrays side by side, with the place of each token in the text,
 * counted in characters; echo puts the prompt's tokens first, the very first of them without a probability.
 */
#ifndef SHIMMY_OPENAI_LOGPROBS_H
#define SHIMMY_OPENAI_LOGPROBS_H

#include "base/buf.h"

typedef struct shimmy_token_chance {
    af_logprob logprob;
    uint32_t offset; /* characters before it in the text */
} shimmy_token_chance;

/* Appends to an array of shimmy_token_chance in a buffer. */
bool shimmy_chances_push(af_buf *chances, const af_logprob *logprob, uint32_t offset);
/* The value of "logprobs": an object of `count` tokens. */
void shimmy_write_logprobs(af_buf *out, bool chat, const af_model *model, const af_buf *chances);
/* Characters that begin in these bytes. */
uint32_t shimmy_characters(const char *bytes, size_t length);

#endif

/* embeddings.h - POST /v1/embeddings: from JSON to texts or ids, and from vectors to JSON. Pure, as request.h. */
#ifndef SHIMMY_OPENAI_EMBEDDINGS_H
#define SHIMMY_OPENAI_EMBEDDINGS_H

#include "base/buf.h"
#include "openai/request.h"

enum { SHIMMY_EMBED_INPUTS = 2048 /* of one request, as OpenAI allows */ };

typedef struct shimmy_embed_request {
    shimmy_prompt *inputs; /* (count); the texts are borrowed from the JSON */
    size_t count;
    uint32_t dimensions; /* of each vector */
    bool base64;
    json_t *json; /* owner of what is borrowed */
} shimmy_embed_request;

/* Reads a body; `width` is what the model's vectors have. On success the caller clears *out, which keeps a reference to
 * the JSON; on failure there is nothing to clear. */
int shimmy_embed_read(json_t *json, const shimmy_request_limits *limits, uint32_t width, shimmy_embed_request *out,
                      shimmy_refusal *refusal);
void shimmy_embed_clear(shimmy_embed_request *request);

/* The first `dimensions` numbers of a vector, made of length 1 again. */
void shimmy_embed_cut(const float *vector, uint32_t width, uint32_t dimensions, float *out);

typedef struct shimmy_embed_answer {
    const char *model;
    const float *vectors; /* (count, dimensions) */
    size_t count;
    uint32_t dimensions;
    bool base64; /* of f32, little endian */
    uint64_t prompt_tokens;
} shimmy_embed_answer;

void shimmy_write_embeddings(af_buf *out, const shimmy_embed_answer *answer);
/* Bytes of that answer, about; for reckoning before it is made. */
size_t shimmy_embeddings_bytes(size_t count, uint32_t dimensions, bool base64);

#endif

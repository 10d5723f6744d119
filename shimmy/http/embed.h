/* embed.h - the calls of POST /v1/embeddings.
 *
 *     worker:  parses, tokenizes; gives the engine the first few texts
 *     engine:  leaves a text's vector, takes the call's next one
 *     worker:  writes the answer when the last is there
 *
 * One call may bring 2048 texts, so it keeps only a few of them in the engine: others' requests come between. Where the
 * queue is full a text waits for the call's next that ends; a call none of whose texts is taken is refused.
 */
#ifndef SHIMMY_EMBED_H
#define SHIMMY_EMBED_H

#include "http/call.h"

/* The worker's part. Returns 0, and the call answers itself, or a refusal. */
int shimmy_embed(shimmy_call *call, json_t *json);
/* Nobody waits for the answer: ends what runs. The loop's. */
void shimmy_embed_cancel(struct shimmy_embedding *embedding);
void shimmy_embed_free(struct shimmy_embedding *embedding);

#endif

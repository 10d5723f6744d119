/* choices.h - the choices of a completion: handed to the engine by a text worker, filled by the engine's thread. */
#ifndef SHIMMY_CHOICES_H
#define SHIMMY_CHOICES_H

#include "http/call.h"
#include "openai/request.h"

/* Ids of one prompt, owned, and how its answers begin. */
typedef struct shimmy_tokens {
    int32_t *ids;
    size_t count;
    shimmy_split split;
} shimmy_tokens;

/* Submits every choice of a request, `call->n` for each prompt, or none: then the refusal says why. */
int shimmy_choices_open(shimmy_call *call, const shimmy_request *request, const shimmy_tokens *prompts);

#endif

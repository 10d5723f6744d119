/* request_choice.h - the part of a request that says how its tokens are chosen. */
#ifndef SHIMMY_OPENAI_REQUEST_CHOICE_H
#define SHIMMY_OPENAI_REQUEST_CHOICE_H

#include "openai/request.h"

/* Reads sampling, biases, ends, log-probabilities and best_of into *out, whose chat, stream and n are set. What it
 * allocates is freed by shimmy_request_clear. */
int shimmy_request_choice(const json_t *json, const shimmy_request_limits *limits, shimmy_request *out,
                          shimmy_refusal *refusal);

#endif

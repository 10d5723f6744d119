/* logprobs.h - how likely a row of logits says its tokens are. */
#ifndef AF_LOGPROBS_H
#define AF_LOGPROBS_H

#include "base/status.h"

/* The natural logarithm of the probability of `id`, and of the `top` (to AF_LOGPROBS_MOST) likeliest, the lower id
 * first among equals. Probabilities are the softmax of the whole row, nothing cut. */
void af_logprob_of(const float *logits, uint32_t vocabulary, int32_t id, uint32_t top, af_logprob *out);

#endif

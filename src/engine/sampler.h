/* sampler.h - from a row of logits to a token: the chain of airframe.h's af_sampling.
 *
 * One generator for each request (xoshiro256** seeded through splitmix64), so that the same seed and the same logits
 * give the same text whatever else runs. No full sort: candidates are cut by partial selection, so a row of 256K logits
 * takes under a millisecond. NaN logits never win.
 */
#ifndef AF_SAMPLER_H
#define AF_SAMPLER_H

#include "base/status.h"

typedef struct af_sampler af_sampler;

/* Checks every bound that af_sampling states; AF_EINVAL names the field, its value and the bounds. */
int af_sampling_check(const af_sampling *params, af_error *error);

int af_sampler_open(const af_sampling *params, uint32_t vocabulary, af_sampler **out, af_error *error);
void af_sampler_close(af_sampler *sampler);
/* True if the choice is the plain best token: the device may take it. */
bool af_sampler_is_greedy(const af_sampler *sampler);
/* Notes a token of the prompt or of the answer, for the penalties. */
void af_sampler_accept(af_sampler *sampler, int32_t id);
/* Chooses; does not accept. `logits` (vocabulary) is not changed. */
int32_t af_sampler_choose(af_sampler *sampler, const float *logits);

#endif

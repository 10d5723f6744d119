/* sampler.h - from a row of logits to a token: the chain of airframe.h's af_sampling.
 *
 * One generator for each request (xoshiro256** seeded through splitmix64), so that the same seed and the same logits
 * give the same text whatever else runs. No full sort: candidates are cut by partial selection, so a row of 256K logits
 * takes under a millisecond; what weights.h does not know goes the longer way through candidates.h. NaN logits never
 * win.
 */
#ifndef AF_SAMPLER_H
#define AF_SAMPLER_H

#include "backend/backend.h"

typedef struct af_sampler af_sampler;

/* Checks every bound that af_sampling states; AF_EINVAL names the field, its value and the bounds. */
int af_sampling_check(const af_sampling *params, af_error *error);

/* What a request asks of the choice beside af_sampling. Everything is copied but `breaks`, which is taken. */
typedef struct af_sampler_extras {
    const af_logit_bias *bias;
    size_t bias_count;
    const int32_t *ends; /* forbidden until min_tokens are accepted by af_sampler_answered */
    size_t end_count;
    uint32_t min_tokens;
    uint8_t *breaks; /* (vocabulary) from malloc, or NULL: DRY's */
} af_sampler_extras;

int af_sampler_open(const af_sampling *params, uint32_t vocabulary, af_sampler **out, af_error *error);
/* Once, before the first choice. On failure `breaks` is freed all the same. */
int af_sampler_extend(af_sampler *sampler, const af_sampler_extras *extras, af_error *error);
void af_sampler_close(af_sampler *sampler);
/* True if the choice is the plain best token: the device may take it. */
bool af_sampler_is_greedy(const af_sampler *sampler);
/* True if the choice depends on the `most` largest logits alone, and those equal to them: any others may be -inf. */
bool af_sampler_takes_top(const af_sampler *sampler, uint32_t most);
/* True if it draws from the whole row, as it is, by the plain chain without top_k. */
bool af_sampler_draws_whole(const af_sampler *sampler);
/* What a device needs to draw about as af_sampler_choose will, where one of these two is true: for the token after
 * `ahead` more. */
af_draw af_sampler_draw(const af_sampler *sampler, uint32_t ahead);
/* Notes a token of the prompt, for penalties and DRY. Without memory to note it DRY forgets the text before it. */
void af_sampler_accept(af_sampler *sampler, int32_t id);
/* Notes a token of the answer. */
void af_sampler_answered(af_sampler *sampler, int32_t id);
/* Chooses; does not accept. `logits` (vocabulary) is not changed. */
int32_t af_sampler_choose(af_sampler *sampler, const float *logits);

#endif

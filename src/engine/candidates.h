/* candidates.h - the tokens still in play and the cuts that need them sorted: the long way from a row to a token.
 *
 * weights.h cuts a row without sorting it, but knows only temperature, top-k, top-p and min-p in that order. Typical-p,
 * top-n-sigma, XTC, mirostat, a temperature that follows the entropy, and any other order of the cuts come here: the
 * whole row is sorted once (a radix sort: about 2 ms for 256K tokens), and every cut then is a pass over what is left.
 *
 * Tokens stand in falling order of logit, the lower id first among equals. NaN counts as -inf, and -inf is left out.
 */
#ifndef AF_CANDIDATES_H
#define AF_CANDIDATES_H

#include "base/status.h"

typedef struct af_candidates {
    uint32_t count;    /* still in play; at least 1 after a fill that returned true */
    uint32_t capacity; /* the vocabulary */
    float *logits;     /* (count) */
    int32_t *ids;      /* (count) */
    double *p;         /* (count) probabilities, after af_candidates_weigh */
    uint64_t *keys[2]; /* (capacity) the sort's */
} af_candidates;

int af_candidates_open(uint32_t vocabulary, af_candidates *out, af_error *error);
void af_candidates_close(af_candidates *c);

/* Takes a row of logits. False where none of them is finite. */
bool af_candidates_fill(af_candidates *c, const float *logits);
/* Probabilities of what is left, at temperature 1. */
void af_candidates_weigh(af_candidates *c);

void af_candidates_temper(af_candidates *c, float temperature);
/* Dynamic temperature, between temperature - range and temperature + range: least + (most - least) * h^exponent, where
 * h is the entropy over the largest there can be (Zhu et al. 2023, as text generation front ends use it). */
void af_candidates_temper_by_entropy(af_candidates *c, float temperature, float range, float exponent);
void af_candidates_keep_top_k(af_candidates *c, uint32_t k);
void af_candidates_keep_top_p(af_candidates *c, float p);
void af_candidates_keep_min_p(af_candidates *c, float p); /* of the best token's probability */
/* Those nearest to the entropy in their surprise, up to a mass of p (Meister et al. 2022, locally typical sampling). */
void af_candidates_keep_typical(af_candidates *c, float p);
/* Those within n standard deviations of the best logit (Tang et al. 2024, top-n-sigma). */
void af_candidates_keep_sigma(af_candidates *c, float n);
/* Exclude top choices: of those with at least `threshold`, only the least likely stays. */
void af_candidates_drop_top(af_candidates *c, float threshold);

/* The index of the candidate at `unit` (in [0, 1)) of the summed probabilities; they are weighed first. */
uint32_t af_candidates_draw(af_candidates *c, double unit);

#endif

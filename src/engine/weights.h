/* weights.h - a row of logits as weights of a distribution, cut down and drawn from without sorting.
 *
 * The weight of a logit l is exp((l - best) / temperature), between 0 and 1; probabilities are weights over their sum.
 * Tokens are ordered by weight, the lower id first where weights are equal. Top-k, top-p and min-p each keep a prefix
 * of that order, so none of them needs to move a token: they find where the prefix ends and set the rest to 0.
 *
 * The row is looked at in blocks of AF_BLOCK tokens. The largest logit of each block is enough to leave out most of a
 * large vocabulary before any exponential is computed: the k-th largest block maximum is a lower bound for the k-th
 * largest logit. Only the blocks that can still matter ("live") have their weights computed and stored, side by side.
 *
 * NaN counts as -inf. Nothing is allocated after af_weights_open.
 */
#ifndef AF_WEIGHTS_H
#define AF_WEIGHTS_H

#include "engine/weigh.h"

#define AF_BLOCK 64

typedef struct af_weights {
    uint32_t vocabulary, blocks; /* blocks: the vocabulary's, the last one possibly in part */
    uint32_t padded_blocks;      /* to a multiple of 16 */
    float best;                  /* the largest logit */
    float *maxima;               /* (padded_blocks) largest logit of each, then its weight */
    uint32_t *live;              /* (blocks) rising indexes of the blocks that may hold a choice */
    uint32_t live_count;
    float *weights; /* (live_count, AF_BLOCK) */
    float *spare;   /* room for as many */
    double *sums;   /* (live_count) of each block's weights, when they were last summed */
    const af_weigher *loops;
} af_weights;

int af_weights_open(uint32_t vocabulary, af_weights *out, af_error *error);
void af_weights_close(af_weights *w);

/* The id of the largest logit, the lowest such id; 0 where none is larger than -inf. */
int32_t af_best_token(const float *logits, uint32_t vocabulary);

/* Finds maxima and best. False if the choice needs no distribution, because no logit is finite: take af_best_token. */
bool af_weights_scan(af_weights *w, const float *logits);
/* What a temperature multiplies logits by. */
float af_weights_scale(float temperature);
/* Computes the weights of all tokens that top_k (0: off) and min_p (0: off) may keep. */
void af_weights_compute(af_weights *w, const float *logits, float temperature, uint32_t top_k, float min_p);
void af_weights_keep_top_k(af_weights *w, uint32_t k);
void af_weights_keep_top_p(af_weights *w, float p); /* p of the sum of what is left */
void af_weights_keep_min_p(af_weights *w, float p); /* p of the largest weight, which is 1 */
/* The token at `unit` (in [0, 1)) of the summed weights, in order of ids. */
int32_t af_weights_draw(af_weights *w, double unit);

#endif

/* mirostat.h - keeps a text's surprise near a target by moving the cut (Basu et al. 2021, "Mirostat: a neural text
 * decoding algorithm that directly controls perplexity").
 *
 * Version 1 estimates the exponent of Zipf's law from the hundred likeliest tokens and derives a top-k from it; version
 * 2 drops the tokens whose own surprise is above mu. Both then draw, and move mu by eta times how far the drawn token's
 * surprise was from tau. mu begins at 2 tau. Surprise is in bits.
 */
#ifndef AF_MIROSTAT_H
#define AF_MIROSTAT_H

#include "engine/candidates.h"

typedef struct af_mirostat {
    int version; /* 0: off */
    double tau, eta, mu;
} af_mirostat;

af_mirostat af_mirostat_of(const af_sampling *params);
/* Cuts and draws; returns the candidate's index. */
uint32_t af_mirostat_draw(af_mirostat *m, af_candidates *c, double unit);

#endif

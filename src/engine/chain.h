/* chain.h - the stages between a row of logits and a draw, in the order that a request asks for. */
#ifndef AF_CHAIN_H
#define AF_CHAIN_H

#include "engine/candidates.h"
#include "engine/rng.h"

/* True if weights.h's plain chain (temperature, top-k, top-p, min-p, in that order) does what the parameters say. */
bool af_chain_is_plain(const af_sampling *params);
/* True if a stage is part of the request's chain. */
bool af_chain_has(const af_sampling *params, af_stage stage);
/* Runs every stage over filled candidates. */
void af_chain_run(const af_sampling *params, af_candidates *c, af_rng *rng);

#endif

/* draft_cost.h - whether drafts pay: what steps of so many tokens take here, against what guesses are worth. */
#ifndef AF_DRAFT_COST_H
#define AF_DRAFT_COST_H

#include <stdbool.h>
#include <stdint.h>

enum { AF_DRAFT_MOST = 15, AF_DRAFT_SIZES = 5, AF_DRAFT_COSTS = 65 };

/* Of an engine. All zeros: nothing is known yet. */
typedef struct af_draft_costs {
    float ns[AF_DRAFT_COSTS]; /* by tokens of a step; 0: not yet known */
    float saved;              /* nanoseconds that trials may lose */
    uint32_t turn;            /* of the length to be tried next */
} af_draft_costs;

void af_draft_measure(af_draft_costs *costs, uint32_t tokens, uint64_t nanoseconds);

/* A request that could draft in this step. */
typedef struct af_draft_offer {
    float chance;
    uint32_t most; /* tokens */
} af_draft_offer;

/* How many tokens each offer should draft at the most, beside the one of each that the step has anyway, and all of them
 * together within `room`; 0: none, it would not pay. */
uint32_t af_draft_settle(af_draft_costs *costs, const af_draft_offer *offers, uint32_t count, uint32_t room);
/* What an offer takes of a draft of `size`. */
uint32_t af_draft_size(const af_draft_offer *offer, uint32_t size);

#endif

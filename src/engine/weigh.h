/* weigh.h - the loops that go over all weights of a row: the exponential and the sum.
 *
 * exp() is a polynomial, not the C library's, so that the same seed gives the same text with another C library. Each
 * width of registers has its own copy of the same arithmetic (weigh_lanes.h), so that it gives the same text on another
 * machine too: additions of a sum are in the order that four doubles twice make.
 */
#ifndef AF_WEIGH_H
#define AF_WEIGH_H

#include "base/status.h"

typedef struct af_weigher {
    /* out = exp((logit - best) * scale) of `count` logits, a multiple of 16, none above best; in place is allowed. 0
     * below exp(-87), where the result would leave the normal floats, and for NaN. To a unit or two in the last
     * place. */
    void (*weigh)(const float *logits, size_t count, float best, float scale, float *out);
    /* Of `count` weights, a multiple of 8. */
    double (*sum)(const float *weights, size_t count);
} af_weigher;

/* For registers of so many bytes (16, 32 or 64); NULL where this machine has none. */
const af_weigher *af_weigher_of(uint32_t bytes);
const af_weigher *af_weigher_best(void);

#endif

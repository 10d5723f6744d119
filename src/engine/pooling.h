/* pooling.h - from the states of a prompt's tokens to the one vector that stands for the prompt.
 *
 *     mean  of all tokens      cls  the first token's      last  the last token's
 *
 * The vector is then divided by its length, so that a dot product of two is their cosine. States are added one by one
 * in rising order of position, in double: the sum does not depend on how the prompt was cut into batches.
 */
#ifndef AF_POOLING_H
#define AF_POOLING_H

#include "base/status.h"

typedef struct af_pooled {
    af_pooling how;
    uint32_t width, count; /* states added */
    double *sum;           /* (width) */
    float *vector;         /* (width), by af_pooled_finish */
} af_pooled;

/* `how` is one of the three above. */
int af_pooled_open(af_pooling how, uint32_t width, af_pooled *out, af_error *error);
void af_pooled_close(af_pooled *pooled);

/* Whether the state of the token at `position` of `count` is one to add. */
bool af_pooling_wants(af_pooling how, uint32_t position, uint32_t count);
void af_pooled_add(af_pooled *pooled, const float *state);
/* Makes the vector, of length 1. AF_EFORMAT where there is none: a number that is not finite, or nothing but zeros. */
int af_pooled_finish(af_pooled *pooled, af_error *error);

#endif

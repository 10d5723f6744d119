/* dry.h - "don't repeat yourself": a token that would go on with a repetition loses the more, the longer that is.
 *
 * If the last n tokens of the text stand earlier in it too, and were followed there by token t, then t loses
 * multiplier * base^(n - allowed_length), for the longest such n that is at least allowed_length. A repetition does not
 * reach across a breaker (by default line ends, colons, quotes, asterisks: what any list repeats). Described by its
 * author p-e-w for text-generation-webui, 2024.
 */
#ifndef AF_DRY_H
#define AF_DRY_H

#include "base/status.h"

typedef struct af_dry {
    float multiplier, base;
    uint32_t allowed_length;
    bool active;
    uint32_t vocabulary, window; /* tokens looked back at; 0: all */
    uint8_t *breaks;             /* (vocabulary) not 0: a breaker; NULL: there are none */
    int32_t *history;            /* (capacity) the text, a ring of the window */
    uint32_t *matched;           /* (capacity) scratch: how far a place agrees with the text's end */
    size_t count, capacity;
    uint32_t *longest; /* (vocabulary) scratch: of each token, 0 between calls */
} af_dry;

/* Where the parameters change nothing, `active` is false and nothing is allocated. */
int af_dry_open(const af_sampling *params, uint32_t vocabulary, af_dry *out, af_error *error);
void af_dry_close(af_dry *dry);
/* Takes `breaks` (vocabulary), from malloc. */
void af_dry_set_breaks(af_dry *dry, uint8_t *breaks);
/* False when memory is out; the text then is as it was. */
bool af_dry_accept(af_dry *dry, int32_t id);
/* Changes the row (vocabulary) in place. Time grows with the window. */
void af_dry_apply(af_dry *dry, float *row);

#endif

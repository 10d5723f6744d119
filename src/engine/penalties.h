/* penalties.h - repeat, presence and frequency penalties over the last tokens of a text, prompt included.
 *
 * All three look at the same window of `repeat_last_n` tokens. A token that occurs c > 0 times there has its logit l
 * changed, in this order:
 *     l = l > 0 ? l / repeat : l * repeat        (once, however often it occurs)
 *     l = l - c * frequency - presence
 */
#ifndef AF_PENALTIES_H
#define AF_PENALTIES_H

#include "base/status.h"

typedef struct af_penalties {
    float repeat, presence, frequency;
    bool active;
    bool whole_text;  /* no window: `ids` are the distinct tokens so far, else the window as a ring */
    uint32_t *counts; /* (vocabulary) occurrences in the window */
    int32_t *ids;     /* (capacity) */
    size_t capacity, count, next;
    uint32_t vocabulary;
} af_penalties;

/* Where the parameters change nothing, `active` is false and nothing is allocated. */
int af_penalties_open(const af_sampling *params, uint32_t vocabulary, af_penalties *out, af_error *error);
void af_penalties_close(af_penalties *p);
void af_penalties_accept(af_penalties *p, int32_t id);
/* row = logits with the penalties applied; both (vocabulary), apart. */
void af_penalties_apply(const af_penalties *p, const float *logits, float *row);

#endif

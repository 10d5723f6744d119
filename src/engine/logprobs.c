/* logprobs.c - see logprobs.h. The likeliest few are kept in order while the row is passed once: nearly every logit is
 * below the last of them and costs one comparison.
 */
#include "engine/logprobs.h"

#include <math.h>

static double log_sum(const float *logits, uint32_t vocabulary, float best) {
    double sum = 0;
    for (uint32_t i = 0; i < vocabulary; i++) {
        const float below = logits[i] - best;
        if (below > -90) sum += (double)expf(below); /* less is nothing beside the best one's 1; NaN fails */
    }
    return log(sum);
}

static void insert(af_logprob *l, int32_t id, float logit, uint32_t top) {
    uint32_t at = l->top_count < top ? l->top_count++ : top - 1;
    for (; at > 0 && l->top[at - 1] < logit; at--) {
        l->top[at] = l->top[at - 1];
        l->top_ids[at] = l->top_ids[at - 1];
    }
    l->top[at] = logit;
    l->top_ids[at] = id;
}

static void find_top(const float *logits, uint32_t vocabulary, uint32_t top, af_logprob *l) {
    for (uint32_t i = 0; top > 0 && i < vocabulary; i++) {
        if (isnan(logits[i]) || (l->top_count == top && logits[i] <= l->top[top - 1])) continue;
        insert(l, (int32_t)i, logits[i], top);
    }
}

void af_logprob_of(const float *logits, uint32_t vocabulary, int32_t id, uint32_t top, af_logprob *out) {
    float best = -INFINITY;
    for (uint32_t i = 0; i < vocabulary; i++) best = logits[i] > best ? logits[i] : best;
    const double norm = (double)best + log_sum(logits, vocabulary, best);
    out->id = id;
    out->top_count = 0;
    out->logprob = (float)((double)logits[id] - norm);
    find_top(logits, vocabulary, top, out);
    for (uint32_t i = 0; i < out->top_count; i++) out->top[i] = (float)((double)out->top[i] - norm);
}

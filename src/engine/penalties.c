/* penalties.c - the window is a ring of ids beside a count for each token of the vocabulary, so that accepting a token
 * takes constant time and applying takes the window's length. A window over the whole text needs no ring: tokens never
 * leave it, and a list of the distinct ones is enough.
 *
 * An id may stand in the ring several times. That is harmless: the new logit is computed from the untouched row and the
 * count, so that writing it again writes the same.
 */
#include "engine/penalties.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static bool changes_something(const af_sampling *p) {
    return p->repeat_last_n != 0 &&
           (p->repeat_penalty != 1.0f || p->presence_penalty != 0.0f || p->frequency_penalty != 0.0f);
}

int af_penalties_open(const af_sampling *params, uint32_t vocabulary, af_penalties *out, af_error *error) {
    *out = (af_penalties){.repeat = params->repeat_penalty,
                          .presence = params->presence_penalty,
                          .frequency = params->frequency_penalty,
                          .active = changes_something(params),
                          .whole_text = params->repeat_last_n < 0,
                          .vocabulary = vocabulary};
    if (!out->active) return AF_OK;
    out->capacity = out->whole_text ? vocabulary : (size_t)params->repeat_last_n;
    out->counts = calloc(vocabulary, sizeof *out->counts);
    out->ids = calloc(out->capacity, sizeof *out->ids);
    if (out->counts && out->ids) return AF_OK;
    af_penalties_close(out);
    return af_fail_memory(error, (vocabulary + out->capacity) * sizeof(uint32_t), "the penalties' window");
}

void af_penalties_close(af_penalties *p) {
    free(p->counts);
    free(p->ids);
    p->counts = NULL;
    p->ids = NULL;
}

static void ring_accept(af_penalties *p, int32_t id) {
    if (p->count == p->capacity) {
        p->counts[p->ids[p->next]]--;
    } else {
        p->count++;
    }
    p->ids[p->next] = id;
    p->next = p->next + 1 == p->capacity ? 0 : p->next + 1;
    p->counts[id]++;
}

void af_penalties_accept(af_penalties *p, int32_t id) {
    if (!p->active) return;
    assert(id >= 0 && (uint32_t)id < p->vocabulary);
    if (!p->whole_text) {
        ring_accept(p, id);
    } else if (p->counts[id]++ == 0) {
        p->ids[p->count++] = id;
    }
}

static float penalized(const af_penalties *p, float logit, uint32_t occurrences) {
    float l = logit > 0.0f ? logit / p->repeat : logit * p->repeat;
    return l - (float)occurrences * p->frequency - p->presence;
}

void af_penalties_apply(const af_penalties *p, const float *logits, float *row) {
    memcpy(row, logits, p->vocabulary * sizeof *row);
    for (size_t i = 0; i < p->count; i++) {
        int32_t id = p->ids[i];
        row[id] = penalized(p, logits[id], p->counts[id]);
    }
}

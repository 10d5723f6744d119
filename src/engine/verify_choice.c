/* verify_choice.c - what a device chooses of its logits: the best token of a row, or the row's best logits in a list.
 *
 * Both are judged by the logits that its own head wrote, so that an error there is not told twice. Where a device reads
 * a row again after the hook it finds the reference's in it: a list may be of either.
 */
#include "engine/verify.h"

#include "engine/weights.h"

#include <math.h>
#include <string.h>

bool af_verify_chooses_top(uint32_t row) {
    return row % 2 == 1; /* the first row's token goes into a later batch */
}

/* The least of the AF_TOP_MOST best of a row; -inf where there are fewer. */
static float bound_of(const float *row, uint32_t width) {
    float best[AF_TOP_MOST]; /* falling */
    uint32_t count = 0;
    for (uint32_t i = 0; i < width; i++) {
        if (count == AF_TOP_MOST && !(row[i] > best[count - 1])) continue;
        uint32_t at = count < AF_TOP_MOST ? count++ : count - 1;
        for (; at > 0 && best[at - 1] < row[i]; at--) best[at] = best[at - 1];
        best[at] = row[i];
    }
    return count == AF_TOP_MOST ? best[count - 1] : -INFINITY;
}

bool af_verify_holds_top(const float *found, const float *row, uint32_t width) {
    const float bound = bound_of(row, width);
    for (uint32_t i = 0; i < width; i++) {
        if (memcmp(&found[i], &row[i], sizeof *row) == 0) continue;
        if (found[i] != -INFINITY || !(row[i] < bound)) return false;
    }
    return true;
}

/* `own` and `reference`: (rows, row_width). */
static bool top_is_right(const af_verifier *v, const float *found, const float *own, const float *reference) {
    return found &&
           (af_verify_holds_top(found, own, v->row_width) || af_verify_holds_top(found, reference, v->row_width));
}

void af_verify_choices(af_verifier *v, const af_result *result, const float *reference) {
    const af_verify_subject best = {.what = "choice", .name = "the best token", .tokens = v->tokens};
    const af_verify_subject top = {.what = "choice", .name = "the best logits", .tokens = v->tokens};
    for (uint32_t r = 0; r < result->row_count; r++) {
        const size_t at = (size_t)r * v->row_width;
        if (af_verify_chooses_top(r))
            af_verify_choice(v->table, &top, top_is_right(v, result->logits[r], v->own + at, reference + at));
        else
            af_verify_choice(v->table, &best, result->ids[r] == af_best_token(v->own + at, v->row_width));
    }
}

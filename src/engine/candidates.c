/* candidates.c - see candidates.h. A key of the sort holds the logit's bits above, turned so that larger logits give
 * smaller numbers, and the id below: a stable sort of the upper half alone then keeps lower ids first.
 */
#include "engine/candidates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DIGIT_BITS 11
#define DIGITS     3 /* of 11 bits, in 32 */

int af_candidates_open(uint32_t vocabulary, af_candidates *out, af_error *error) {
    *out = (af_candidates){.capacity = vocabulary};
    out->logits = malloc(vocabulary * sizeof *out->logits);
    out->ids = malloc(vocabulary * sizeof *out->ids);
    out->p = malloc(vocabulary * sizeof *out->p);
    for (int i = 0; i < 2; i++) out->keys[i] = malloc(vocabulary * sizeof *out->keys[i]);
    if (out->logits && out->ids && out->p && out->keys[0] && out->keys[1]) return AF_OK;
    af_candidates_close(out);
    return af_fail_memory(error, vocabulary * (2 * sizeof(uint64_t) + 16), "the sampler's candidates");
}

void af_candidates_close(af_candidates *c) {
    free(c->logits);
    free(c->ids);
    free(c->p);
    for (int i = 0; i < 2; i++) free(c->keys[i]);
    *c = (af_candidates){0};
}

/* ---- Sorting ---- */

/* Floats as unsigned numbers in falling order: positive ones have all bits but the sign turned, negative ones none. */
static uint64_t key_of(float logit, uint32_t id) {
    uint32_t bits;
    logit += 0.0f; /* -0 is 0 */
    memcpy(&bits, &logit, sizeof bits);
    if (!(bits >> 31)) bits ^= 0x7FFFFFFFu;
    return (uint64_t)bits << 32 | id;
}

static void sort_by_digit(const uint64_t *from, uint64_t *to, uint32_t count, int shift) {
    uint32_t start[1 << DIGIT_BITS] = {0};
    const uint64_t mask = (1u << DIGIT_BITS) - 1;
    for (uint32_t i = 0; i < count; i++) start[from[i] >> shift & mask]++;
    for (uint32_t digit = 0, sum = 0; digit <= mask; digit++) {
        const uint32_t here = start[digit];
        start[digit] = sum;
        sum += here;
    }
    for (uint32_t i = 0; i < count; i++) to[start[from[i] >> shift & mask]++] = from[i];
}

bool af_candidates_fill(af_candidates *c, const float *logits) {
    c->count = 0;
    for (uint32_t id = 0; id < c->capacity; id++)
        if (logits[id] > -INFINITY) c->keys[0][c->count++] = key_of(logits[id], id);
    for (int digit = 0; digit < DIGITS; digit++)
        sort_by_digit(c->keys[digit % 2], c->keys[1 - digit % 2], c->count, 32 + digit * DIGIT_BITS);
    for (uint32_t i = 0; i < c->count; i++) {
        c->ids[i] = (int32_t)(uint32_t)c->keys[DIGITS % 2][i];
        c->logits[i] = logits[c->ids[i]];
    }
    return c->count > 0 && isfinite(c->logits[0]);
}

/* ---- Temperature ---- */

void af_candidates_weigh(af_candidates *c) {
    double sum = 0;
    for (uint32_t i = 0; i < c->count; i++) sum += c->p[i] = exp((double)c->logits[i] - (double)c->logits[0]);
    for (uint32_t i = 0; i < c->count; i++) c->p[i] /= sum;
}

/* The best logit becomes 0, so that no division by a small temperature leaves the floats but at -inf. */
void af_candidates_temper(af_candidates *c, float temperature) {
    const float best = c->logits[0];
    for (uint32_t i = 0; i < c->count; i++)
        c->logits[i] = c->logits[i] == best ? 0.0f : (c->logits[i] - best) / temperature;
}

/* Of the weighed candidates, in nats. */
static double entropy_of(const af_candidates *c) {
    double sum = 0;
    for (uint32_t i = 0; i < c->count; i++)
        if (c->p[i] > 0) sum -= c->p[i] * log(c->p[i]);
    return sum;
}

void af_candidates_temper_by_entropy(af_candidates *c, float temperature, float range, float exponent) {
    if (c->count < 2) return;
    const double least = fmax(0, (double)temperature - (double)range), most = (double)temperature + (double)range;
    af_candidates_weigh(c);
    const double share = fmin(1, entropy_of(c) / log(c->count));
    const double chosen = least + (most - least) * pow(share, (double)exponent);
    af_candidates_temper(c, (float)fmax(chosen, 1e-6));
}

/* ---- Cuts ---- */

static void keep(af_candidates *c, uint32_t count) {
    if (count < c->count) c->count = count ? count : 1;
}

void af_candidates_keep_top_k(af_candidates *c, uint32_t k) {
    keep(c, k);
}

void af_candidates_keep_top_p(af_candidates *c, float p) {
    double mass = 0;
    uint32_t count = 0;
    af_candidates_weigh(c);
    while (count < c->count && mass < (double)p) mass += c->p[count++];
    keep(c, count);
}

void af_candidates_keep_min_p(af_candidates *c, float p) {
    uint32_t count = 0;
    af_candidates_weigh(c);
    while (count < c->count && c->p[count] >= (double)p * c->p[0]) count++;
    keep(c, count);
}

void af_candidates_keep_sigma(af_candidates *c, float n) {
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < c->count; i++) sum += (double)c->logits[i];
    const double mean = sum / c->count;
    for (uint32_t i = 0; i < c->count; i++) squares += ((double)c->logits[i] - mean) * ((double)c->logits[i] - mean);
    const double least = (double)c->logits[0] - (double)n * sqrt(squares / c->count);
    uint32_t count = 0;
    while (count < c->count && (double)c->logits[count] >= least) count++;
    keep(c, count);
}

void af_candidates_drop_top(af_candidates *c, float threshold) {
    uint32_t above = 0;
    af_candidates_weigh(c);
    while (above < c->count && c->p[above] >= (double)threshold) above++;
    if (above < 2) return;
    c->count -= above - 1;
    memmove(c->logits, c->logits + above - 1, c->count * sizeof *c->logits);
    memmove(c->ids, c->ids + above - 1, c->count * sizeof *c->ids);
}

/* A token's surprise falls with its place, so that those nearest to the entropy are neighbours: the two ends of a
 * window grow outwards from where the surprise passes it, the nearer one first. */
void af_candidates_keep_typical(af_candidates *c, float p) {
    af_candidates_weigh(c);
    const double entropy = entropy_of(c);
    uint32_t first = 0;
    while (first + 1 < c->count && -log(c->p[first]) < entropy) first++;
    uint32_t end = first; /* [first, end) is kept */
    double mass = 0;
    while (mass < (double)p && (first > 0 || end < c->count)) {
        const double before = first > 0 ? fabs(-log(c->p[first - 1]) - entropy) : INFINITY;
        const double after = end < c->count ? fabs(-log(c->p[end]) - entropy) : INFINITY;
        const bool forward = first == 0 || (end < c->count && after < before);
        mass += forward ? c->p[end++] : c->p[--first];
    }
    c->count = end - first;
    memmove(c->logits, c->logits + first, c->count * sizeof *c->logits);
    memmove(c->ids, c->ids + first, c->count * sizeof *c->ids);
}

uint32_t af_candidates_draw(af_candidates *c, double unit) {
    af_candidates_weigh(c);
    for (uint32_t i = 0; i + 1 < c->count; i++) {
        unit -= c->p[i];
        if (unit < 0) return i;
    }
    return c->count - 1;
}

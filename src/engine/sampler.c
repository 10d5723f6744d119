/* sampler.c - the chain. Its order is the seed document's (penalties, temperature, softmax, top-p, draw), with top-k
 * and min-p where users of other servers expect them: see af_sampling in airframe.h. The parts are in penalties.c,
 * weights.c and rng.c; this file holds the bounds of the parameters and who calls whom.
 */
#include "engine/sampler.h"
#include "base/os.h"
#include "engine/penalties.h"
#include "engine/rng.h"
#include "engine/weights.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

struct af_sampler {
    af_sampling params;
    uint32_t vocabulary;
    af_rng rng;
    af_penalties penalties;
    af_weights weights; /* only where something is drawn */
    float *row;         /* (vocabulary) the penalized logits; only with penalties */
};

/* ---- Bounds ---- */

typedef struct float_bound {
    const char *name;
    size_t offset;
    float least, most;
    bool open; /* least itself is not allowed */
} float_bound;

static const float_bound float_bounds[] = {
    {"temperature", offsetof(af_sampling, temperature), 0, FLT_MAX, false},
    {"top_p", offsetof(af_sampling, top_p), 0, 1, true},
    {"min_p", offsetof(af_sampling, min_p), 0, 1, false},
    {"repeat_penalty", offsetof(af_sampling, repeat_penalty), 0, FLT_MAX, true},
    {"presence_penalty", offsetof(af_sampling, presence_penalty), -2, 2, false},
    {"frequency_penalty", offsetof(af_sampling, frequency_penalty), -2, 2, false},
};

typedef struct int_bound {
    const char *name;
    size_t offset;
    int32_t least;
} int_bound;

static const int_bound int_bounds[] = {
    {"top_k", offsetof(af_sampling, top_k), 0},
    {"repeat_last_n", offsetof(af_sampling, repeat_last_n), -1},
};

static int check_float(const float_bound *bound, float value, af_error *error) {
    bool above = bound->open ? value > bound->least : value >= bound->least;
    if (above && value <= bound->most) return AF_OK; /* NaN fails both */
    const char *least = bound->open ? "more than" : "at least";
    if (bound->most == FLT_MAX) {
        return af_fail(error, AF_EINVAL, "%s: found %g, must be finite and %s %g", bound->name, (double)value, least,
                       (double)bound->least);
    }
    return af_fail(error, AF_EINVAL, "%s: found %g, must be %s %g and at most %g", bound->name, (double)value, least,
                   (double)bound->least, (double)bound->most);
}

int af_sampling_check(const af_sampling *params, af_error *error) {
    const char *base = (const char *)params;
    for (size_t i = 0; i < sizeof float_bounds / sizeof *float_bounds; i++) {
        const float *value = (const float *)(const void *)(base + float_bounds[i].offset);
        int rc = check_float(&float_bounds[i], *value, error);
        if (rc < 0) return rc;
    }
    for (size_t i = 0; i < sizeof int_bounds / sizeof *int_bounds; i++) {
        const int32_t *value = (const int32_t *)(const void *)(base + int_bounds[i].offset);
        if (*value >= int_bounds[i].least) continue;
        return af_fail(error, AF_EINVAL, "%s: found %d, must be at least %d", int_bounds[i].name, (int)*value,
                       (int)int_bounds[i].least);
    }
    return AF_OK;
}

/* ---- The sampler ---- */

static bool takes_best(const af_sampling *params) {
    return params->temperature == 0.0f || params->top_k == 1;
}

static int allocate_scratch(af_sampler *s, af_error *error) {
    int rc = af_penalties_open(&s->params, s->vocabulary, &s->penalties, error);
    if (rc == 0 && !takes_best(&s->params)) rc = af_weights_open(s->vocabulary, &s->weights, error);
    if (rc < 0 || !s->penalties.active) return rc;
    s->row = malloc(s->vocabulary * sizeof *s->row);
    return s->row ? AF_OK : af_fail_memory(error, s->vocabulary * sizeof *s->row, "the sampler's row");
}

int af_sampler_open(const af_sampling *params, uint32_t vocabulary, af_sampler **out, af_error *error) {
    assert(vocabulary > 0 && vocabulary <= INT32_MAX);
    int rc = af_sampling_check(params, error);
    if (rc < 0) return rc;
    af_sampler *s = calloc(1, sizeof *s);
    if (!s) return af_fail_memory(error, sizeof *s, "a sampler");
    s->params = *params;
    s->vocabulary = vocabulary;
    if (params->seed == AF_SEED_RANDOM) af_os_random(&s->params.seed, sizeof s->params.seed);
    af_rng_seed(&s->rng, s->params.seed);
    rc = allocate_scratch(s, error);
    if (rc < 0) {
        af_sampler_close(s);
        return rc;
    }
    *out = s;
    return AF_OK;
}

void af_sampler_close(af_sampler *s) {
    if (!s) return;
    free(s->row);
    af_weights_close(&s->weights);
    af_penalties_close(&s->penalties);
    free(s);
}

bool af_sampler_is_greedy(const af_sampler *s) {
    return takes_best(&s->params) && !s->penalties.active;
}

void af_sampler_accept(af_sampler *s, int32_t id) {
    af_penalties_accept(&s->penalties, id);
}

static int32_t draw(af_sampler *s, const float *logits) {
    const af_sampling *p = &s->params;
    af_weights *w = &s->weights;
    double unit = af_rng_unit(&s->rng); /* one draw a token, whatever the row is */
    if (!af_weights_scan(w, logits)) return af_best_token(logits, s->vocabulary);
    uint32_t top_k = (uint32_t)p->top_k < s->vocabulary ? (uint32_t)p->top_k : 0;
    af_weights_compute(w, logits, p->temperature, top_k, p->min_p);
    if (top_k > 0) af_weights_keep_top_k(w, top_k);
    if (p->top_p < 1.0f) af_weights_keep_top_p(w, p->top_p);
    if (p->min_p > 0.0f) af_weights_keep_min_p(w, p->min_p);
    return af_weights_draw(w, unit);
}

int32_t af_sampler_choose(af_sampler *s, const float *logits) {
    if (s->penalties.active) {
        af_penalties_apply(&s->penalties, logits, s->row);
        logits = s->row;
    }
    return takes_best(&s->params) ? af_best_token(logits, s->vocabulary) : draw(s, logits);
}

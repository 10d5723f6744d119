/* sampler.c - the chain. Its order is the seed document's (penalties, temperature, softmax, top-p, draw), with top-k
 * and min-p where users of other servers expect them: see af_sampling in airframe.h. What changes logits is in
 * penalties.c and dry.c; weights.c has the plain chain, chain.c, candidates.c and mirostat.c all others. This file
 * holds the bounds of the parameters and who calls whom.
 */
#include "engine/sampler.h"
#include "base/os.h"
#include "engine/chain.h"
#include "engine/dry.h"
#include "engine/mirostat.h"
#include "engine/penalties.h"
#include "engine/weights.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct af_sampler {
    af_sampling params;
    uint32_t vocabulary;
    af_rng rng;
    af_penalties penalties;
    af_dry dry;
    af_mirostat mirostat;
    af_logit_bias *bias; /* (bias_count + end_count) the request's, then the end tokens to forbid */
    size_t bias_count, end_count;
    uint32_t answered, min_tokens;
    bool plain;
    af_weights weights;       /* only where something is drawn, by the plain chain */
    af_candidates candidates; /* or by another */
    float *row;               /* (vocabulary) the changed logits; only where they may be */
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
    {"typical_p", offsetof(af_sampling, typical_p), 0, 1, false},
    {"top_n_sigma", offsetof(af_sampling, top_n_sigma), 0, FLT_MAX, false},
    {"dynatemp_range", offsetof(af_sampling, dynatemp_range), 0, FLT_MAX, false},
    {"dynatemp_exponent", offsetof(af_sampling, dynatemp_exponent), 0, FLT_MAX, false},
    {"xtc_probability", offsetof(af_sampling, xtc_probability), 0, 1, false},
    {"xtc_threshold", offsetof(af_sampling, xtc_threshold), 0, 1, false},
    {"dry_multiplier", offsetof(af_sampling, dry_multiplier), 0, FLT_MAX, false},
    {"dry_base", offsetof(af_sampling, dry_base), 0, FLT_MAX, false},
    {"mirostat_tau", offsetof(af_sampling, mirostat_tau), 0, FLT_MAX, false},
    {"mirostat_eta", offsetof(af_sampling, mirostat_eta), 0, FLT_MAX, false},
};

typedef struct int_bound {
    const char *name;
    size_t offset;
    int32_t least, most;
} int_bound;

static const int_bound int_bounds[] = {
    {"top_k", offsetof(af_sampling, top_k), 0, INT32_MAX},
    {"repeat_last_n", offsetof(af_sampling, repeat_last_n), -1, INT32_MAX},
    {"dry_allowed_length", offsetof(af_sampling, dry_allowed_length), 0, INT32_MAX},
    {"dry_last_n", offsetof(af_sampling, dry_last_n), -1, INT32_MAX},
    {"mirostat", offsetof(af_sampling, mirostat), 0, 2},
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
        if (*value >= int_bounds[i].least && *value <= int_bounds[i].most) continue;
        return af_fail(error, AF_EINVAL, "%s: found %d, must be at least %d and at most %d", int_bounds[i].name,
                       (int)*value, (int)int_bounds[i].least, (int)int_bounds[i].most);
    }
    for (size_t i = 0; i < AF_STAGES; i++)
        if (params->order[i] >= AF_STAGES)
            return af_fail(error, AF_EINVAL, "order[%zu]: found stage %d, there are %d", i, params->order[i],
                           AF_STAGES - 1);
    return AF_OK;
}

/* ---- The sampler ---- */

static bool takes_best(const af_sampling *params) {
    return params->temperature == 0.0f || (params->top_k == 1 && af_chain_is_plain(params));
}

/* A stage that the request's order leaves out is off. */
static af_sampling ordered(const af_sampling *params) {
    af_sampling p = *params;
    if (!af_chain_has(params, AF_STAGE_PENALTIES)) p.repeat_last_n = 0;
    if (!af_chain_has(params, AF_STAGE_DRY)) p.dry_multiplier = 0;
    return p;
}

static int allocate_row(af_sampler *s, af_error *error) {
    if (s->row) return AF_OK;
    s->row = malloc(s->vocabulary * sizeof *s->row);
    return s->row ? AF_OK : af_fail_memory(error, s->vocabulary * sizeof *s->row, "the sampler's row");
}

static int allocate_scratch(af_sampler *s, af_error *error) {
    int rc = af_penalties_open(&s->params, s->vocabulary, &s->penalties, error);
    if (rc == 0) rc = af_dry_open(&s->params, s->vocabulary, &s->dry, error);
    if (rc == 0 && !takes_best(&s->params))
        rc = s->plain ? af_weights_open(s->vocabulary, &s->weights, error)
                      : af_candidates_open(s->vocabulary, &s->candidates, error);
    if (rc < 0 || !(s->penalties.active || s->dry.active)) return rc;
    return allocate_row(s, error);
}

int af_sampler_open(const af_sampling *params, uint32_t vocabulary, af_sampler **out, af_error *error) {
    assert(vocabulary > 0 && vocabulary <= INT32_MAX);
    int rc = af_sampling_check(params, error);
    if (rc < 0) return rc;
    af_sampler *s = calloc(1, sizeof *s);
    if (!s) return af_fail_memory(error, sizeof *s, "a sampler");
    s->params = ordered(params);
    s->plain = af_chain_is_plain(params);
    s->mirostat = af_mirostat_of(params);
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
    free(s->bias);
    af_candidates_close(&s->candidates);
    af_weights_close(&s->weights);
    af_dry_close(&s->dry);
    af_penalties_close(&s->penalties);
    free(s);
}

static int copy_biases(af_sampler *s, const af_sampler_extras *extras, af_error *error) {
    const size_t ends = extras->min_tokens ? extras->end_count : 0, count = extras->bias_count + ends;
    if (count == 0) return AF_OK;
    s->bias = malloc(count * sizeof *s->bias);
    if (!s->bias) return af_fail_memory(error, count * sizeof *s->bias, "logit biases");
    for (size_t i = 0; i < extras->bias_count; i++) s->bias[i] = extras->bias[i];
    for (size_t i = 0; i < ends; i++) s->bias[extras->bias_count + i] = (af_logit_bias){extras->ends[i], -INFINITY};
    s->bias_count = extras->bias_count;
    s->end_count = ends;
    s->min_tokens = extras->min_tokens;
    return allocate_row(s, error);
}

int af_sampler_extend(af_sampler *s, const af_sampler_extras *extras, af_error *error) {
    if (s->dry.active)
        af_dry_set_breaks(&s->dry, extras->breaks);
    else
        free(extras->breaks);
    return copy_biases(s, extras, error);
}

/* Biases that hold now. */
static size_t bias_count(const af_sampler *s) {
    return s->bias_count + (s->answered < s->min_tokens ? s->end_count : 0);
}

static bool changes_row(const af_sampler *s) {
    return s->penalties.active || s->dry.active || bias_count(s) > 0;
}

bool af_sampler_is_greedy(const af_sampler *s) {
    return takes_best(&s->params) && !changes_row(s);
}

/* One of the vocabulary's size cuts nothing. */
static uint32_t top_k_of(const af_sampler *s) {
    const uint32_t k = (uint32_t)s->params.top_k;
    return k < s->vocabulary ? k : 0;
}

/* Whatever top-k drops weighs nothing, so that sums over blocks of the row (weights.c) stay the same bit for bit. */
bool af_sampler_takes_top(const af_sampler *s, uint32_t most) {
    return s->plain && !changes_row(s) && top_k_of(s) > 0 && top_k_of(s) <= most;
}

bool af_sampler_draws_whole(const af_sampler *s) {
    return s->plain && !changes_row(s) && !takes_best(&s->params) && top_k_of(s) == 0;
}

/* The plain chain takes one number a token, whatever the row is. */
af_draw af_sampler_draw(const af_sampler *s, uint32_t ahead) {
    const af_sampling *p = &s->params;
    af_rng rng = s->rng;
    for (uint32_t i = 0; i < ahead; i++) af_rng_unit(&rng);
    return (af_draw){.scale = af_weights_scale(p->temperature),
                     .top_k = top_k_of(s),
                     .top_p = p->top_p,
                     .min_p = p->min_p,
                     .unit = (float)af_rng_unit(&rng)};
}

void af_sampler_accept(af_sampler *s, int32_t id) {
    af_penalties_accept(&s->penalties, id);
    if (!af_dry_accept(&s->dry, id)) s->dry.count = 0;
}

void af_sampler_answered(af_sampler *s, int32_t id) {
    af_sampler_accept(s, id);
    s->answered++;
}

static int32_t draw(af_sampler *s, const float *logits) {
    const af_sampling *p = &s->params;
    af_weights *w = &s->weights;
    double unit = af_rng_unit(&s->rng); /* one draw a token, whatever the row is */
    if (!af_weights_scan(w, logits)) return af_best_token(logits, s->vocabulary);
    const uint32_t top_k = top_k_of(s);
    af_weights_compute(w, logits, p->temperature, top_k, p->min_p);
    if (top_k > 0) af_weights_keep_top_k(w, top_k);
    if (p->top_p < 1.0f) af_weights_keep_top_p(w, p->top_p);
    if (p->min_p > 0.0f) af_weights_keep_min_p(w, p->min_p);
    return af_weights_draw(w, unit);
}

static int32_t draw_from_candidates(af_sampler *s, const float *logits) {
    af_candidates *c = &s->candidates;
    const double unit = af_rng_unit(&s->rng);
    if (!af_candidates_fill(c, logits)) return af_best_token(logits, s->vocabulary);
    af_chain_run(&s->params, c, &s->rng);
    return c->ids[s->mirostat.version ? af_mirostat_draw(&s->mirostat, c, unit) : af_candidates_draw(c, unit)];
}

static const float *change_row(af_sampler *s, const float *logits) {
    if (s->penalties.active)
        af_penalties_apply(&s->penalties, logits, s->row);
    else
        memcpy(s->row, logits, s->vocabulary * sizeof *s->row);
    if (s->dry.active) af_dry_apply(&s->dry, s->row);
    for (size_t i = 0; i < bias_count(s); i++) s->row[s->bias[i].id] += s->bias[i].bias;
    return s->row;
}

int32_t af_sampler_choose(af_sampler *s, const float *logits) {
    if (changes_row(s)) logits = change_row(s, logits);
    if (takes_best(&s->params)) return af_best_token(logits, s->vocabulary);
    return s->plain ? draw(s, logits) : draw_from_candidates(s, logits);
}

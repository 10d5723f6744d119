/* chain.c - see chain.h. A stage is a row of the table: its name, whether the parameters turn it on, what it does. */
#include "engine/chain.h"

#include <string.h>

typedef struct stage {
    const char *name;
    bool (*on)(const af_sampling *p); /* NULL: it is no cut, but changes logits before the chain */
    void (*run)(const af_sampling *p, af_candidates *c, af_rng *rng);
    bool plain; /* weights.h has it */
} stage;

static bool always(const af_sampling *p) {
    (void)p;
    return true;
}

static void temper(const af_sampling *p, af_candidates *c, af_rng *rng) {
    (void)rng;
    if (p->dynatemp_range > 0)
        af_candidates_temper_by_entropy(c, p->temperature, p->dynatemp_range,
                                        p->dynatemp_exponent > 0 ? p->dynatemp_exponent : 1);
    else
        af_candidates_temper(c, p->temperature);
}

static bool has_sigma(const af_sampling *p) {
    return p->top_n_sigma > 0;
}

static void keep_sigma(const af_sampling *p, af_candidates *c, af_rng *rng) {
    (void)rng;
    af_candidates_keep_sigma(c, p->top_n_sigma);
}

static bool has_top_k(const af_sampling *p) {
    return p->top_k > 0;
}

static void keep_top_k(const af_sampling *p, af_candidates *c, af_rng *rng) {
    (void)rng;
    af_candidates_keep_top_k(c, (uint32_t)p->top_k);
}

static bool has_typical(const af_sampling *p) {
    return p->typical_p > 0 && p->typical_p < 1;
}

static void keep_typical(const af_sampling *p, af_candidates *c, af_rng *rng) {
    (void)rng;
    af_candidates_keep_typical(c, p->typical_p);
}

static bool has_top_p(const af_sampling *p) {
    return p->top_p < 1;
}

static void keep_top_p(const af_sampling *p, af_candidates *c, af_rng *rng) {
    (void)rng;
    af_candidates_keep_top_p(c, p->top_p);
}

static bool has_min_p(const af_sampling *p) {
    return p->min_p > 0;
}

static void keep_min_p(const af_sampling *p, af_candidates *c, af_rng *rng) {
    (void)rng;
    af_candidates_keep_min_p(c, p->min_p);
}

static bool has_xtc(const af_sampling *p) {
    return p->xtc_probability > 0 && p->xtc_threshold <= 0.5f;
}

static void drop_top(const af_sampling *p, af_candidates *c, af_rng *rng) {
    if (af_rng_unit(rng) < (double)p->xtc_probability) af_candidates_drop_top(c, p->xtc_threshold);
}

static const stage stages[AF_STAGES] = {
    [AF_STAGE_PENALTIES] = {"penalties", NULL, NULL, true},
    [AF_STAGE_DRY] = {"dry", NULL, NULL, true},
    [AF_STAGE_TEMPERATURE] = {"temperature", always, temper, true},
    [AF_STAGE_TOP_N_SIGMA] = {"top_n_sigma", has_sigma, keep_sigma, false},
    [AF_STAGE_TOP_K] = {"top_k", has_top_k, keep_top_k, true},
    [AF_STAGE_TYPICAL_P] = {"typ_p", has_typical, keep_typical, false},
    [AF_STAGE_TOP_P] = {"top_p", has_top_p, keep_top_p, true},
    [AF_STAGE_MIN_P] = {"min_p", has_min_p, keep_min_p, true},
    [AF_STAGE_XTC] = {"xtc", has_xtc, drop_top, false},
};

const char *af_stage_name(af_stage at) {
    return at > AF_STAGE_END && at < AF_STAGES ? stages[at].name : "";
}

af_stage af_stage_named(const char *name) {
    for (int i = AF_STAGE_END + 1; i < AF_STAGES; i++)
        if (strcmp(stages[i].name, name) == 0) return (af_stage)i;
    return AF_STAGE_END;
}

/* The stage at `place` of the chain; the enum's own order is the default one. */
static af_stage stage_at(const af_sampling *p, int place) {
    if (place >= AF_STAGES) return AF_STAGE_END;
    return p->order[0] ? (af_stage)p->order[place] : place + 1 < AF_STAGES ? (af_stage)(place + 1) : AF_STAGE_END;
}

bool af_chain_has(const af_sampling *params, af_stage wanted) {
    for (int place = 0; stage_at(params, place); place++)
        if (stage_at(params, place) == wanted) return true;
    return false;
}

bool af_chain_is_plain(const af_sampling *params) {
    if (params->order[0] || params->mirostat || params->dynatemp_range > 0) return false;
    for (int i = AF_STAGE_END + 1; i < AF_STAGES; i++)
        if (!stages[i].plain && stages[i].on(params)) return false;
    return true;
}

void af_chain_run(const af_sampling *params, af_candidates *c, af_rng *rng) {
    for (int place = 0; stage_at(params, place); place++) {
        const af_stage at = stage_at(params, place);
        const stage *s = &stages[at];
        if (params->mirostat && at != AF_STAGE_TEMPERATURE) continue;
        if (s->run && s->on(params)) s->run(params, c, rng);
    }
}

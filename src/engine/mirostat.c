/* mirostat.c - see mirostat.h. */
#include "engine/mirostat.h"

#include <math.h>

#define ZIPF_TOKENS 100 /* the exponent is estimated from these */

af_mirostat af_mirostat_of(const af_sampling *params) {
    const double tau = params->mirostat_tau > 0 ? (double)params->mirostat_tau : 5;
    const double eta = params->mirostat_eta > 0 ? (double)params->mirostat_eta : 0.1;
    return (af_mirostat){.version = params->mirostat, .tau = tau, .eta = eta, .mu = 2 * tau};
}

/* Least squares through the origin of log(p_i / p_i+1) over log((i + 2) / (i + 1)). */
static double zipf_exponent(const af_candidates *c) {
    double products = 0, squares = 0;
    for (uint32_t i = 0; i + 1 < c->count && i + 1 < ZIPF_TOKENS && c->p[i + 1] > 0; i++) {
        const double t = log((i + 2.0) / (i + 1.0));
        products += t * log(c->p[i] / c->p[i + 1]);
        squares += t * t;
    }
    return squares > 0 ? products / squares : 1;
}

static void cut_by_zipf(const af_mirostat *m, af_candidates *c) {
    const double s = zipf_exponent(c), epsilon = s - 1;
    /* The formula's limit where the exponent is 1: sum of 1/i over N tokens is about ln N. */
    const double norm = fabs(epsilon) < 1e-6 ? log(c->count) : (1 - pow(c->count, -epsilon)) / epsilon;
    const double k = pow(pow(2, m->mu) / norm, 1 / s);
    af_candidates_keep_top_k(c, k >= 1 && k < c->count ? (uint32_t)k : k < 1 ? 1 : c->count);
}

static void cut_by_surprise(const af_mirostat *m, af_candidates *c) {
    uint32_t count = 0;
    while (count < c->count && -log2(c->p[count]) <= m->mu) count++;
    af_candidates_keep_top_k(c, count ? count : 1);
}

uint32_t af_mirostat_draw(af_mirostat *m, af_candidates *c, double unit) {
    af_candidates_weigh(c);
    if (m->version == 1)
        cut_by_zipf(m, c);
    else
        cut_by_surprise(m, c);
    const uint32_t chosen = af_candidates_draw(c, unit);
    m->mu -= m->eta * (-log2(c->p[chosen]) - m->tau);
    return chosen;
}

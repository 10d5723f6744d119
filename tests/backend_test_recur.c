/* backend_test_recur.c - recurrent layers for backend_test.c: their plan with random weights, and their formulas in
 * double. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend_test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Two value heads for each key head; columns of a matrix that fill four vectors and a part of one. */
enum { KEY_HEADS = 2, VALUE_HEADS = 4, STATE_K = 12, STATE_V = 70, TAPS = 3 };
enum { KEYS = KEY_HEADS * STATE_K, VALUES = VALUE_HEADS * STATE_V, MIXED = 2 * KEYS + VALUES };

/* ---- The plan ---- */

static uint16_t new_carry(af_plan *plan, uint64_t floats) {
    uint16_t carry = 0;
    assert_int_equal(af_plan_carry(plan, floats, &carry, NULL), 0);
    return carry;
}

static void append_pair(af_plan *plan, const shape *s, af_value x, const af_value out[2], const uint32_t rows[2]) {
    append_op(plan, &(af_op){.kind = AF_OP_LINEAR,
                             .name = "pair",
                             .u.linear = {.in = x,
                                          .pre = random_norm(plan, s, s->width),
                                          .part_count = 2,
                                          .parts = {random_part(plan, s, rows[0], s->width, out[0]),
                                                    random_part(plan, s, rows[1], s->width, out[1])},
                                          .residual = AF_NO_VALUE,
                                          .scale = 1}});
}

af_value append_recurrence(af_plan *plan, const shape *s, af_value x) {
    const af_value raw = new_value(plan, MIXED), mixed = new_value(plan, MIXED), gate = new_value(plan, VALUES);
    const af_value step = new_value(plan, VALUE_HEADS), strength = new_value(plan, VALUE_HEADS);
    const af_value out = new_value(plan, VALUES);
    append_pair(plan, s, x, (af_value[]){raw, gate}, (uint32_t[]){MIXED, VALUES});
    append_pair(plan, s, x, (af_value[]){step, strength}, (uint32_t[]){VALUE_HEADS, VALUE_HEADS});
    append_op(plan, &(af_op){.kind = AF_OP_CONV,
                             .name = "conv",
                             .u.conv = {.in = raw,
                                        .out = mixed,
                                        .weight = random_floats(plan, (size_t)TAPS * MIXED, 0.2f, 0.5f),
                                        .bias = random_floats(plan, MIXED, 0, 0.2f),
                                        .taps = TAPS,
                                        .carry = new_carry(plan, (TAPS - 1) * MIXED),
                                        .act = AF_ACT_SILU}});
    append_op(plan, &(af_op){.kind = AF_OP_DELTA,
                             .name = "delta",
                             .u.delta = {.in = mixed,
                                         .step = step,
                                         .strength = strength,
                                         .out = out,
                                         .key_heads = KEY_HEADS,
                                         .value_heads = VALUE_HEADS,
                                         .k_dim = STATE_K,
                                         .v_dim = STATE_V,
                                         .rate = random_floats(plan, VALUE_HEADS, -0.2f, 0.15f),
                                         .step_bias = random_floats(plan, VALUE_HEADS, 0, 1),
                                         .eps = 1e-5f,
                                         .carry = new_carry(plan, (uint64_t)STATE_K * VALUES)}});
    append_op(plan, &(af_op){.kind = AF_OP_GATE,
                             .name = "gate",
                             .u.gate = {.v = out,
                                        .gate = gate,
                                        .heads = VALUE_HEADS,
                                        .dim = STATE_V,
                                        .gate_pitch = STATE_V,
                                        .norm = random_norm(plan, s, STATE_V),
                                        .act = AF_ACT_SILU}});
    return out;
}

/* ---- The formulas ---- */

void ref_conv(const forward *f, const af_op_conv *c) {
    const uint32_t width = f->plan->widths[c->in];
    for (uint32_t t = 0; t < f->count; t++)
        for (uint32_t i = 0; i < width; i++) {
            double sum = c->bias ? c->bias[i] : 0;
            for (uint32_t tap = 0; tap < c->taps; tap++)
                if (t + tap + 1 >= c->taps)
                    sum += (double)c->weight[tap * width + i] * ref_row_of(f, c->in, t + tap + 1 - c->taps)[i];
            ref_row_of(f, c->out, t)[i] = ref_act(c->act, sum);
        }
}

static void scaled_copy(const double *v, uint32_t n, double eps, double factor, double *out) {
    double squares = 0;
    for (uint32_t i = 0; i < n; i++) squares += v[i] * v[i];
    for (uint32_t i = 0; i < n; i++) out[i] = v[i] / sqrt(squares + eps) * factor;
}

/* One token through the matrix s (k_dim, v_dim) of value head j. */
static void ref_delta_token(const forward *f, const af_op_delta *d, uint32_t t, uint32_t j, double *s) {
    const double *q = ref_row_of(f, d->in, t) + j % d->key_heads * d->k_dim, *k = q + d->key_heads * d->k_dim;
    const double *v = ref_row_of(f, d->in, t) + 2 * d->key_heads * d->k_dim + j * d->v_dim;
    double *out = ref_row_of(f, d->out, t) + j * d->v_dim, query[STATE_K], key[STATE_K];
    scaled_copy(q, d->k_dim, d->eps, 1 / sqrt(d->k_dim), query);
    scaled_copy(k, d->k_dim, d->eps, 1, key);
    const double decay = exp(d->rate[j] * log(1 + exp(ref_row_of(f, d->step, t)[j] + d->step_bias[j])));
    const double beta = 1 / (1 + exp(-ref_row_of(f, d->strength, t)[j]));
    for (uint32_t c = 0; c < d->v_dim; c++) {
        double held = 0;
        out[c] = 0;
        for (uint32_t i = 0; i < d->k_dim; i++) held += (s[i * d->v_dim + c] *= decay) * key[i];
        for (uint32_t i = 0; i < d->k_dim; i++)
            out[c] += (s[i * d->v_dim + c] += key[i] * beta * (v[c] - held)) * query[i];
    }
}

void ref_delta(const forward *f, const af_op_delta *d) {
    for (uint32_t j = 0; j < d->value_heads; j++) {
        double *s = doubles((size_t)d->k_dim * d->v_dim);
        for (uint32_t t = 0; t < f->count; t++) ref_delta_token(f, d, t, j, s);
        free(s);
    }
}

void ref_gate(const forward *f, const af_op_gate *g) {
    for (uint32_t t = 0; t < f->count; t++)
        for (uint32_t h = 0; h < g->heads; h++) {
            double *v = ref_row_of(f, g->v, t) + h * g->dim;
            const double *gate = ref_row_of(f, g->gate, t) + g->gate_first + h * g->gate_pitch;
            ref_norm(&g->norm, h, v);
            for (uint32_t i = 0; i < g->dim; i++) v[i] *= ref_act(g->act, gate[i]);
        }
}

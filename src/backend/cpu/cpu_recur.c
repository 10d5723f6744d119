/* cpu_recur.c - recurrent layers: convolution, gated delta rule, and the gate behind them or behind attention.
 *
 * A sequence's tokens pass through a state one after another, so threads share out what does not depend on each other:
 * rows of a convolution, whose state is only what went in, and heads of a delta rule.
 */
#include "backend/cpu/cpu.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define LITTLE_WORK 100000u /* products that take less time than waking a thread */

static float *state_of(const af_cpu *cpu, size_t state, const af_cpu_run *run) {
    return af_carry_at(&cpu->carries, state, cpu->batch->seqs[run->seq].carry);
}

static bool begins(const af_cpu *cpu, const af_cpu_run *run) {
    return cpu->batch->tokens[run->first].position == 0;
}

void af_cpu_reach(af_cpu *cpu) {
    for (uint32_t r = 0; cpu->plan->carry_count > 0 && r < cpu->run_count; r++) {
        const af_cpu_run *run = &cpu->runs[r];
        const uint32_t slot = cpu->batch->seqs[run->seq].carry, first = cpu->batch->tokens[run->first].position;
        assert(slot < cpu->carries.slots && (first == 0 || first == cpu->carries.reached[slot]));
        cpu->carries.reached[slot] = first + run->count;
    }
}

/* ---- Convolution ---- */

typedef struct conv_job {
    const af_op_conv *op;
    const af_cpu_run *run;
    const float *state; /* (taps - 1, width) */
    size_t width;
} conv_job;

static void conv_rows(af_cpu *cpu, const void *job, uint32_t begin, uint32_t end) {
    const conv_job *j = job;
    const uint32_t before = j->op->taps - 1;
    const float *rows[AF_CONV_TAPS];
    for (uint32_t t = begin; t < end; t++) {
        for (uint32_t i = 0; i <= before; i++)
            rows[i] = t + i < before ? j->state + (t + i) * j->width
                                     : af_cpu_row(&cpu->values[j->op->in], j->run->first + t + i - before);
        cpu->kernels->conv(j->op, rows, af_cpu_row(&cpu->values[j->op->out], j->run->first + t), j->width);
    }
}

/* The state after a run: its last rows, and of a short run what is left of those before. */
static void remember(const af_cpu *cpu, const conv_job *j, float *state) {
    const uint32_t before = j->op->taps - 1, count = j->run->count, kept = count < before ? before - count : 0;
    memmove(state, state + (before - kept) * j->width, kept * j->width * sizeof *state);
    for (uint32_t i = kept; i < before; i++)
        memcpy(state + i * j->width, af_cpu_row(&cpu->values[j->op->in], j->run->first + count + i - before),
               j->width * sizeof *state);
}

void af_cpu_conv(af_cpu *cpu, const af_cpu_op *op) {
    const af_op_conv *c = &op->op->u.conv;
    const size_t width = cpu->plan->widths[c->in];
    for (uint32_t r = 0; r < cpu->run_count; r++) {
        const af_cpu_run *run = &cpu->runs[r];
        float *state = state_of(cpu, c->carry, run);
        if (begins(cpu, run)) memset(state, 0, (c->taps - 1) * width * sizeof *state);
        const conv_job job = {.op = c, .run = run, .state = state, .width = width};
        af_cpu_ranges(cpu, conv_rows, &job, run->count, width * c->taps);
        remember(cpu, &job, state);
    }
}

/* ---- Gated delta rule ---- */

static float softplus(float x) {
    return x > 20.0f ? x : log1pf(expf(x));
}

/* Queries and keys to their lengths, in place; steps become decays and strengths betas. An RMS norm is a division by
 * the length but for a factor sqrt(k_dim). */
static void prepare_rows(af_cpu *cpu, const void *job, uint32_t begin, uint32_t end) {
    const af_op_delta *d = job;
    const float length = (float)d->k_dim;
    const af_norm unit = {.kind = AF_NORM_RMS, .eps = d->eps / length, .width = d->k_dim};
    for (uint32_t t = begin; t < end; t++) {
        float *heads = af_cpu_row(&cpu->values[d->in], t), *step = af_cpu_row(&cpu->values[d->step], t);
        float *strength = af_cpu_row(&cpu->values[d->strength], t);
        for (uint32_t h = 0; h < 2u * d->key_heads; h++, heads += d->k_dim) {
            cpu->kernels->norm(&unit, 0, heads, heads);
            cpu->kernels->scale(heads, h < d->key_heads ? 1.0f / length : 1.0f / sqrtf(length), d->k_dim);
        }
        for (uint32_t j = 0; j < d->value_heads; j++) step[j] = expf(d->rate[j] * softplus(step[j] + d->step_bias[j]));
        cpu->kernels->act(AF_ACT_SIGMOID, strength, d->value_heads);
    }
}

typedef struct delta_job {
    af_cpu *cpu;
    const af_op_delta *op;
} delta_job;

/* One value head of one run. */
static void run_head(void *user, uint32_t task, uint32_t worker) {
    (void)worker;
    const delta_job *j = user;
    const af_op_delta *d = j->op;
    const af_cpu_run *run = &j->cpu->runs[task / d->value_heads];
    const uint32_t head = task % d->value_heads, key = head % d->key_heads;
    const size_t keys = (size_t)d->key_heads * d->k_dim, matrix = (size_t)d->k_dim * d->v_dim;
    const af_cpu_rows *in = &j->cpu->values[d->in], *out = &j->cpu->values[d->out];
    const af_cpu_rows *step = &j->cpu->values[d->step], *strength = &j->cpu->values[d->strength];
    const float *row = af_cpu_row(in, run->first);
    const af_delta_head h = {.tokens = run->count,
                             .k_dim = d->k_dim,
                             .v_dim = d->v_dim,
                             .q = row + (size_t)key * d->k_dim,
                             .k = row + keys + (size_t)key * d->k_dim,
                             .v = row + 2 * keys + (size_t)head * d->v_dim,
                             .stride = in->stride,
                             .decay = af_cpu_row(step, run->first) + head,
                             .decay_stride = step->stride,
                             .beta = af_cpu_row(strength, run->first) + head,
                             .beta_stride = strength->stride,
                             .state = state_of(j->cpu, d->carry, run) + head * matrix,
                             .out = af_cpu_row(out, run->first) + (size_t)head * d->v_dim,
                             .out_stride = out->stride};
    if (begins(j->cpu, run)) memset(h.state, 0, matrix * sizeof *h.state);
    j->cpu->kernels->delta(&h);
}

void af_cpu_delta(af_cpu *cpu, const af_cpu_op *op) {
    const af_op_delta *d = &op->op->u.delta;
    delta_job job = {.cpu = cpu, .op = d};
    const uint32_t tasks = cpu->run_count * d->value_heads;
    const uint64_t work = (uint64_t)cpu->batch->token_count * d->value_heads * d->k_dim * d->v_dim * 2;
    af_cpu_ranges(cpu, prepare_rows, d, cpu->batch->token_count, cpu->plan->widths[d->in]);
    if (cpu->threads > 1 && work > LITTLE_WORK) {
        af_pool_run(cpu->pool, run_head, &job, tasks);
        return;
    }
    for (uint32_t i = 0; i < tasks; i++) run_head(&job, i, 0);
}

/* ---- Gate ---- */

static void gate_rows(af_cpu *cpu, const void *job, uint32_t begin, uint32_t end) {
    const af_op_gate *g = job;
    for (uint32_t t = begin; t < end; t++) {
        const float *gate = af_cpu_row(&cpu->values[g->gate], t) + g->gate_first;
        float *v = af_cpu_row(&cpu->values[g->v], t);
        for (uint32_t h = 0; h < g->heads; h++, v += g->dim, gate += g->gate_pitch) {
            if (g->norm.kind != AF_NORM_NONE) cpu->kernels->norm(&g->norm, h, v, v);
            cpu->kernels->gate(g->act, v, gate, g->dim);
        }
    }
}

void af_cpu_gate(af_cpu *cpu, const af_cpu_op *op) {
    const af_op_gate *g = &op->op->u.gate;
    af_cpu_ranges(cpu, gate_rows, g, cpu->batch->token_count, (size_t)g->heads * g->dim);
}

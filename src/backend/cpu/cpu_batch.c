/* cpu_batch.c - a batch through the plan: its tokens resolved, its runs found, operation after operation. */
#include "backend/cpu/cpu_profile.h"
#include "base/os.h"

#include <assert.h>
#include <string.h>

static void (*const run_op[])(af_cpu *cpu, const af_cpu_op *op) = {
    [AF_OP_EMBED] = af_cpu_embed,           [AF_OP_NORM] = af_cpu_norm,
    [AF_OP_LINEAR] = af_cpu_linear,         [AF_OP_ROPE_STORE] = af_cpu_rope_store,
    [AF_OP_ATTEND] = af_cpu_attend,         [AF_OP_HEAD] = af_cpu_head,
    [AF_OP_STATE] = af_cpu_state,           [AF_OP_CONV] = af_cpu_conv,
    [AF_OP_DELTA] = af_cpu_delta,           [AF_OP_GATE] = af_cpu_gate,
    [AF_OP_ROUTE] = af_cpu_route,           [AF_OP_EXPERTS] = af_cpu_mix,
    [AF_OP_PER_HEAD] = af_cpu_run_per_head,
};

static af_cpu_choices *choices_of(af_cpu *cpu, af_ticket ticket) {
    af_cpu_choices *c = &cpu->choices[ticket % AF_CPU_TICKETS];
    return ticket != 0 && c->ticket == ticket ? c : NULL;
}

static int32_t resolve(af_cpu *cpu, const af_batch_token *token) {
    if (token->id >= 0) return token->id;
    const af_cpu_choices *c = choices_of(cpu, token->from);
    assert(token->id == -1 && c && token->from_row < c->row_count && c->ids[token->from_row] >= 0);
    return c->ids[token->from_row];
}

/* Adds token t to the last run, or begins another. */
static void extend_runs(af_cpu *cpu, uint32_t t) {
    const af_batch_token *token = &cpu->batch->tokens[t];
    assert(token->seq < cpu->batch->seq_count);
    if (cpu->run_count > 0 && cpu->runs[cpu->run_count - 1].seq == token->seq) {
        assert(token->position == cpu->batch->tokens[t - 1].position + 1);
        cpu->runs[cpu->run_count - 1].count++;
        cpu->runs[cpu->run_count - 1].end++;
        return;
    }
    cpu->runs[cpu->run_count++] = (af_cpu_run){.first = t, .count = 1, .seq = token->seq, .end = token->position + 1};
}

static void begin(af_cpu *cpu, const af_batch *batch) {
    assert(batch->token_count > 0 && batch->token_count <= cpu->options.max_tokens);
    cpu->batch = batch;
    cpu->row_count = cpu->state_count = cpu->run_count = 0;
    for (uint32_t t = 0; t < batch->token_count; t++) {
        cpu->ids[t] = resolve(cpu, &batch->tokens[t]);
        extend_runs(cpu, t);
        if (batch->tokens[t].choose == AF_CHOOSE_STATE) cpu->stated[cpu->state_count++] = t;
        if (!af_choose_wants_row(batch->tokens[t].choose)) continue;
        assert(cpu->row_count < cpu->options.max_rows);
        cpu->wanted[cpu->row_count++] = t;
    }
    cpu->last++;
    af_cpu_choices *c = &cpu->choices[cpu->last % AF_CPU_TICKETS];
    c->ticket = cpu->last;
    c->row_count = cpu->row_count;
    c->state_count = cpu->state_count;
}

/* Hands what an operation wrote to the hook; changes are made in place. */
static void show(af_cpu *cpu, const af_op *op) {
    const af_backend_hook *hook = cpu->options.hook;
    af_value values[AF_PLAN_PARTS];
    for (uint32_t i = 0, n = af_op_written(op, values); i < n; i++) {
        const bool logits = op->kind == AF_OP_HEAD, states = op->kind == AF_OP_STATE;
        const af_cpu_rows *rows = logits ? &cpu->logits : states ? &cpu->states : &cpu->values[values[i]];
        const uint32_t count = logits ? cpu->row_count : states ? cpu->state_count : cpu->batch->token_count;
        const uint32_t width = logits   ? cpu->plan->vocabulary
                               : states ? cpu->plan->width
                                        : cpu->plan->widths[values[i]];
        if (count > 0) hook->wrote(hook->user, op, values[i], rows->p, rows->stride, count, width);
    }
}

int af_cpu_begin(af_backend *backend, const af_batch *batch, af_error *error) {
    (void)error;
    af_cpu *cpu = (af_cpu *)backend;
    af_pool_take_place(cpu->pool);
    begin(cpu, batch);
    af_cpu_reach(cpu);
    af_cpu_turn(cpu);
    return 0;
}

/* Rows of a value between the backend's memory and a packed array of the host's. */
static void cross(const af_cpu *cpu, const af_crossing *c, bool in) {
    const size_t width = cpu->plan->widths[c->value];
    for (uint32_t t = 0; t < cpu->batch->token_count; t++) {
        float *here = af_cpu_row(&cpu->values[c->value], t), *there = c->rows + t * width;
        memcpy(in ? here : there, in ? there : here, width * sizeof *here);
    }
}

static void run_timed(af_cpu *cpu, const af_cpu_op *op) {
    const uint64_t start = cpu->profile ? af_os_nanoseconds() : 0;
    run_op[op->op->kind](cpu, op);
    if (cpu->profile) af_cpu_profile_add(cpu, op, af_os_nanoseconds() - start);
}

int af_cpu_run_span(af_backend *backend, const af_span *span, af_error *error) {
    (void)error;
    af_cpu *cpu = (af_cpu *)backend;
    for (uint32_t i = 0; i < span->in_count; i++) cross(cpu, &span->in[i], true);
    for (size_t i = span->first; i < span->end; i++) {
        const af_op *op = &cpu->plan->ops[i];
        cpu->chain = i + 1 < span->end && !af_backend_hooked(&cpu->options);
        run_timed(cpu, &cpu->ops[i]);
        if (af_backend_hooked(&cpu->options)) show(cpu, op);
    }
    for (uint32_t i = 0; i < span->out_count; i++) cross(cpu, &span->out[i], false);
    return 0;
}

int af_cpu_end(af_backend *backend, af_ticket *ticket, af_error *error) {
    (void)error;
    af_cpu *cpu = (af_cpu *)backend;
    cpu->batch = NULL;
    *ticket = cpu->last;
    return 0;
}

/* Ids of the last few tickets are kept, logits of the last one only. */
int af_cpu_collect(af_backend *backend, af_ticket ticket, af_result *result, af_error *error) {
    af_cpu *cpu = (af_cpu *)backend;
    const af_cpu_choices *c = choices_of(cpu, ticket);
    if (!c)
        return af_fail(error, AF_EINVAL, "ticket %llu: no longer kept, the last is %llu", (unsigned long long)ticket,
                       (unsigned long long)cpu->last);
    assert(ticket == cpu->last);
    *result = (af_result){.row_count = c->row_count,
                          .ids = c->ids,
                          .logits = c->logits,
                          .state_count = c->state_count,
                          .states = cpu->state_rows};
    return 0;
}

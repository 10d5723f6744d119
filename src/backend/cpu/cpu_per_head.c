/* cpu_per_head.c - a matrix for each head (plan.h, af_op_per_head): as many small products as there are heads, each
 * with all tokens.
 *
 * Heads do not depend on each other, so a head is a task of the pool from end to end: its inputs are gathered from the
 * tokens' rows and quantized, multiplied through the kernels of every other product, and put where they belong. A
 * head's rows begin at a multiple of AF_LANES, where a group of tokens begins (acts.h); rows between are empty.
 */
#include "backend/cpu/cpu_linear.h"

#include <stdlib.h>
#include <string.h>

#define TOKENS_AT_ONCE 64u /* bounds the memory: there may be 128 heads of 512 elements */

struct af_cpu_per_head {
    uint32_t tokens; /* that are taken at once, a multiple of AF_LANES */
    af_acts *acts;
    af_cpu_rows in;  /* (heads * tokens, cols): head after head */
    af_cpu_rows out; /* (heads * tokens, rows) */
};

/* ---- Memory ---- */

static void at_least(uint32_t *need, uint32_t other) {
    if (other > *need) *need = other;
}

int af_cpu_per_head_open(const af_plan *plan, uint32_t max_tokens, af_cpu_per_head **out, af_error *error) {
    const uint32_t most = max_tokens < TOKENS_AT_ONCE ? max_tokens : TOKENS_AT_ONCE;
    const uint32_t tokens = (most + AF_LANES - 1) / AF_LANES * AF_LANES;
    uint32_t heads = 0, cols = 0, rows = 0;
    for (size_t i = 0; i < plan->op_count; i++) {
        if (plan->ops[i].kind != AF_OP_PER_HEAD) continue;
        const af_op_per_head *p = &plan->ops[i].u.per_head;
        at_least(&heads, p->heads);
        at_least(&cols, p->w.w.cols);
        at_least(&rows, p->w.w.rows);
    }
    if (!heads) return 0;
    af_cpu_per_head *x = calloc(1, sizeof *x);
    if (!x) return af_fail_memory(error, sizeof *x, "heads");
    x->tokens = tokens;
    int status = af_acts_open(2 * heads * tokens, cols, &x->acts, error);
    if (!status) status = af_cpu_open_rows(&x->in, (size_t)heads * tokens, cols, "heads' activations", error);
    if (!status) status = af_cpu_open_rows(&x->out, (size_t)heads * tokens, rows, "heads' activations", error);
    if (status)
        af_cpu_per_head_close(x);
    else
        *out = x;
    return status;
}

void af_cpu_per_head_close(af_cpu_per_head *x) {
    if (!x) return;
    af_acts_close(x->acts);
    af_cpu_close_rows(&x->in);
    af_cpu_close_rows(&x->out);
    free(x);
}

/* ---- The operation ---- */

/* Tokens first .. first + tokens - 1 of the batch. */
typedef struct heads_job {
    af_cpu *cpu;
    af_cpu_per_head *x;
    const af_cpu_op *op;
    const af_op_per_head *p;
    uint32_t first, tokens;
    uint32_t pitch; /* rows of a head */
    uint32_t rounding;
} heads_job;

static const af_packed *packed_of(const heads_job *j, uint32_t head) {
    return af_packed_at(j->cpu->packed, j->op->stack + head);
}

static uint32_t first_row(const heads_job *j, uint32_t head) {
    return head * j->pitch;
}

/* A head's elements of one token, in and out. */
static const float *input_of(const heads_job *j, uint32_t head, uint32_t token) {
    const size_t dim = j->p->w.w.cols + (size_t)j->p->kept;
    return af_cpu_row(&j->cpu->values[j->p->in], j->first + token) + head * dim;
}

static float *output_of(const heads_job *j, uint32_t head, uint32_t token) {
    const size_t dim = j->p->w.w.rows + (size_t)j->p->kept;
    return af_cpu_row(&j->cpu->values[j->p->out], j->first + token) + head * dim;
}

static void gather(const heads_job *j, uint32_t head) {
    const uint32_t cols = j->p->w.w.cols, row = first_row(j, head);
    for (uint32_t t = 0; t < j->tokens; t++) {
        float *to = af_cpu_row(&j->x->in, row + t);
        memcpy(to, input_of(j, head, t), cols * sizeof *to);
        if (j->rounding) af_cpu_round_row(to, cols, j->rounding);
    }
    if (af_packed_wants_int8(packed_of(j, head))) af_acts_quantize(j->x->acts, j->cpu->isa, row, row + j->tokens);
}

static void multiply(const heads_job *j, uint32_t head, uint32_t worker) {
    const af_packed *packed = packed_of(j, head);
    const uint32_t row = first_row(j, head);
    const af_product_place to = {.out = j->x->out.p, .stride = j->x->out.stride};
    af_packed_multiply_some(packed, j->x->acts, row, row + j->tokens, 0, af_packed_panels(packed), &to,
                            j->cpu->workers[worker].linear);
}

static void put(const heads_job *j, uint32_t head) {
    const uint32_t rows = j->p->w.w.rows, cols = j->p->w.w.cols, kept = j->p->kept;
    for (uint32_t t = 0; t < j->tokens; t++) {
        float *to = output_of(j, head, t);
        memcpy(to, af_cpu_row(&j->x->out, first_row(j, head) + t), rows * sizeof *to);
        memcpy(to + rows, input_of(j, head, t) + cols, kept * sizeof *to);
    }
}

static void run_head(void *user, uint32_t head, uint32_t worker) {
    const heads_job *j = user;
    gather(j, head);
    multiply(j, head, worker);
    put(j, head);
}

void af_cpu_run_per_head(af_cpu *cpu, const af_cpu_op *op) {
    const af_op_per_head *p = &op->op->u.per_head;
    af_cpu_per_head *x = cpu->per_head;
    const uint32_t all = cpu->batch->token_count;
    for (uint32_t first = 0, tokens; first < all; first += tokens) {
        tokens = all - first < x->tokens ? all - first : x->tokens;
        heads_job j = {.cpu = cpu,
                       .x = x,
                       .op = op,
                       .p = p,
                       .first = first,
                       .tokens = tokens,
                       .pitch = (tokens + AF_LANES - 1) / AF_LANES * AF_LANES,
                       .rounding = af_cpu_rounding(cpu, &p->w.w)};
        af_acts_set(x->acts, x->in.p, x->in.stride, p->heads * j.pitch, p->w.w.cols, op->fine);
        af_pool_run(cpu->pool, run_head, &j, p->heads);
    }
}

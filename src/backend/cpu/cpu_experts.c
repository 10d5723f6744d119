/* cpu_experts.c - a mixture of experts (plan.h, af_op_experts): each expert multiplies all its tokens at once.
 *
 * A batch's pairs of token and expert are sorted by expert, so that an expert's tokens are rows that stand together and
 * its matrices pass once, through the same kernels as every other product. Each expert's rows begin at a multiple of
 * AF_LANES, where a group of tokens begins (acts.h); rows between are empty. What an expert makes of a token does not
 * depend on the others it has, and a token's sum runs over its experts in their order: promise 1.
 *
 * Steps, with a barrier between: rows are gathered and quantized; gate and up of all experts, and their GLU; hidden
 * rows quantized; down of all experts; each token's sum. A single token, the case of decode, is not gathered: its
 * experts read its one row, and no matrix of another expert is touched.
 */
#include "backend/cpu/cpu_linear.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define TOKENS_AT_ONCE 512u /* bounds the memory of long batches; a chunk of a prompt */
#define TASKS_A_THREAD 8u
#define NOBODY         UINT32_MAX

/* An expert's rows. */
typedef struct segment {
    uint32_t expert, row, count;
} segment;

struct af_cpu_experts {
    uint32_t tokens;    /* that are taken at once */
    af_acts *acts;      /* (rows) */
    af_cpu_rows wide;   /* (rows, width): what goes in, later what comes out */
    af_cpu_rows hidden; /* (rows, hidden) */
    af_cpu_rows other;  /* likewise: up, until the GLU */
    uint32_t *next;     /* (experts): tokens of each, then its next row */
    segment *segments;  /* (experts): of those that have tokens */
    uint32_t *row_of;   /* (tokens, used) */
    uint32_t *token_of; /* (rows), or NOBODY */
};

/* ---- Memory ---- */

typedef struct needs {
    uint32_t tokens, rows, pairs, experts, width, hidden;
} needs;

static void at_least(uint32_t *need, uint64_t other) {
    if (other > *need) *need = (uint32_t)other;
}

static void add_needs(needs *n, const af_plan *plan, const af_op_experts *e) {
    const uint64_t pairs = (uint64_t)n->tokens * plan->widths[e->ids];
    const uint64_t parts = pairs < e->experts ? pairs : e->experts;
    at_least(&n->pairs, pairs);
    at_least(&n->rows, pairs + parts * (AF_LANES - 1) + AF_LANES);
    at_least(&n->experts, e->experts);
    at_least(&n->width, e->up.w.cols);
    at_least(&n->width, e->down.w.rows);
    at_least(&n->hidden, e->up.w.rows);
}

static int open_experts(af_cpu_experts *x, const needs *n, af_error *error) {
    x->tokens = n->tokens;
    int status = af_acts_open(n->rows, n->width > n->hidden ? n->width : n->hidden, &x->acts, error);
    if (!status) status = af_cpu_open_rows(&x->wide, n->rows, n->width, "experts' activations", error);
    if (!status) status = af_cpu_open_rows(&x->hidden, n->rows, n->hidden, "experts' activations", error);
    if (!status) status = af_cpu_open_rows(&x->other, n->rows, n->hidden, "experts' activations", error);
    if (status) return status;
    x->next = calloc(n->experts, sizeof *x->next);
    x->segments = calloc(n->experts, sizeof *x->segments);
    x->row_of = calloc(n->pairs, sizeof *x->row_of);
    x->token_of = calloc(n->rows, sizeof *x->token_of);
    if (x->next && x->segments && x->row_of && x->token_of) return 0;
    return af_fail_memory(error, n->rows * sizeof *x->token_of, "experts' rows");
}

int af_cpu_experts_open(const af_plan *plan, uint32_t max_tokens, af_cpu_experts **out, af_error *error) {
    needs n = {.tokens = max_tokens < TOKENS_AT_ONCE ? max_tokens : TOKENS_AT_ONCE};
    for (size_t i = 0; i < plan->op_count; i++)
        if (plan->ops[i].kind == AF_OP_EXPERTS) add_needs(&n, plan, &plan->ops[i].u.experts);
    if (!n.experts) return 0;
    af_cpu_experts *x = calloc(1, sizeof *x);
    if (!x) return af_fail_memory(error, sizeof *x, "experts");
    const int status = open_experts(x, &n, error);
    if (status)
        af_cpu_experts_close(x);
    else
        *out = x;
    return status;
}

void af_cpu_experts_close(af_cpu_experts *x) {
    if (!x) return;
    af_acts_close(x->acts);
    af_cpu_close_rows(&x->wide);
    af_cpu_close_rows(&x->hidden);
    af_cpu_close_rows(&x->other);
    free(x->next);
    free(x->segments);
    free(x->row_of);
    free(x->token_of);
    free(x);
}

/* ---- Tokens by expert ---- */

/* Tokens first .. first + tokens - 1 of the batch on their way through one operation. */
typedef struct mixing {
    af_cpu *cpu;
    af_cpu_experts *x;
    const af_cpu_op *op;
    const af_op_experts *e;
    uint32_t first, tokens, used;
    uint32_t rows, segments, most; /* the most tokens of one expert */
    bool one;                      /* token: gate and up read row 0 */
    uint32_t panels_a_task, tasks_a_segment;
} mixing;

static uint32_t expert_of(const mixing *m, uint32_t token, uint32_t k) {
    const uint32_t expert = (uint32_t)af_cpu_row(&m->cpu->values[m->e->ids], m->first + token)[k];
    assert(expert < m->e->experts);
    return expert;
}

static void group(mixing *m) {
    af_cpu_experts *x = m->x;
    memset(x->next, 0, m->e->experts * sizeof *x->next);
    for (uint32_t t = 0; t < m->tokens; t++)
        for (uint32_t k = 0; k < m->used; k++) x->next[expert_of(m, t, k)]++;
    for (uint32_t e = 0; e < m->e->experts; e++) {
        const uint32_t count = x->next[e];
        x->next[e] = m->rows;
        if (count) x->segments[m->segments++] = (segment){e, m->rows, count};
        m->rows += (count + AF_LANES - 1) / AF_LANES * AF_LANES;
        if (count > m->most) m->most = count;
    }
    for (uint32_t r = 0; r < m->rows; r++) x->token_of[r] = NOBODY;
    for (uint32_t t = 0; t < m->tokens; t++)
        for (uint32_t k = 0; k < m->used; k++) {
            const uint32_t row = x->next[expert_of(m, t, k)]++;
            x->row_of[t * m->used + k] = row;
            x->token_of[row] = t;
        }
}

/* ---- Rows ---- */

static const af_packed *packed_of(const mixing *m, uint32_t expert, uint32_t part) {
    return af_packed_at(m->cpu->packed, m->op->experts + (size_t)expert * 3 + part);
}

/* Rounds and quantizes a row as the experts' part wants it. */
static void prepare(const mixing *m, uint32_t part, float *values, uint32_t row) {
    const af_matrix *w = part == 2 ? &m->e->down.w : &m->e->up.w;
    const uint32_t rounding = af_cpu_rounding(m->cpu, w);
    if (rounding) af_cpu_round_row(values, w->cols, rounding);
    const bool quantize =
        af_packed_wants_int8(packed_of(m, 0, part)) || (part == 1 && af_packed_wants_int8(packed_of(m, 0, 0)));
    if (quantize) af_acts_quantize(m->x->acts, m->cpu->isa, row, row + 1);
}

static void gather_rows(af_cpu *cpu, const void *job, uint32_t begin, uint32_t end) {
    const mixing *m = job;
    for (uint32_t r = begin; r < end; r++) {
        const uint32_t token = m->one ? 0 : m->x->token_of[r];
        if (token == NOBODY) continue;
        float *row = af_cpu_row(&m->x->wide, r);
        memcpy(row, af_cpu_row(&cpu->values[m->e->in], m->first + token), m->e->up.w.cols * sizeof *row);
        prepare(m, 1, row, r);
    }
}

static void hidden_rows(af_cpu *cpu, const void *job, uint32_t begin, uint32_t end) {
    (void)cpu;
    const mixing *m = job;
    for (uint32_t r = begin; r < end; r++)
        if (m->x->token_of[r] != NOBODY) prepare(m, 2, af_cpu_row(&m->x->hidden, r), r);
}

/* Through fn by ranges, with as many floats a row as those that are there have between them. */
static void run_rows(const mixing *m, af_cpu_range_fn fn, uint32_t rows, uint32_t width) {
    const size_t floats = (size_t)(m->one ? 1 : m->tokens) * m->used * width;
    af_cpu_ranges(m->cpu, fn, m, rows, (floats + rows - 1) / rows);
}

/* ---- Products ---- */

/* What a task does: some panels of one expert. */
typedef struct share {
    const segment *s;
    uint32_t begin, end; /* panels */
    uint32_t columns;    /* of the output, from begin * AF_PANEL on */
} share;

static share share_of(const mixing *m, uint32_t task, uint32_t part) {
    const segment *s = &m->x->segments[task / m->tasks_a_segment];
    const af_packed *packed = packed_of(m, s->expert, part);
    const uint32_t panels = af_packed_panels(packed), begin = task % m->tasks_a_segment * m->panels_a_task;
    const uint32_t end = panels - begin < m->panels_a_task ? panels : begin + m->panels_a_task;
    const uint32_t rows = af_packed_rows(packed), last = end * AF_PANEL;
    return (share){.s = s, .begin = begin, .end = end, .columns = (last < rows ? last : rows) - begin * AF_PANEL};
}

/* Multiplies with rows of acts, the expert's or the one that there is, into the expert's rows of `to`. */
static void multiply(const mixing *m, const share *h, uint32_t part, bool one, const af_cpu_rows *to, uint32_t worker) {
    const uint32_t row = one ? 0 : h->s->row;
    const af_product_place place = {.out = af_cpu_row(to, h->s->row), .stride = to->stride, .first = row};
    af_packed_multiply_some(packed_of(m, h->s->expert, part), m->x->acts, row, row + h->s->count, h->begin, h->end,
                            &place, m->cpu->workers[worker].linear);
}

static void run_up(void *user, uint32_t task, uint32_t worker) {
    const mixing *m = user;
    const share h = share_of(m, task, 1);
    const af_lane_kernels *k = m->cpu->kernels;
    const float *gate_bias = af_stack_bias(&m->e->gate, h.s->expert), *up_bias = af_stack_bias(&m->e->up, h.s->expert);
    const size_t first = (size_t)h.begin * AF_PANEL;
    multiply(m, &h, 0, m->one, &m->x->hidden, worker);
    multiply(m, &h, 1, m->one, &m->x->other, worker);
    for (uint32_t r = h.s->row; r < h.s->row + h.s->count; r++) {
        float *gate = af_cpu_row(&m->x->hidden, r) + first, *up = af_cpu_row(&m->x->other, r) + first;
        if (gate_bias) k->add(gate, gate_bias + first, h.columns);
        if (up_bias) k->add(up, up_bias + first, h.columns);
        k->glu(m->e->act, gate, up, h.columns);
    }
}

static void run_down(void *user, uint32_t task, uint32_t worker) {
    const mixing *m = user;
    const share h = share_of(m, task, 2);
    const float *bias = af_stack_bias(&m->e->down, h.s->expert);
    const size_t first = (size_t)h.begin * AF_PANEL;
    multiply(m, &h, 2, false, &m->x->wide, worker);
    for (uint32_t r = h.s->row; bias && r < h.s->row + h.s->count; r++)
        m->cpu->kernels->add(af_cpu_row(&m->x->wide, r) + first, bias + first, h.columns);
}

/* Tasks of an equal number of panels, such that the expert with most tokens does not hold up the others. */
static void run_all(mixing *m, af_pool_fn fn, uint32_t part) {
    const uint64_t panels = af_packed_panels(packed_of(m, 0, part));
    const uint64_t work = panels * m->tokens * m->used, wanted = (uint64_t)m->cpu->threads * TASKS_A_THREAD * m->most;
    const uint64_t share_panels = work / wanted;
    m->panels_a_task = (uint32_t)(share_panels < 1 ? 1 : share_panels < panels ? share_panels : panels);
    m->tasks_a_segment = (uint32_t)((panels + m->panels_a_task - 1) / m->panels_a_task);
    af_pool_run(m->cpu->pool, fn, m, m->tasks_a_segment * m->segments);
}

/* ---- The sum ---- */

static void sum_rows(af_cpu *cpu, const void *job, uint32_t begin, uint32_t end) {
    const mixing *m = job;
    const af_op_experts *e = m->e;
    const size_t width = e->down.w.rows;
    for (uint32_t t = begin; t < end; t++) {
        float *out = af_cpu_row(&cpu->values[e->out], m->first + t);
        const float *weights = af_cpu_row(&cpu->values[e->weights], m->first + t), *sum = out;
        if (e->residual == AF_NO_VALUE)
            memset(out, 0, width * sizeof *out);
        else
            sum = af_cpu_row(&cpu->values[e->residual], m->first + t);
        for (uint32_t k = 0; k < m->used; k++, sum = out)
            cpu->kernels->residual(out, sum, af_cpu_row(&m->x->wide, m->x->row_of[t * m->used + k]),
                                   e->scale * weights[k], width);
    }
}

static void mix(mixing *m) {
    af_acts *acts = m->x->acts;
    group(m);
    const uint32_t gathered = m->one ? 1 : m->rows, width = m->e->up.w.cols, hidden = m->e->down.w.cols;
    af_acts_set(acts, m->x->wide.p, m->x->wide.stride, gathered, width, false);
    run_rows(m, gather_rows, gathered, width);
    run_all(m, run_up, 1);
    af_acts_set(acts, m->x->hidden.p, m->x->hidden.stride, m->rows, hidden, false);
    run_rows(m, hidden_rows, m->rows, hidden);
    run_all(m, run_down, 2);
    af_cpu_ranges(m->cpu, sum_rows, m, m->tokens, (size_t)m->used * m->e->down.w.rows);
}

void af_cpu_mix(af_cpu *cpu, const af_cpu_op *op) {
    const af_op_experts *e = &op->op->u.experts;
    const uint32_t all = cpu->batch->token_count;
    for (uint32_t first = 0, tokens; first < all; first += tokens) {
        tokens = all - first < cpu->experts->tokens ? all - first : cpu->experts->tokens;
        mixing m = {.cpu = cpu,
                    .x = cpu->experts,
                    .op = op,
                    .e = e,
                    .first = first,
                    .tokens = tokens,
                    .used = cpu->plan->widths[e->ids],
                    .one = tokens == 1};
        mix(&m);
    }
}

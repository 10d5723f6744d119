/* cpu_linear.c - linear operations and the head: norm and quantize once, multiply by panels, finish in place.
 *
 * A linear operation is at most three steps with a barrier between: rows are normed and quantized (on the calling
 * thread when they are few), panels of all its matrices are multiplied as one pool job, and, only where a norm follows
 * the product, rows are finished. Everything elementwise after the product (bias, activation, GLU, residual) is done by
 * the task that made those columns, while they are in its cache.
 */
#include "backend/cpu/cpu_linear.h"

#include <math.h>
#include <string.h>

#define TASKS_A_THREAD 8u /* so that a slow core holds up the others little */
#define ROWS_AHEAD     8u /* whose residuals are fetched */
#define LINE_FLOATS    16u
#define EVEN_PANELS    2u /* 32 columns: what is quantized together */

/* ---- The product ---- */

static bool is_glu(const af_cpu_product *p) {
    return p->op->op->kind == AF_OP_LINEAR && p->op->op->u.linear.combine == AF_COMBINE_GLU;
}

static void multiply(const af_cpu_product *p, const af_cpu_piece *piece, uint32_t which, uint32_t worker) {
    const uint32_t part = piece->part + which, begin = piece->begin / AF_PANEL;
    const af_product_place to = {
        .out = piece->y[which], .stride = piece->stride, .first = piece->first, .panel = begin};
    af_packed_multiply_some(p->op->packed[part], p->cpu->acts, piece->first, piece->last, begin,
                            (piece->end + AF_PANEL - 1) / AF_PANEL, &to, p->cpu->workers[worker].linear);
}

static void run_piece(const af_cpu_product *p, const af_cpu_piece *piece, uint32_t worker) {
    multiply(p, piece, 0, worker);
    if (is_glu(p)) multiply(p, piece, 1, worker);
    p->finish(p, piece);
}

/* A task's columns, as many tokens at a time as a worker's memory holds. */
static void run_aside(const af_cpu_product *p, af_cpu_piece piece, uint32_t worker) {
    const size_t columns = (piece.end - piece.begin + AF_PANEL - 1) / AF_PANEL * AF_PANEL;
    const size_t room = AF_CPU_ASIDE / (is_glu(p) ? 2 : 1);
    const uint32_t most = (uint32_t)(room / columns) / AF_LANES * AF_LANES;
    piece.y[0] = p->cpu->workers[worker].aside;
    piece.y[1] = piece.y[0] + room;
    piece.stride = columns;
    for (; piece.first < p->tokens; piece.first = piece.last) {
        piece.last = p->tokens - piece.first < most ? p->tokens : piece.first + most;
        run_piece(p, &piece, worker);
    }
}

static void run_product(void *user, uint32_t task, uint32_t worker) {
    const af_cpu_product *p = user;
    af_cpu_piece piece = {.last = p->tokens};
    while (task >= p->tasks[piece.part]) task -= p->tasks[piece.part++];
    const uint32_t columns = p->panels_a_task * AF_PANEL, rows = af_packed_rows(p->op->packed[piece.part]);
    piece.begin = task * columns;
    piece.end = rows - piece.begin < columns ? rows : piece.begin + columns;
    if (p->aside) {
        run_aside(p, piece, worker);
        return;
    }
    piece.y[0] = p->to[piece.part].p + piece.begin;
    piece.stride = p->to[piece.part].stride;
    run_piece(p, &piece, worker);
}

/* Panels of a task: an equal share, but such that all tokens' products fit aside, or at least those of a few. */
static uint32_t panels_of(const af_cpu_product *p, uint32_t panels) {
    const uint32_t tasks = p->cpu->threads * TASKS_A_THREAD, equal = (panels + tasks - 1) / tasks;
    if (!p->aside) return equal;
    const uint32_t even = (equal + EVEN_PANELS - 1) / EVEN_PANELS * EVEN_PANELS;
    const uint32_t tokens = p->tokens < AF_LANES ? AF_LANES : p->tokens;
    const uint32_t fit = (uint32_t)(AF_CPU_ASIDE / (is_glu(p) ? 2 : 1) / AF_PANEL) / tokens / EVEN_PANELS * EVEN_PANELS;
    return fit < EVEN_PANELS ? EVEN_PANELS : even < fit ? even : fit;
}

void af_cpu_run_product(af_cpu_product *p) {
    uint32_t panels = 0;
    for (uint32_t i = 0; i < p->part_count; i++) panels += af_packed_panels(p->op->packed[i]);
    p->panels_a_task = panels_of(p, panels);
    for (uint32_t i = 0; i < p->part_count; i++)
        p->tasks[i] = (af_packed_panels(p->op->packed[i]) + p->panels_a_task - 1) / p->panels_a_task;
    af_pool_run_parts(p->cpu->pool, run_product, p, p->tasks, p->part_count);
}

/* ---- Before the product ---- */

void af_cpu_round_row(float *row, uint32_t width, uint32_t columns) {
    for (uint32_t begin = 0; begin < width; begin += columns) {
        const uint32_t n = width - begin < columns ? width - begin : columns;
        float most = 0;
        for (uint32_t i = 0; i < n; i++) most = fmaxf(most, fabsf(row[begin + i]));
        const float inverse = most > 0 ? 127 / most : 0, d = most / 127;
        for (uint32_t i = 0; i < n; i++) row[begin + i] = d * rintf(row[begin + i] * inverse);
    }
}

uint32_t af_cpu_rounding(const af_cpu *cpu, const af_matrix *w) {
    return w->format->block_elems > 1 ? cpu->options.rounding : 0;
}

static void fill_row(const af_cpu *cpu, const af_cpu_intake *take, uint32_t token, float *out) {
    const float *in = af_cpu_row(take->in, take->rows ? take->rows[token] : token);
    if (take->norm->kind != AF_NORM_NONE)
        cpu->kernels->norm(take->norm, 0, in, out);
    else
        memcpy(out, in, take->width * sizeof *out);
    if (take->rounding) af_cpu_round_row(out, take->width, take->rounding);
}

/* Rows that are wanted as int8 alone go through a worker's own memory, a group of tokens at a time. */
static void take_int8(af_cpu *cpu, const void *job, uint32_t begin, uint32_t end, uint32_t worker) {
    const af_cpu_intake *take = job;
    float *rows = cpu->workers[worker].aside;
    const size_t width = take->width;
    af_acts_part part = {.x = rows, .stride = width, .token_begin = begin, .column_end = take->width};
    for (; part.token_begin < end; part.token_begin = part.token_end) {
        part.token_end = end - part.token_begin < AF_LANES ? end : part.token_begin + AF_LANES;
        for (uint32_t t = part.token_begin; t < part.token_end; t++)
            fill_row(cpu, take, t, rows + (t - part.token_begin) * width);
        af_acts_quantize_part(cpu->acts, cpu->isa, &part);
    }
}

static void take_rows(af_cpu *cpu, const void *job, uint32_t begin, uint32_t end) {
    const af_cpu_intake *take = job;
    for (uint32_t t = begin; take->fill && t < end; t++) fill_row(cpu, take, t, af_cpu_row(&cpu->normed, t));
    if (take->quantize) af_acts_quantize(cpu->acts, cpu->isa, begin, end);
}

void af_cpu_take_in(af_cpu *cpu, const af_cpu_intake *take, uint32_t count) {
    const af_cpu_rows *from = take->fill ? &cpu->normed : take->in;
    af_acts_set(cpu->acts, from->p, from->stride, count, take->width, take->fine);
    af_acts_need(cpu->acts, take->needs);
    if (take->fill && !take->floats && (size_t)take->width * AF_LANES <= AF_CPU_ASIDE)
        af_cpu_worker_ranges(cpu, take_int8, take, count, take->width);
    else if (take->fill || take->quantize)
        af_cpu_ranges(cpu, take_rows, take, count, take->width);
}

/* Whether any of an operation's matrices multiply int8, or floats. */
static bool any_takes(const af_cpu_op *op, uint32_t parts, bool int8) {
    for (uint32_t i = 0; i < parts; i++)
        if (af_packed_wants_int8(op->packed[i]) == int8) return true;
    return false;
}

static uint32_t needs_of(const af_cpu_op *op, uint32_t parts) {
    uint32_t needs = 0;
    for (uint32_t i = 0; i < parts; i++) needs |= af_packed_needs(op->packed[i]);
    return needs;
}

/* ---- Linear ---- */

static const float *residual_row(const af_cpu *cpu, const af_op_linear *l, uint32_t token) {
    return l->residual == AF_NO_VALUE ? NULL : af_cpu_row(&cpu->values[l->residual], token);
}

/* out = residual + scale * y, or scale * y where there is no residual; n floats. out may be y. */
static void put(const af_lane_kernels *k, float *out, const float *residual, const float *y, float scale, size_t n) {
    if (residual) {
        k->residual(out, residual, y, scale, n);
        return;
    }
    if (out != y) memcpy(out, y, n * sizeof *out);
    if (scale != 1.0f) k->scale(out, scale, n);
}

static void activate(const af_cpu_product *p, const af_cpu_piece *piece, uint32_t token) {
    const af_op_linear *l = &p->op->op->u.linear;
    const af_lane_kernels *k = p->cpu->kernels;
    const size_t n = piece->end - piece->begin;
    float *y = af_cpu_piece_row(piece, 0, token);
    const float *bias = l->parts[piece->part].bias;
    if (bias) k->add(y, bias + piece->begin, n);
    if (l->combine == AF_COMBINE_GLU) {
        float *other = af_cpu_piece_row(piece, 1, token);
        if (l->parts[1].bias) k->add(other, l->parts[1].bias + piece->begin, n);
        k->glu(l->act, y, other, n);
    } else if (l->combine == AF_COMBINE_ACT) {
        k->act(l->act, y, n);
    }
}

/* A chained operation's columns become the next one's activations while they are in this worker's cache. */
static void chain(const af_cpu_product *p, const af_cpu_piece *piece) {
    for (uint32_t t = piece->first; t < piece->last; t++) activate(p, piece, t);
    const af_acts_part part = {.x = piece->y[0],
                               .stride = piece->stride,
                               .token_begin = piece->first,
                               .token_end = piece->last,
                               .column_begin = piece->begin,
                               .column_end = piece->end};
    af_acts_quantize_part(p->cpu->chained, p->cpu->isa, &part);
}

/* Asks for what a few tokens on will be added to: rows are further apart than processors look ahead. */
static void expect_residual(const af_cpu_product *p, const af_cpu_piece *piece, uint32_t token) {
    const float *residual = token < piece->last ? residual_row(p->cpu, &p->op->op->u.linear, token) : NULL;
    for (uint32_t i = piece->begin; residual && i < piece->end; i += LINE_FLOATS) __builtin_prefetch(residual + i);
}

static void finish_linear(const af_cpu_product *p, const af_cpu_piece *piece) {
    const af_op_linear *l = &p->op->op->u.linear;
    for (uint32_t t = piece->first; t < piece->last; t++) {
        if (l->post.kind == AF_NORM_NONE) expect_residual(p, piece, t + ROWS_AHEAD);
        activate(p, piece, t);
        if (l->post.kind != AF_NORM_NONE || l->part_count - (l->combine == AF_COMBINE_GLU) != 1) continue;
        const float *residual = residual_row(p->cpu, l, t);
        put(p->cpu->kernels, af_cpu_row(&p->cpu->values[l->parts[0].out], t) + piece->begin,
            residual ? residual + piece->begin : NULL, af_cpu_piece_row(piece, 0, t), l->scale,
            piece->end - piece->begin);
    }
}

static void post_rows(af_cpu *cpu, const void *job, uint32_t begin, uint32_t end) {
    const af_op_linear *l = job;
    for (uint32_t t = begin; t < end; t++) {
        float *y = af_cpu_row(&cpu->product, t);
        cpu->kernels->norm(&l->post, 0, y, y);
        put(cpu->kernels, af_cpu_row(&cpu->values[l->parts[0].out], t), residual_row(cpu, l, t), y, l->scale,
            l->parts[0].w.rows);
    }
}

bool af_cpu_is_chained(const af_cpu *cpu, size_t i) {
    const af_plan *plan = cpu->plan;
    const af_op *op = &plan->ops[i], *next = op + 1;
    if (i + 1 >= plan->op_count || op->kind != AF_OP_LINEAR || next->kind != AF_OP_LINEAR) return false;
    const af_op_linear *l = &op->u.linear, *into = &next->u.linear;
    const af_value out = l->parts[0].out;
    const bool one = l->combine == AF_COMBINE_GLU || (l->combine == AF_COMBINE_ACT && l->part_count == 1);
    if (!one || l->post.kind != AF_NORM_NONE || l->residual != AF_NO_VALUE || l->scale != 1.0f) return false;
    if (into->in != out || into->pre.kind != AF_NORM_NONE || into->residual == out) return false;
    for (uint32_t k = 0; k < into->part_count; k++)
        if (!af_packed_wants_int8(cpu->ops[i + 1].packed[k])) return false;
    return !cpu->options.rounding && !af_plan_reads_later(plan, i + 2, out);
}

static void exchange(af_cpu *cpu) {
    af_acts *acts = cpu->acts;
    cpu->acts = cpu->chained;
    cpu->chained = acts;
}

/* Its input, unless the operation before has made it. */
static void take_linear(af_cpu *cpu, const af_cpu_op *op) {
    const af_op_linear *l = &op->op->u.linear;
    const uint32_t rounding = af_cpu_rounding(cpu, &l->parts[0].w);
    const af_cpu_intake take = {.norm = &l->pre,
                                .in = &cpu->values[l->in],
                                .width = l->parts[0].w.cols,
                                .fill = l->pre.kind != AF_NORM_NONE || rounding,
                                .quantize = any_takes(op, l->part_count, true),
                                .floats = any_takes(op, l->part_count, false),
                                .fine = op->fine,
                                .needs = needs_of(op, l->part_count),
                                .rounding = rounding};
    af_cpu_take_in(cpu, &take, cpu->batch->token_count);
}

void af_cpu_linear(af_cpu *cpu, const af_cpu_op *op) {
    const af_op_linear *l = &op->op->u.linear;
    const uint32_t tokens = cpu->batch->token_count;
    const bool glu = l->combine == AF_COMBINE_GLU, post = l->post.kind != AF_NORM_NONE;
    const bool chained = op->chained && cpu->chain;
    if (cpu->taken)
        exchange(cpu);
    else
        take_linear(cpu, op);
    if (chained) {
        af_acts_set(cpu->chained, NULL, 0, tokens, l->parts[0].w.rows, op[1].fine);
        af_acts_need(cpu->chained, needs_of(op + 1, op[1].op->u.linear.part_count));
    }
    af_cpu_product p = {.cpu = cpu,
                        .op = op,
                        .tokens = tokens,
                        .part_count = glu ? 1 : l->part_count,
                        .aside = glu || chained || (l->residual != AF_NO_VALUE && !post),
                        .finish = chained ? chain : finish_linear};
    for (uint32_t i = 0; i < l->part_count; i++) p.to[i] = post ? cpu->product : cpu->values[l->parts[i].out];
    af_cpu_run_product(&p);
    cpu->taken = chained;
    if (post) af_cpu_ranges(cpu, post_rows, l, tokens, l->parts[0].w.rows);
}

/* ---- Head ---- */

static void finish_head(const af_cpu_product *p, const af_cpu_piece *piece) {
    const af_op_head *head = &p->op->op->u.head;
    const af_lane_kernels *k = p->cpu->kernels;
    const size_t n = piece->end - piece->begin;
    for (uint32_t row = piece->first; row < piece->last; row++) {
        float *y = af_cpu_piece_row(piece, 0, row);
        if (head->bias) k->add(y, head->bias + piece->begin, n);
        if (head->scale != 1.0f) k->scale(y, head->scale, n);
        if (head->softcap > 0.0f) k->softcap(y, head->softcap, n);
    }
}

static void choose(af_cpu *cpu, const af_op_head *head) {
    af_cpu_choices *c = &cpu->choices[cpu->last % AF_CPU_TICKETS];
    for (uint32_t row = 0; row < cpu->row_count; row++) {
        const float *logits = af_cpu_row(&cpu->logits, row);
        const bool greedy = cpu->batch->tokens[cpu->wanted[row]].choose == AF_CHOOSE_GREEDY;
        c->ids[row] = greedy ? cpu->kernels->best(logits, head->w.rows) : -1;
        c->logits[row] = greedy ? NULL : logits;
    }
}

void af_cpu_head(af_cpu *cpu, const af_cpu_op *op) {
    const af_op_head *head = &op->op->u.head;
    if (cpu->row_count == 0) return;
    const af_cpu_intake take = {.norm = &head->norm,
                                .in = &cpu->values[head->in],
                                .rows = cpu->wanted,
                                .width = head->w.cols,
                                .fill = true,
                                .quantize = any_takes(op, 1, true),
                                .floats = any_takes(op, 1, false),
                                .fine = op->fine,
                                .needs = needs_of(op, 1),
                                .rounding = af_cpu_rounding(cpu, &head->w)};
    af_cpu_take_in(cpu, &take, cpu->row_count);
    af_cpu_product p = {
        .cpu = cpu, .op = op, .tokens = cpu->row_count, .part_count = 1, .to = {cpu->logits}, .finish = finish_head};
    af_cpu_run_product(&p);
    choose(cpu, head);
}

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

static void multiply(const af_cpu_product *p, uint32_t part, uint32_t begin, uint32_t end, uint32_t worker) {
    af_packed_multiply(p->op->packed[part], p->cpu->acts, begin, end, p->to[part].p, p->to[part].stride,
                       p->cpu->workers[worker].linear);
}

static bool is_glu(const af_cpu_product *p) {
    return p->op->op->kind == AF_OP_LINEAR && p->op->op->u.linear.combine == AF_COMBINE_GLU;
}

static void run_product(void *user, uint32_t task, uint32_t worker) {
    const af_cpu_product *p = user;
    uint32_t part = 0;
    while (task >= p->tasks[part]) task -= p->tasks[part++];
    const uint32_t begin = task * p->panels_a_task, panels = af_packed_panels(p->op->packed[part]);
    const uint32_t end = panels - begin < p->panels_a_task ? panels : begin + p->panels_a_task;
    multiply(p, part, begin, end, worker);
    if (is_glu(p)) multiply(p, 1, begin, end, worker);
    const uint32_t rows = af_packed_rows(p->op->packed[part]), last = end * AF_PANEL;
    p->finish(p, part, begin * AF_PANEL, last < rows ? last : rows);
}

void af_cpu_run_product(af_cpu_product *p) {
    uint32_t panels = 0, tasks = 0;
    for (uint32_t i = 0; i < p->part_count; i++) panels += af_packed_panels(p->op->packed[i]);
    const uint32_t wanted = p->cpu->threads * TASKS_A_THREAD;
    p->panels_a_task = (panels + wanted - 1) / wanted;
    for (uint32_t i = 0; i < p->part_count; i++) {
        p->tasks[i] = (af_packed_panels(p->op->packed[i]) + p->panels_a_task - 1) / p->panels_a_task;
        tasks += p->tasks[i];
    }
    af_pool_run(p->cpu->pool, run_product, p, tasks);
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

static void take_rows(af_cpu *cpu, const void *job, uint32_t begin, uint32_t end) {
    const af_cpu_intake *take = job;
    for (uint32_t t = begin; take->fill && t < end; t++) {
        const float *in = af_cpu_row(take->in, take->rows ? take->rows[t] : t);
        float *out = af_cpu_row(&cpu->normed, t);
        if (take->norm->kind != AF_NORM_NONE)
            cpu->kernels->norm(take->norm, 0, in, out);
        else
            memcpy(out, in, take->width * sizeof *out);
        if (take->rounding) af_cpu_round_row(out, take->width, take->rounding);
    }
    if (take->quantize) af_acts_quantize(cpu->acts, cpu->isa, begin, end);
}

void af_cpu_take_in(af_cpu *cpu, const af_cpu_intake *take, uint32_t count) {
    const af_cpu_rows *from = take->fill ? &cpu->normed : take->in;
    af_acts_set(cpu->acts, from->p, from->stride, count, take->width, take->fine);
    if (take->fill || take->quantize) af_cpu_ranges(cpu, take_rows, take, count, take->width);
}

static bool any_int8(const af_cpu_op *op, uint32_t parts) {
    for (uint32_t i = 0; i < parts; i++)
        if (af_packed_wants_int8(op->packed[i])) return true;
    return false;
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
    if (out != y)
        for (size_t i = 0; i < n; i++) out[i] = y[i];
    if (scale != 1.0f) k->scale(out, scale, n);
}

static void finish_linear(const af_cpu_product *p, uint32_t part, uint32_t begin, uint32_t end) {
    const af_op_linear *l = &p->op->op->u.linear;
    const af_lane_kernels *k = p->cpu->kernels;
    const size_t n = end - begin;
    for (uint32_t t = 0; t < p->tokens; t++) {
        float *y = af_cpu_row(&p->to[part], t) + begin;
        if (l->parts[part].bias) k->add(y, l->parts[part].bias + begin, n);
        if (l->combine == AF_COMBINE_GLU) {
            float *other = af_cpu_row(&p->to[1], t) + begin;
            if (l->parts[1].bias) k->add(other, l->parts[1].bias + begin, n);
            k->glu(l->act, y, other, n);
        } else if (l->combine == AF_COMBINE_ACT) {
            k->act(l->act, y, n);
        }
        if (l->post.kind != AF_NORM_NONE || l->part_count != 1) continue;
        const float *residual = residual_row(p->cpu, l, t);
        put(k, af_cpu_row(&p->cpu->values[l->parts[part].out], t) + begin, residual ? residual + begin : NULL, y,
            l->scale, n);
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

void af_cpu_linear(af_cpu *cpu, const af_cpu_op *op) {
    const af_op_linear *l = &op->op->u.linear;
    const uint32_t tokens = cpu->batch->token_count;
    const bool glu = l->combine == AF_COMBINE_GLU;
    const bool later = l->post.kind != AF_NORM_NONE || l->residual != AF_NO_VALUE;
    const uint32_t rounding = af_cpu_rounding(cpu, &l->parts[0].w);
    const af_cpu_intake take = {.norm = &l->pre,
                                .in = &cpu->values[l->in],
                                .width = l->parts[0].w.cols,
                                .fill = l->pre.kind != AF_NORM_NONE || rounding,
                                .quantize = any_int8(op, l->part_count),
                                .fine = op->fine,
                                .rounding = rounding};
    af_cpu_take_in(cpu, &take, tokens);
    af_cpu_product p = {
        .cpu = cpu, .op = op, .tokens = tokens, .part_count = glu ? 1 : l->part_count, .finish = finish_linear};
    for (uint32_t i = 0; i < l->part_count; i++)
        p.to[i] = later || (glu && i == 1) ? cpu->product : cpu->values[l->parts[i].out];
    af_cpu_run_product(&p);
    if (l->post.kind != AF_NORM_NONE) af_cpu_ranges(cpu, post_rows, l, tokens, l->parts[0].w.rows);
}

/* ---- Head ---- */

static void finish_head(const af_cpu_product *p, uint32_t part, uint32_t begin, uint32_t end) {
    const af_op_head *head = &p->op->op->u.head;
    const af_lane_kernels *k = p->cpu->kernels;
    const size_t n = end - begin;
    for (uint32_t row = 0; row < p->tokens; row++) {
        float *y = af_cpu_row(&p->to[part], row) + begin;
        if (head->bias) k->add(y, head->bias + begin, n);
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
                                .quantize = any_int8(op, 1),
                                .fine = op->fine,
                                .rounding = af_cpu_rounding(cpu, &head->w)};
    af_cpu_take_in(cpu, &take, cpu->row_count);
    af_cpu_product p = {
        .cpu = cpu, .op = op, .tokens = cpu->row_count, .part_count = 1, .to = {cpu->logits}, .finish = finish_head};
    af_cpu_run_product(&p);
    choose(cpu, head);
}

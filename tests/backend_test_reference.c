/* backend_test_reference.c - a plan's forward pass in double, straight from the formulas of plan.h: one sequence, every
 * position at once, no cache, no vectors, no threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend_test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WIDEST 320 /* columns of any matrix */

double *doubles(size_t n) {
    double *p = calloc(n, sizeof *p);
    assert_non_null(p);
    return p;
}

double *ref_row_of(const forward *f, af_value value, uint32_t t) {
    return f->values[value] + (size_t)t * f->plan->widths[value];
}

void ref_norm(const af_norm *norm, size_t head, double *v) {
    if (norm->kind == AF_NORM_NONE) return;
    const size_t n = norm->width, row = norm->per_head_weight ? head * n : 0;
    double mean = 0, squares = 0;
    for (size_t i = 0; norm->kind == AF_NORM_LAYER && i < n; i++) mean += v[i] / (double)n;
    for (size_t i = 0; i < n; i++) squares += (v[i] - mean) * (v[i] - mean) / (double)n;
    for (size_t i = 0; i < n; i++) {
        v[i] = (v[i] - mean) / sqrt(squares + norm->eps);
        if (norm->weight) v[i] *= norm->weight[row + i];
        if (norm->bias) v[i] += norm->bias[row + i];
    }
}

double ref_act(af_act act, double v) {
    if (act == AF_ACT_SILU) return v / (1 + exp(-v));
    if (act == AF_ACT_SIGMOID) return 1 / (1 + exp(-v));
    return 0.5 * v * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (v + 0.044715 * v * v * v)));
}

/* Row r of a matrix, decoded. */
static void ref_row(const af_matrix *w, uint32_t r, float *out) {
    assert_true(w->cols <= WIDEST);
    w->format->decode((const unsigned char *)w->data + r * af_row_bytes(w->format, w->cols), out, w->cols);
}

static void ref_product(const af_matrix *w, const float *bias, const double *x, double *y) {
    float m[WIDEST];
    for (uint32_t r = 0; r < w->rows; r++) {
        ref_row(w, r, m);
        y[r] = bias ? bias[r] : 0;
        for (uint32_t c = 0; c < w->cols; c++) y[r] += (double)m[c] * x[c];
    }
}

static void ref_embed(const forward *f, const af_op_embed *e) {
    float row[WIDEST];
    for (uint32_t t = 0; t < f->count; t++) {
        ref_row(&e->table, (uint32_t)f->ids[t], row);
        for (uint32_t i = 0; i < e->table.cols; i++) ref_row_of(f, e->out, t)[i] = (double)row[i] * e->scale;
    }
}

static void ref_linear_row(const forward *f, const af_op_linear *l, uint32_t t) {
    const uint32_t rows = l->parts[0].w.rows, cols = l->parts[0].w.cols;
    double *in = doubles(cols), *y = doubles(rows), *second = doubles(rows);
    memcpy(in, ref_row_of(f, l->in, t), cols * sizeof *in);
    ref_norm(&l->pre, 0, in);
    if (l->combine == AF_COMBINE_NONE && l->part_count > 1) {
        for (uint32_t i = 0; i < l->part_count; i++)
            ref_product(&l->parts[i].w, l->parts[i].bias, in, ref_row_of(f, l->parts[i].out, t));
    } else {
        ref_product(&l->parts[0].w, l->parts[0].bias, in, y);
        if (l->combine == AF_COMBINE_GLU) ref_product(&l->parts[1].w, l->parts[1].bias, in, second);
        ref_norm(&l->post, 0, y);
        for (uint32_t i = 0; i < rows; i++) {
            if (l->combine != AF_COMBINE_NONE) y[i] = ref_act(l->act, y[i]);
            if (l->combine == AF_COMBINE_GLU) y[i] *= second[i];
            const double before = l->residual == AF_NO_VALUE ? 0 : ref_row_of(f, l->residual, t)[i];
            ref_row_of(f, l->parts[0].out, t)[i] = before + l->scale * y[i];
        }
    }
    free(in);
    free(y);
    free(second);
}

static void ref_turn(const af_rope *rope, uint32_t position, double *head) {
    const uint32_t half = rope->rotated / 2;
    for (uint32_t i = 0; i < half; i++) {
        const uint32_t at = rope->adjacent ? 2 * i : i, other = rope->adjacent ? 2 * i + 1 : i + half;
        const double angle = (double)position * (double)rope->inv_freq[i], a = head[at], b = head[other];
        head[at] = (a * cos(angle) - b * sin(angle)) * rope->magnitude;
        head[other] = (a * sin(angle) + b * cos(angle)) * rope->magnitude;
    }
}

static double half(double x) {
    return (double)af_f16_to_f32(af_f32_to_f16((float)x));
}

/* A head's key or value as the cache keeps it. */
static void store(af_kv_type kv, const double *from, uint32_t dim, double *to) {
    for (uint32_t i = 0, end; i < dim; i = end) {
        end = i + 32 < dim ? i + 32 : dim; /* elements that share a scale */
        double most = 0;
        for (uint32_t j = i; j < end; j++) most = fmax(most, fabs(from[j]));
        const double d = half(most / 127);
        for (uint32_t j = i; j < end; j++)
            to[j] = kv == AF_KV_F32   ? from[j]
                    : kv == AF_KV_F16 ? half(from[j])
                    : d > 0           ? d * rint(fmax(-127, fmin(127, from[j] / d)))
                                      : 0;
    }
}

static void ref_rope_store(const forward *f, const af_op_rope_store *s, uint32_t t) {
    const af_cache *cache = &f->plan->caches[s->cache];
    const af_rope *rope = &f->plan->ropes[s->rope];
    double *q = ref_row_of(f, s->q, t), *k = ref_row_of(f, s->k, t), *v = ref_row_of(f, s->v, t);
    for (uint32_t h = 0; h < s->heads; h++) {
        double *head = q + h * (s->q_pitch ? s->q_pitch : cache->k_dim);
        ref_norm(&s->q_norm, h, head);
        ref_turn(rope, t, head);
    }
    for (uint32_t h = 0; h < cache->kv_heads; h++) {
        ref_norm(&s->k_norm, h, k + h * cache->k_dim);
        ref_turn(rope, t, k + h * cache->k_dim);
    }
    const uint32_t k_width = (uint32_t)cache->kv_heads * cache->k_dim,
                   v_width = (uint32_t)cache->kv_heads * cache->v_dim;
    for (uint32_t h = 0; h < cache->kv_heads; h++) {
        store(f->kv, k + h * cache->k_dim, cache->k_dim, f->k[s->cache] + t * k_width + h * cache->k_dim);
        store(f->kv, v + h * cache->v_dim, cache->v_dim, f->v[s->cache] + t * v_width + h * cache->v_dim);
    }
}

static void ref_attend_head(const forward *f, const af_op_attend *a, uint32_t t, uint32_t h) {
    const af_cache *cache = &f->plan->caches[a->cache];
    const uint32_t g = h * cache->kv_heads / a->heads, window = f->plan->groups[cache->group].window;
    const double *q = ref_row_of(f, a->q, t) + h * (a->q_pitch ? a->q_pitch : cache->k_dim);
    double *out = ref_row_of(f, a->out, t) + h * cache->v_dim, *s = doubles(f->count), sum = 0;
    for (uint32_t i = 0; i < cache->v_dim; i++) out[i] = 0;
    for (uint32_t j = 0; j <= t; j++) {
        if (window && t - j >= window) continue;
        const double *k = f->k[a->cache] + ((size_t)j * cache->kv_heads + g) * cache->k_dim;
        for (uint32_t d = 0; d < cache->k_dim; d++) s[j] += q[d] * k[d];
        s[j] *= a->scale;
        if (a->softcap > 0) s[j] = a->softcap * tanh(s[j] / a->softcap);
        const double weight = exp(s[j]);
        sum += weight;
        const double *v = f->v[a->cache] + ((size_t)j * cache->kv_heads + g) * cache->v_dim;
        for (uint32_t i = 0; i < cache->v_dim; i++) out[i] += weight * v[i];
    }
    if (a->sinks) sum += exp(a->sinks[h]);
    for (uint32_t i = 0; i < cache->v_dim; i++) out[i] /= sum;
    free(s);
}

static void ref_head(const forward *f, const af_op_head *head, uint32_t t) {
    double *in = doubles(head->w.cols), *logits = f->logits + (size_t)t * head->w.rows;
    memcpy(in, ref_row_of(f, head->in, t), head->w.cols * sizeof *in);
    ref_norm(&head->norm, 0, in);
    ref_product(&head->w, head->bias, in, logits);
    for (uint32_t i = 0; i < head->w.rows; i++) {
        logits[i] *= head->scale;
        if (head->softcap > 0) logits[i] = head->softcap * tanh(logits[i] / head->softcap);
    }
    free(in);
}

static void ref_op(const forward *f, const af_op *op) {
    if (op->kind == AF_OP_EMBED) ref_embed(f, &op->u.embed);
    if (op->kind == AF_OP_CONV) ref_conv(f, &op->u.conv);
    if (op->kind == AF_OP_DELTA) ref_delta(f, &op->u.delta);
    if (op->kind == AF_OP_GATE) ref_gate(f, &op->u.gate);
    for (uint32_t t = 0; t < f->count; t++) {
        if (op->kind == AF_OP_LINEAR) ref_linear_row(f, &op->u.linear, t);
        if (op->kind == AF_OP_ROPE_STORE) ref_rope_store(f, &op->u.rope_store, t);
        for (uint32_t h = 0; op->kind == AF_OP_ATTEND && h < op->u.attend.heads; h++)
            ref_attend_head(f, &op->u.attend, t, h);
        if (op->kind == AF_OP_HEAD) ref_head(f, &op->u.head, t);
    }
}

static double **double_table(size_t n) {
    double **p = calloc(n, sizeof *p);
    assert_non_null(p);
    return p;
}

static void free_doubles(double **p, size_t n) {
    for (size_t i = 0; i < n; i++) free(p[i]);
    free(p);
}

double *reference_logits(const af_plan *plan, const int32_t *ids, uint32_t count, af_kv_type kv) {
    forward f = {.plan = plan, .ids = ids, .count = count, .kv = kv};
    f.values = double_table(plan->value_count);
    f.k = double_table(plan->cache_count);
    f.v = double_table(plan->cache_count);
    f.logits = doubles((size_t)count * plan->vocabulary);
    for (size_t i = 0; i < plan->value_count; i++) f.values[i] = doubles((size_t)count * plan->widths[i]);
    for (size_t i = 0; i < plan->cache_count; i++) {
        f.k[i] = doubles((size_t)count * plan->caches[i].kv_heads * plan->caches[i].k_dim);
        f.v[i] = doubles((size_t)count * plan->caches[i].kv_heads * plan->caches[i].v_dim);
    }
    for (size_t i = 0; i < plan->op_count; i++) ref_op(&f, &plan->ops[i]);
    free_doubles(f.values, plan->value_count);
    free_doubles(f.k, plan->cache_count);
    free_doubles(f.v, plan->cache_count);
    return f.logits;
}

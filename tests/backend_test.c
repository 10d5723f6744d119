/* backend_test.c - the CPU backend over small plans made by hand: it computes what plan.h says (against a forward pass
 * in double written here), and a row's logits depend on nothing but the sequence's tokens up to it, bit for bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/backend.h"
#include "backend/cpu/cpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- A model of any shape ---- */

typedef struct shape {
    const char *name;
    uint32_t width, heads, kv_heads, k_dim, v_dim, hidden, vocabulary, layers;
    uint32_t window; /* of every second layer; 0: none */
    uint32_t rotated;
    bool adjacent, layer_norm, head_norms, post_norms, biases, sinks, tied, plain_act;
    af_act act;
    float softcap, head_softcap, embed_scale, residual_scale, head_scale, magnitude;
} shape;

static const shape llama_like = {.name = "llama-like",
                                 .width = 48,
                                 .heads = 6,
                                 .kv_heads = 2,
                                 .k_dim = 16,
                                 .v_dim = 16,
                                 .hidden = 80,
                                 .vocabulary = 100,
                                 .layers = 2,
                                 .rotated = 16,
                                 .adjacent = true,
                                 .act = AF_ACT_SILU,
                                 .embed_scale = 1,
                                 .residual_scale = 1,
                                 .head_scale = 1,
                                 .magnitude = 1};
static const shape gemma_like = {.name = "gemma-like",
                                 .width = 40,
                                 .heads = 4,
                                 .kv_heads = 1,
                                 .k_dim = 32,
                                 .v_dim = 32,
                                 .hidden = 72,
                                 .vocabulary = 99,
                                 .layers = 3,
                                 .window = 70,
                                 .rotated = 32,
                                 .head_norms = true,
                                 .post_norms = true,
                                 .tied = true,
                                 .act = AF_ACT_GELU,
                                 .softcap = 5,
                                 .head_softcap = 30,
                                 .embed_scale = 6.5f,
                                 .residual_scale = 1,
                                 .head_scale = 1,
                                 .magnitude = 1};
/* Everything odd at once: dimensions that fill no vector, more heads than a tile, unequal k and v. */
static const shape odd = {.name = "odd",
                          .width = 36,
                          .heads = 20,
                          .kv_heads = 1,
                          .k_dim = 10,
                          .v_dim = 7,
                          .hidden = 33,
                          .vocabulary = 61,
                          .layers = 2,
                          .window = 33,
                          .rotated = 6,
                          .layer_norm = true,
                          .biases = true,
                          .sinks = true,
                          .plain_act = true,
                          .act = AF_ACT_GELU,
                          .embed_scale = 1,
                          .residual_scale = 0.5f,
                          .head_scale = 0.25f,
                          .magnitude = 1.2f};
static const shape *const shapes[] = {&llama_like, &gemma_like, &odd};
#define SHAPES (sizeof shapes / sizeof *shapes)

static uint64_t random_state;

static float random_float(void) { /* -1 .. 1 */
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (float)((int64_t)(random_state >> 33) - (1 << 30)) / (float)(1 << 30);
}

static float *random_floats(af_plan *plan, size_t n, float center, float spread) {
    float *p = af_arena_array(plan->arena, n, sizeof *p);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++) p[i] = center + spread * random_float();
    return p;
}

static af_matrix random_matrix(af_plan *plan, uint32_t rows, uint32_t cols) {
    const float spread = 1.7f / sqrtf((float)cols);
    return (af_matrix){.data = random_floats(plan, (size_t)rows * cols, 0, spread),
                       .format = af_format_of(AF_TYPE_F32),
                       .rows = rows,
                       .cols = cols,
                       .name = "random"};
}

static af_norm random_norm(af_plan *plan, const shape *s, uint32_t width) {
    af_norm norm = {.kind = AF_NORM_RMS, .eps = 1e-5f, .weight = random_floats(plan, width, 1, 0.3f), .width = width};
    if (s->layer_norm) {
        norm.kind = AF_NORM_LAYER;
        norm.bias = random_floats(plan, width, 0, 0.2f);
    }
    return norm;
}

static const float *random_bias(af_plan *plan, const shape *s, uint32_t rows) {
    return s->biases ? random_floats(plan, rows, 0, 0.2f) : NULL;
}

static void append(af_plan *plan, const af_op *op) {
    af_error error;
    if (af_plan_append(plan, op, &error)) fail_msg("%s", error.text);
}

static af_value new_value(af_plan *plan, uint32_t width) {
    af_value value = 0;
    assert_int_equal(af_plan_value(plan, width, &value, NULL), 0);
    return value;
}

static af_part random_part(af_plan *plan, const shape *s, uint32_t rows, uint32_t cols, af_value out) {
    return (af_part){.w = random_matrix(plan, rows, cols), .bias = random_bias(plan, s, rows), .out = out};
}

typedef struct values {
    af_value x, q, k, v, o, h;
} values;

static void append_attention(af_plan *plan, const shape *s, const values *at, uint32_t layer) {
    uint16_t cache, rope;
    const uint32_t q_width = s->heads * s->k_dim, k_width = s->kv_heads * s->k_dim, v_width = s->kv_heads * s->v_dim;
    assert_int_equal(af_plan_cache(plan, layer % 2 ? s->window : 0, s->kv_heads, s->k_dim, s->v_dim, &cache, NULL), 0);
    float *inv_freq = random_floats(plan, s->rotated / 2, 0.5f, 0.5f);
    const af_rope spec = {s->rotated, s->adjacent, inv_freq, s->magnitude};
    assert_int_equal(af_plan_rope(plan, &spec, &rope, NULL), 0);
    append(plan, &(af_op){.kind = AF_OP_LINEAR,
                          .layer = (int32_t)layer,
                          .name = "qkv",
                          .u.linear = {.in = at->x,
                                       .pre = random_norm(plan, s, s->width),
                                       .part_count = 3,
                                       .parts = {random_part(plan, s, q_width, s->width, at->q),
                                                 random_part(plan, s, k_width, s->width, at->k),
                                                 random_part(plan, s, v_width, s->width, at->v)},
                                       .residual = AF_NO_VALUE,
                                       .scale = 1}});
    af_op store = {.kind = AF_OP_ROPE_STORE,
                   .layer = (int32_t)layer,
                   .name = "rope",
                   .u.rope_store = {
                       .q = at->q, .k = at->k, .v = at->v, .heads = (uint16_t)s->heads, .cache = cache, .rope = rope}};
    if (s->head_norms) {
        store.u.rope_store.q_norm = random_norm(plan, s, s->k_dim);
        store.u.rope_store.k_norm = (af_norm){.kind = AF_NORM_RMS,
                                              .eps = 1e-6f,
                                              .weight = random_floats(plan, k_width, 1, 0.3f),
                                              .width = s->k_dim,
                                              .per_head_weight = true};
    }
    append(plan, &store);
    append(plan, &(af_op){.kind = AF_OP_ATTEND,
                          .layer = (int32_t)layer,
                          .name = "attend",
                          .u.attend = {.q = at->q,
                                       .out = at->o,
                                       .heads = (uint16_t)s->heads,
                                       .cache = cache,
                                       .scale = 1 / sqrtf((float)s->k_dim),
                                       .softcap = s->softcap,
                                       .sinks = s->sinks ? random_floats(plan, s->heads, 0, 1) : NULL}});
}

static void append_linear_to_x(af_plan *plan, const shape *s, const values *at, af_value in, uint32_t width) {
    af_op op = {.kind = AF_OP_LINEAR,
                .name = "to x",
                .u.linear = {.in = in,
                             .part_count = 1,
                             .parts = {random_part(plan, s, s->width, width, at->x)},
                             .residual = at->x,
                             .scale = s->residual_scale}};
    if (s->post_norms) op.u.linear.post = random_norm(plan, s, s->width);
    append(plan, &op);
}

static void append_hidden(af_plan *plan, const shape *s, const values *at) {
    af_op op = {.kind = AF_OP_LINEAR,
                .name = "hidden",
                .u.linear = {.in = at->x,
                             .pre = random_norm(plan, s, s->width),
                             .part_count = s->plain_act ? 1 : 2,
                             .combine = s->plain_act ? AF_COMBINE_ACT : AF_COMBINE_GLU,
                             .act = s->act,
                             .residual = AF_NO_VALUE,
                             .scale = 1}};
    for (uint32_t i = 0; i < op.u.linear.part_count; i++)
        op.u.linear.parts[i] = random_part(plan, s, s->hidden, s->width, at->h);
    append(plan, &op);
}

/* A plan with random weights, the same for every call with the same shape. */
static af_plan *make_plan(const shape *s) {
    af_plan *plan = NULL;
    random_state = 42;
    assert_int_equal(af_plan_open(&plan, NULL), 0);
    plan->vocabulary = s->vocabulary;
    const values at = {new_value(plan, s->width),
                       new_value(plan, s->heads * s->k_dim),
                       new_value(plan, s->kv_heads * s->k_dim),
                       new_value(plan, s->kv_heads * s->v_dim),
                       new_value(plan, s->heads * s->v_dim),
                       new_value(plan, s->hidden)};
    const af_matrix table = random_matrix(plan, s->vocabulary, s->width);
    append(plan, &(af_op){.kind = AF_OP_EMBED,
                          .layer = -1,
                          .name = "embed",
                          .u.embed = {.table = table, .scale = s->embed_scale, .out = at.x}});
    for (uint32_t layer = 0; layer < s->layers; layer++) {
        append_attention(plan, s, &at, layer);
        append_linear_to_x(plan, s, &at, at.o, s->heads * s->v_dim);
        append_hidden(plan, s, &at);
        append_linear_to_x(plan, s, &at, at.h, s->hidden);
    }
    append(plan, &(af_op){.kind = AF_OP_HEAD,
                          .layer = -1,
                          .name = "head",
                          .u.head = {.in = at.x,
                                     .norm = random_norm(plan, s, s->width),
                                     .w = s->tied ? table : random_matrix(plan, s->vocabulary, s->width),
                                     .bias = random_bias(plan, s, s->vocabulary),
                                     .scale = s->head_scale,
                                     .softcap = s->head_softcap}});
    return plan;
}

/* ---- The forward pass in double, straight from plan.h's formulas: one sequence, every position at once ---- */

typedef struct forward {
    const af_plan *plan;
    const int32_t *ids;
    uint32_t count;
    af_kv_type kv;
    double **values; /* each (count, width) */
    double **k, **v; /* of each cache: (count, kv_heads * dim) */
    double *logits;  /* (count, vocabulary) */
} forward;

static double *doubles(size_t n) {
    double *p = calloc(n, sizeof *p);
    assert_non_null(p);
    return p;
}

static double *value_row(const forward *f, af_value value, uint32_t t) {
    return f->values[value] + (size_t)t * f->plan->widths[value];
}

static void ref_norm(const af_norm *norm, size_t head, double *v) {
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

static double ref_act(af_act act, double v) {
    if (act == AF_ACT_SILU) return v / (1 + exp(-v));
    return 0.5 * v * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (v + 0.044715 * v * v * v)));
}

static void ref_product(const af_matrix *w, const float *bias, const double *x, double *y) {
    const float *m = w->data;
    for (uint32_t r = 0; r < w->rows; r++) {
        y[r] = bias ? bias[r] : 0;
        for (uint32_t c = 0; c < w->cols; c++) y[r] += (double)m[(size_t)r * w->cols + c] * x[c];
    }
}

static void ref_embed(const forward *f, const af_op_embed *e) {
    const float *table = e->table.data;
    for (uint32_t t = 0; t < f->count; t++)
        for (uint32_t i = 0; i < e->table.cols; i++)
            value_row(f, e->out, t)[i] = (double)table[(size_t)f->ids[t] * e->table.cols + i] * e->scale;
}

static void ref_linear_row(const forward *f, const af_op_linear *l, uint32_t t) {
    const uint32_t rows = l->parts[0].w.rows, cols = l->parts[0].w.cols;
    double *in = doubles(cols), *y = doubles(rows), *second = doubles(rows);
    memcpy(in, value_row(f, l->in, t), cols * sizeof *in);
    ref_norm(&l->pre, 0, in);
    if (l->combine == AF_COMBINE_NONE && l->part_count > 1) {
        for (uint32_t i = 0; i < l->part_count; i++)
            ref_product(&l->parts[i].w, l->parts[i].bias, in, value_row(f, l->parts[i].out, t));
    } else {
        ref_product(&l->parts[0].w, l->parts[0].bias, in, y);
        if (l->combine == AF_COMBINE_GLU) ref_product(&l->parts[1].w, l->parts[1].bias, in, second);
        ref_norm(&l->post, 0, y);
        for (uint32_t i = 0; i < rows; i++) {
            if (l->combine != AF_COMBINE_NONE) y[i] = ref_act(l->act, y[i]);
            if (l->combine == AF_COMBINE_GLU) y[i] *= second[i];
            const double before = l->residual == AF_NO_VALUE ? 0 : value_row(f, l->residual, t)[i];
            value_row(f, l->parts[0].out, t)[i] = before + l->scale * y[i];
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

static double stored(af_kv_type kv, double x) {
    return kv == AF_KV_F16 ? (double)af_f16_to_f32(af_f32_to_f16((float)x)) : x;
}

static void ref_rope_store(const forward *f, const af_op_rope_store *s, uint32_t t) {
    const af_cache *cache = &f->plan->caches[s->cache];
    const af_rope *rope = &f->plan->ropes[s->rope];
    double *q = value_row(f, s->q, t), *k = value_row(f, s->k, t), *v = value_row(f, s->v, t);
    for (uint32_t h = 0; h < s->heads; h++) {
        ref_norm(&s->q_norm, h, q + h * cache->k_dim);
        ref_turn(rope, t, q + h * cache->k_dim);
    }
    for (uint32_t h = 0; h < cache->kv_heads; h++) {
        ref_norm(&s->k_norm, h, k + h * cache->k_dim);
        ref_turn(rope, t, k + h * cache->k_dim);
    }
    const uint32_t k_width = (uint32_t)cache->kv_heads * cache->k_dim,
                   v_width = (uint32_t)cache->kv_heads * cache->v_dim;
    for (uint32_t i = 0; i < k_width; i++) f->k[s->cache][t * k_width + i] = stored(f->kv, k[i]);
    for (uint32_t i = 0; i < v_width; i++) f->v[s->cache][t * v_width + i] = stored(f->kv, v[i]);
}

static void ref_attend_head(const forward *f, const af_op_attend *a, uint32_t t, uint32_t h) {
    const af_cache *cache = &f->plan->caches[a->cache];
    const uint32_t g = h * cache->kv_heads / a->heads, window = f->plan->groups[cache->group].window;
    const double *q = value_row(f, a->q, t) + h * cache->k_dim;
    double *out = value_row(f, a->out, t) + h * cache->v_dim, *s = doubles(f->count), sum = 0;
    for (uint32_t i = 0; i < cache->v_dim; i++) out[i] = 0;
    for (uint32_t j = 0; j <= t; j++) {
        if (window && t - j >= window) continue;
        const double *k = f->k[a->cache] + ((size_t)j * cache->kv_heads + g) * cache->k_dim;
        for (uint32_t d = 0; d < cache->k_dim; d++) s[j] += q[d] * k[d];
        s[j] *= a->scale;
        if (a->softcap > 0) s[j] = a->softcap * tanh(s[j] / a->softcap);
        sum += exp(s[j]);
        const double *v = f->v[a->cache] + ((size_t)j * cache->kv_heads + g) * cache->v_dim;
        for (uint32_t i = 0; i < cache->v_dim; i++) out[i] += exp(s[j]) * v[i];
    }
    if (a->sinks) sum += exp(a->sinks[h]);
    for (uint32_t i = 0; i < cache->v_dim; i++) out[i] /= sum;
    free(s);
}

static void ref_head(const forward *f, const af_op_head *head, uint32_t t) {
    double *in = doubles(head->w.cols), *logits = f->logits + (size_t)t * head->w.rows;
    memcpy(in, value_row(f, head->in, t), head->w.cols * sizeof *in);
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

/* Logits of every position, (count, vocabulary), freed by the caller. */
static double *reference_logits(const af_plan *plan, const int32_t *ids, uint32_t count, af_kv_type kv) {
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

/* ---- Running a backend ---- */

#define TOKENS    330 /* over two splits of 256, ten pages, several windows */
#define SEQUENCES 3
#define PAGES     ((TOKENS + AF_KV_PAGE - 1) / AF_KV_PAGE)

typedef struct setup {
    uint32_t threads;
    const char *isa; /* NULL: the best */
    af_kv_type kv;
    bool poison; /* memory of the cache starts as NaN */
} setup;

/* Page p of sequence s: scattered over the pool, never in order. */
static uint32_t page_of(uint32_t s, uint32_t p) {
    return (p * SEQUENCES + (s + p) % SEQUENCES) * 7 % (PAGES * SEQUENCES);
}

static af_backend *open_backend(const af_plan *plan, const setup *with) {
    af_backend_options options = {
        .threads = with->threads, .exact = true, .kv = with->kv, .max_tokens = TOKENS * 2, .max_rows = TOKENS};
    for (size_t g = 0; g < plan->group_count; g++) options.pages[g] = PAGES * SEQUENCES;
    if (with->isa) setenv("AF_CPU_ISA", with->isa, 1);
    af_backend *backend = NULL;
    af_error error;
    if (af_backend_open("cpu", plan, &options, &backend, &error)) fail_msg("%s", error.text);
    unsetenv("AF_CPU_ISA");
    af_cpu *cpu = (af_cpu *)backend;
    if (with->poison) memset(cpu->kv.memory, 0xFF, cpu->kv.bytes);
    return backend;
}

static void fill_ids(const af_plan *plan, uint32_t seed, int32_t *ids, uint32_t count) {
    random_state = seed;
    for (uint32_t i = 0; i < count; i++) ids[i] = (int32_t)((random_float() + 1) / 2.001f * (float)plan->vocabulary);
}

/* Pages of sequence s as the engine would give them for positions begin .. end - 1: those behind a window are gone. */
static void fill_pages(const af_plan *plan, uint32_t s, uint32_t begin, uint32_t pages[AF_PLAN_GROUPS][PAGES],
                       af_batch_seq *seq) {
    for (size_t g = 0; g < plan->group_count; g++) {
        const uint32_t window = plan->groups[g].window;
        const uint32_t first = window && begin + 1 > window ? (begin + 1 - window) / AF_KV_PAGE : 0;
        for (uint32_t p = 0; p < PAGES; p++) pages[g][p] = p < first ? UINT32_MAX : page_of(s, p);
        seq->pages[g] = pages[g];
    }
}

/* Adds positions begin .. end - 1 of sequence s to a batch. */
static void add_tokens(af_batch *batch, af_batch_token *tokens, uint32_t s, const int32_t *ids, uint32_t begin,
                       uint32_t end, af_choose choose) {
    for (uint32_t i = begin; i < end; i++)
        tokens[batch->token_count++] = (af_batch_token){.id = ids[i], .seq = s, .position = i, .choose = choose};
    batch->tokens = tokens;
}

typedef struct plan_of_run {
    uint32_t chunk;
    bool neighbours; /* two other sequences in every batch, at other positions, before and after */
} plan_of_run;

/* Logits of all positions of sequence 0, (TOKENS, vocabulary). */
static float *logits_of(const af_plan *plan, const setup *with, plan_of_run how) {
    af_backend *backend = open_backend(plan, with);
    int32_t ids[SEQUENCES][TOKENS];
    for (uint32_t s = 0; s < SEQUENCES; s++) fill_ids(plan, s + 1, ids[s], TOKENS);
    float *all = malloc(sizeof *all * TOKENS * plan->vocabulary);
    assert_non_null(all);
    static af_batch_token tokens[TOKENS * 2];
    uint32_t pages[SEQUENCES][AF_PLAN_GROUPS][PAGES], other = 0;
    for (uint32_t begin = 0, end; begin < TOKENS; begin = end) {
        end = begin + how.chunk < TOKENS ? begin + how.chunk : TOKENS;
        af_batch_seq seqs[SEQUENCES];
        af_batch batch = {.seqs = seqs, .seq_count = SEQUENCES};
        for (uint32_t s = 0; s < SEQUENCES; s++) fill_pages(plan, s, s == 0 ? begin : other, pages[s], &seqs[s]);
        const uint32_t other_end = how.neighbours ? (other + 5 < TOKENS ? other + 5 : TOKENS) : other;
        add_tokens(&batch, tokens, 1, ids[1], other, other_end, AF_CHOOSE_NONE);
        add_tokens(&batch, tokens, 0, ids[0], begin, end, AF_CHOOSE_LOGITS);
        add_tokens(&batch, tokens, 2, ids[2], other, other_end, AF_CHOOSE_NONE);
        other = other_end;
        af_ticket ticket;
        af_result result;
        assert_int_equal(backend->ops->submit(backend, &batch, &ticket, NULL), 0);
        assert_int_equal(backend->ops->collect(backend, ticket, &result, NULL), 0);
        assert_int_equal(result.row_count, end - begin);
        for (uint32_t i = begin; i < end; i++) {
            assert_int_equal(result.ids[i - begin], -1);
            memcpy(all + (size_t)i * plan->vocabulary, result.logits[i - begin], sizeof *all * plan->vocabulary);
        }
    }
    backend->ops->close(backend);
    return all;
}

/* ---- Tests ---- */

static double largest_difference(const double *a, const float *b, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = fabs(a[i] - (double)b[i]);
        if (!(d <= most)) most = d; /* a NaN is the largest */
    }
    return most;
}

static void check_against_reference(af_kv_type kv, double allowed) {
    for (size_t i = 0; i < SHAPES; i++) {
        af_plan *plan = make_plan(shapes[i]);
        int32_t ids[TOKENS];
        fill_ids(plan, 1, ids, TOKENS);
        double *want = reference_logits(plan, ids, TOKENS, kv);
        float *got = logits_of(plan, &(setup){.threads = 2, .kv = kv}, (plan_of_run){.chunk = 64});
        const double most = largest_difference(want, got, (size_t)TOKENS * plan->vocabulary);
        if (!(most <= allowed)) fail_msg("%s: logits differ by %g, allowed %g", shapes[i]->name, most, allowed);
        free(want);
        free(got);
        af_plan_close(plan);
    }
}

static void logits_are_those_of_the_formulas(void **state) {
    check_against_reference(AF_KV_F32, 2e-5);
}

static void logits_with_an_f16_cache_are_those_of_rounded_keys_and_values(void **state) {
    check_against_reference(AF_KV_F16, 4e-3);
}

/* All runs give the bits of the first, for every shape. */
static void check_same_bits(const setup *setups, size_t setup_count, const plan_of_run *runs, size_t run_count) {
    for (size_t i = 0; i < SHAPES; i++) {
        af_plan *plan = make_plan(shapes[i]);
        const size_t bytes = sizeof(float) * TOKENS * plan->vocabulary;
        float *first = logits_of(plan, &setups[0], runs[0]);
        for (size_t s = 0; s < setup_count; s++)
            for (size_t r = 0; r < run_count; r++) {
                float *again = logits_of(plan, &setups[s], runs[r]);
                for (size_t at = 0; at < bytes / sizeof *again; at++)
                    if (memcmp(&first[at], &again[at], sizeof *again) != 0)
                        fail_msg("%s, setup %zu, run %zu: position %zu differs: %.9g, %.9g", shapes[i]->name, s, r,
                                 at / plan->vocabulary, (double)first[at], (double)again[at]);
                free(again);
            }
        free(first);
        af_plan_close(plan);
    }
}

static const plan_of_run whole = {.chunk = TOKENS};

static void chunks_and_neighbours_change_no_bit(void **state) {
    const plan_of_run runs[] = {whole, {1, false}, {7, false}, {32, false}, {7, true}, {1, true}, {TOKENS - 10, true}};
    check_same_bits(&(setup){.threads = 1, .kv = AF_KV_F16}, 1, runs, sizeof runs / sizeof *runs);
    check_same_bits(&(setup){.threads = 1, .kv = AF_KV_F32}, 1, runs, 3);
}

static void threads_change_no_bit(void **state) {
    const setup setups[] = {{.threads = 1}, {.threads = 2}, {.threads = 5}};
    const plan_of_run runs[] = {whole, {1, false}, {50, true}};
    check_same_bits(setups, 3, runs, 3);
}

static void instruction_sets_change_no_bit(void **state) {
    const setup setups[] = {{.threads = 1, .isa = "scalar"}, {.threads = 1, .isa = "avx2"}, {.threads = 1}};
    check_same_bits(setups, 3, &whole, 1);
    const setup f32[] = {{1, "scalar", AF_KV_F32, false}, {1, "avx2", AF_KV_F32, false}, {1, NULL, AF_KV_F32, false}};
    check_same_bits(f32, 3, &whole, 1);
}

static void garbage_in_slots_never_written_has_no_effect(void **state) {
    const setup setups[] = {{.threads = 1}, {.threads = 1, .poison = true}};
    const plan_of_run runs[] = {whole, {1, false}, {7, true}};
    check_same_bits(setups, 2, runs, 3);
    const setup f32[] = {{.threads = 1, .kv = AF_KV_F32}, {.threads = 1, .kv = AF_KV_F32, .poison = true}};
    check_same_bits(f32, 2, runs, 2);
}

/* A batch of one token of sequence 0 at `position`; returns its result. */
static af_result step(af_backend *backend, const af_plan *plan, af_batch_token token, af_ticket *ticket) {
    uint32_t pages[AF_PLAN_GROUPS][PAGES];
    af_batch_seq seq;
    fill_pages(plan, 0, token.position, pages, &seq);
    const af_batch batch = {.tokens = &token, .token_count = 1, .seqs = &seq, .seq_count = 1};
    af_result result;
    assert_int_equal(backend->ops->submit(backend, &batch, ticket, NULL), 0);
    assert_int_equal(backend->ops->collect(backend, *ticket, &result, NULL), 0);
    return result;
}

static int32_t best_of(const float *logits, uint32_t n) {
    int32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = (int32_t)i;
    return best;
}

static void greedy_rows_choose_the_best_and_later_batches_can_name_the_choice(void **state) {
    af_plan *plan = make_plan(&llama_like);
    af_backend *by_logits = open_backend(plan, &(setup){.threads = 1});
    af_backend *by_choice = open_backend(plan, &(setup){.threads = 2});
    int32_t id = 3;
    af_batch_token chained = {.id = 3, .choose = AF_CHOOSE_GREEDY};
    for (uint32_t position = 0; position < 40; position++) {
        af_ticket ticket;
        const af_batch_token token = {.id = id, .position = position, .choose = AF_CHOOSE_LOGITS};
        id = best_of(step(by_logits, plan, token, &ticket).logits[0], plan->vocabulary);
        chained.position = position;
        const af_result result = step(by_choice, plan, chained, &ticket);
        assert_int_equal(result.row_count, 1);
        assert_int_equal(result.ids[0], id);
        assert_null(result.logits[0]);
        chained.id = -1;
        chained.from = ticket;
    }
    by_logits->ops->close(by_logits);
    by_choice->ops->close(by_choice);
    af_plan_close(plan);
}

static void a_batch_that_wants_nothing_gives_no_rows(void **state) {
    af_plan *plan = make_plan(&llama_like);
    af_backend *backend = open_backend(plan, &(setup){.threads = 1});
    af_ticket ticket;
    assert_int_equal(step(backend, plan, (af_batch_token){.id = 1}, &ticket).row_count, 0);
    backend->ops->close(backend);
    af_plan_close(plan);
}

static void a_matrix_used_twice_is_packed_once(void **state) {
    af_plan *plan = make_plan(&llama_like);
    plan->ops[1].u.linear.parts[1].w = plan->ops[1].u.linear.parts[2].w;
    af_backend *backend = open_backend(plan, &(setup){.threads = 1});
    const af_cpu *cpu = (const af_cpu *)backend;
    assert_ptr_equal(cpu->ops[1].packed[1], cpu->ops[1].packed[2]);
    assert_ptr_not_equal(cpu->ops[1].packed[0], cpu->ops[1].packed[1]);
    backend->ops->close(backend);
    af_plan_close(plan);
}

static void expect_refusal(const char *device, const af_plan *plan, const af_backend_options *options, int code,
                           const char *names) {
    af_backend *backend = NULL;
    af_error error;
    assert_int_equal(af_backend_open(device, plan, options, &backend, &error), code);
    assert_null(backend);
    if (!strstr(error.text, names)) fail_msg("\"%s\" does not name \"%s\"", error.text, names);
}

static void options_out_of_bounds_are_refused_by_name(void **state) {
    af_plan *plan = make_plan(&llama_like);
    const af_backend_options good = {.threads = 1, .pages = {4}, .max_tokens = 8, .max_rows = 8};
    af_backend_options bad = good;
    bad.max_tokens = 0;
    expect_refusal("cpu", plan, &bad, AF_EINVAL, "tokens in a batch: 0");
    bad = good;
    bad.max_rows = 0;
    expect_refusal("cpu", plan, &bad, AF_EINVAL, "rows in a batch: 0");
    bad = good;
    bad.pages[0] = 0;
    expect_refusal("cpu", plan, &bad, AF_EINVAL, "pages of the KV cache: 0");
    bad = good;
    bad.threads = 100000;
    expect_refusal("cpu", plan, &bad, AF_EINVAL, "threads: 100000");
    bad = good;
    bad.kv = (af_kv_type)7;
    expect_refusal("auto", plan, &bad, AF_EINVAL, "KV cache type: 7");
    expect_refusal("tpu", plan, &good, AF_EUNSUPPORTED, "\"tpu\"");
    af_plan_close(plan);
}

static double last_fraction;

static void note_fraction(void *user, double fraction) {
    assert_true(fraction >= last_fraction);
    last_fraction = fraction;
    ++*(int *)user;
}

static void it_says_what_it_is_and_how_far_loading_is(void **state) {
    af_plan *plan = make_plan(&llama_like);
    int calls = 0;
    last_fraction = 0;
    const af_backend_options options = {.threads = 2,
                                        .pages = {4},
                                        .max_tokens = 8,
                                        .max_rows = 8,
                                        .kv = AF_KV_F16,
                                        .progress = note_fraction,
                                        .progress_user = &calls};
    af_backend *backend = NULL;
    assert_int_equal(af_backend_open("auto", plan, &options, &backend, NULL), 0);
    assert_true(calls > 1 && last_fraction == 1.0);
    char text[100], expected[100];
    backend->ops->describe(backend, text, sizeof text);
    snprintf(expected, sizeof expected, "cpu (%s, 2 threads)", af_isa_name(af_cpu_isa()));
    assert_string_equal(text, expected);
    assert_int_equal(backend->ops->threads(backend), 2);
    /* 2 layers, 4 pages of 32 tokens, 2 kv heads, keys and values of 16 halves */
    assert_int_equal(backend->ops->kv_bytes(backend), 2 * 4 * 32 * 2 * (16 + 16) * 2);
    backend->ops->close(backend);
    af_plan_close(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_those_of_the_formulas),
        cmocka_unit_test(logits_with_an_f16_cache_are_those_of_rounded_keys_and_values),
        cmocka_unit_test(chunks_and_neighbours_change_no_bit),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(instruction_sets_change_no_bit),
        cmocka_unit_test(garbage_in_slots_never_written_has_no_effect),
        cmocka_unit_test(greedy_rows_choose_the_best_and_later_batches_can_name_the_choice),
        cmocka_unit_test(a_batch_that_wants_nothing_gives_no_rows),
        cmocka_unit_test(a_matrix_used_twice_is_packed_once),
        cmocka_unit_test(options_out_of_bounds_are_refused_by_name),
        cmocka_unit_test(it_says_what_it_is_and_how_far_loading_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* gpu_compile.c - the plan's operations to steps: one function an operation, and the small tensors they bring. */
#include "backend/webgpu/gpu_backend.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN 256 /* of storage binding offsets, what every adapter accepts */

/* ---- Building steps ---- */

/* Sticky failure, as in the families' binder. */
typedef struct compiler {
    af_gpu_backend *b;
    int status;
    af_error *error;
} compiler;

static af_gpu_step *add_step(compiler *c, const char *name, af_gpu_grid grid) {
    af_gpu_backend *b = c->b;
    if (c->status == AF_OK && b->step_count == b->step_capacity) {
        const size_t capacity = b->step_capacity ? b->step_capacity * 2 : 256;
        af_gpu_step *grown = realloc(b->steps, capacity * sizeof *grown);
        if (!grown) {
            c->status = af_fail_memory(c->error, capacity * sizeof *grown, "the GPU's steps");
        } else {
            b->steps = grown;
            b->step_capacity = capacity;
        }
    }
    static af_gpu_step discarded; /* after a failure, so that callers need not ask */
    af_gpu_step *s = c->status == AF_OK ? &b->steps[b->step_count++] : &discarded;
    *s = (af_gpu_step){.name = name, .grid = grid, .count_at = -1, .portion_at = -1, .scaled_at = -1, .choice_at = -1};
    return s;
}

static const af_gpu_pipeline *pipeline(compiler *c, const char *kernel, const af_gpu_constant *constants, size_t count) {
    const af_gpu_pipeline *found = NULL;
    if (c->status == AF_OK) c->status = af_gpu_kernel(c->b->kernels, kernel, constants, count, &found, c->error);
    return found;
}

static void bind(compiler *c, af_gpu_step *s, const af_gpu_binding *bindings, size_t count) {
    if (c->status == AF_OK) s->bind = af_gpu_bind(c->b->gpu, s->pipelines[0], bindings, count);
}

static void set_params(af_gpu_step *s, const uint32_t *params, uint32_t count) {
    assert(count <= AF_GPU_PARAMS);
    memcpy(s->params, params, count * sizeof *params);
    s->param_count = count;
}

static uint32_t bits(float v) {
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

/* ---- Small tensors ---- */

/* Puts vectors one after another at an aligned place; NULL ones are zeros. An empty list gives a place to bind. */
static af_gpu_binding small(compiler *c, const float *const *vectors, const uint32_t *lengths, size_t count) {
    af_gpu_backend *b = c->b;
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) bytes += (uint64_t)lengths[i] * sizeof(float);
    const af_gpu_binding at = {.buffer = b->small, .offset = b->small_used, .size = (bytes + 15) / 16 * 16 + 16};
    b->small_used += (at.size + ALIGN - 1) / ALIGN * ALIGN;
    assert(b->small_used <= b->small_size);
    uint64_t offset = at.offset;
    for (size_t i = 0; i < count && c->status == AF_OK; offset += (uint64_t)lengths[i++] * sizeof(float))
        if (vectors[i]) af_gpu_write(b->gpu, b->small, offset, vectors[i], (size_t)lengths[i] * sizeof(float));
    return at;
}

static af_gpu_binding small_norm(compiler *c, const af_norm *n) {
    const float *const vectors[] = {n->weight, n->bias};
    const uint32_t lengths[] = {n->weight ? n->width : 0, n->bias ? n->width : 0};
    return small(c, vectors, lengths, 2);
}

static uint64_t vector_room(uint64_t floats) {
    return (floats * sizeof(float) + 32 + ALIGN - 1) / ALIGN * ALIGN;
}

/* An upper bound on what all small tensors take. */
static uint64_t small_bytes(const af_plan *plan) {
    uint64_t bytes = ALIGN;
    for (size_t i = 0; i < plan->op_count; i++) {
        const af_op *op = &plan->ops[i];
        if (op->kind == AF_OP_NORM) bytes += vector_room(2ull * op->u.norm.norm.width);
        if (op->kind == AF_OP_LINEAR) {
            bytes += vector_room(2ull * op->u.linear.pre.width) + vector_room(2ull * op->u.linear.post.width);
            for (uint32_t k = 0; k < op->u.linear.part_count; k++)
                bytes += 2 * vector_room(op->u.linear.parts[k].w.rows);
            bytes += AF_PLAN_PARTS * vector_room(0);
        }
        if (op->kind == AF_OP_ROPE_STORE)
            bytes += vector_room(2ull * plan->caches[op->u.rope_store.cache].k_dim);
        if (op->kind == AF_OP_ATTEND) bytes += vector_room(op->u.attend.heads);
        if (op->kind == AF_OP_HEAD)
            bytes += vector_room(2ull * op->u.head.norm.width) + vector_room(op->u.head.w.rows) + vector_room(0);
    }
    return bytes;
}

static af_gpu_binding value(const af_gpu_backend *b, af_value v) {
    const uint64_t size = (uint64_t)b->options.max_tokens * b->plan->widths[v] * sizeof(float);
    return (af_gpu_binding){.buffer = b->values[v], .offset = b->value_offsets[v], .size = (size + 15) / 16 * 16};
}

static af_gpu_binding whole(WGPUBuffer buffer) {
    return (af_gpu_binding){.buffer = buffer};
}

/* ---- Linear operations ---- */

static const uint32_t portions[AF_GPU_PORTIONS] = {1, 2, 4, 8};

static double lanes(const af_gpu_backend *b) {
    return b->gpu->use_subgroups ? (double)b->gpu->subgroup_size : 32.0;
}

static void quantized_pipelines(compiler *c, af_gpu_step *s, const af_gpu_layout *layout) {
    const af_gpu_constant format[] = {{"HIGH_BITS", layout->high_bits},
                                      {"PAIRING", layout->pairing},
                                      {"OFFSET", (double)layout->offset},
                                      {"LANES", lanes(c->b)},
                                      {"TOKENS", 0}};
    af_gpu_constant constants[5];
    memcpy(constants, format, sizeof format);
    for (size_t i = 0; i < AF_GPU_PORTIONS; i++) {
        constants[4].value = portions[i];
        s->pipelines[i] = pipeline(c, "linear_vec", constants, 5);
    }
    s->pipelines[AF_GPU_PORTIONS] = pipeline(c, "linear_mat", constants, 3);
}

static void float_pipelines(compiler *c, af_gpu_step *s, const af_gpu_layout *layout) {
    af_gpu_constant constants[] = {{"KIND", layout->kind}, {"LANES", lanes(c->b)}, {"TOKENS", 0}};
    for (size_t i = 0; i < AF_GPU_PORTIONS; i++) {
        constants[2].value = portions[i];
        s->pipelines[i] = pipeline(c, "linear_float", constants, 3);
    }
}

/* y[token * stride + first + row] = W x for one segment of a matrix, x being what norm_step left. */
static void product_step(compiler *c, const char *name, const af_gpu_matrix *m, const af_gpu_segment *seg,
                         af_gpu_binding y, uint32_t first, uint32_t stride, bool per_row) {
    af_gpu_backend *b = c->b;
    const bool quantized = m->layout->kind == AF_GPU_QUANTIZED;
    af_gpu_step *s = add_step(c, name, quantized ? AF_GPU_GRID_LINEAR : AF_GPU_GRID_FLOAT);
    const af_gpu_streams streams = af_gpu_streams_of(m->layout, seg->rows, m->cols);
    s->per_row = per_row;
    s->x = seg->rows;
    const uint32_t column = first + seg->row_begin;
    if (quantized) {
        const uint32_t params[] = {(uint32_t)(seg->offset / 16),
                                   (uint32_t)((seg->offset + streams.high) / 4),
                                   (uint32_t)((seg->offset + streams.scale) / 4),
                                   seg->rows,
                                   m->cols / 32,
                                   column,
                                   stride,
                                   0,
                                   0};
        set_params(s, params, 9);
        s->count_at = 7;
        s->portion_at = 8;
        quantized_pipelines(c, s, m->layout);
        bind(c, s, (af_gpu_binding[]){whole(seg->chunk), whole(seg->chunk), whole(b->acts), whole(b->act_scales), y}, 5);
        return;
    }
    const uint32_t words = m->layout->kind == AF_GPU_F32 ? m->cols : (m->cols + 1) / 2;
    const uint32_t params[] = {(uint32_t)(seg->offset / 4), seg->rows, m->cols, column, stride, 0, 0, words};
    set_params(s, params, 8);
    s->count_at = 5;
    s->portion_at = 6;
    float_pipelines(c, s, m->layout);
    bind(c, s, (af_gpu_binding[]){whole(seg->chunk), whole(b->normed), y}, 3);
}

static void product_steps(compiler *c, const char *name, const af_gpu_matrix *m, af_gpu_binding y, uint32_t first,
                          uint32_t stride, bool per_row) {
    for (size_t i = 0; i < m->segment_count && c->status == AF_OK; i++)
        product_step(c, name, m, &m->segments[i], y, first, stride, per_row);
}

/* in -> normed (f32), and int8 if a matrix wants it. */
static void norm_step(compiler *c, const char *name, af_gpu_binding in, uint32_t width, const af_norm *norm,
                      bool quantize, af_gpu_binding out, bool gather) {
    af_gpu_backend *b = c->b;
    af_gpu_step *s = add_step(c, name, AF_GPU_GRID_ROWS);
    const af_gpu_constant kind = {"KIND", norm->kind};
    s->pipelines[0] = pipeline(c, "norm", &kind, 1);
    s->per_row = gather;
    s->count_at = 1;
    const uint32_t params[] = {width, 0, gather, norm->bias != NULL, quantize, bits(norm->eps)};
    set_params(s, params, 6);
    bind(c, s, (af_gpu_binding[]){in, small_norm(c, norm), whole(b->rows), out, whole(b->acts), whole(b->act_scales)}, 6);
}

typedef struct tail {
    uint32_t width, stride, first;
    const float *bias[2];
    uint32_t parts;
    af_combine combine;
    af_act act;
    const af_norm *post;
    bool residual, per_row;
    float scale, cap;
} tail;

static void tail_step(compiler *c, const char *name, const tail *t, af_gpu_binding y, af_gpu_binding out) {
    static const af_norm none = {0};
    const af_norm *post = t->post ? t->post : &none;
    af_gpu_step *s = add_step(c, name, AF_GPU_GRID_ROWS);
    const af_gpu_constant constants[] = {{"COMBINE", t->combine}, {"ACT", t->act}, {"POST", post->kind}};
    s->pipelines[0] = pipeline(c, "tail", constants, 3);
    s->per_row = t->per_row;
    const bool any = t->bias[0] || t->bias[1];
    const uint32_t lengths[] = {any ? t->width : 0, any && t->parts > 1 ? t->width : 0};
    const af_gpu_binding bias = small(c, t->bias, lengths, 2);
    const uint32_t params[] = {t->width,
                               t->stride,
                               t->first,
                               (t->bias[0] ? 1u : 0u) | (t->bias[1] ? 2u : 0u),
                               t->residual,
                               post->bias != NULL,
                               bits(t->scale),
                               bits(t->cap),
                               bits(post->eps)};
    set_params(s, params, 9);
    bind(c, s, (af_gpu_binding[]){y, bias, small_norm(c, post), out}, 4);
}

static bool is_quantized(const af_gpu_matrix *m) {
    return m->layout->kind == AF_GPU_QUANTIZED;
}

static const af_gpu_matrix *upload(compiler *c, const af_matrix *w) {
    const af_gpu_matrix *m = NULL;
    if (c->status == AF_OK) c->status = af_gpu_weights_add(c->b->weights, w, &m, c->error);
    return m;
}

/* Parts whose product is the value itself are written there; others go by way of `raw` and a tail. */
static void compile_linear(compiler *c, const af_op *op) {
    const af_op_linear *l = &op->u.linear;
    af_gpu_backend *b = c->b;
    const af_gpu_matrix *m[AF_PLAN_PARTS];
    bool quantize = false;
    uint32_t stride = 0;
    for (uint32_t i = 0; i < l->part_count; i++) {
        m[i] = upload(c, &l->parts[i].w);
        if (c->status != AF_OK) return;
        quantize |= is_quantized(m[i]);
        stride += l->parts[i].w.rows;
    }
    norm_step(c, op->name, value(b, l->in), l->parts[0].w.cols, &l->pre, quantize, whole(b->normed), false);
    const bool joined = l->combine == AF_COMBINE_GLU;
    const bool has_tail = l->combine != AF_COMBINE_NONE || l->post.kind != AF_NORM_NONE || l->residual != AF_NO_VALUE ||
                          l->scale != 1.0f;
    uint32_t first = 0;
    for (uint32_t i = 0; i < l->part_count; first += l->parts[i++].w.rows) {
        const bool bare = !has_tail && !l->parts[i].bias;
        if (bare)
            product_steps(c, op->name, m[i], value(b, l->parts[i].out), 0, l->parts[i].w.rows, false);
        else
            product_steps(c, op->name, m[i], whole(b->raw), first, stride, false);
    }
    first = 0;
    for (uint32_t i = 0; i < (joined ? 1 : l->part_count); first += l->parts[i++].w.rows) {
        if (!has_tail && !l->parts[i].bias) continue;
        assert(l->residual == AF_NO_VALUE || l->residual == l->parts[i].out);
        const tail t = {.width = l->parts[i].w.rows,
                        .stride = stride,
                        .first = first,
                        .bias = {l->parts[i].bias, joined ? l->parts[1].bias : NULL},
                        .parts = joined ? 2 : 1,
                        .combine = l->combine,
                        .act = l->act,
                        .post = &l->post,
                        .residual = l->residual != AF_NO_VALUE,
                        .scale = l->scale};
        tail_step(c, op->name, &t, whole(b->raw), value(b, l->parts[i].out));
    }
}

static void compile_head(compiler *c, const af_op *op) {
    const af_op_head *h = &op->u.head;
    af_gpu_backend *b = c->b;
    const af_gpu_matrix *m = upload(c, &h->w);
    if (c->status != AF_OK) return;
    norm_step(c, op->name, value(b, h->in), h->w.cols, &h->norm, is_quantized(m), whole(b->normed), true);
    const bool has_tail = h->bias || h->scale != 1.0f || h->softcap != 0.0f;
    product_steps(c, op->name, m, whole(has_tail ? b->raw : b->logits), 0, h->w.rows, true);
    if (has_tail) {
        const tail t = {.width = h->w.rows, .stride = h->w.rows, .bias = {h->bias}, .parts = 1, .per_row = true,
                        .scale = h->scale, .cap = h->softcap};
        tail_step(c, op->name, &t, whole(b->raw), whole(b->logits));
    }
    af_gpu_step *s = add_step(c, "argmax", AF_GPU_GRID_ROWS);
    s->pipelines[0] = pipeline(c, "argmax", NULL, 0);
    s->per_row = true;
    s->choice_at = 1;
    set_params(s, (uint32_t[]){h->w.rows, 0}, 2);
    bind(c, s, (af_gpu_binding[]){whole(b->logits), whole(b->choices)}, 2);
}

/* ---- The others ---- */

/* Rows of a table, by the ids in `batch`, times a factor. */
static void embed_steps(compiler *c, const char *name, const af_matrix *table, WGPUBuffer batch, float factor,
                        af_gpu_binding out) {
    af_gpu_backend *b = c->b;
    const af_gpu_matrix *m = upload(c, table);
    for (size_t i = 0; c->status == AF_OK && i < m->segment_count; i++) {
        const af_gpu_segment *seg = &m->segments[i];
        const af_gpu_streams streams = af_gpu_streams_of(m->layout, seg->rows, m->cols);
        af_gpu_step *s = add_step(c, name, AF_GPU_GRID_HEADS);
        if (is_quantized(m)) {
            const af_gpu_constant format[] = {{"HIGH_BITS", m->layout->high_bits},
                                              {"PAIRING", m->layout->pairing},
                                              {"OFFSET", (double)m->layout->offset}};
            s->pipelines[0] = pipeline(c, "embed", format, 3);
            s->x = (m->cols / 32 + 63) / 64;
            set_params(s,
                       (uint32_t[]){(uint32_t)(seg->offset / 16), (uint32_t)((seg->offset + streams.high) / 4),
                                    (uint32_t)((seg->offset + streams.scale) / 4), seg->row_begin, seg->rows,
                                    m->cols / 32, 0, bits(factor)},
                       8);
            bind(c, s,
                 (af_gpu_binding[]){whole(seg->chunk), whole(seg->chunk), whole(batch), whole(b->choices), out},
                 5);
        } else {
            const af_gpu_constant kind = {"KIND", m->layout->kind};
            s->pipelines[0] = pipeline(c, "embed_float", &kind, 1);
            s->x = (m->cols + 63) / 64;
            const uint32_t words = m->layout->kind == AF_GPU_F32 ? m->cols : (m->cols + 1) / 2;
            set_params(s, (uint32_t[]){(uint32_t)(seg->offset / 4), words, seg->row_begin, seg->rows, m->cols, 0, bits(factor)},
                       7);
            bind(c, s, (af_gpu_binding[]){whole(seg->chunk), whole(batch), whole(b->choices), out}, 4);
        }
    }
}

static void compile_embed(compiler *c, const af_op *op) {
    const af_op_embed *e = &op->u.embed;
    embed_steps(c, op->name, &e->table, c->b->batch, e->scale, value(c->b, e->out));
}

int af_gpu_compile_decode(af_gpu_backend *b, const af_matrix *w, WGPUBuffer batch, WGPUBuffer out, af_error *error) {
    compiler c = {.b = b, .status = AF_OK, .error = error};
    embed_steps(&c, w->name, w, batch, 1.0f, whole(out));
    return c.status;
}

static void compile_norm(compiler *c, const af_op *op) {
    norm_step(c, op->name, value(c->b, op->u.norm.in), op->u.norm.norm.width, &op->u.norm.norm, false,
              value(c->b, op->u.norm.out), false);
}

static uint32_t pairs_before(const af_plan *plan, uint16_t rope) {
    uint32_t pairs = 0;
    for (uint16_t i = 0; i < rope; i++) pairs += plan->ropes[i].rotated / 2;
    return pairs;
}

static void compile_rope_store(compiler *c, const af_op *op) {
    const af_op_rope_store *r = &op->u.rope_store;
    af_gpu_backend *b = c->b;
    const af_cache *cache = &b->plan->caches[r->cache];
    const af_rope *rope = &b->plan->ropes[r->rope];
    af_gpu_step *s = add_step(c, op->name, AF_GPU_GRID_HEADS);
    const af_gpu_constant kv = {"KV_F32", b->options.kv == AF_KV_F32};
    s->pipelines[0] = pipeline(c, "rope_store", &kv, 1);
    s->x = r->heads + 2u * cache->kv_heads;
    s->scaled_at = 6;
    s->scaled_by = pairs_before(b->plan, r->rope);
    const uint64_t v_first = (b->value_offsets[r->v] - b->value_offsets[r->k]) / sizeof(float);
    const uint32_t params[] = {r->heads,
                               cache->kv_heads,
                               cache->k_dim,
                               cache->v_dim,
                               rope->rotated,
                               rope->adjacent,
                               0,
                               cache->group * b->table_pages,
                               (r->q_norm.kind ? 1u : 0u) | (r->k_norm.kind ? 2u : 0u),
                               bits(r->q_norm.kind ? r->q_norm.eps : r->k_norm.eps),
                               (uint32_t)v_first};
    set_params(s, params, 11);
    const float *const norms[] = {r->q_norm.weight, r->k_norm.weight};
    const uint32_t lengths[] = {cache->k_dim, cache->k_dim};
    const af_gpu_binding weights = small(c, norms, lengths, 2);
    bind(c, s,
         (af_gpu_binding[]){whole(b->batch), whole(b->pages), whole(b->turns), weights, value(b, r->q),
                            whole(b->values[r->k]), whole(b->k_caches[r->cache]), whole(b->v_caches[r->cache])},
         8);
}

static void compile_attend(compiler *c, const af_op *op) {
    const af_op_attend *a = &op->u.attend;
    af_gpu_backend *b = c->b;
    const af_cache *cache = &b->plan->caches[a->cache];
    af_gpu_step *s = add_step(c, op->name, AF_GPU_GRID_HEADS);
    const af_gpu_constant kv = {"KV_F32", b->options.kv == AF_KV_F32};
    s->pipelines[0] = pipeline(c, "attend", &kv, 1);
    s->x = a->heads;
    const uint32_t params[] = {a->heads,
                               cache->kv_heads,
                               cache->k_dim,
                               cache->v_dim,
                               cache->group * b->table_pages,
                               b->plan->groups[cache->group].window,
                               a->sinks != NULL,
                               bits(a->scale),
                               bits(a->softcap)};
    set_params(s, params, 9);
    const uint32_t length = a->sinks ? a->heads : 0;
    const af_gpu_binding sinks = small(c, &a->sinks, &length, 1);
    bind(c, s,
         (af_gpu_binding[]){whole(b->batch), whole(b->pages), value(b, a->q), whole(b->k_caches[a->cache]),
                            whole(b->v_caches[a->cache]), sinks, value(b, a->out)},
         7);
}

int af_gpu_compile(af_gpu_backend *b, af_error *error) {
    static void (*const compilers[])(compiler *, const af_op *) = {
        [AF_OP_EMBED] = compile_embed,           [AF_OP_NORM] = compile_norm,     [AF_OP_LINEAR] = compile_linear,
        [AF_OP_ROPE_STORE] = compile_rope_store, [AF_OP_ATTEND] = compile_attend, [AF_OP_HEAD] = compile_head,
    };
    compiler c = {.b = b, .status = AF_OK, .error = error};
    b->small_size = small_bytes(b->plan);
    b->small = af_gpu_buffer(b->gpu, b->small_size, AF_GPU_STORAGE, "norms and biases", error);
    if (!b->small) return AF_ENOMEM;
    for (size_t i = 0; i < b->plan->op_count && c.status == AF_OK; i++) {
        compilers[b->plan->ops[i].kind](&c, &b->plan->ops[i]);
        if (b->options.progress)
            b->options.progress(b->options.progress_user, (double)(i + 1) / (double)b->plan->op_count);
    }
    return c.status == AF_OK ? af_gpu_check(b->gpu, error) : c.status;
}

/* gpu_compile.c - the plan's operations to steps: one function an operation, and the small tensors they bring. */
#include "backend/webgpu/gpu_compiler.h"
#include "backend/webgpu/gpu_profile.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN 256 /* of storage binding offsets, what every adapter accepts */

/* ---- Building steps ---- */

af_gpu_step *af_gpu_add_step(af_gpu_compiler *c, const char *name, af_gpu_grid grid) {
    af_gpu_steps *list = c->steps;
    if (c->status == AF_OK && list->count == list->capacity) {
        const size_t capacity = list->capacity ? list->capacity * 2 : 256;
        af_gpu_step *grown = realloc(list->p, capacity * sizeof *grown);
        if (!grown) {
            c->status = af_fail_memory(c->error, capacity * sizeof *grown, "the GPU's steps");
        } else {
            list->p = grown;
            list->capacity = capacity;
        }
    }
    static af_gpu_step discarded; /* after a failure, so that callers need not ask */
    af_gpu_step *s = c->status == AF_OK ? &list->p[list->count++] : &discarded;
    *s = (af_gpu_step){.name = name,
                       .grid = grid,
                       .count_at = -1,
                       .portion_at = -1,
                       .scaled_at = -1,
                       .stretch_at = -1,
                       .stretches_at = -1,
                       .choice_at = -1};
    return s;
}

const af_gpu_pipeline *af_gpu_pipeline_of(af_gpu_compiler *c, const char *kernel, const af_gpu_constant *constants,
                                          size_t count) {
    const af_gpu_pipeline *found = NULL;
    if (c->status == AF_OK) c->status = af_gpu_kernel(c->b->kernels, kernel, constants, count, &found, c->error);
    return found;
}

void af_gpu_bind_step(af_gpu_compiler *c, af_gpu_step *s, const af_gpu_binding *bindings, size_t count) {
    if (c->status != AF_OK) return;
    s->bind = af_gpu_bind(c->b->gpu, s->pipelines[0], bindings, count);
    s->kernel = s->pipelines[0]->kernel;
}

void af_gpu_set_params(af_gpu_step *s, const uint32_t *params, uint32_t count) {
    assert(count <= AF_GPU_PARAMS);
    memcpy(s->params, params, count * sizeof *params);
    s->param_count = count;
}

uint32_t af_gpu_bits(float v) {
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

af_gpu_binding af_gpu_whole(WGPUBuffer buffer) {
    return (af_gpu_binding){.buffer = buffer};
}

/* ---- Small tensors ---- */

af_gpu_binding af_gpu_small(af_gpu_compiler *c, const float *const *vectors, const uint32_t *lengths, size_t count) {
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

static af_gpu_binding small_norm(af_gpu_compiler *c, const af_norm *n) {
    const float *const vectors[] = {n->weight, n->bias};
    const uint32_t lengths[] = {n->weight ? n->width : 0, n->bias ? n->width : 0};
    return af_gpu_small(c, vectors, lengths, 2);
}

static uint64_t vector_room(uint64_t floats) {
    return (floats * sizeof(float) + 32 + ALIGN - 1) / ALIGN * ALIGN;
}

/* An upper bound on what an operation's small tensors take, in both lists together. */
static uint64_t small_bytes_of(const af_plan *plan, const af_op *op) {
    uint64_t bytes = 0;
    switch (op->kind) {
    case AF_OP_EMBED:
        if (op->u.embed.positions) bytes = vector_room((uint64_t)op->u.embed.position_count * op->u.embed.table.cols);
        break;
    case AF_OP_NORM:
        bytes = vector_room(2ull * op->u.norm.norm.width);
        break;
    case AF_OP_LINEAR:
        bytes = vector_room(2ull * op->u.linear.pre.width) + vector_room(2ull * op->u.linear.post.width);
        for (uint32_t k = 0; k < op->u.linear.part_count; k++)
            bytes += vector_room(2ull * op->u.linear.parts[k].w.rows) + vector_room(0) +
                     vector_room(2ull * op->u.linear.parts[k].w.rows + plan->width);
        break;
    case AF_OP_ROPE_STORE: {
        const uint64_t heads = op->u.rope_store.heads, k_dim = plan->caches[op->u.rope_store.cache].k_dim;
        bytes = vector_room(4 * heads * k_dim);
        break;
    }
    case AF_OP_ATTEND:
        bytes = vector_room(op->u.attend.heads);
        break;
    case AF_OP_HEAD:
        bytes = vector_room(2ull * op->u.head.norm.width) + vector_room(op->u.head.w.rows) + vector_room(0);
        break;
    }
    return 2 * bytes;
}

/* ---- Matrices ---- */

const af_gpu_matrix *af_gpu_upload(af_gpu_compiler *c, const af_matrix *const *parts, size_t count) {
    const af_gpu_matrix *m = NULL;
    if (c->status == AF_OK) c->status = af_gpu_weights_add(c->b->weights, parts, count, &m, c->error);
    return m;
}

bool af_gpu_is_quantized(const af_gpu_matrix *m) {
    return m->layout->kind == AF_GPU_QUANTIZED;
}

void af_gpu_place(const af_gpu_matrix *m, const af_gpu_segment *s, uint32_t place[3]) {
    const af_gpu_streams streams = af_gpu_streams_of(m->layout, s->rows, m->cols);
    place[0] = (uint32_t)(s->offset / 16);
    place[1] = (uint32_t)((s->offset + streams.high) / 4);
    place[2] = (uint32_t)((s->offset + streams.scale) / 4);
}

/* The biases of parts that are stacked, as one; a part without one has zeros. In the plan's arena. */
static const float *joined_bias(af_gpu_compiler *c, const af_part *parts, uint32_t count) {
    size_t rows = 0, first = 0;
    bool any = false;
    for (uint32_t i = 0; i < count; i++) {
        rows += parts[i].w.rows;
        any |= parts[i].bias != NULL;
    }
    if (count == 1 || !any) return parts[0].bias;
    float *joined = af_arena_array(c->b->plan->arena, rows, sizeof *joined);
    if (!joined) {
        c->status = af_fail_memory(c->error, rows * sizeof *joined, "biases");
        return NULL;
    }
    for (uint32_t i = 0; i < count; first += parts[i++].w.rows)
        if (parts[i].bias)
            memcpy(joined + first, parts[i].bias, parts[i].w.rows * sizeof *joined);
        else
            memset(joined + first, 0, parts[i].w.rows * sizeof *joined);
    return joined;
}

uint32_t af_gpu_products(af_gpu_compiler *c, const af_op_linear *l, af_gpu_product out[AF_PLAN_PARTS]) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < l->part_count; i += out[count++].part_count) {
        const af_matrix *stack[AF_PLAN_PARTS];
        uint32_t n = 0;
        do {
            stack[n] = &l->parts[i + n].w;
            n++;
        } while (i + n < l->part_count && l->parts[i + n].w.format == l->parts[i].w.format &&
                 (l->combine == AF_COMBINE_GLU ||
                  c->b->values[l->parts[i + n].out].buffer == c->b->values[l->parts[i].out].buffer));
        out[count] = (af_gpu_product){
            .m = af_gpu_upload(c, stack, n), .bias = joined_bias(c, &l->parts[i], n), .first_part = i, .part_count = n};
        if (c->status != AF_OK) return 0;
    }
    return count;
}

/* ---- Products ---- */

double af_gpu_lanes(const af_gpu_backend *b) {
    return b->gpu->use_subgroups ? (double)b->gpu->subgroup_size : 32.0;
}

static const uint32_t portions[AF_GPU_PORTIONS] = {1, 2, 4, 8};

static void quantized_pipelines(af_gpu_compiler *c, af_gpu_step *s, const af_gpu_layout *layout) {
    af_gpu_constant constants[] = {{"HIGH_BITS", layout->high_bits},
                                   {"PAIRING", layout->pairing},
                                   {"OFFSET", (double)layout->offset},
                                   {"LANES", af_gpu_lanes(c->b)},
                                   {"TOKENS", 0}};
    for (size_t i = 0; i < AF_GPU_PORTIONS; i++) {
        constants[4].value = portions[i];
        s->pipelines[i] = af_gpu_pipeline_of(c, "linear_vec", constants, 5);
    }
    s->pipelines[AF_GPU_PORTIONS] = af_gpu_pipeline_of(c, "linear_mat", constants, 3);
}

static void float_pipelines(af_gpu_compiler *c, af_gpu_step *s, const af_gpu_layout *layout) {
    af_gpu_constant constants[] = {{"KIND", layout->kind}, {"LANES", af_gpu_lanes(c->b)}, {"TOKENS", 0}};
    for (size_t i = 0; i < AF_GPU_PORTIONS; i++) {
        constants[2].value = portions[i];
        s->pipelines[i] = af_gpu_pipeline_of(c, "linear_float", constants, 3);
    }
}

/* y[token * stride + first + row] = W x for one segment of a matrix, x being what the norm step left. */
static void product_step(af_gpu_compiler *c, const char *name, const af_gpu_matrix *m, const af_gpu_segment *seg,
                         af_gpu_value y, bool per_row) {
    af_gpu_backend *b = c->b;
    const bool quantized = af_gpu_is_quantized(m);
    af_gpu_step *s = af_gpu_add_step(c, name, quantized ? AF_GPU_GRID_LINEAR : AF_GPU_GRID_FLOAT);
    uint32_t place[3];
    af_gpu_place(m, seg, place);
    s->per_row = per_row;
    s->x = seg->rows;
    const uint32_t column = y.first + seg->row_begin;
    const af_gpu_binding chunk = af_gpu_whole(seg->chunk), out = af_gpu_whole(y.buffer);
    if (quantized) {
        const uint32_t params[] = {place[0], place[1], place[2], seg->rows, m->cols / 32,
                                   column,   y.stride, 0,        0,         af_gpu_packet(m->cols)};
        af_gpu_set_params(s, params, 10);
        s->count_at = 7;
        s->portion_at = 8;
        quantized_pipelines(c, s, m->layout);
        af_gpu_bind_step(c, s, (af_gpu_binding[]){chunk, chunk, af_gpu_whole(b->packets), out}, 4);
        return;
    }
    const uint32_t words = m->layout->kind == AF_GPU_F32 ? m->cols : (m->cols + 1) / 2;
    const uint32_t params[] = {(uint32_t)(seg->offset / 4), seg->rows, m->cols, column, y.stride, 0, 0, words};
    af_gpu_set_params(s, params, 8);
    s->count_at = 5;
    s->portion_at = 6;
    float_pipelines(c, s, m->layout);
    af_gpu_bind_step(c, s, (af_gpu_binding[]){chunk, af_gpu_whole(b->normed), out}, 3);
}

static void product_steps(af_gpu_compiler *c, const char *name, const af_gpu_matrix *m, af_gpu_value y, bool per_row) {
    for (size_t i = 0; i < m->segment_count && c->status == AF_OK; i++)
        product_step(c, name, m, &m->segments[i], y, per_row);
}

void af_gpu_norm_step(af_gpu_compiler *c, const char *name, af_gpu_value in, uint32_t width, const af_norm *norm,
                      bool quantize, af_gpu_value out, bool gather) {
    af_gpu_backend *b = c->b;
    af_gpu_step *s = af_gpu_add_step(c, name, AF_GPU_GRID_ROWS);
    const af_gpu_constant kind = {"KIND", norm->kind};
    s->pipelines[0] = af_gpu_pipeline_of(c, "norm", &kind, 1);
    s->per_row = gather;
    s->count_at = 1;
    assert(in.first == 0 && in.stride == width && (!quantize || (out.first == 0 && out.stride == width)));
    const uint32_t params[] = {
        width,      0,          gather,   norm->bias != NULL, quantize, af_gpu_bits(norm->eps), af_gpu_packet(width),
        b->rows_at, out.stride, out.first};
    af_gpu_set_params(s, params, 10);
    af_gpu_bind_step(c, s,
                     (af_gpu_binding[]){af_gpu_whole(in.buffer), small_norm(c, norm), af_gpu_whole(b->batch_info),
                                        af_gpu_whole(out.buffer), af_gpu_whole(b->packets)},
                     5);
}

af_gpu_value af_gpu_normed(const af_gpu_backend *b, uint32_t width) {
    return (af_gpu_value){.buffer = b->normed, .stride = width};
}

typedef struct tail {
    uint32_t width, stride, first; /* of raw */
    const float *bias[2];
    uint32_t parts;
    af_combine combine;
    af_act act;
    const af_norm *post;
    bool residual, per_row;
    float scale, cap;
} tail;

static void tail_step(af_gpu_compiler *c, const char *name, const tail *t, af_gpu_value out) {
    static const af_norm none = {0};
    const af_norm *post = t->post ? t->post : &none;
    af_gpu_step *s = af_gpu_add_step(c, name, AF_GPU_GRID_ROWS);
    const af_gpu_constant constants[] = {{"COMBINE", t->combine}, {"ACT", t->act}, {"POST", post->kind}};
    s->pipelines[0] = af_gpu_pipeline_of(c, "tail", constants, 3);
    s->per_row = t->per_row;
    const bool any = t->bias[0] || t->bias[1];
    const uint32_t lengths[] = {any ? t->width : 0, any && t->parts > 1 ? t->width : 0};
    const af_gpu_binding bias = af_gpu_small(c, t->bias, lengths, 2);
    const uint32_t params[] = {t->width,
                               t->stride,
                               t->first,
                               (t->bias[0] ? 1u : 0u) | (t->bias[1] ? 2u : 0u),
                               t->residual,
                               post->bias != NULL,
                               af_gpu_bits(t->scale),
                               af_gpu_bits(t->cap),
                               af_gpu_bits(post->eps),
                               out.stride,
                               out.first};
    af_gpu_set_params(s, params, 11);
    af_gpu_bind_step(
        c, s, (af_gpu_binding[]){af_gpu_whole(c->b->raw), bias, small_norm(c, post), af_gpu_whole(out.buffer)}, 4);
}

/* Products that are values themselves are written there; others go by way of `raw` and a tail. */
static void compile_linear(af_gpu_compiler *c, const af_op *op) {
    const af_op_linear *l = &op->u.linear;
    af_gpu_backend *b = c->b;
    af_gpu_product products[AF_PLAN_PARTS];
    const uint32_t count = af_gpu_products(c, l, products);
    if (count == 0) return;
    bool quantize = false, biased = false;
    uint32_t stride = 0;
    for (uint32_t i = 0; i < count; i++) quantize |= af_gpu_is_quantized(products[i].m);
    for (uint32_t i = 0; i < l->part_count; i++) {
        stride += l->parts[i].w.rows;
        biased |= l->parts[i].bias != NULL;
    }
    const uint32_t cols = l->parts[0].w.cols;
    af_gpu_norm_step(c, op->name, b->values[l->in], cols, &l->pre, quantize, af_gpu_normed(b, cols), false);
    const bool joined = l->combine == AF_COMBINE_GLU;
    const bool has_tail = biased || l->combine != AF_COMBINE_NONE || l->post.kind != AF_NORM_NONE ||
                          l->residual != AF_NO_VALUE || l->scale != 1.0f;
    uint32_t first = 0;
    for (uint32_t i = 0; i < count; first += products[i++].m->rows) {
        const af_gpu_value raw = {.buffer = b->raw, .first = first, .stride = stride};
        product_steps(c, op->name, products[i].m, has_tail ? raw : b->values[l->parts[products[i].first_part].out],
                      false);
    }
    first = 0;
    for (uint32_t i = 0; has_tail && i < (joined ? 1 : l->part_count); first += l->parts[i++].w.rows) {
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
        tail_step(c, op->name, &t, b->values[l->parts[i].out]);
    }
}

void af_gpu_argmax_steps(af_gpu_compiler *c, uint32_t vocabulary) {
    const af_gpu_backend *b = c->b;
    for (uint32_t pass = 0; pass < 2; pass++) {
        af_gpu_step *s = af_gpu_add_step(c, "argmax", AF_GPU_GRID_HEADS);
        const af_gpu_constant which = {"PASS", pass};
        s->pipelines[0] = af_gpu_pipeline_of(c, "argmax", &which, 1);
        s->per_row = true;
        s->x = pass == 0 ? AF_GPU_ARGMAX_PARTS : 1;
        s->choice_at = 1;
        af_gpu_set_params(s, (uint32_t[]){vocabulary, 0}, 2);
        af_gpu_bind_step(
            c, s, (af_gpu_binding[]){af_gpu_whole(b->logits), af_gpu_whole(b->bests), af_gpu_whole(b->choices)}, 3);
    }
}

static void compile_head(af_gpu_compiler *c, const af_op *op) {
    const af_op_head *h = &op->u.head;
    af_gpu_backend *b = c->b;
    const af_matrix *w = &h->w;
    const af_gpu_matrix *m = af_gpu_upload(c, &w, 1);
    if (c->status != AF_OK) return;
    const bool has_tail = h->bias || h->scale != 1.0f || h->softcap != 0.0f;
    const af_gpu_value raw = {.buffer = b->raw, .stride = h->w.rows},
                       logits = {.buffer = b->logits, .stride = h->w.rows};
    af_gpu_norm_step(c, op->name, b->values[h->in], h->w.cols, &h->norm, af_gpu_is_quantized(m),
                     af_gpu_normed(b, h->w.cols), true);
    product_steps(c, op->name, m, has_tail ? raw : logits, true);
    if (has_tail) {
        const tail t = {.width = h->w.rows,
                        .stride = h->w.rows,
                        .bias = {h->bias},
                        .parts = 1,
                        .per_row = true,
                        .scale = h->scale,
                        .cap = h->softcap};
        tail_step(c, op->name, &t, logits);
    }
    af_gpu_argmax_steps(c, h->w.rows);
}

/* ---- The others ---- */

typedef struct embedding {
    const char *name;
    float scale;
    WGPUBuffer batch_info, out;
    af_gpu_binding positions; /* no buffer: nothing is added */
} embedding;

static void embed_step(af_gpu_compiler *c, const embedding *e, const af_gpu_matrix *m, const af_gpu_segment *seg) {
    const af_gpu_backend *b = c->b;
    const af_gpu_binding chunk = af_gpu_whole(seg->chunk), info = af_gpu_whole(e->batch_info),
                         choices = af_gpu_whole(b->choices), out = af_gpu_whole(e->out);
    const bool placed = e->positions.buffer != NULL;
    const af_gpu_binding positions = placed ? e->positions : af_gpu_whole(b->small);
    af_gpu_step *s = af_gpu_add_step(c, e->name, AF_GPU_GRID_HEADS);
    if (af_gpu_is_quantized(m)) {
        uint32_t place[3];
        af_gpu_place(m, seg, place);
        const af_gpu_constant format[] = {{"HIGH_BITS", m->layout->high_bits},
                                          {"PAIRING", m->layout->pairing},
                                          {"OFFSET", (double)m->layout->offset}};
        s->pipelines[0] = af_gpu_pipeline_of(c, "embed", format, 3);
        s->x = (m->cols / 32 + 63) / 64;
        const uint32_t params[] = {
            place[0], place[1], place[2], seg->row_begin, seg->rows, m->cols / 32, 0, af_gpu_bits(e->scale), placed};
        af_gpu_set_params(s, params, 9);
        af_gpu_bind_step(c, s, (af_gpu_binding[]){chunk, chunk, info, choices, positions, out}, 6);
        return;
    }
    const af_gpu_constant kind = {"KIND", m->layout->kind};
    s->pipelines[0] = af_gpu_pipeline_of(c, "embed_float", &kind, 1);
    s->x = (m->cols + 63) / 64;
    const uint32_t words = m->layout->kind == AF_GPU_F32 ? m->cols : (m->cols + 1) / 2;
    const uint32_t params[] = {(uint32_t)(seg->offset / 4), words, seg->row_begin, seg->rows, m->cols, 0,
                               af_gpu_bits(e->scale),       placed};
    af_gpu_set_params(s, params, 8);
    af_gpu_bind_step(c, s, (af_gpu_binding[]){chunk, info, choices, positions, out}, 5);
}

static void embed_steps(af_gpu_compiler *c, const embedding *e, const af_matrix *table) {
    const af_gpu_matrix *m = af_gpu_upload(c, &table, 1);
    for (size_t i = 0; c->status == AF_OK && i < m->segment_count; i++) embed_step(c, e, m, &m->segments[i]);
}

static void compile_embed(af_gpu_compiler *c, const af_op *op) {
    const af_op_embed *o = &op->u.embed;
    embedding e = {
        .name = op->name, .scale = o->scale, .batch_info = c->b->batch_info, .out = c->b->values[o->out].buffer};
    const uint32_t length = o->position_count * o->table.cols;
    if (o->positions) e.positions = af_gpu_small(c, &o->positions, &length, 1);
    embed_steps(c, &e, &o->table);
}

int af_gpu_compile_decode(af_gpu_backend *b, const af_matrix *w, WGPUBuffer batch, WGPUBuffer out, af_error *error) {
    af_gpu_compiler c = {.b = b, .steps = &b->general, .status = AF_OK, .error = error};
    embed_steps(&c, &(embedding){.name = w->name, .scale = 1.0f, .batch_info = batch, .out = out}, w);
    return c.status;
}

static void compile_norm(af_gpu_compiler *c, const af_op *op) {
    const af_op_norm *n = &op->u.norm;
    af_gpu_norm_step(c, op->name, c->b->values[n->in], n->norm.width, &n->norm, false, c->b->values[n->out], false);
}

uint32_t af_gpu_turns_before(const af_plan *plan, uint16_t rope) {
    uint32_t pairs = 0;
    for (uint16_t i = 0; i < rope; i++) pairs += plan->ropes[i].rotated / 2;
    return pairs;
}

/* Rows of weights of a norm of heads. */
static uint32_t norm_rows(const af_norm *norm, uint32_t heads) {
    if (norm->kind == AF_NORM_NONE) return 0;
    return norm->per_head_weight ? heads : 1;
}

static af_gpu_binding small_head_norms(af_gpu_compiler *c, const af_op_rope_store *r, const af_cache *cache) {
    const uint32_t q = norm_rows(&r->q_norm, r->heads) * cache->k_dim;
    const uint32_t k = norm_rows(&r->k_norm, cache->kv_heads) * cache->k_dim;
    const float *const vectors[] = {r->q_norm.weight, r->q_norm.bias, r->k_norm.weight, r->k_norm.bias};
    const uint32_t lengths[] = {q, r->q_norm.bias ? q : 0, k, r->k_norm.bias ? k : 0};
    return af_gpu_small(c, vectors, lengths, 4);
}

static void compile_rope_store(af_gpu_compiler *c, const af_op *op) {
    const af_op_rope_store *r = &op->u.rope_store;
    const af_gpu_backend *b = c->b;
    const af_cache *cache = &b->plan->caches[r->cache];
    const af_rope *rope = &b->plan->ropes[r->rope];
    af_gpu_step *s = af_gpu_add_step(c, op->name, AF_GPU_GRID_HEADS);
    const af_gpu_constant constants[] = {{"KV_F32", b->options.kv == AF_KV_F32},
                                         {"K_ROW", af_gpu_key_row(cache)},
                                         {"Q_NORM", r->q_norm.kind},
                                         {"Q_ROWS", norm_rows(&r->q_norm, r->heads)},
                                         {"Q_BIAS", r->q_norm.bias != NULL},
                                         {"K_NORM", r->k_norm.kind},
                                         {"K_ROWS", norm_rows(&r->k_norm, cache->kv_heads)},
                                         {"K_BIAS", r->k_norm.bias != NULL}};
    s->pipelines[0] = af_gpu_pipeline_of(c, "rope_store", constants, 8);
    s->x = r->heads + 2u * cache->kv_heads;
    s->scaled_at = 6;
    s->scaled_by = af_gpu_turns_before(b->plan, r->rope);
    s->scaled_plus = b->turns_at / 2;
    const uint32_t params[] = {r->heads,
                               cache->kv_heads,
                               cache->k_dim,
                               cache->v_dim,
                               rope->rotated,
                               rope->adjacent,
                               0,
                               cache->group * b->table_pages,
                               b->values[r->q].stride,
                               b->values[r->k].first,
                               b->values[r->v].first,
                               af_gpu_bits(r->q_norm.eps),
                               af_gpu_bits(r->k_norm.eps),
                               af_gpu_bits(r->q_growth),
                               r->q_span};
    af_gpu_set_params(s, params, 15);
    const af_gpu_binding bindings[] = {af_gpu_whole(b->batch_info), small_head_norms(c, r, cache),
                                       af_gpu_whole(b->values[r->q].buffer), af_gpu_whole(b->k_caches[r->cache]),
                                       af_gpu_whole(b->v_caches[r->cache])};
    af_gpu_bind_step(c, s, bindings, 5);
}

/* Groups of threads that share a tile's queries: a power of two, as many as are V_DIM wide. */
static uint32_t query_parts(uint32_t v_dim) {
    uint32_t parts = 1;
    while (parts < 8 && 2 * parts * v_dim <= 128) parts *= 2;
    return parts;
}

static void compile_attend(af_gpu_compiler *c, const af_op *op) {
    const af_op_attend *a = &op->u.attend;
    const af_gpu_backend *b = c->b;
    const af_cache *cache = &b->plan->caches[a->cache];
    if (cache->k_dim > 256 || cache->v_dim > 256 || cache->v_dim % 2) {
        c->status = af_fail(c->error, AF_EUNSUPPORTED,
                            "gpu: %s: heads of %u and %u elements, allowed are up to 256, of values an even number",
                            op->name, cache->k_dim, cache->v_dim);
        return;
    }
    af_gpu_step *s = af_gpu_add_step(c, op->name, AF_GPU_GRID_TILES);
    const af_gpu_constant constants[] = {
        {"KV_F32", b->options.kv == AF_KV_F32}, {"HEADS", a->heads},     {"KV_HEADS", cache->kv_heads},
        {"K_DIM", af_gpu_key_row(cache)},       {"Q_DIM", cache->k_dim}, {"V_DIM", cache->v_dim},
        {"PARTS", query_parts(cache->v_dim)}};
    s->pipelines[0] = af_gpu_pipeline_of(c, "attend", constants, 7);
    s->x = a->heads;
    const uint32_t params[] = {cache->group * b->table_pages,
                               b->plan->groups[cache->group].window,
                               a->sinks != NULL,
                               af_gpu_bits(a->scale),
                               af_gpu_bits(a->softcap),
                               b->values[a->q].stride,
                               b->tiles_at};
    af_gpu_set_params(s, params, 7);
    const uint32_t length = a->sinks ? a->heads : 0;
    const af_gpu_binding bindings[] = {af_gpu_whole(b->batch_info),
                                       af_gpu_whole(b->values[a->q].buffer),
                                       af_gpu_whole(b->k_caches[a->cache]),
                                       af_gpu_whole(b->v_caches[a->cache]),
                                       af_gpu_small(c, &a->sinks, &length, 1),
                                       af_gpu_whole(b->values[a->out].buffer)};
    af_gpu_bind_step(c, s, bindings, 6);
}

void af_gpu_compile_op(af_gpu_compiler *c, const af_op *op) {
    static void (*const compilers[])(af_gpu_compiler *, const af_op *) = {
        [AF_OP_EMBED] = compile_embed,           [AF_OP_NORM] = compile_norm,     [AF_OP_LINEAR] = compile_linear,
        [AF_OP_ROPE_STORE] = compile_rope_store, [AF_OP_ATTEND] = compile_attend, [AF_OP_HEAD] = compile_head,
    };
    if (c->status == AF_OK) compilers[op->kind](c, op);
}

int af_gpu_compile(af_gpu_backend *b, af_error *error) {
    const af_plan *plan = b->plan;
    af_gpu_compiler c = {.b = b, .steps = &b->general, .status = AF_OK, .error = error};
    b->small_size = ALIGN;
    for (size_t i = 0; i < plan->op_count; i++) b->small_size += small_bytes_of(plan, &plan->ops[i]);
    b->small = af_gpu_buffer(b->gpu, b->small_size, AF_GPU_STORAGE, "norms and biases", error);
    if (!b->small) return AF_ENOMEM;
    for (size_t i = 0; i < plan->op_count; i++) {
        af_gpu_compile_op(&c, &plan->ops[i]);
        if (b->options.progress)
            b->options.progress(b->options.progress_user, (double)(i + 1) / (double)plan->op_count);
    }
    c.steps = &b->decode;
    af_gpu_compile_decode_list(&c);
    af_gpu_weights_done(b->weights);
    if (c.status == AF_OK) c.status = af_gpu_check(b->gpu, error);
    const size_t most = b->general.count > b->decode.count ? b->general.count : b->decode.count;
    return c.status == AF_OK ? af_gpu_profile_open(b->gpu, most, &b->profile, error) : c.status;
}

/* gpu_decode.c - the decode list: the same plan with neighbouring operations folded into each other.
 *
 * Which of an operation's forms is taken is decided here once, at load, from its own fields and its neighbours': an
 * operation whose matrices are quantized and whose rows are whole sixteens takes decode_linear.wgsl, or decode_one.wgsl
 * for a single token; an operation that feeds such a one leaves it the packet it reads. Everything else keeps the
 * general form, so the two lists give the same values for every plan.
 */
#include "backend/webgpu/gpu_compiler.h"

#include <assert.h>
#include <string.h>

enum {
    BIAS = 1,
    RESIDUAL = 2,
    FACTOR = 4,
    NEXT = 8,
    NEXT_NORM = 16,
    NO_Y = 32,
    ACTIVATE = 64
}; /* decode_outputs.wgsl */

#define OUTPUTS 16 /* rows: a packet is written so many at a time */

typedef struct decoder {
    af_gpu_compiler *c;
    WGPUBuffer ready;  /* packets that the operation before left for the next one; NULL: none */
    bool ready_factor; /* they still lack the norm's factor */
    af_value kept;     /* a normed value that several operations read, in b->packets; AF_NO_VALUE: none */
} decoder;

/* ---- What can be folded ---- */

static const af_op *op_at(const decoder *d, size_t i) {
    const af_plan *plan = d->c->b->plan;
    return i < plan->op_count ? &plan->ops[i] : NULL;
}

static bool quantized_format(const decoder *d, const af_matrix *w) {
    const af_gpu_layout *layout = af_gpu_layout_of(w->format->type);
    return layout && layout->kind == AF_GPU_QUANTIZED && !d->c->b->options.exact;
}

static bool folds_linear(const decoder *d, const af_op *op) {
    const af_op_linear *l = &op->u.linear;
    if (op->kind != AF_OP_LINEAR || l->post.kind != AF_NORM_NONE || l->scale != 1.0f) return false;
    if (l->parts[0].w.cols % 32) return false;
    for (uint32_t i = 0; i < l->part_count; i++)
        if (!quantized_format(d, &l->parts[i].w) || l->parts[i].w.rows % OUTPUTS) return false;
    if (l->combine == AF_COMBINE_GLU && l->parts[0].w.format != l->parts[1].w.format) return false;
    return true;
}

/* The operation at i reads `value` through a packet that its predecessor can leave: with its norm still to be applied,
 * or bare. */
static const af_op_linear *reader_of(const decoder *d, size_t i, af_value value, bool normed) {
    const af_op *op = op_at(d, i);
    if (!op || !folds_linear(d, op) || op->u.linear.in != value) return NULL;
    const af_norm *pre = &op->u.linear.pre;
    if (!normed) return pre->kind == AF_NORM_NONE ? &op->u.linear : NULL;
    return pre->kind == AF_NORM_RMS && !pre->bias && pre->weight ? &op->u.linear : NULL;
}

/* ---- Linear ---- */

/* A thread's rows share what it loads of a token: of eight tokens that is most of what it loads. */
const uint32_t af_gpu_decode_rows[AF_GPU_PORTIONS] = {2, 2, 2, 4};

typedef struct fold {
    const char *name;
    const af_gpu_matrix *m;
    bool glu;            /* m is the gate and, below it, the other matrix */
    WGPUBuffer in, next; /* next NULL: none is written */
    af_gpu_value y;
    const float *bias; /* (m->rows), or NULL */
    const af_norm *next_norm;
    uint32_t next_cols, flags;
    af_act act;
    float eps;
    uint32_t index; /* among the products of the operation, for the buffer that is bound unused */
    bool per_row;
} fold;

static void fold_pipelines(af_gpu_compiler *c, af_gpu_step *s, const fold *f) {
    const af_gpu_layout *layout = f->m->layout;
    af_gpu_constant constants[] = {
        AF_GPU_BLOCK_CONSTANTS(layout), {"GLU", f->glu}, {"ACT", f->act}, {"TOKENS", 0}, {"ROWS", 0}};
    for (uint32_t i = 0; i < AF_GPU_PORTIONS; i++) {
        constants[5].value = 1u << i;
        constants[6].value = af_gpu_decode_rows[i];
        s->pipelines[i] = af_gpu_pipeline_of(c, i == 0 ? "decode_one" : "decode_linear", constants, 7);
    }
}

static void fold_segment(af_gpu_compiler *c, const fold *f, const af_gpu_segment *seg) {
    const af_gpu_backend *b = c->b;
    const uint32_t outputs = f->glu ? seg->rows / 2 : seg->rows;
    uint32_t place[3];
    af_gpu_place(f->m, seg, place);
    const float *const vectors[] = {f->bias ? f->bias + seg->row_begin : NULL,
                                    f->next_norm ? f->next_norm->weight : NULL};
    const uint32_t lengths[] = {f->bias ? seg->rows : 0, f->next_norm ? f->next_cols : 0};
    af_gpu_step *s = af_gpu_add_step(c, f->name, AF_GPU_GRID_DECODE);
    s->x = outputs;
    s->bytes = af_gpu_streams_of(f->m->layout, seg->rows, f->m->cols).bytes;
    s->count_at = 7;
    s->which = f->per_row ? AF_GPU_ROWS : AF_GPU_ALL;
    const uint32_t params[] = {place[0],
                               place[1],
                               place[2],
                               outputs,
                               f->m->cols / 32,
                               f->y.first + seg->row_begin,
                               f->y.stride,
                               0,
                               af_gpu_bits(f->eps),
                               af_gpu_packet(f->m->cols),
                               af_gpu_packet(f->next_cols),
                               f->next_cols / 32,
                               f->flags | (f->bias ? BIAS : 0)};
    af_gpu_set_params(s, params, 13);
    fold_pipelines(c, s, f);
    const af_gpu_binding bindings[] = {
        af_gpu_whole(seg->chunk),  af_gpu_whole(seg->chunk),
        af_gpu_whole(f->in),       af_gpu_small(c, vectors, lengths, 2),
        af_gpu_whole(f->y.buffer), af_gpu_whole(f->next ? f->next : b->unused[f->index % 2])};
    af_gpu_bind_step(c, s, bindings, 6);
}

static void fold_segments(af_gpu_compiler *c, const fold *f) {
    for (size_t i = 0; i < f->m->segment_count; i++) fold_segment(c, f, &f->m->segments[i]);
}

/* The packets that `in` is read from: left by the operation before, or made here. */
static WGPUBuffer packets_in(decoder *d, const af_op *op, uint32_t *flags) {
    af_gpu_backend *b = d->c->b;
    const af_op_linear *l = &op->u.linear;
    if (d->ready) {
        if (d->ready_factor) *flags |= FACTOR;
        return d->ready;
    }
    if (l->in == d->kept && l->pre.kind == AF_NORM_NONE) return b->packets;
    d->kept = AF_NO_VALUE;
    const uint32_t cols = l->parts[0].w.cols;
    af_gpu_norm_step(d->c, op->name, b->values[l->in], cols, &l->pre, true, af_gpu_normed(b, cols), AF_GPU_ALL);
    return b->packets;
}

/* With a hook every operation starts from its values, which the hook may have changed (gpu_trace.c). Behind a cut
 * another backend may read them. */
static bool may_leave(const decoder *d, size_t i) {
    return d->c->b->options.hook == NULL && !op_at(d, i)->cut;
}

/* A packet of one product is written by its workgroups 16 rows at a time: it must be one segment, read elsewhere. */
static void leave_packets(decoder *d, size_t i, fold *f, WGPUBuffer in, WGPUBuffer where, bool normed) {
    const af_op_linear *l = &op_at(d, i)->u.linear;
    const af_op_linear *reader = reader_of(d, i + 1, l->parts[0].out, normed);
    const uint32_t outputs = l->parts[0].w.rows;
    if (!may_leave(d, i) || !reader || in == where || f->m->segment_count != 1 || outputs % 32) return;
    f->next = where;
    f->next_cols = outputs;
    f->flags |= NEXT | (normed ? NEXT_NORM : 0);
    f->next_norm = normed ? &reader->pre : NULL;
}

static bool fold_linear(decoder *d, size_t i) {
    const af_op *op = op_at(d, i);
    const af_op_linear *l = &op->u.linear;
    af_gpu_backend *b = d->c->b;
    if (!folds_linear(d, op)) return false;
    af_gpu_product products[AF_PLAN_PARTS];
    const uint32_t count = af_gpu_products(d->c, l, products);
    const bool glu = l->combine == AF_COMBINE_GLU, plain = l->combine == AF_COMBINE_NONE;
    if (count == 0 || (glu && (count != 1 || products[0].m->segment_count != 1))) return false;
    uint32_t flags = (l->residual != AF_NO_VALUE ? RESIDUAL : 0u) | (l->combine == AF_COMBINE_ACT ? ACTIVATE : 0u);
    const WGPUBuffer in = packets_in(d, op, &flags);
    d->ready = NULL;
    for (uint32_t k = 0; k < l->part_count; k++)
        if (l->parts[k].out == d->kept) d->kept = AF_NO_VALUE;
    for (uint32_t k = 0; k < count; k++) {
        fold f = {.name = op->name,
                  .m = products[k].m,
                  .glu = glu,
                  .in = in,
                  .y = b->values[l->parts[products[k].first_part].out],
                  .bias = products[k].bias,
                  .flags = flags,
                  .act = l->act,
                  .eps = l->pre.eps,
                  .index = k};
        if (count == 1) leave_packets(d, i, &f, in, plain ? b->packets : b->hidden_packets, plain);
        if (f.next && !plain) f.flags |= NO_Y;
        if (f.next == b->packets) d->kept = AF_NO_VALUE;
        fold_segments(d->c, &f);
        if (f.next) {
            d->ready = f.next;
            d->ready_factor = plain;
        }
    }
    return true;
}

/* ---- Attention ---- */

static bool folds_head_norm(const af_norm *n, uint32_t dim) {
    return n->kind == AF_NORM_NONE || (n->kind == AF_NORM_RMS && !n->bias && !n->per_head_weight && n->width == dim);
}

/* What decode_attend.wgsl does, and its threads and workgroup memory hold. */
static bool folds_attention(const decoder *d, size_t i) {
    const af_op *store = op_at(d, i), *attend = op_at(d, i + 1);
    if (store->cut || !attend || attend->kind != AF_OP_ATTEND || attend->u.attend.cache != store->u.rope_store.cache)
        return false;
    if (attend->u.attend.both) return false;
    const af_op_rope_store *r = &store->u.rope_store;
    const af_cache *c = &d->c->b->plan->caches[store->u.rope_store.cache];
    if (!folds_head_norm(&r->q_norm, c->k_dim) || !folds_head_norm(&r->k_norm, c->k_dim)) return false;
    if (r->q_norm.kind && r->k_norm.kind && r->q_norm.eps != r->k_norm.eps) return false; /* it takes one */
    if (r->q_span || r->rope_first) return false;
    const uint32_t share = store->u.rope_store.heads / c->kv_heads, unit = d->c->b->options.kv == AF_KV_Q8_0 ? 32 : 8;
    return !c->shared && c->k_dim <= 256 && c->v_dim <= 256 && c->k_dim % unit == 0 && c->v_dim % unit == 0 &&
           share <= 16 && share * c->k_dim <= 2048 && share * c->v_dim <= 4096;
}

/* Groups of threads that take values in turn: as many as there are threads for and `joined` has room. */
static uint32_t value_groups(const af_cache *c, uint32_t share) {
    const uint32_t threads = 256 / (c->v_dim / 2), room = 4096 / (share * c->v_dim);
    uint32_t groups = threads < room ? threads : room;
    while (groups & (groups - 1)) groups &= groups - 1;
    return groups ? groups : 1;
}

static void attend_step(decoder *d, const af_op *store, const af_op *attend) {
    af_gpu_compiler *c = d->c;
    const af_gpu_backend *b = c->b;
    const af_op_rope_store *r = &store->u.rope_store;
    const af_cache *cache = &b->plan->caches[r->cache];
    const af_rope *rope = &b->plan->ropes[r->rope];
    af_gpu_step *s = af_gpu_add_step(c, attend->name, AF_GPU_GRID_STRETCH);
    const af_gpu_constant constants[] = {{"KV", b->options.kv},
                                         {"HEADS", r->heads},
                                         {"KV_HEADS", cache->kv_heads},
                                         {"K_DIM", cache->k_dim},
                                         {"V_DIM", cache->v_dim},
                                         {"STRETCHES", b->stretches},
                                         {"GROUPS", value_groups(cache, r->heads / cache->kv_heads)},
                                         {"Q_PITCH", r->q_pitch ? r->q_pitch : cache->k_dim}};
    s->pipelines[0] = af_gpu_pipeline_of(c, "decode_attend", constants, 8);
    s->x = cache->kv_heads;
    s->scaled_at = 2;
    s->scaled_by = af_gpu_turns_before(b->plan, r->rope);
    s->scaled_plus = b->turns_at / 2;
    const uint32_t params[] = {rope->rotated,
                               rope->adjacent,
                               0,
                               cache->group * b->table_pages,
                               (r->q_norm.kind ? 1u : 0u) | (r->k_norm.kind ? 2u : 0u),
                               af_gpu_bits(r->q_norm.kind ? r->q_norm.eps : r->k_norm.eps),
                               b->values[r->q].stride,
                               b->values[r->k].first,
                               b->values[r->v].first,
                               af_gpu_bits(attend->u.attend.scale),
                               af_gpu_bits(attend->u.attend.softcap),
                               b->plan->groups[cache->group].window};
    af_gpu_set_params(s, params, 12);
    const float *const vectors[] = {r->q_norm.weight, r->k_norm.weight};
    const uint32_t lengths[] = {cache->k_dim, cache->k_dim};
    const af_gpu_binding bindings[] = {af_gpu_whole(b->batch_info),          af_gpu_small(c, vectors, lengths, 2),
                                       af_gpu_whole(b->values[r->q].buffer), af_gpu_whole(b->k_caches[r->cache]),
                                       af_gpu_whole(b->v_caches[r->cache]),  af_gpu_whole(b->parts)};
    af_gpu_bind_step(c, s, bindings, 6);
}

static void reduce_step(decoder *d, size_t i) {
    af_gpu_compiler *c = d->c;
    const af_gpu_backend *b = c->b;
    const af_op *op = op_at(d, i);
    const af_op_attend *a = &op->u.attend;
    const af_cache *cache = &b->plan->caches[a->cache];
    const uint32_t cols = a->heads * cache->v_dim;
    const bool leave =
        may_leave(d, i) && cache->v_dim % 16 == 0 && cache->v_dim <= 512 && reader_of(d, i + 1, a->out, false);
    af_gpu_step *s = af_gpu_add_step(c, op->name, AF_GPU_GRID_HEADS);
    const af_gpu_constant constants = {"STRETCHES", b->stretches};
    s->pipelines[0] = af_gpu_pipeline_of(c, "decode_reduce", &constants, 1);
    s->x = a->heads;
    s->stretches_at = 2;
    const uint32_t params[] = {a->heads, cache->v_dim, 0, a->sinks != NULL, af_gpu_packet(cols), cols / 32, leave};
    af_gpu_set_params(s, params, 7);
    const uint32_t length = a->sinks ? a->heads : 0;
    const af_gpu_binding bindings[] = {af_gpu_whole(b->parts), af_gpu_small(c, &a->sinks, &length, 1),
                                       af_gpu_whole(b->values[a->out].buffer), af_gpu_whole(b->attended_packets)};
    af_gpu_bind_step(c, s, bindings, 4);
    d->ready = leave ? b->attended_packets : NULL;
    d->ready_factor = false;
}

/* ---- The head ---- */

static bool fold_head(decoder *d, size_t i) {
    const af_op *op = op_at(d, i);
    const af_op_head *h = &op->u.head;
    af_gpu_backend *b = d->c->b;
    if (!quantized_format(d, &h->w) || h->w.rows % OUTPUTS || h->w.cols % 32 || h->scale != 1.0f || h->softcap != 0.0f)
        return false;
    const af_matrix *w = &h->w;
    const af_gpu_matrix *m = af_gpu_upload(d->c, &w, 1);
    if (d->c->status != AF_OK) return true;
    af_gpu_norm_step(d->c, op->name, b->values[h->in], h->w.cols, &h->norm, true, af_gpu_normed(b, h->w.cols),
                     AF_GPU_ROWS);
    const fold f = {.name = op->name,
                    .m = m,
                    .in = b->packets,
                    .y = {.buffer = b->logits, .stride = h->w.rows},
                    .bias = h->bias,
                    .per_row = true};
    fold_segments(d->c, &f);
    af_gpu_choice_steps(d->c, h->w.rows);
    return true;
}

/* A norm of its own, whose result the next operation, and perhaps others, read: it leaves them their packet. */
static bool fold_norm(decoder *d, size_t i) {
    const af_op *op = op_at(d, i);
    const af_op_norm *n = &op->u.norm;
    const af_gpu_backend *b = d->c->b;
    if (!may_leave(d, i) || n->norm.width % 32 || !reader_of(d, i + 1, n->out, false)) return false;
    af_gpu_norm_step(d->c, op->name, b->values[n->in], n->norm.width, &n->norm, true, b->values[n->out], AF_GPU_ALL);
    d->ready = NULL;
    d->kept = n->out;
    return true;
}

void af_gpu_compile_decode_list(af_gpu_compiler *c) {
    decoder d = {.c = c, .kept = AF_NO_VALUE};
    const af_plan *plan = c->b->plan;
    for (size_t i = 0; i < plan->op_count && c->status == AF_OK; i++) {
        const af_op *op = &plan->ops[i];
        c->op = i;
        if (i > 0 && op_at(&d, i - 1)->cut) d.kept = AF_NO_VALUE;
        if (op->kind == AF_OP_NORM && fold_norm(&d, i)) continue;
        if (op->kind == AF_OP_LINEAR && fold_linear(&d, i)) continue;
        if (op->kind == AF_OP_HEAD && fold_head(&d, i)) continue;
        if (op->kind == AF_OP_ROPE_STORE && folds_attention(&d, i)) {
            c->op = ++i;
            attend_step(&d, op, &plan->ops[i]);
            reduce_step(&d, i);
            continue;
        }
        d.ready = NULL;
        d.kept = AF_NO_VALUE;
        af_gpu_compile_op(c, op);
    }
}

/* decoder.c - the frame of decoders as operations of the plan; a feed-forward of experts is experts.c's. */
#include "model/decoder.h"

#include <math.h>

/* ---- Opening ---- */

void af_decoder_begin(af_binder *b, af_norm_kind norm, af_decoder *out) {
    *out = (af_decoder){.q = AF_NO_VALUE,
                        .shared = AF_NO_VALUE,
                        .other = AF_NO_VALUE,
                        .hidden = AF_NO_VALUE,
                        .ids = AF_NO_VALUE,
                        .weights = AF_NO_VALUE,
                        .shared_hidden = AF_NO_VALUE,
                        .shared_id = AF_NO_VALUE,
                        .shared_weight = AF_NO_VALUE,
                        .q_whole = AF_NO_VALUE,
                        .k_whole = AF_NO_VALUE,
                        .embed_scale = 1.0f,
                        .logit_scale = 1.0f};
    af_bind_hparams(b, norm, &out->h);
    out->layer.attn = (af_attention){.in = AF_NO_VALUE, .scale = 1.0f / sqrtf((float)out->h.k_dim), .share = 1.0f};
    out->layer.ffn = (af_ffn){.in = AF_NO_VALUE, .shape = AF_FFN_GATED, .act = AF_ACT_SILU, .share = 1.0f};
}

void af_decoder_open_values(af_binder *b, af_decoder *m) {
    const af_hparams *h = &m->h;
    m->x = af_bind_value(b, h->width);
    m->k = af_bind_value(b, h->kv_heads * h->k_dim);
    m->v = af_bind_value(b, h->kv_heads * h->v_dim);
    m->attended = af_bind_value(b, h->heads * h->v_dim);
}

void af_decoder_open(af_binder *b, af_norm_kind norm, af_decoder *out) {
    af_decoder_begin(b, norm, out);
    af_decoder_open_values(b, out);
}

/* ---- Where norms stand ---- */

af_layer af_layer_pre_norm(af_binder *b, const af_decoder *m, uint32_t i) {
    af_layer l = m->layer;
    l.attn.pre = af_bind_norm(b, &m->h, "blk.%u.attn_norm", i);
    l.ffn.pre = af_bind_norm(b, &m->h, "blk.%u.ffn_norm", i);
    return l;
}

static void bind_posts(af_binder *b, const af_decoder *m, uint32_t i, af_layer *l) {
    l->attn.post = af_bind_norm(b, &m->h, "blk.%u.post_attention_norm", i);
    l->ffn.post = af_bind_norm(b, &m->h, "blk.%u.post_ffw_norm", i);
}

af_layer af_layer_sandwich(af_binder *b, const af_decoder *m, uint32_t i) {
    af_layer l = af_layer_pre_norm(b, m, i);
    bind_posts(b, m, i, &l);
    return l;
}

af_layer af_layer_post_norm(af_binder *b, const af_decoder *m, uint32_t i) {
    af_layer l = m->layer;
    bind_posts(b, m, i, &l);
    return l;
}

void af_decoder_norm(af_binder *b, int32_t i, const char *name, const af_norm *norm, af_value in, af_value out) {
    if (b->status == AF_OK)
        af_bind_op(b, i, name, (af_op){.kind = AF_OP_NORM, .u.norm = {.in = in, .out = out, .norm = *norm}});
}

void af_decoder_need(af_binder *b, af_value *value, uint32_t width) {
    if (*value == AF_NO_VALUE) *value = af_bind_value(b, width);
}

void af_decoder_norm_stream(af_binder *b, af_decoder *m, int32_t layer, const char *name, const af_norm *norm) {
    af_decoder_need(b, &m->other, m->h.width);
    af_decoder_norm(b, layer, name, norm, m->x, m->other);
    const af_value normed = m->other;
    m->other = m->x;
    m->x = normed;
}

/* What a part reads. */
static af_value input_of(const af_decoder *m, af_value in) {
    return in == AF_NO_VALUE ? m->x : in;
}

af_layer af_layer_parallel(af_binder *b, af_decoder *m, uint32_t i) {
    const af_norm norm = af_bind_norm(b, &m->h, "blk.%u.attn_norm", i);
    af_decoder_need(b, &m->shared, m->h.width);
    af_decoder_norm(b, (int32_t)i, "attn_norm", &norm, m->x, m->shared);
    af_layer l = m->layer;
    l.attn.in = l.ffn.in = m->shared;
    return l;
}

/* ---- Matrices ---- */

af_part af_decoder_part(af_binder *b, uint32_t layer, const char *name, uint32_t rows, uint32_t cols, af_value out) {
    return (af_part){.w = af_bind_matrix(b, rows, cols, "blk.%u.%s.weight", layer, name),
                     .bias = af_bind_vector_if(b, rows, "blk.%u.%s.bias", layer, name),
                     .out = out};
}

/* Takes the first `rows` rows off what is left of a fused tensor. */
static af_part split(af_part *left, uint32_t rows, af_value out) {
    af_part first = *left;
    first.out = out;
    if (!left->w.data) return first;
    first.w.rows = rows;
    left->w.rows -= rows;
    left->w.data = (const unsigned char *)left->w.data + (size_t)rows * af_row_bytes(left->w.format, left->w.cols);
    if (left->bias) left->bias += rows;
    return first;
}

/* Rows of attn_q: a gated head has as many for its gate. */
static uint32_t q_rows(const af_decoder *m, const af_attention *a) {
    return m->h.heads * m->h.k_dim * (a->gated ? 2 : 1);
}

static void bind_qkv(af_binder *b, const af_decoder *m, uint32_t i, const af_attention *a, af_part parts[3]) {
    static const char *const names[] = {"attn_q", "attn_k", "attn_v"};
    const af_hparams *h = &m->h;
    const bool whole_rows = a->q_row.kind != AF_NORM_NONE;
    const uint32_t rows[] = {q_rows(m, a), h->kv_heads * h->k_dim, h->kv_heads * h->v_dim};
    const af_value to[] = {whole_rows ? m->q_whole : m->q, whole_rows ? m->k_whole : m->k, m->v};
    const uint32_t all = rows[0] + rows[1] + rows[2];
    af_part fused = {.w = af_bind_matrix_if(b, all, h->width, "blk.%u.attn_qkv.weight", i)};
    if (fused.w.data) fused.bias = af_bind_vector_if(b, all, "blk.%u.attn_qkv.bias", i);
    for (int p = 0; p < 3; p++)
        parts[p] =
            fused.w.data ? split(&fused, rows[p], to[p]) : af_decoder_part(b, i, names[p], rows[p], h->width, to[p]);
}

void af_decoder_add_to_stream(af_binder *b, const af_decoder *m, uint32_t i, const char *name, af_value in,
                              uint32_t cols, const af_norm *post, float share) {
    af_op op = {.kind = AF_OP_LINEAR,
                .u.linear = {.in = in, .part_count = 1, .post = *post, .residual = m->x, .scale = share}};
    op.u.linear.parts[0] = af_decoder_part(b, i, name, m->h.width, cols, m->x);
    af_bind_op(b, (int32_t)i, name, op);
}

/* ---- Attention ---- */

static void add_qkv(af_binder *b, af_decoder *m, uint32_t i, const af_attention *a) {
    const bool whole_rows = a->q_row.kind != AF_NORM_NONE;
    af_decoder_need(b, &m->q, q_rows(m, a));
    if (whole_rows) {
        af_decoder_need(b, &m->q_whole, m->h.heads * m->h.k_dim);
        af_decoder_need(b, &m->k_whole, m->h.kv_heads * m->h.k_dim);
    }
    af_op op = {
        .kind = AF_OP_LINEAR,
        .u.linear = {.in = input_of(m, a->in), .pre = a->pre, .part_count = 3, .residual = AF_NO_VALUE, .scale = 1.0f}};
    bind_qkv(b, m, i, a, op.u.linear.parts);
    af_bind_op(b, (int32_t)i, "attn_qkv", op);
    if (!whole_rows) return;
    af_decoder_norm(b, (int32_t)i, "attn_q_norm", &a->q_row, m->q_whole, m->q);
    af_decoder_norm(b, (int32_t)i, "attn_k_norm", &a->k_row, m->k_whole, m->k);
}

/* Heads of q and of its gate stand in turn. */
static void add_gate(af_binder *b, const af_decoder *m, uint32_t i) {
    const af_hparams *h = &m->h;
    af_bind_op(b, (int32_t)i, "attn_gate",
               (af_op){.kind = AF_OP_GATE,
                       .u.gate = {.v = m->attended,
                                  .gate = m->q,
                                  .heads = (uint16_t)h->heads,
                                  .dim = (uint16_t)h->v_dim,
                                  .gate_first = h->k_dim,
                                  .gate_pitch = 2 * h->k_dim,
                                  .act = AF_ACT_SIGMOID}});
}

void af_decoder_add_attention(af_binder *b, af_decoder *m, uint32_t i, const af_attention *a) {
    const uint32_t q_pitch = a->gated ? 2 * m->h.k_dim : 0;
    const uint16_t heads = (uint16_t)m->h.heads, cache = af_bind_cache(b, a->window, &m->h);
    add_qkv(b, m, i, a);
    af_bind_op(b, (int32_t)i, "attn_rope",
               (af_op){.kind = AF_OP_ROPE_STORE,
                       .u.rope_store = {.q = m->q,
                                        .k = m->k,
                                        .v = m->v,
                                        .heads = heads,
                                        .cache = cache,
                                        .rope = a->rope,
                                        .q_norm = a->q_norm,
                                        .k_norm = a->k_norm,
                                        .q_growth = a->q_growth,
                                        .q_span = a->q_span,
                                        .q_pitch = q_pitch}});
    af_bind_op(b, (int32_t)i, "attn",
               (af_op){.kind = AF_OP_ATTEND,
                       .u.attend = {.q = m->q,
                                    .out = m->attended,
                                    .heads = heads,
                                    .cache = cache,
                                    .scale = a->scale,
                                    .softcap = a->softcap,
                                    .sinks = a->sinks,
                                    .both = a->both,
                                    .q_pitch = q_pitch}});
    if (a->gated) add_gate(b, m, i);
    af_decoder_add_to_stream(b, m, i, "attn_output", m->attended, m->h.heads * m->h.v_dim, &a->post, a->share);
    if (a->after.kind != AF_NORM_NONE) af_decoder_norm_stream(b, m, (int32_t)i, "attn_output_norm", &a->after);
}

/* ---- Feed-forward ---- */

static af_op hidden_op(const af_decoder *m, const af_ffn *f, bool gated) {
    return (af_op){.kind = AF_OP_LINEAR,
                   .u.linear = {.in = input_of(m, f->in),
                                .pre = f->pre,
                                .part_count = gated ? 2 : 1,
                                .combine = gated ? AF_COMBINE_GLU : AF_COMBINE_ACT,
                                .act = f->act,
                                .residual = AF_NO_VALUE,
                                .scale = 1.0f}};
}

void af_decoder_gated(af_binder *b, const af_decoder *m, uint32_t i, const char *gate, const char *up, const af_ffn *f,
                      uint32_t ff, af_value hidden) {
    af_op op = hidden_op(m, f, true);
    op.u.linear.parts[1] = af_decoder_part(b, i, up, ff, m->h.width, hidden);
    op.u.linear.parts[0] = af_decoder_part(b, i, gate, ff, m->h.width, hidden);
    af_bind_op(b, (int32_t)i, up, op);
}

static void add_dense(af_binder *b, af_decoder *m, uint32_t i, const af_ffn *f) {
    const uint32_t width = m->h.width, ff = m->h.ff;
    af_decoder_need(b, &m->hidden, ff);
    if (f->shape == AF_FFN_GATED) {
        af_decoder_gated(b, m, i, "ffn_gate", "ffn_up", f, ff, m->hidden);
    } else {
        const bool fused = f->shape == AF_FFN_FUSED;
        af_op op = hidden_op(m, f, fused);
        af_part up = af_decoder_part(b, i, "ffn_up", fused ? 2 * ff : ff, width, m->hidden);
        if (fused) op.u.linear.parts[0] = split(&up, ff, m->hidden);
        op.u.linear.parts[fused ? 1 : 0] = up;
        af_bind_op(b, (int32_t)i, "ffn_up", op);
    }
    af_decoder_add_to_stream(b, m, i, "ffn_down", m->hidden, ff, &f->post, f->share);
    if (f->after.kind != AF_NORM_NONE) af_decoder_norm_stream(b, m, (int32_t)i, "layer_output_norm", &f->after);
}

/* ---- The model ---- */

void af_decoder_add_ffn(af_binder *b, af_decoder *m, uint32_t i, const af_ffn *f) {
    if (f->shape == AF_FFN_EXPERTS)
        af_decoder_experts(b, m, i, f);
    else
        add_dense(b, m, i, f);
}

void af_decoder_add_layer(af_binder *b, af_decoder *m, uint32_t i, const af_layer *layer) {
    af_decoder_add_attention(b, m, i, &layer->attn);
    af_decoder_add_ffn(b, m, i, &layer->ffn);
}

void af_decoder_pre_norm_layer(af_binder *b, af_decoder *m, uint32_t i) {
    const af_layer l = af_layer_pre_norm(b, m, i);
    af_decoder_add_layer(b, m, i, &l);
}

void af_decoder_embed(af_binder *b, af_decoder *m) {
    af_bind_embed(b, &m->h, m->embed_scale, m->positions, m->position_count, m->x);
}

int af_decoder_build(af_binder *b, af_decoder *m, void (*add)(af_binder *b, af_decoder *m, uint32_t i)) {
    af_decoder_embed(b, m);
    for (uint32_t i = 0; i < m->h.layers && b->status == AF_OK; i++) add(b, m, i);
    const af_norm output_norm = af_bind_norm(b, &m->h, "output_norm");
    af_bind_head(b, &m->h, &output_norm, m->x, m->logit_scale, m->logit_softcap);
    return b->status;
}

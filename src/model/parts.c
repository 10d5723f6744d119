/* parts.c - the parts of a layer that dense decoders share, each one operation of the plan. */
#include "model/binder.h"

void af_bind_embed(af_binder *b, const af_hparams *h, float scale, af_value x) {
    const af_matrix table = af_bind_matrix(b, h->vocabulary, h->width, "token_embd.weight");
    af_bind_op(b, -1, "token_embd",
               (af_op){.kind = AF_OP_EMBED, .u.embed = {.table = table, .scale = scale, .out = x}});
}

void af_bind_head(af_binder *b, const af_hparams *h, const af_norm *norm, af_value x, float scale, float softcap) {
    af_matrix w = af_bind_matrix_if(b, h->vocabulary, h->width, "output.weight");
    if (!w.data) w = af_bind_matrix(b, h->vocabulary, h->width, "token_embd.weight");
    const float *bias = af_bind_vector_if(b, h->vocabulary, "output.bias");
    af_bind_op(b, -1, "output",
               (af_op){.kind = AF_OP_HEAD,
                       .u.head = {.in = x, .norm = *norm, .w = w, .bias = bias, .scale = scale, .softcap = softcap}});
}

void af_bind_dense(af_binder *b, const af_hparams *h, af_dense *out) {
    out->x = af_bind_value(b, h->width);
    out->q = af_bind_value(b, h->heads * h->k_dim);
    out->k = af_bind_value(b, h->kv_heads * h->k_dim);
    out->v = af_bind_value(b, h->kv_heads * h->v_dim);
    out->attended = af_bind_value(b, h->heads * h->v_dim);
    out->hidden = af_bind_value(b, h->ff);
}

static af_part part(af_binder *b, uint32_t layer, const char *name, uint32_t rows, uint32_t cols, af_value out) {
    return (af_part){.w = af_bind_matrix(b, rows, cols, "blk.%u.%s.weight", layer, name),
                     .bias = af_bind_vector_if(b, rows, "blk.%u.%s.bias", layer, name),
                     .out = out};
}

void af_bind_qkv(af_binder *b, const af_hparams *h, const af_dense *d, uint32_t layer, const af_norm *pre) {
    af_op op = {.kind = AF_OP_LINEAR,
                .u.linear = {.in = d->x, .pre = *pre, .part_count = 3, .residual = AF_NO_VALUE, .scale = 1.0f}};
    op.u.linear.parts[0] = part(b, layer, "attn_q", h->heads * h->k_dim, h->width, d->q);
    op.u.linear.parts[1] = part(b, layer, "attn_k", h->kv_heads * h->k_dim, h->width, d->k);
    op.u.linear.parts[2] = part(b, layer, "attn_v", h->kv_heads * h->v_dim, h->width, d->v);
    af_bind_op(b, (int32_t)layer, "attn_qkv", op);
}

void af_bind_attn_out(af_binder *b, const af_hparams *h, const af_dense *d, uint32_t layer, const af_norm *post) {
    af_op op = {.kind = AF_OP_LINEAR,
                .u.linear = {.in = d->attended, .part_count = 1, .post = *post, .residual = d->x, .scale = 1.0f}};
    op.u.linear.parts[0] = part(b, layer, "attn_output", h->width, h->heads * h->v_dim, d->x);
    af_bind_op(b, (int32_t)layer, "attn_output", op);
}

void af_bind_gated_ffn(af_binder *b, const af_hparams *h, const af_dense *d, uint32_t layer, const af_norm *pre,
                       af_act act, const af_norm *post) {
    af_op up = {.kind = AF_OP_LINEAR,
                .u.linear = {.in = d->x,
                             .pre = *pre,
                             .part_count = 2,
                             .combine = AF_COMBINE_GLU,
                             .act = act,
                             .residual = AF_NO_VALUE,
                             .scale = 1.0f}};
    up.u.linear.parts[0] = part(b, layer, "ffn_gate", h->ff, h->width, d->hidden);
    up.u.linear.parts[1] = part(b, layer, "ffn_up", h->ff, h->width, d->hidden);
    af_bind_op(b, (int32_t)layer, "ffn_up", up);

    af_op down = {.kind = AF_OP_LINEAR,
                  .u.linear = {.in = d->hidden, .part_count = 1, .post = *post, .residual = d->x, .scale = 1.0f}};
    down.u.linear.parts[0] = part(b, layer, "ffn_down", h->width, h->ff, d->x);
    af_bind_op(b, (int32_t)layer, "ffn_down", down);
}

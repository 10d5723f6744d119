/* parts.c - the two ends that all decoders share: tokens in, logits out. */
#include "model/binder.h"

void af_bind_embed(af_binder *b, const af_hparams *h, float scale, const float *positions, af_value x) {
    const af_matrix table = af_bind_matrix(b, h->vocabulary, h->width, "token_embd.weight");
    af_bind_op(b, -1, "token_embd",
               (af_op){.kind = AF_OP_EMBED,
                       .u.embed = {.table = table,
                                   .scale = scale,
                                   .positions = positions,
                                   .position_count = positions ? h->context : 0,
                                   .out = x}});
}

void af_bind_head(af_binder *b, const af_hparams *h, const af_norm *norm, af_value x, float scale, float softcap) {
    af_matrix w = af_bind_matrix_if(b, h->vocabulary, h->width, "output.weight");
    if (!w.data) w = af_bind_matrix(b, h->vocabulary, h->width, "token_embd.weight");
    const float *bias = af_bind_vector_if(b, h->vocabulary, "output.bias");
    af_bind_op(b, -1, "output",
               (af_op){.kind = AF_OP_HEAD,
                       .u.head = {.in = x, .norm = *norm, .w = w, .bias = bias, .scale = scale, .softcap = softcap}});
}

/* parts.c - the two ends that all models share: tokens in; states and logits out. */
#include "model/binder.h"

const float *af_bind_positions(af_binder *b, const af_hparams *h) {
    const uint64_t elements = (uint64_t)h->context * h->width;
    if (b->ctx > h->context || elements > UINT32_MAX)
        af_bind_fail(b, AF_EINVAL, "context of %u tokens: the table of positions has %u", b->ctx, h->context);
    return b->status == AF_OK ? af_bind_vector(b, (uint32_t)elements, "position_embd.weight") : NULL;
}

void af_bind_embed(af_binder *b, const af_hparams *h, float scale, const float *positions, uint32_t position_count,
                   af_value x) {
    const af_matrix table = af_bind_matrix(b, h->vocabulary, h->width, "token_embd.weight");
    af_bind_op(
        b, -1, "token_embd",
        (af_op){
            .kind = AF_OP_EMBED,
            .u.embed = {
                .table = table, .scale = scale, .positions = positions, .position_count = position_count, .out = x}});
}

/* pooling_type as llama.cpp numbers it (include/llama.h): none, mean, cls, last, rank. */
static af_pooling bind_pooling(af_binder *b, af_pooling fallback) {
    const af_pooling kinds[] = {fallback, AF_POOLING_MEAN, AF_POOLING_CLS, AF_POOLING_LAST, AF_POOLING_NONE};
    return kinds[af_bind_u32_or(b, "pooling_type", 0, 0, 4)];
}

void af_bind_state(af_binder *b, const af_norm *norm, af_value x, af_pooling fallback) {
    b->plan->pooling = bind_pooling(b, fallback);
    af_bind_op(b, -1, "states", (af_op){.kind = AF_OP_STATE, .u.state = {.in = x, .norm = *norm}});
}

void af_bind_head(af_binder *b, const af_hparams *h, const af_norm *norm, af_value x, float scale, float softcap) {
    af_matrix w = af_bind_matrix_if(b, h->vocabulary, h->width, "output.weight");
    if (!w.data) w = af_bind_matrix(b, h->vocabulary, h->width, "token_embd.weight");
    const float *bias = af_bind_vector_if(b, h->vocabulary, "output.bias");
    af_bind_state(b, norm, x, AF_POOLING_LAST);
    af_bind_op(b, -1, "output",
               (af_op){.kind = AF_OP_HEAD,
                       .u.head = {.in = x, .norm = *norm, .w = w, .bias = bias, .scale = scale, .softcap = softcap}});
}

/* granite.c - IBM Granite 3, dense and of experts.
 *
 * Llama's layer with four factors: embeddings times embedding_scale, what each part adds times residual_scale, scores
 * times attention.scale instead of 1 / sqrt(head), logits divided by logit_scale.
 *
 * The models of experts (granitemoe) have many small ones, as wide as feed_forward_length: softmax over all, the best
 * few taken, their shares made to sum to 1; and in some an expert that all tokens share. What either adds is times
 * residual_scale.
 *
 * Source: Granite 3.0 language models (IBM, 2024).
 */
#include "model/decoder.h"
#include "model/families.h"

static void open_model(af_binder *b, af_decoder *m) {
    af_decoder_open(b, AF_NORM_RMS, m);
    const float logit_scale = af_bind_f32_or(b, "logit_scale", 1.0f);
    if (logit_scale == 0.0f)
        af_bind_fail(b, AF_EFORMAT, "%.*s.logit_scale: found 0, logits are divided by it", (int)b->arch.n, b->arch.p);
    m->embed_scale = af_bind_f32_or(b, "embedding_scale", 1.0f);
    m->logit_scale = 1.0f / logit_scale;
    m->layer.attn.scale = af_bind_f32_or(b, "attention.scale", m->layer.attn.scale);
    m->layer.attn.share = m->layer.ffn.share = af_bind_f32_or(b, "residual_scale", 1.0f);
    m->layer.attn.rope = af_bind_rope(b, &m->h, m->h.rope_base, true, true);
}

int af_granite_build(af_binder *b) {
    af_decoder m;
    open_model(b, &m);
    return af_decoder_build(b, &m, af_decoder_pre_norm_layer);
}

int af_granitemoe_build(af_binder *b) {
    af_decoder m;
    open_model(b, &m);
    m.layer.ffn.shape = AF_FFN_EXPERTS;
    m.layer.ffn.mix = af_bind_mixture(b, &m.h);
    m.layer.ffn.mix.weigh = AF_WEIGH_SHARE;
    return af_decoder_build(b, &m, af_decoder_pre_norm_layer);
}

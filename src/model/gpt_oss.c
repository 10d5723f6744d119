/* gpt_oss.c - OpenAI's gpt-oss.
 *
 * Pre-norm, where post_attention_norm is the norm before the feed-forward. Attention has biases on all matrices, a sink
 * a head (one more score that takes its share of the softmax and gives nothing), a window in the layers with even
 * numbers and YaRN in all of them. Halves of a head turn together. Experts, in MXFP4 as published, have biases and a
 * clamped gate (plan.h, AF_ACT_CLAMPED); the best few by the router's numbers as they are, weighted by a softmax over
 * those few.
 *
 * Source: gpt-oss-120b and gpt-oss-20b model card (arXiv 2508.10925) and the reference code that it names.
 */
#include "model/decoder.h"
#include "model/families.h"

static void layer(af_binder *b, af_decoder *m, uint32_t i) {
    af_layer l = m->layer;
    l.attn.pre = af_bind_norm(b, &m->h, "blk.%u.attn_norm", i);
    l.ffn.pre = af_bind_norm(b, &m->h, "blk.%u.post_attention_norm", i);
    l.attn.window = i % 2 == 0 ? m->h.window : 0;
    l.attn.sinks = af_bind_vector(b, m->h.heads, "blk.%u.attn_sinks.weight", i);
    af_decoder_add_layer(b, m, i, &l);
}

int af_gpt_oss_build(af_binder *b) {
    af_decoder m;
    af_decoder_open(b, AF_NORM_RMS, &m);
    m.layer.attn.rope = af_bind_rope(b, &m.h, m.h.rope_base, false, true);
    m.layer.ffn.shape = AF_FFN_EXPERTS;
    m.layer.ffn.act = AF_ACT_CLAMPED;
    m.layer.ffn.mix = af_bind_mixture(b, &m.h);
    m.layer.ffn.mix.score = AF_SCORE_RAW;
    m.layer.ffn.mix.weigh = AF_WEIGH_CHOSEN;
    return af_decoder_build(b, &m, layer);
}

/* qwen3.c - Qwen 3, dense and of experts.
 *
 * Qwen 2's layer without biases, with an RMSNorm on every head of q and k before the rotation. A head's width is the
 * file's: heads times it need not be the model's width. YaRN, where the file asks for it, holds at every position.
 *
 * The models of experts differ in the feed-forward alone: softmax over all experts, the best few taken, their shares
 * made to sum to 1; none is shared.
 *
 * Source: Qwen3 technical report (arXiv 2505.09388).
 */
#include "model/decoder.h"
#include "model/families.h"

static void layer(af_binder *b, af_decoder *m, uint32_t i) {
    af_layer l = af_layer_pre_norm(b, m, i);
    l.attn.q_norm = af_bind_rms(b, m->h.k_dim, m->h.eps, "blk.%u.attn_q_norm.weight", i);
    l.attn.k_norm = af_bind_rms(b, m->h.k_dim, m->h.eps, "blk.%u.attn_k_norm.weight", i);
    af_decoder_add_layer(b, m, i, &l);
}

static void open_model(af_binder *b, af_decoder *m) {
    af_decoder_open(b, AF_NORM_RMS, m);
    m->layer.attn.rope = af_bind_rope(b, &m->h, m->h.rope_base, false, true);
}

int af_qwen3_build(af_binder *b) {
    af_decoder m;
    open_model(b, &m);
    return af_decoder_build(b, &m, layer);
}

int af_qwen3moe_build(af_binder *b) {
    af_decoder m;
    open_model(b, &m);
    m.layer.ffn.shape = AF_FFN_EXPERTS;
    m.layer.ffn.mix = af_bind_mixture(b, &m.h);
    m.layer.ffn.mix.weigh = AF_WEIGH_SHARE;
    return af_decoder_build(b, &m, layer);
}

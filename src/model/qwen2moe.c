/* qwen2moe.c - Qwen 1.5 and 2 of experts.
 *
 * Qwen 2's attention; the feed-forward is experts whose weights are their softmax over all as it is, so that they sum
 * to less than 1, beside a shared expert of another width that each token takes times sigmoid(ffn_gate_inp_shexp x).
 *
 * Sources: Qwen1.5-MoE (Qwen team, 2024), Qwen2 technical report (arXiv 2407.10671).
 */
#include "model/decoder.h"
#include "model/families.h"

int af_qwen2moe_build(af_binder *b) {
    af_decoder m;
    af_decoder_open(b, AF_NORM_RMS, &m);
    m.layer.attn.rope = af_bind_rope(b, &m.h, m.h.rope_base, false, true);
    m.layer.ffn.shape = AF_FFN_EXPERTS;
    m.layer.ffn.mix = af_bind_mixture(b, &m.h);
    m.layer.ffn.mix.weigh = AF_WEIGH_PLAIN;
    m.layer.ffn.mix.shared_gate = true;
    return af_decoder_build(b, &m, af_decoder_pre_norm_layer);
}

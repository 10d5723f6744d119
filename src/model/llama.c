/* llama.c - Llama 1 to 3.3 and the models stored as such: Mistral, Mixtral, Yi, TinyLlama, SmolLM2.
 *
 * Pre-norm decoder: RMSNorm, grouped-query attention over everything before, RMSNorm, SiLU-gated feed-forward. Rotation
 * turns adjacent pairs, because the converter has reordered the rows of q and k for it. Biases are taken where the file
 * has them. Llama 3 divides the rotary frequencies by rope_freqs.weight. An attention.sliding_window in the file is
 * ignored, as the models were published to run without one.
 *
 * Mixtral's feed-forward is experts as wide as a dense one's: softmax over all of them, the best few taken, their
 * shares made to sum to 1.
 *
 * Sources: LLaMA (arXiv 2302.13971), Llama 3 (arXiv 2407.21783), Mixtral of Experts (arXiv 2401.04088).
 */
#include "model/decoder.h"
#include "model/families.h"

int af_llama_build(af_binder *b) {
    af_decoder m;
    af_decoder_open(b, AF_NORM_RMS, &m);
    if (af_bind_u32_or(b, "expert_count", 0, 0, UINT32_MAX) > 0) {
        m.layer.ffn.shape = AF_FFN_EXPERTS;
        m.layer.ffn.mix = af_bind_mixture(b, &m.h);
        m.layer.ffn.mix.weigh = AF_WEIGH_SHARE;
    }
    m.layer.attn.rope = af_bind_rope(b, &m.h, m.h.rope_base, true, true);
    return af_decoder_build(b, &m, af_decoder_pre_norm_layer);
}

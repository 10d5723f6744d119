/* llama.c - Llama 1 to 3.3 and the models stored as such: Mistral, Yi, TinyLlama, SmolLM2.
 *
 * Pre-norm decoder: RMSNorm, grouped-query attention over everything before, RMSNorm, SiLU-gated feed-forward. Rotation
 * turns adjacent pairs, because the converter has reordered the rows of q and k for it. Biases are taken where the file
 * has them. Llama 3 divides the rotary frequencies by rope_freqs.weight. An attention.sliding_window in the file is
 * ignored, as the models were published to run without one.
 *
 * Sources: LLaMA (arXiv 2302.13971), Llama 3 (arXiv 2407.21783). Experts (Mixtral) are not in this file.
 */
#include "model/decoder.h"
#include "model/families.h"

int af_llama_build(af_binder *b) {
    af_decoder m;
    af_decoder_open(b, AF_NORM_RMS, &m);
    if (af_bind_u32_or(b, "expert_count", 0, 0, UINT32_MAX) > 0)
        af_bind_fail(b, AF_EUNSUPPORTED, "llama.expert_count: found a model of experts, this build runs dense ones");
    m.layer.attn.rope = af_bind_rope(b, &m.h, m.h.rope_base, true, true);
    return af_decoder_build(b, &m, af_decoder_pre_norm_layer);
}

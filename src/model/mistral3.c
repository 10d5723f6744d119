/* mistral3.c - Ministral 3 and Mistral Small 3, as mistral3.
 *
 * Llama's layer with a YaRN whose ramp stands in the file, and whose attention factor its log multiplier cancels.
 * Queries grow with the position: by attention.temperature_scale times the logarithm of how many original contexts it
 * is away.
 *
 * Source: Ministral 3 model cards (Mistral AI, 2025); growing queries after Llama 4's (Meta, 2025).
 */
#include "model/decoder.h"
#include "model/families.h"

int af_mistral3_build(af_binder *b) {
    af_decoder m;
    af_decoder_open(b, AF_NORM_RMS, &m);
    m.h.yarn_fast = af_bind_f32_or(b, "rope.scaling.yarn_beta_fast", m.h.yarn_fast);
    m.h.yarn_slow = af_bind_f32_or(b, "rope.scaling.yarn_beta_slow", m.h.yarn_slow);
    m.layer.attn.q_growth = af_bind_f32_or(b, "attention.temperature_scale", 0.0f);
    if (m.layer.attn.q_growth != 0.0f)
        m.layer.attn.q_span = af_bind_u32_or(b, "rope.scaling.original_context_length", m.h.context, 1, 1u << 30);
    m.layer.attn.rope = af_bind_rope(b, &m.h, m.h.rope_base, true, true);
    return af_decoder_build(b, &m, af_decoder_pre_norm_layer);
}

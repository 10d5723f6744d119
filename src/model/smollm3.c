/* smollm3.c - SmolLM3.
 *
 * Llama's layer, but every fourth layer (3, 7, 11 ...) does not turn. Nothing in the metadata says so. Tied head.
 *
 * Sources: SmolLM3 (Hugging Face, 2025); layers without positions after "RoPE to NoPE and back" (arXiv 2501.18795).
 */
#include "model/decoder.h"
#include "model/families.h"

static void layer(af_binder *b, af_decoder *m, uint32_t i) {
    af_layer l = af_layer_pre_norm(b, m, i);
    if ((i + 1) % m->period == 0) l.attn.rope = m->other_rope;
    af_decoder_add_layer(b, m, i, &l);
}

int af_smollm3_build(af_binder *b) {
    af_decoder m;
    af_decoder_open(b, AF_NORM_RMS, &m);
    m.period = 4;
    m.layer.attn.rope = af_bind_rope(b, &m.h, m.h.rope_base, true, true);
    m.other_rope = af_bind_no_rope(b);
    return af_decoder_build(b, &m, layer);
}

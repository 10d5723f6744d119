/* phi3.c - Phi-3, Phi-3.5 and Phi-4, dense.
 *
 * Llama's layer with halves turning together. q, k and v are rows of one tensor, and so are gate and up, in this order.
 * The long models divide their rotary frequencies by one of two sets of factors, chosen once by the context the model
 * is opened with, and multiply sine and cosine by rope.scaling.attn_factor (rope.c). Phi-4-mini turns three quarters of
 * a head. An attention.sliding_window in the file is ignored.
 *
 * Sources: Phi-3 technical report (arXiv 2404.14219), LongRoPE (arXiv 2402.13753).
 */
#include "model/decoder.h"
#include "model/families.h"

int af_phi3_build(af_binder *b) {
    af_decoder m;
    af_decoder_open(b, AF_NORM_RMS, &m);
    m.layer.ffn.shape = AF_FFN_FUSED;
    m.layer.attn.rope = af_bind_rope(b, &m.h, m.h.rope_base, false, true);
    return af_decoder_build(b, &m, af_decoder_pre_norm_layer);
}

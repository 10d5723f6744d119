/* glm4.c - GLM-4 0414, dense.
 *
 * Norms on each part's output too, biases on q, k and v, gate and up as rows of one tensor. Adjacent pairs turn, within
 * the first half of a head.
 *
 * Source: ChatGLM, a family of large language models (arXiv 2406.12793).
 */
#include "model/decoder.h"
#include "model/families.h"

static void layer(af_binder *b, af_decoder *m, uint32_t i) {
    const af_layer l = af_layer_sandwich(b, m, i);
    af_decoder_add_layer(b, m, i, &l);
}

int af_glm4_build(af_binder *b) {
    af_decoder m;
    af_decoder_open(b, AF_NORM_RMS, &m);
    m.layer.ffn.shape = AF_FFN_FUSED;
    m.layer.attn.rope = af_bind_rope(b, &m.h, m.h.rope_base, true, true);
    return af_decoder_build(b, &m, layer);
}

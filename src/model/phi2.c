/* phi2.c - Phi-1, 1.5 and 2.
 *
 * Attention and the feed-forward read one LayerNorm of the stream and both add to it. q, k and v are rows of one
 * tensor, every matrix has a bias, the head's too; the feed-forward is plain; part of each head turns, halves together.
 *
 * Source: Textbooks Are All You Need II (arXiv 2309.05463).
 */
#include "model/decoder.h"
#include "model/families.h"

static void layer(af_binder *b, af_decoder *m, uint32_t i) {
    const af_layer l = af_layer_parallel(b, m, i);
    af_decoder_add_layer(b, m, i, &l);
}

int af_phi2_build(af_binder *b) {
    af_decoder m;
    af_decoder_open(b, AF_NORM_LAYER, &m);
    m.layer.ffn.shape = AF_FFN_PLAIN;
    m.layer.ffn.act = AF_ACT_GELU;
    m.layer.attn.rope = af_bind_rope(b, &m.h, m.h.rope_base, false, true);
    return af_decoder_build(b, &m, layer);
}

/* falcon.c - Falcon 7B and 40B.
 *
 * Attention and the feed-forward read one LayerNorm of the stream and both add to it; with attn_norm_2 (40B) attention
 * has that one for itself. q, k and v are rows of one tensor; no matrix has a bias; the feed-forward is plain.
 *
 * Source: The Falcon series of open language models (arXiv 2311.16867). Trained with the erf form of GELU, run as
 * everywhere with the tanh form.
 */
#include "model/decoder.h"
#include "model/families.h"

static void layer(af_binder *b, af_decoder *m, uint32_t i) {
    af_layer l = af_layer_parallel(b, m, i);
    const af_norm own = af_bind_norm_if(b, &m->h, "blk.%u.attn_norm_2", i);
    if (own.kind != AF_NORM_NONE) {
        l.attn.in = m->x;
        l.attn.pre = own;
    }
    af_decoder_add_layer(b, m, i, &l);
}

int af_falcon_build(af_binder *b) {
    af_decoder m;
    af_decoder_open(b, AF_NORM_LAYER, &m);
    m.layer.ffn.shape = AF_FFN_PLAIN;
    m.layer.ffn.act = AF_ACT_GELU;
    m.layer.attn.rope = af_bind_rope(b, &m.h, m.h.rope_base, false, true);
    return af_decoder_build(b, &m, layer);
}

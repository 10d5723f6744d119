/* cohere2.c - Cohere's Command R7B and Command A.
 *
 * Command R with two kinds of layers: three of four turn and see only a window; the fourth sees everything before it
 * and does not turn. Nothing in the metadata says which layers those are.
 *
 * Source: Command A (arXiv 2504.00698).
 */
#include "model/decoder.h"
#include "model/families.h"

static void layer(af_binder *b, af_decoder *m, uint32_t i) {
    af_layer l = af_layer_parallel(b, m, i);
    if (i % m->period < m->period - 1)
        l.attn.window = m->h.window;
    else
        l.attn.rope = m->other_rope;
    af_decoder_add_layer(b, m, i, &l);
}

int af_cohere2_build(af_binder *b) {
    af_decoder m;
    af_decoder_open(b, AF_NORM_LAYER, &m);
    m.period = 4;
    m.logit_scale = af_bind_f32_or(b, "logit_scale", 1.0f);
    m.layer.attn.rope = af_bind_rope(b, &m.h, m.h.rope_base, true, true);
    m.other_rope = af_bind_no_rope(b);
    return af_decoder_build(b, &m, layer);
}

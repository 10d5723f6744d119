/* gemma2.c - Gemma 2.
 *
 * Gemma 1 with norms on each part's output too, scores capped after they are scaled, logits capped, and a window on
 * layers 0, 2, 4 ... Nothing in the metadata says which layers have it.
 *
 * Source: Gemma 2 (arXiv 2408.00118). The 27B model (46 layers) scales scores by the width a head would have if heads *
 * head_dim were the model's width.
 */
#include "model/decoder.h"
#include "model/families.h"

#include <math.h>

#define LAYERS_OF_27B 46

static void layer(af_binder *b, af_decoder *m, uint32_t i) {
    af_layer l = af_layer_sandwich(b, m, i);
    l.attn.window = i % 2 == 0 ? m->h.window : 0;
    af_decoder_add_layer(b, m, i, &l);
}

int af_gemma2_build(af_binder *b) {
    af_decoder m;
    af_decoder_open(b, AF_NORM_RMS, &m);
    const af_hparams *h = &m.h;
    m.embed_scale = sqrtf((float)h->width);
    m.logit_softcap = af_bind_f32_or(b, "final_logit_softcapping", 30.0f);
    m.layer.ffn.act = AF_ACT_GELU;
    m.layer.attn.softcap = af_bind_f32_or(b, "attn_logit_softcapping", 50.0f);
    m.layer.attn.rope = af_bind_rope(b, h, h->rope_base, false, true);
    if (h->layers == LAYERS_OF_27B) m.layer.attn.scale = 1.0f / sqrtf((float)h->width / (float)h->heads);
    return af_decoder_build(b, &m, layer);
}

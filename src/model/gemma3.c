/* gemma3.c - Gemma 3.
 *
 * What it does differently: norms on each part's output too (sandwich), RMSNorm on every head of q and k before the
 * rotation, embeddings times sqrt(width), GELU gate, tied head. Five layers of six see only a window and turn with a
 * base of their own and no scaling; every sixth sees everything, with rope.freq_base and the file's linear factor. "1 +
 * weight" of the original norms is already in the file.
 *
 * Source: Gemma 3 technical report (arXiv 2503.19786). The 27B model (62 layers) scales scores by the width a head
 * would have if heads * head_dim were the model's width.
 */
#include "model/decoder.h"
#include "model/families.h"

#include <math.h>

#define LAYERS_OF_27B 62

static void layer(af_binder *b, af_decoder *m, uint32_t i) {
    af_layer l = af_layer_sandwich(b, m, i);
    l.attn.q_norm = af_bind_rms(b, m->h.k_dim, m->h.eps, "blk.%u.attn_q_norm.weight", i);
    l.attn.k_norm = af_bind_rms(b, m->h.k_dim, m->h.eps, "blk.%u.attn_k_norm.weight", i);
    if (m->h.window > 0 && i % m->period < m->period - 1) {
        l.attn.window = m->h.window;
        l.attn.rope = m->other_rope;
    }
    af_decoder_add_layer(b, m, i, &l);
}

int af_gemma3_build(af_binder *b) {
    af_decoder m;
    af_decoder_open(b, AF_NORM_RMS, &m);
    const af_hparams *h = &m.h;
    m.period = af_bind_u32_or(b, "attention.sliding_window_pattern", 6, 1, 4096);
    m.embed_scale = sqrtf((float)h->width);
    m.logit_softcap = af_bind_f32_or(b, "final_logit_softcapping", 0.0f);
    m.layer.ffn.act = AF_ACT_GELU;
    m.layer.attn.rope = af_bind_rope(b, h, h->rope_base, false, true);
    m.other_rope = af_bind_rope(b, h, af_bind_f32_or(b, "rope.freq_base_swa", 10000.0f), false, false);
    if (h->layers == LAYERS_OF_27B) m.layer.attn.scale = 1.0f / sqrtf((float)h->width / (float)h->heads);
    return af_decoder_build(b, &m, layer);
}

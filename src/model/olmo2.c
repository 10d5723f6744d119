/* olmo2.c - OLMo 2 and OLMo 3, which files store as one architecture.
 *
 * Norms stand only on what attention and the feed-forward give; their inputs are the stream as it is. q and k are
 * normed whole, before heads are split. OLMo 3 (a file with a window) has the window, and no rope scaling, on three
 * layers of four; every fourth sees everything before it and turns as the file's YaRN says.
 *
 * Sources: 2 OLMo 2 Furious (arXiv 2501.00656), Olmo 3 (Ai2, 2025).
 */
#include "model/decoder.h"
#include "model/families.h"

static void layer(af_binder *b, af_decoder *m, uint32_t i) {
    const af_hparams *h = &m->h;
    af_layer l = af_layer_post_norm(b, m, i);
    l.attn.q_row = af_bind_rms(b, h->heads * h->k_dim, h->eps, "blk.%u.attn_q_norm.weight", i);
    l.attn.k_row = af_bind_rms(b, h->kv_heads * h->k_dim, h->eps, "blk.%u.attn_k_norm.weight", i);
    if (m->period && i % m->period < m->period - 1) {
        l.attn.window = h->window;
        l.attn.rope = m->other_rope;
    }
    af_decoder_add_layer(b, m, i, &l);
}

int af_olmo2_build(af_binder *b) {
    af_decoder m;
    af_decoder_open(b, AF_NORM_RMS, &m);
    m.layer.attn.rope = af_bind_rope(b, &m.h, m.h.rope_base, false, true);
    if (m.h.window > 0) {
        m.period = 4;
        m.other_rope = af_bind_rope(b, &m.h, m.h.rope_base, false, false);
    }
    return af_decoder_build(b, &m, layer);
}

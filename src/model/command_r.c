/* command_r.c - Cohere's Command R.
 *
 * Attention and the feed-forward read one LayerNorm of the stream, which has weights only, and both add to it. Adjacent
 * pairs turn. Logits are multiplied by logit_scale; the head is tied. The 64-layer model also norms each head of q and
 * k with weights of its own.
 *
 * Source: Command R model cards (Cohere, 2024).
 */
#include "model/decoder.h"
#include "model/families.h"

static void layer(af_binder *b, af_decoder *m, uint32_t i) {
    af_layer l = af_layer_parallel(b, m, i);
    l.attn.q_norm = af_bind_heads_norm_if(b, &m->h, m->h.heads, "blk.%u.attn_q_norm.weight", i);
    l.attn.k_norm = af_bind_heads_norm_if(b, &m->h, m->h.kv_heads, "blk.%u.attn_k_norm.weight", i);
    af_decoder_add_layer(b, m, i, &l);
}

int af_command_r_build(af_binder *b) {
    af_decoder m;
    af_decoder_open(b, AF_NORM_LAYER, &m);
    m.logit_scale = af_bind_f32_or(b, "logit_scale", 1.0f);
    m.layer.attn.rope = af_bind_rope(b, &m.h, m.h.rope_base, true, true);
    return af_decoder_build(b, &m, layer);
}

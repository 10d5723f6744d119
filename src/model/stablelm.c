/* stablelm.c - StableLM 2 and StableLM 3B.
 *
 * LayerNorms, a SiLU gate, a quarter of each head turning. A layer without ffn_norm is parallel: both parts read
 * attn_norm's result (use_parallel_residual in the metadata is not what decides). The 12B model norms each head of q
 * and k with weights of its own.
 *
 * Source: Stable LM 2 1.6B technical report (arXiv 2402.17834).
 */
#include "model/decoder.h"
#include "model/families.h"

static void layer(af_binder *b, af_decoder *m, uint32_t i) {
    const bool parallel = af_bind_norm_if(b, &m->h, "blk.%u.ffn_norm", i).kind == AF_NORM_NONE;
    af_layer l = parallel ? af_layer_parallel(b, m, i) : af_layer_pre_norm(b, m, i);
    l.attn.q_norm = af_bind_heads_norm_if(b, &m->h, m->h.heads, "blk.%u.attn_q_norm.weight", i);
    l.attn.k_norm = af_bind_heads_norm_if(b, &m->h, m->h.kv_heads, "blk.%u.attn_k_norm.weight", i);
    af_decoder_add_layer(b, m, i, &l);
}

int af_stablelm_build(af_binder *b) {
    af_decoder m;
    af_decoder_open(b, AF_NORM_LAYER, &m);
    m.layer.attn.rope = af_bind_rope(b, &m.h, m.h.rope_base, false, true);
    return af_decoder_build(b, &m, layer);
}

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
#include "model/families.h"

#include "model/binder.h"

#include <math.h>

#define LAYERS_OF_27B 62

typedef struct gemma3 {
    af_hparams h;
    af_dense d;
    uint32_t pattern; /* every pattern-th layer sees everything */
    float score_scale;
    uint16_t rope_full, rope_window;
} gemma3;

static void layer(af_binder *b, const gemma3 *m, uint32_t i) {
    const af_hparams *h = &m->h;
    const af_dense *d = &m->d;
    const bool windowed = h->window > 0 && m->pattern > 0 && i % m->pattern < m->pattern - 1;
    const uint16_t cache = af_bind_cache(b, windowed ? h->window : 0, h);
    const af_norm attn_norm = af_bind_rms(b, h->width, h->eps, "blk.%u.attn_norm.weight", i);
    const af_norm attn_post = af_bind_rms(b, h->width, h->eps, "blk.%u.post_attention_norm.weight", i);
    const af_norm ffn_norm = af_bind_rms(b, h->width, h->eps, "blk.%u.ffn_norm.weight", i);
    const af_norm ffn_post = af_bind_rms(b, h->width, h->eps, "blk.%u.post_ffw_norm.weight", i);

    af_bind_qkv(b, h, d, i, &attn_norm);
    af_bind_op(b, (int32_t)i, "attn_rope",
               (af_op){.kind = AF_OP_ROPE_STORE,
                       .u.rope_store = {.q = d->q,
                                        .k = d->k,
                                        .v = d->v,
                                        .heads = (uint16_t)h->heads,
                                        .cache = cache,
                                        .rope = windowed ? m->rope_window : m->rope_full,
                                        .q_norm = af_bind_rms(b, h->k_dim, h->eps, "blk.%u.attn_q_norm.weight", i),
                                        .k_norm = af_bind_rms(b, h->k_dim, h->eps, "blk.%u.attn_k_norm.weight", i)}});
    af_bind_op(
        b, (int32_t)i, "attn",
        (af_op){
            .kind = AF_OP_ATTEND,
            .u.attend = {
                .q = d->q, .out = d->attended, .heads = (uint16_t)h->heads, .cache = cache, .scale = m->score_scale}});
    af_bind_attn_out(b, h, d, i, &attn_post);
    af_bind_gated_ffn(b, h, d, i, &ffn_norm, AF_ACT_GELU, &ffn_post);
}

int af_gemma3_build(af_binder *b) {
    gemma3 m;
    af_hparams *h = &m.h;
    af_bind_hparams(b, AF_NORM_RMS, h);
    m.pattern = af_bind_u32_or(b, "attention.sliding_window_pattern", 6, 1, 4096);
    if (b->status != AF_OK) return b->status;

    m.score_scale = 1.0f / sqrtf(h->layers == LAYERS_OF_27B ? (float)h->width / (float)h->heads : (float)h->k_dim);
    af_bind_dense(b, h, &m.d);
    const float window_base = af_bind_f32_or(b, "rope.freq_base_swa", 10000.0f);
    const af_rope full = af_bind_rope_spec(b, h, h->rope_base, false, true);
    const af_rope windowed = af_bind_rope_spec(b, h, window_base, false, false);
    m.rope_full = af_bind_rope(b, &full);
    m.rope_window = af_bind_rope(b, &windowed);
    af_bind_embed(b, h, sqrtf((float)h->width), m.d.x);
    for (uint32_t i = 0; i < h->layers && b->status == AF_OK; i++) layer(b, &m, i);
    const af_norm output_norm = af_bind_rms(b, h->width, h->eps, "output_norm.weight");
    af_bind_head(b, h, &output_norm, m.d.x, 1.0f, af_bind_f32_or(b, "final_logit_softcapping", 0.0f));
    return b->status;
}

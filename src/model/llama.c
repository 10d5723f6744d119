/* llama.c - Llama 1 to 3.3 and the models stored as such: Mistral, Yi, TinyLlama, SmolLM2.
 *
 * Pre-norm decoder: RMSNorm, grouped-query attention over everything before, RMSNorm, SiLU-gated feed-forward. Rotation
 * turns adjacent pairs, because the converter has reordered the rows of q and k for it. Biases are taken where the file
 * has them. Llama 3 divides the rotary frequencies by rope_freqs.weight. An attention.sliding_window in the file is
 * ignored, as the models were published to run without one.
 *
 * Sources: LLaMA (arXiv 2302.13971), Llama 3 (arXiv 2407.21783). Experts (Mixtral) are not in this file.
 */
#include "model/families.h"

#include "model/binder.h"

#include <math.h>

static void layer(af_binder *b, const af_hparams *h, const af_dense *d, uint16_t rope, uint32_t i) {
    const af_norm none = {0};
    const af_norm attn_norm = af_bind_rms(b, h->width, h->eps, "blk.%u.attn_norm.weight", i);
    const af_norm ffn_norm = af_bind_rms(b, h->width, h->eps, "blk.%u.ffn_norm.weight", i);
    const uint16_t cache = af_bind_cache(b, 0, h);
    af_bind_qkv(b, h, d, i, &attn_norm);
    af_bind_op(
        b, (int32_t)i, "attn_rope",
        (af_op){.kind = AF_OP_ROPE_STORE,
                .u.rope_store = {
                    .q = d->q, .k = d->k, .v = d->v, .heads = (uint16_t)h->heads, .cache = cache, .rope = rope}});
    af_bind_op(b, (int32_t)i, "attn",
               (af_op){.kind = AF_OP_ATTEND,
                       .u.attend = {.q = d->q,
                                    .out = d->attended,
                                    .heads = (uint16_t)h->heads,
                                    .cache = cache,
                                    .scale = 1.0f / sqrtf((float)h->k_dim)}});
    af_bind_attn_out(b, h, d, i, &none);
    af_bind_gated_ffn(b, h, d, i, &ffn_norm, AF_ACT_SILU, &none);
}

int af_llama_build(af_binder *b) {
    af_hparams h;
    af_bind_hparams(b, AF_NORM_RMS, &h);
    if (af_bind_u32_or(b, "expert_count", 0, 0, UINT32_MAX) > 0)
        af_bind_fail(b, AF_EUNSUPPORTED, "llama.expert_count: found a model of experts, this build runs dense ones");
    if (b->status != AF_OK) return b->status;

    af_dense d;
    af_bind_dense(b, &h, &d);
    const af_rope spec = af_bind_rope_spec(b, &h, h.rope_base, true, true);
    const uint16_t rope = af_bind_rope(b, &spec);
    af_bind_embed(b, &h, 1.0f, d.x);
    for (uint32_t i = 0; i < h.layers && b->status == AF_OK; i++) layer(b, &h, &d, rope, i);
    const af_norm output_norm = af_bind_rms(b, h.width, h.eps, "output_norm.weight");
    af_bind_head(b, &h, &output_norm, d.x, 1.0f, 0.0f);
    return b->status;
}

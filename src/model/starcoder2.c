/* starcoder2.c - StarCoder2.
 *
 * Pre-norm with LayerNorms, biases on every matrix, and a plain feed-forward: down(gelu(up x)). Halves turn together.
 * An attention.sliding_window in the file is ignored.
 *
 * Source: StarCoder 2 and The Stack v2 (arXiv 2402.19173).
 */
#include "model/decoder.h"
#include "model/families.h"

int af_starcoder2_build(af_binder *b) {
    af_decoder m;
    af_decoder_open(b, AF_NORM_LAYER, &m);
    m.layer.ffn.shape = AF_FFN_PLAIN;
    m.layer.ffn.act = AF_ACT_GELU;
    m.layer.attn.rope = af_bind_rope(b, &m.h, m.h.rope_base, false, true);
    return af_decoder_build(b, &m, af_decoder_pre_norm_layer);
}

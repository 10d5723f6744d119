/* gpt2.c - GPT-2.
 *
 * Pre-norm with LayerNorms, biases on every matrix, q, k and v as rows of one tensor, a plain feed-forward, a tied
 * head. Nothing turns: a learned vector for each position is added to the embedding, so that the context ends where the
 * table does.
 *
 * Source: Language Models are Unsupervised Multitask Learners (OpenAI, 2019).
 */
#include "model/decoder.h"
#include "model/families.h"

int af_gpt2_build(af_binder *b) {
    af_decoder m;
    af_decoder_open(b, AF_NORM_LAYER, &m);
    m.positions = af_bind_positions(b, &m.h);
    m.position_count = m.h.context;
    m.layer.ffn.shape = AF_FFN_PLAIN;
    m.layer.ffn.act = AF_ACT_GELU;
    m.layer.attn.rope = af_bind_no_rope(b);
    return af_decoder_build(b, &m, af_decoder_pre_norm_layer);
}

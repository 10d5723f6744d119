/* nomic_bert.c - Nomic Embed.
 *
 * An encoder (encoder.h) that turns halves of its heads instead of adding positions, with q, k and v as rows of one
 * tensor, no biases on its matrices and a SiLU gate.
 *
 * Source: Nomic Embed: Training a Reproducible Long Context Text Embedder (arXiv 2402.01613). Its texts begin with the
 * name of a task, "search_query: " or "search_document: ", which the caller writes.
 */
#include "model/encoder.h"
#include "model/families.h"

int af_nomic_bert_build(af_binder *b) {
    af_decoder m;
    af_encoder_open(b, &m);
    m.layer.attn.rope = af_bind_rope(b, &m.h, m.h.rope_base, false, true);
    return af_encoder_build(b, &m, NULL);
}

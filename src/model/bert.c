/* bert.c - BERT, and the many embedding models made of it (MiniLM, BGE, E5, GTE; XLM-RoBERTa's too, whose files shift
 * the table of positions themselves).
 *
 * An encoder (encoder.h) with a learned vector for each position, so that the context ends where the table does, biases
 * on every matrix and a plain GELU feed-forward. Its tokenizer is WordPiece, or XLM-RoBERTa's Unigram.
 *
 * Source: arXiv 1810.04805. The original's GELU is the erf form; the tanh form differs by less than 0.0005.
 */
#include "model/encoder.h"
#include "model/families.h"

int af_bert_build(af_binder *b) {
    af_decoder m;
    af_encoder_open(b, &m);
    m.layer.ffn.shape = AF_FFN_PLAIN;
    m.layer.ffn.act = AF_ACT_GELU;
    m.layer.attn.rope = af_bind_no_rope(b);
    return af_encoder_build(b, &m, af_bind_positions(b, &m.h));
}

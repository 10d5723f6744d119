/* encoder.h - the frame that BERT and its kin share: every token sees all of the text, norms stand after each sum, and
 * what comes out are states to pool, no logits. Built on the decoder's frame, of which it is a setting. */
#ifndef AF_ENCODER_H
#define AF_ENCODER_H

#include "model/decoder.h"

/* As af_decoder_open, with layer norms and attention both ways. The family sets what its layers do differently. */
void af_encoder_open(af_binder *b, af_decoder *out);

/* x = norm(token + type 0 (+ position)); every layer: x = norm(x + attention(x)), x = norm(x + ffn(x)); states.
 * `positions`: (context, width), or NULL. Returns the binder's status. */
int af_encoder_build(af_binder *b, af_decoder *m, const float *positions);

#endif

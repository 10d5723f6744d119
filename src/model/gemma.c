/* gemma.c - Gemma 1.
 *
 * Llama's layer with halves turning together, a GELU gate, heads whose widths together are not the model's, embeddings
 * times sqrt(width) and a tied head. "1 + weight" of the original norms is already in the file.
 *
 * Source: Gemma (arXiv 2403.08295).
 */
#include "model/decoder.h"
#include "model/families.h"

#include <math.h>

int af_gemma_build(af_binder *b) {
    af_decoder m;
    af_decoder_open(b, AF_NORM_RMS, &m);
    m.embed_scale = sqrtf((float)m.h.width);
    m.layer.ffn.act = AF_ACT_GELU;
    m.layer.attn.rope = af_bind_rope(b, &m.h, m.h.rope_base, false, true);
    return af_decoder_build(b, &m, af_decoder_pre_norm_layer);
}

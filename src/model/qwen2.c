/* qwen2.c - Qwen 2 and 2.5, dense.
 *
 * Llama's layer with halves of a head turning together and biases on q, k and v (none on the output). The small models
 * have a tied head. An attention.sliding_window in the file is ignored, as the models are run without one.
 *
 * Sources: Qwen2 technical report (arXiv 2407.10671), Qwen2.5 (arXiv 2412.15115).
 */
#include "model/decoder.h"
#include "model/families.h"

int af_qwen2_build(af_binder *b) {
    af_decoder m;
    af_decoder_open(b, AF_NORM_RMS, &m);
    m.layer.attn.rope = af_bind_rope(b, &m.h, m.h.rope_base, false, true);
    return af_decoder_build(b, &m, af_decoder_pre_norm_layer);
}

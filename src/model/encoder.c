/* encoder.c - the frame of encoders as operations of the plan.
 *
 * Source: BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding (arXiv 1810.04805). A text
 * is always the first of the two segments that BERT was trained with, so its row of token_types is the same for all
 * tokens: it goes into the rows that EMBED adds.
 */
#include "model/encoder.h"

#include <string.h>

void af_encoder_open(af_binder *b, af_decoder *out) {
    af_decoder_open(b, AF_NORM_LAYER, out);
    out->layer.attn.both = true;
}

/* Row 0 of token_types, [width, types]; NULL where the file has none. */
static const float *bind_type(af_binder *b, const af_hparams *h) {
    const af_tensor *types = af_gguf_tensor(b->file, "token_types.weight");
    if (!types || b->status != AF_OK) return NULL;
    if (types->n_dims > 2 || types->dims[0] != h->width || types->elements > UINT32_MAX) {
        af_bind_fail(b, AF_EFORMAT, "tensor token_types.weight: found rows of %llu, expected %u",
                     (unsigned long long)types->dims[0], h->width);
        return NULL;
    }
    return af_bind_vector(b, (uint32_t)types->elements, "token_types.weight");
}

/* What EMBED adds: positions, each with the type's row, or that row alone for all. */
static void bind_added(af_binder *b, af_decoder *m, const float *positions) {
    const float *type = bind_type(b, &m->h);
    m->positions = positions ? positions : type;
    m->position_count = positions ? m->h.context : type ? 1 : 0;
    if (!positions || !type || b->status != AF_OK) return;
    const size_t width = m->h.width, elements = m->h.context * width;
    float *sum = af_arena_array(b->plan->arena, elements, sizeof *sum);
    if (!sum) {
        b->status = af_fail_memory(b->error, elements * sizeof *sum, "position_embd.weight");
        return;
    }
    for (size_t i = 0; i < elements; i++) sum[i] = positions[i] + type[i % width];
    m->positions = sum;
}

static void layer(af_binder *b, af_decoder *m, uint32_t i) {
    af_layer l = m->layer;
    l.attn.after = af_bind_norm(b, &m->h, "blk.%u.attn_output_norm", i);
    l.ffn.after = af_bind_norm(b, &m->h, "blk.%u.layer_output_norm", i);
    af_decoder_add_layer(b, m, i, &l);
}

int af_encoder_build(af_binder *b, af_decoder *m, const float *positions) {
    bind_added(b, m, positions);
    af_decoder_embed(b, m);
    const af_norm norm = af_bind_norm(b, &m->h, "token_embd_norm");
    af_decoder_norm_stream(b, m, -1, "token_embd_norm", &norm);
    for (uint32_t i = 0; i < m->h.layers && b->status == AF_OK; i++) layer(b, m, i);
    af_bind_state(b, &(af_norm){0}, m->x, AF_POOLING_MEAN);
    if (b->plan->pooling == AF_POOLING_NONE)
        af_bind_fail(b, AF_EUNSUPPORTED,
                     "%.*s.pooling_type: found 4, a model that ranks pairs of texts; run are those "
                     "that give embeddings",
                     (int)b->arch.n, b->arch.p);
    return b->status;
}

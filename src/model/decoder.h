/* decoder.h - the frame that decoders share: embeddings, layers of attention and feed-forward that add to a
 * residual stream, a head.
 *
 * A family opens a decoder, which reads the hyperparameters every file has and sets what most models do; changes what
 * its own do differently; and gives a function that describes one layer. That function starts from one of the four
 * placements of norms below, changes what is special about the layer, and adds it. Failure is the binder's: sticky.
 */
#ifndef AF_DECODER_H
#define AF_DECODER_H

#include "model/binder.h"

/* q, k, v = W pre(in); head norms, rotation; attention; x += share * post(W attended). attn_q, attn_k and attn_v are
 * taken as one tensor's rows where the file has attn_qkv. */
typedef struct af_attention {
    af_value in; /* what the parts of a layer share; AF_NO_VALUE: the stream */
    af_norm pre, post;
    af_norm after;          /* of the stream, once this was added to it */
    af_norm q_norm, k_norm; /* of heads */
    af_norm q_row, k_row;   /* of all heads together, before they are split */
    uint16_t rope;
    uint32_t window;      /* 0: everything */
    float scale, softcap; /* of scores */
    const float *sinks;   /* (heads), or NULL */
    float q_growth;       /* plan.h, af_op_rope_store */
    uint32_t q_span;
    bool gated; /* attn_q has after each head's rows as many of a gate: what was attended is times its sigmoid */
    bool both;  /* ways: plan.h, af_op_attend */
    float share;
} af_attention;

/* x += share * post(down h) with h = act(gate pre(in)) * up pre(in), or act(up pre(in)). */
typedef enum af_ffn_shape {
    AF_FFN_GATED,
    AF_FFN_FUSED, /* ffn_up holds the gate's rows, then up's */
    AF_FFN_PLAIN,
    AF_FFN_EXPERTS /* as `mix` says */
} af_ffn_shape;

/* Experts, of which each token takes a few, and the expert that all share: plan.h, af_op_route and af_op_experts. */
typedef struct af_mixture {
    uint32_t experts, used, ff; /* ff: the width of each */
    af_score score;
    af_weigh weigh;
    float scale; /* of the weights */
    uint32_t groups, groups_used;
    uint32_t shared_ff; /* width of the shared expert, 0: none */
    bool shared_gate;   /* times sigmoid(ffn_gate_inp_shexp x) */
} af_mixture;
typedef struct af_ffn {
    af_value in;
    af_norm pre, post, after;
    af_ffn_shape shape;
    af_act act;
    float share;
    af_mixture mix;
} af_ffn;

typedef struct af_layer {
    af_attention attn;
    af_ffn ffn;
} af_layer;

typedef struct af_decoder {
    af_hparams h;
    af_value x, q, k, v, attended, hidden; /* values that layers reuse; x is the stream */
    af_value other;                        /* where x is after its next norm; AF_NO_VALUE until one is asked for */
    af_value shared;                       /* of parallel layers: norm(x); AF_NO_VALUE until a layer needs it */
    af_value ids, weights;                 /* of experts; AF_NO_VALUE likewise */
    af_value shared_hidden, shared_id, shared_weight; /* of the shared expert; AF_NO_VALUE likewise */
    af_value q_whole, k_whole;                        /* of rows normed whole: q and k before; AF_NO_VALUE likewise */
    af_layer layer;                                   /* what all layers start from */
    uint32_t period;                                  /* of layers that are set apart; 0: there are none */
    uint16_t other_rope;                              /* theirs */
    float embed_scale, logit_scale, logit_softcap;
    const float *positions; /* plan.h, af_op_embed */
    uint32_t position_count;
} af_decoder;

/* Hyperparameters, values, and: the stream in and out, scores times 1 / sqrt(head), SiLU gate, nothing scaled. The
 * family sets layer.attn.rope. */
void af_decoder_open(af_binder *b, af_norm_kind norm, af_decoder *out);
/* The two halves of it, for families that change sizes in between: all but the values, and those. */
void af_decoder_begin(af_binder *b, af_norm_kind norm, af_decoder *out);
void af_decoder_open_values(af_binder *b, af_decoder *m);

/* Layer i as m->layer says, with its norms where the family has them. */
af_layer af_layer_pre_norm(af_binder *b, const af_decoder *m, uint32_t i);  /* attn_norm, ffn_norm */
af_layer af_layer_sandwich(af_binder *b, const af_decoder *m, uint32_t i);  /* and post_attention_norm, post_ffw_norm */
af_layer af_layer_post_norm(af_binder *b, const af_decoder *m, uint32_t i); /* only those two */
/* attn_norm's result is read by both parts. Appends that norm. */
af_layer af_layer_parallel(af_binder *b, af_decoder *m, uint32_t i);

/* One part of a layer, for families whose layers are not all of both. */
void af_decoder_add_attention(af_binder *b, af_decoder *m, uint32_t i, const af_attention *a);
void af_decoder_add_ffn(af_binder *b, af_decoder *m, uint32_t i, const af_ffn *f);
void af_decoder_add_layer(af_binder *b, af_decoder *m, uint32_t i, const af_layer *layer);
void af_decoder_pre_norm_layer(af_binder *b, af_decoder *m, uint32_t i); /* a layer with nothing special */

/* The embeddings, into the stream. */
void af_decoder_embed(af_binder *b, af_decoder *m);
/* x = norm(x), by changing places with another value. */
void af_decoder_norm_stream(af_binder *b, af_decoder *m, int32_t layer, const char *name, const af_norm *norm);
/* expert_count and what goes with it in the metadata; the family's own (score, weigh, shared) are not read. */
af_mixture af_bind_mixture(af_binder *b, const af_hparams *h);

/* ---- For the files that make up a decoder ---- */

/* A matrix "blk.LAYER.NAME.weight" and its bias, if there is one. */
af_part af_decoder_part(af_binder *b, uint32_t layer, const char *name, uint32_t rows, uint32_t cols, af_value out);
/* Makes a value of the width that this part of a layer needs, unless another layer has. */
void af_decoder_need(af_binder *b, af_value *value, uint32_t width);
/* NAME's norm of `in` as an operation. */
void af_decoder_norm(af_binder *b, int32_t layer, const char *name, const af_norm *norm, af_value in, af_value out);
/* hidden = act(gate pre(in)) * up pre(in), by tensor names. */
void af_decoder_gated(af_binder *b, const af_decoder *m, uint32_t layer, const char *gate, const char *up,
                      const af_ffn *f, uint32_t ff, af_value hidden);
/* x += share * post(W in) */
void af_decoder_add_to_stream(af_binder *b, const af_decoder *m, uint32_t layer, const char *name, af_value in,
                              uint32_t cols, const af_norm *post, float share);
/* experts.c: the feed-forward of a layer of experts. */
void af_decoder_experts(af_binder *b, af_decoder *m, uint32_t layer, const af_ffn *f);

/* Embeddings, every layer, output_norm and head. Returns the binder's status. */
int af_decoder_build(af_binder *b, af_decoder *m, void (*add)(af_binder *b, af_decoder *m, uint32_t i));

#endif

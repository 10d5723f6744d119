/* binder.h - what families share while they turn a file into a plan: hyperparameters with defaults and bounds, tensors
 * with their shapes checked, small tensors as f32 in the plan's arena.
 *
 * Failure is sticky: the first thing missing or misshapen is kept in the binder's error and every later call gives
 * harmless values, so that a family reads like a description of its model and checks once a layer.
 */
#ifndef AF_BINDER_H
#define AF_BINDER_H

#include "model/model.h"

typedef struct af_binder {
    const af_gguf *file;
    af_plan *plan;
    af_slice arch; /* prefix of the metadata keys */
    uint32_t ctx;  /* the context the caller will use; 0: native */
    int status;    /* AF_OK until something failed */
    af_error *error;
} af_binder;

/* The hyperparameters nearly every family has, under the architecture's name. */
typedef struct af_hparams {
    uint32_t layers, width, ff, heads, kv_heads, k_dim, v_dim, vocabulary, context, rotated;
    uint32_t window;   /* attention.sliding_window, 0 if none */
    af_norm_kind norm; /* of the stream; heads have theirs */
    float eps;         /* of RMS or layer norms, whichever the family uses */
    float rope_base;
    float yarn_fast, yarn_slow; /* turns over the original context where YaRN's ramp begins and ends */
} af_hparams;

/* Metadata "ARCH.key". Required ones fail with the key's name; all check the bounds and name found and allowed. */
uint32_t af_bind_u32(af_binder *b, const char *key, uint32_t low, uint32_t high);
uint32_t af_bind_u32_or(af_binder *b, const char *key, uint32_t fallback, uint32_t low, uint32_t high);
float af_bind_f32_or(af_binder *b, const char *key, float fallback);
bool af_bind_bool_or(af_binder *b, const char *key, bool fallback);
bool af_bind_has(const af_binder *b, const char *key);
bool af_bind_is(const af_binder *b, const char *key, const char *text); /* a string, and this one */

/* Reads af_hparams; norm says which epsilon key applies. */
void af_bind_hparams(af_binder *b, af_norm_kind norm, af_hparams *out);

/* A matrix [cols, rows] by printf-ed name; required, or data NULL where absent. */
af_matrix af_bind_matrix(af_binder *b, uint32_t rows, uint32_t cols, const char *format, ...) AF_PRINTF(4, 5);
af_matrix af_bind_matrix_if(af_binder *b, uint32_t rows, uint32_t cols, const char *format, ...) AF_PRINTF(4, 5);
/* A stack [cols, rows, experts] of experts' matrices. */
af_stack af_bind_stack(af_binder *b, uint32_t experts, uint32_t rows, uint32_t cols, const char *format, ...)
    AF_PRINTF(5, 6);
af_stack af_bind_stack_if(af_binder *b, uint32_t experts, uint32_t rows, uint32_t cols, const char *format, ...)
    AF_PRINTF(5, 6);
/* A vector of n elements as f32 (in the file's memory if it is F32, else decoded into the arena); NULL where absent. */
const float *af_bind_vector(af_binder *b, uint32_t n, const char *format, ...) AF_PRINTF(3, 4);
const float *af_bind_vector_if(af_binder *b, uint32_t n, const char *format, ...) AF_PRINTF(3, 4);
/* Taps of a convolution, [taps, channels] in the file, as (taps, channels). */
const float *af_bind_taps(af_binder *b, uint32_t taps, uint32_t channels, const char *format, ...) AF_PRINTF(4, 5);
/* RMS norm over `width` elements. */
af_norm af_bind_rms(af_binder *b, uint32_t width, float eps, const char *format, ...) AF_PRINTF(4, 5);
/* Norm of the stream, "NAME.weight" and, of layer norms, "NAME.bias" where the file has it. The _if form gives kind
 * NONE where there is no weight. */
af_norm af_bind_norm(af_binder *b, const af_hparams *h, const char *format, ...) AF_PRINTF(3, 4);
af_norm af_bind_norm_if(af_binder *b, const af_hparams *h, const char *format, ...) AF_PRINTF(3, 4);
/* Norm of each of `heads` with a row of weights of its own, "NAME.weight" [k_dim, heads]; kind NONE where absent. */
af_norm af_bind_heads_norm_if(af_binder *b, const af_hparams *h, uint32_t heads, const char *format, ...)
    AF_PRINTF(4, 5);

/* Plan builders with the same sticky failure. */
af_value af_bind_value(af_binder *b, uint32_t width);
uint16_t af_bind_no_rope(af_binder *b); /* heads pass unchanged */
uint16_t af_bind_cache(af_binder *b, uint32_t window, const af_hparams *h);
uint16_t af_bind_shared_cache(af_binder *b, uint32_t window, uint32_t k_dim, uint32_t v_dim);
uint16_t af_bind_carry(af_binder *b, uint64_t floats);
void af_bind_op(af_binder *b, int32_t layer, const char *name, af_op op);
void af_bind_fail(af_binder *b, int code, const char *format, ...) AF_PRINTF(3, 4);

/* ---- parts.c: the two ends of a model ---- */

/* Learned positions (context, width). A context that goes past them is refused. */
const float *af_bind_positions(af_binder *b, const af_hparams *h);
/* token_embd; `positions` and their number as plan.h's af_op_embed has them. */
void af_bind_embed(af_binder *b, const af_hparams *h, float scale, const float *positions, uint32_t position_count,
                   af_value x);
/* The states of x, and how they are pooled: pooling_type, else `fallback`. */
void af_bind_state(af_binder *b, const af_norm *norm, af_value x, af_pooling fallback);
/* output (or token_embd where absent), its bias where there is one; and before it the states that it reads, pooled by
 * the last token where the file does not say. */
void af_bind_head(af_binder *b, const af_hparams *h, const af_norm *norm, af_value x, float scale, float softcap);

/* ---- rope.c ---- */

/* The rotation the metadata asks for: base, rope.scaling.* (none, linear, yarn, longrope), llama3's rope_freqs.weight,
 * Phi's factors, and the context: past the native one, YaRN where the file has no scaling of its own. `adjacent` is the
 * family's. `scaled` false leaves rope.scaling out (gemma3's window layers). Sources: each formula names its paper in
 * rope.c. */
uint16_t af_bind_rope(af_binder *b, const af_hparams *h, float base, bool adjacent, bool scaled);

#endif

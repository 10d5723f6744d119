/* backend_test.h - small models made by hand, and their forward pass in double, for backend_test.c. */
#ifndef BACKEND_TEST_H
#define BACKEND_TEST_H

#include "airframe.h"
#include "plan/plan.h"

typedef struct shape {
    const char *name;
    uint32_t width, heads, kv_heads, k_dim, v_dim, hidden, vocabulary, layers;
    uint32_t window; /* of every second layer; 0: none */
    uint32_t rotated;
    bool adjacent, layer_norm, head_norms, post_norms, biases, sinks, tied, plain_act;
    bool recurrent; /* every second layer, from the first on; the others' attention has a gate */
    bool quantized; /* Q8_0 matrices in a mapped file, for the kernels that round activations; else f32 */
    af_act act;
    float softcap, head_softcap, embed_scale, residual_scale, head_scale, magnitude;
} shape;

#define SHAPES 6
extern const shape *const shapes[SHAPES]; /* the first is llama_like */
extern const shape llama_like;

/* A plan with random weights, the same for every call with the same shape. */
af_plan *make_plan(const shape *s);

/* Numbers in -1 .. 1 and ids, from a seed. */
void random_seed(uint32_t seed);
float random_float(void);

/* Logits of every position, (count, vocabulary), freed by the caller. kv: how stored keys and values are rounded. */
double *reference_logits(const af_plan *plan, const int32_t *ids, uint32_t count, af_kv_type kv);

/* ---- Parts of both, for backend_test_recur.c ---- */

float *random_floats(af_plan *plan, size_t n, float center, float spread);
af_norm random_norm(af_plan *plan, const shape *s, uint32_t width);
af_part random_part(af_plan *plan, const shape *s, uint32_t rows, uint32_t cols, af_value out);
af_value new_value(af_plan *plan, uint32_t width);
void append_op(af_plan *plan, const af_op *op);
/* A gated delta net that reads x; returns what a product with the stream is to read. */
af_value append_recurrence(af_plan *plan, const shape *s, af_value x);

typedef struct forward {
    const af_plan *plan;
    const int32_t *ids;
    uint32_t count;
    af_kv_type kv;
    double **values; /* each (count, width) */
    double **k, **v; /* of each cache: (count, kv_heads * dim) */
    double *logits;  /* (count, vocabulary) */
} forward;

double *doubles(size_t n);
double *ref_row_of(const forward *f, af_value value, uint32_t t);
void ref_norm(const af_norm *norm, size_t head, double *v);
double ref_act(af_act act, double v);
void ref_conv(const forward *f, const af_op_conv *c);
void ref_delta(const forward *f, const af_op_delta *d);
void ref_gate(const forward *f, const af_op_gate *g);

#endif

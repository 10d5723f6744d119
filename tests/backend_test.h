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
    bool quantized; /* Q8_0 matrices in a mapped file, for the kernels that round activations; else f32 */
    af_act act;
    float softcap, head_softcap, embed_scale, residual_scale, head_scale, magnitude;
} shape;

#define SHAPES 4
extern const shape *const shapes[SHAPES]; /* the first is llama_like */
extern const shape llama_like;

/* A plan with random weights, the same for every call with the same shape. */
af_plan *make_plan(const shape *s);

/* Numbers in -1 .. 1 and ids, from a seed. */
void random_seed(uint32_t seed);
float random_float(void);

/* Logits of every position, (count, vocabulary), freed by the caller. kv: how stored keys and values are rounded. */
double *reference_logits(const af_plan *plan, const int32_t *ids, uint32_t count, af_kv_type kv);

#endif

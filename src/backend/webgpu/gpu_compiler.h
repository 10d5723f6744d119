/* gpu_compiler.h - shared by the files that turn operations into steps.
 *
 *     gpu_steps.c    steps, small tensors, places of matrices
 *     gpu_product.c  matrices times activations
 *     gpu_linear.c   LINEAR, HEAD
 *     gpu_attend.c   ROPE_STORE, ATTEND
 *     gpu_per_head.c PER_HEAD
 *     gpu_recur.c    CONV, DELTA, GATE, and the states they keep
 *     gpu_compile.c  EMBED, NORM, STATE; the general list
 *     gpu_decode.c   the decode list
 */
#ifndef AF_GPU_COMPILER_H
#define AF_GPU_COMPILER_H

#include "backend/webgpu/gpu_backend.h"

/* Failure is sticky, as in the families' binder: after it, calls do nothing and give harmless values. */
typedef struct af_gpu_compiler {
    af_gpu_backend *b;
    af_gpu_steps *steps; /* the list being made */
    size_t op;           /* of the plan, being compiled */
    int status;
    af_error *error;
} af_gpu_compiler;

af_gpu_step *af_gpu_add_step(af_gpu_compiler *c, const char *name, af_gpu_grid grid);
const af_gpu_pipeline *af_gpu_pipeline_of(af_gpu_compiler *c, const char *kernel, const af_gpu_constant *constants,
                                          size_t count);
void af_gpu_bind_step(af_gpu_compiler *c, af_gpu_step *s, const af_gpu_binding *bindings, size_t count);
void af_gpu_set_params(af_gpu_step *s, const uint32_t *params, uint32_t count);
uint32_t af_gpu_bits(float v); /* for float parameters */

/* Puts vectors one after another at an aligned place; NULL ones are zeros. An empty list gives a place to bind. */
af_gpu_binding af_gpu_small(af_gpu_compiler *c, const float *const *vectors, const uint32_t *lengths, size_t count);
af_gpu_binding af_gpu_small_norm(af_gpu_compiler *c, const af_norm *n);
/* Bytes that so many floats take there, at the most. */
uint64_t af_gpu_small_room(uint64_t floats);
af_gpu_binding af_gpu_whole(WGPUBuffer buffer);

const af_gpu_matrix *af_gpu_upload(af_gpu_compiler *c, const af_matrix *const *parts, size_t count);
/* Stacks of `each` matrices as one: the first of every stack, the second of every stack, ... */
const af_gpu_matrix *af_gpu_upload_stacks(af_gpu_compiler *c, const af_stack *const *stacks, uint32_t count,
                                          uint32_t each);
bool af_gpu_is_quantized(const af_gpu_matrix *m);
/* What block.wgsl must know of a quantized matrix: the first rows of a list of constants. */
#define AF_GPU_BLOCK_CONSTANTS(layout)                                                                                 \
    {"HIGH_BITS", (layout)->high_bits}, {"PAIRING", (layout)->pairing}, {                                              \
        "OFFSET", (double)(layout)->offset                                                                             \
    }
/* A row of it as shaders step through it: in blocks of 32 elements, or in u32 where it is plain numbers. */
uint32_t af_gpu_row_words(const af_gpu_matrix *m);
/* Where a segment's streams lie, as the shaders' Place: low in vec4, the others in u32; of plain numbers, low in u32.
 */
void af_gpu_place(const af_gpu_matrix *m, const af_gpu_segment *s, uint32_t place[3]);
/* How wide a row's team of lanes is. */
double af_gpu_lanes(const af_gpu_backend *b);

/* The matrices of a linear operation as products: those of one format whose rows go side by side (q, k and v; a gate
 * and its other matrix) are a single stack. */
typedef struct af_gpu_product {
    const af_gpu_matrix *m;
    const float *bias; /* (m->rows), of the parts one after another; NULL: none has one */
    uint32_t first_part, part_count;
} af_gpu_product;
uint32_t af_gpu_products(af_gpu_compiler *c, const af_op_linear *l, af_gpu_product out[AF_PLAN_PARTS]);

/* y = W x for every segment of a matrix, x being what the norm step left; `per_row`: of the wanted rows alone. */
void af_gpu_product_steps(af_gpu_compiler *c, const char *name, const af_gpu_matrix *m, af_gpu_value y, bool per_row);

/* The general form of an operation, on the current list. */
void af_gpu_compile_op(af_gpu_compiler *c, const af_op *op);
void af_gpu_compile_linear(af_gpu_compiler *c, const af_op *op);
void af_gpu_compile_rope_store(af_gpu_compiler *c, const af_op *op);
void af_gpu_compile_attend(af_gpu_compiler *c, const af_op *op);
/* What both attention kernels of many tokens are told, and what they read and write; tiles_at as in batch_info. */
void af_gpu_bind_attend(af_gpu_compiler *c, af_gpu_step *s, const af_op_attend *a, uint32_t tiles_at);
void af_gpu_compile_head(af_gpu_compiler *c, const af_op *op);
void af_gpu_compile_conv(af_gpu_compiler *c, const af_op *op);
void af_gpu_compile_delta(af_gpu_compiler *c, const af_op *op);
void af_gpu_compile_gate(af_gpu_compiler *c, const af_op *op);
/* in -> out, and a packet if `quantize`. Those of some tokens only stand one after another in `out`. */
void af_gpu_norm_step(af_gpu_compiler *c, const char *name, af_gpu_value in, uint32_t width, const af_norm *norm,
                      bool quantize, af_gpu_value out, af_gpu_which which);
af_gpu_value af_gpu_normed(const af_gpu_backend *b, uint32_t width); /* what a product reads */
void af_gpu_choice_steps(af_gpu_compiler *c, uint32_t vocabulary);
uint32_t af_gpu_turns_before(const af_plan *plan, uint16_t rope); /* pairs a token of the ropes before */

/* Bytes that one of gpu_recur.c's operations takes of the small tensors. */
uint64_t af_gpu_recur_small(const af_plan *plan, const af_op *op);
/* gpu_experts.c */
void af_gpu_compile_route(af_gpu_compiler *c, const af_op *op);
void af_gpu_compile_experts(af_gpu_compiler *c, const af_op *op);
uint64_t af_gpu_experts_small(const af_op *op); /* bytes that either takes of the small tensors */

/* gpu_per_head.c */
void af_gpu_compile_per_head(af_gpu_compiler *c, const af_op *op);

void af_gpu_compile_decode_list(af_gpu_compiler *c);
void af_gpu_compile_prompt_list(af_gpu_compiler *c);

#endif

/* quant.h - the number formats weights are stored in.
 *
 * A format is one file (q4_0.c, q6_k.c, ...): its block struct with its size asserted, drawn byte by byte, and the
 * reference decode, which is the format's specification: every kernel, on any device, is checked against it. This
 * header is the table of them. Fast matrix kernels live with the backends, not here.
 *
 * A row of `n` elements is n / block_elems blocks, one after another; n must be a multiple of block_elems.
 */
#ifndef AF_QUANT_H
#define AF_QUANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Type ids as GGUF stores them. */
typedef enum af_type {
    AF_TYPE_F32 = 0,
    AF_TYPE_F16 = 1,
    AF_TYPE_Q4_0 = 2,
    AF_TYPE_Q4_1 = 3,
    AF_TYPE_Q5_0 = 6,
    AF_TYPE_Q5_1 = 7,
    AF_TYPE_Q8_0 = 8,
    AF_TYPE_Q2_K = 10,
    AF_TYPE_Q3_K = 11,
    AF_TYPE_Q4_K = 12,
    AF_TYPE_Q5_K = 13,
    AF_TYPE_Q6_K = 14,
    AF_TYPE_IQ2_XXS = 16,
    AF_TYPE_IQ2_XS = 17,
    AF_TYPE_IQ3_XXS = 18,
    AF_TYPE_IQ1_S = 19,
    AF_TYPE_IQ4_NL = 20,
    AF_TYPE_IQ3_S = 21,
    AF_TYPE_IQ2_S = 22,
    AF_TYPE_IQ4_XS = 23,
    AF_TYPE_IQ1_M = 29,
    AF_TYPE_BF16 = 30,
    AF_TYPE_TQ1_0 = 34,
    AF_TYPE_TQ2_0 = 35,
    AF_TYPE_MXFP4 = 39
} af_type;

typedef struct af_format {
    af_type type;
    const char *name;     /* "Q4_K" */
    uint32_t block_elems; /* 1, 32 or 256 */
    uint32_t block_bytes;
    /* Decodes `n` elements (a multiple of block_elems) from `blocks` to f32, exactly as the format defines them. */
    void (*decode)(const void *blocks, float *out, size_t n);
} af_format;

/* The format of a GGUF type id, or NULL if this build does not know it. Accepts any number. */
const af_format *af_format_of(uint32_t type);

/* All formats, for tests and tables: af_format_at(0) .. until NULL. */
const af_format *af_format_at(size_t index);

/* The name GGUF gives a type id, also for ids that are known but not read here (removed ones, integers); NULL if none.
 */
const char *af_type_name(uint32_t type);

/* Whether the format once had this type and has it no more. */
bool af_type_removed(uint32_t type);

/* Bytes of a row of n elements. */
static inline size_t af_row_bytes(const af_format *f, size_t n) {
    return n / f->block_elems * f->block_bytes;
}

/* A matrix as stored: y = W x has `rows` outputs and `cols` inputs; row r starts at data + r * af_row_bytes(cols).
 * Not owned. data == NULL means "no matrix". */
typedef struct af_matrix {
    const void *data;
    const af_format *format;
    uint32_t rows, cols;
    const char *name; /* the tensor's, for messages */
    bool held;        /* in memory that must be kept: not a mapped file's, whose pages may be let go */
} af_matrix;

/* Half floats, exactly as IEEE 754 and bfloat16 define them. Decoding never rounds; encoding rounds to nearest even. */
float af_f16_to_f32(uint16_t half);
uint16_t af_f32_to_f16(float value);
float af_bf16_to_f32(uint16_t half);

#endif

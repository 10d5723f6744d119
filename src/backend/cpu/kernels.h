/* kernels.h - what an instruction set implements: quantizing a token, and multiplying a panel of each kind.
 *
 * The order of operations, the same in all of them (linear_scalar.c is the specification):
 *
 *     sum = minima = 0
 *     for each block of 32 columns:
 *         i = the exact integer sum of (code - offset) * q, for a fine token of (code - offset) * (8 * q + q2)
 *         with a scale for 32 columns:   t = scale * i
 *         with a scale for 16 columns:   t = fma(scale_2, i_2, scale_1 * i_1)
 *         sum = fma(t, d, sum)
 *         with minima: minima = fma(minimum, d * sum of the same, minima), for 16 columns twice
 *     with minima: sum = sum + minima
 *
 * Floats (f32, f16, bf16 weights, and exact mode) have two sums, of the even and the odd columns, each a chain of fma;
 * the result is even + odd.
 */
#ifndef AF_CPU_KERNELS_H
#define AF_CPU_KERNELS_H

#include "backend/cpu/acts.h"

typedef struct af_panel_job {
    const unsigned char *panel;
    const af_acts *acts;
    size_t panel_bytes; /* the next panel lies behind this one, unless it is the last; 0 where unknown */
    uint32_t cols;
    uint32_t rows;       /* of the panel that exist: 1..16 */
    uint32_t begin, end; /* tokens; begin: a multiple of AF_LANES */
    float *out;          /* token t's first row of this panel is out + (t - first) * stride */
    size_t stride;
    uint32_t first;
    void *scratch; /* 64-byte aligned, AF_SCRATCH_BLOCK for each block of 32 columns */
} af_panel_job;

#define AF_SCRATCH_BLOCK ((16 + 4) * AF_VECTOR)

typedef void (*af_panel_fn)(const af_panel_job *job);

typedef struct af_kernels {
    void (*quantize)(af_acts *acts, uint32_t token_begin, uint32_t token_end);
    af_panel_fn multiply[AF_PANEL_KINDS];
} af_kernels;

/* A file of kernels that follows the names quantize and multiply_<layout> closes with this. */
#define AF_KERNEL_ENTRY(name, TYPE, ...) [AF_PANEL_##TYPE] = multiply_##name,
#define AF_KERNELS_TABLE                                                                                               \
    {                                                                                                                  \
        .quantize = quantize, .multiply = {                                                                            \
            AF_LAYOUTS(AF_KERNEL_ENTRY)[AF_PANEL_F32] = multiply_f32,                                                  \
            [AF_PANEL_F16] = multiply_f16,                                                                             \
            [AF_PANEL_BF16] = multiply_bf16,                                                                           \
        }                                                                                                              \
    }

extern const af_kernels af_kernels_scalar;
#if defined(__x86_64__)
extern const af_kernels af_kernels_avx2, af_kernels_avx512, af_kernels_amx;
#elif defined(__aarch64__)
extern const af_kernels af_kernels_neon, af_kernels_dotprod, af_kernels_i8mm;
#endif

const af_kernels *af_kernels_of(af_isa isa);

/* Packing (pack.c): panels of kind `kind` from rows in a file's format. */
af_panel_kind af_panel_kind_of(af_type type);
size_t af_panel_bytes(af_panel_kind kind, uint32_t cols);
/* Packs `rows` (1..16) rows, `row_bytes` apart, into a zeroed panel. */
void af_pack_panel(af_panel_kind kind, const unsigned char *source, size_t row_bytes, uint32_t rows, uint32_t cols,
                   unsigned char *panel);
/* Decodes `rows` rows to a panel of floats; what lies past them is zero. */
void af_decode_panel(const af_format *format, const unsigned char *source, size_t row_bytes, uint32_t rows,
                     uint32_t cols, float *panel);

#endif

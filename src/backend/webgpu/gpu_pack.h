/* gpu_pack.h - weights from a file's blocks to the layout that the shaders read (drawn in shaders/block.wgsl).
 *
 * Every quantized format becomes the same thing: 32 integers a block in one to three bit planes, and one or two f16
 * pairs. A layout row says which planes; the shaders know only the row's numbers, so a further format is one unpack
 * function. Where values are uneven the integers are places in a code book, and the scale is one f32. Plain numbers
 * (F32, F16, BF16) stay as they are, rows padded to four bytes; formats without a row become F16.
 */
#ifndef AF_GPU_PACK_H
#define AF_GPU_PACK_H

#include "quant/quant.h"

typedef enum af_gpu_kind { AF_GPU_F32, AF_GPU_F16, AF_GPU_BF16, AF_GPU_QUANTIZED } af_gpu_kind;
typedef enum af_gpu_pairing {
    AF_GPU_PAIR_MIN,
    AF_GPU_PAIR_HALVES,
    AF_GPU_PAIR_BOTH,
    AF_GPU_PAIR_IQ4, /* no pair: an f32 scale, and quants that the shader looks up */
    AF_GPU_PAIR_E2M1
} af_gpu_pairing;

typedef struct af_gpu_block { /* 32 weights: scale * q + added, each half with its own */
    int8_t q[32];             /* 0..63, signed eight bits, or places in a code book */
    float scale[2], added[2];
} af_gpu_block;

typedef struct af_gpu_layout {
    af_type type;
    af_gpu_kind kind;
    uint32_t high_bits; /* beyond four: 0, 1, 2, or 4 for signed bytes */
    af_gpu_pairing pairing;
    float offset; /* with AF_GPU_PAIR_HALVES: added is -offset * scale */
    /* Block `index` (32 columns) of a row. */
    void (*unpack)(const void *row, uint32_t index, af_gpu_block *out);
} af_gpu_layout;

/* NULL if there is no shader for it. */
const af_gpu_layout *af_gpu_layout_of(af_type type);

/* What a matrix of this format becomes: its own layout, or F16, or in exact mode F32 where it is in blocks. */
const af_gpu_layout *af_gpu_layout_for(const af_format *format, bool exact);

/* Where the streams of `rows` rows of `cols` lie, one after another, each at a multiple of 16 bytes; and their lengths.
 */
typedef struct af_gpu_streams {
    uint64_t low, high, scale;                   /* offsets in bytes */
    uint64_t low_bytes, high_bytes, scale_bytes; /* without what aligns the next */
    uint64_t bytes;                              /* of all */
} af_gpu_streams;
af_gpu_streams af_gpu_streams_of(const af_gpu_layout *layout, uint32_t rows, uint32_t cols);

/* Packs rows row_begin .. row_end - 1 of w into `out`, which holds the streams of exactly those rows. `layout` is what
 * af_gpu_layout_for gives; where it is not the format's own, rows are decoded. */
void af_gpu_pack(const af_gpu_layout *layout, const af_matrix *w, uint32_t row_begin, uint32_t row_end, void *out);

#endif

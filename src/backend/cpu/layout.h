/* layout.h - how a panel of 16 rows lies in memory, for every quantized format.
 *
 * All formats are one shape: w = scale * (code - offset) [+ minimum], a code of `bits` bits, a scale for every 16 or 32
 * columns. Where a format's values are uneven a code is the index of one in a book of up to 16, which kernels look up
 * in a register once codes are unpacked. A format is therefore a line of constants (AF_LAYOUTS), and packing and
 * kernels are one body each that the compiler specializes for that line. Nothing else in this folder knows a format by
 * name.
 *
 * A panel is a sequence of steps, each the scales and then the codes of a few blocks of 32 columns; everything starts
 * on a cache line, and a panel is read once from front to end:
 *
 *     simple formats, a step of 2 blocks          formats with superblocks, a step of 8 blocks
 *       32 B  d of block 0, a half float a row      32 B  d of the superblock, a half float a row
 *       32 B  d of block 1                          32 B  dmin (unused without minima)
 *      [64 B  m of both blocks likewise]           16 B  integer scale of a sub-block, a byte a row; one for each
 *                                                  [16 B  integer minimum of a sub-block likewise; one for each]
 *       64 * bits B   codes of block 0              64 * bits B   codes of block 0
 *       64 * bits B   codes of block 1              ... to block 7
 *
 * The 32 columns of a block are 8 groups of 4. A group of all rows is 64 codes: row r has bytes 4r .. 4r+3, the shape
 * that vpdpbusd and its kin multiply with 4 activations. Codes are cut into planes, their widths the binary digits of
 * `bits`, low bits of the code in the widest plane: 5 bits are a plane of nibbles and a plane of single bits. A plane
 * of p bits is p vectors of 64 bytes, and group g lies in vector g % p at bit p * (g / p) of each byte.
 *
 * Widths that leave half a step of a simple format still take a whole one; what is not there is zero.
 */
#ifndef AF_CPU_LAYOUT_H
#define AF_CPU_LAYOUT_H

#include "backend/cpu/linear.h"
#include "quant/blocks.h"

#define AF_VECTOR 64 /* bytes of a group's codes: 16 rows x 4 columns */

/* What codes stand for, raised by the layout's offset so that values are unsigned. Values: books.c. */
typedef enum af_book {
    AF_BOOK_NONE, /* themselves */
    AF_BOOK_IQ4,
    AF_BOOK_E2M1,
    AF_BOOK_IQ2,
    AF_BOOK_IQ3_XXS,
    AF_BOOK_IQ3_S,
    AF_BOOK_IQ1_S,
    AF_BOOK_IQ1_M,
    AF_BOOK_TERNARY,
    AF_BOOKS
} af_book;
extern const uint8_t af_books[AF_BOOKS][16];

typedef struct af_layout {
    uint8_t bits;    /* of a code */
    uint8_t offset;  /* what is taken off a code */
    uint8_t columns; /* that share a scale: 16 or 32 */
    bool minimum;    /* a minimum is added */
    bool super;      /* scales and minima are integers, times half floats for 256 columns */
    uint8_t book;    /* an af_book: what codes stand for */
    bool bfloat;     /* scales are bfloats in place of half floats: for powers of two beyond their range */
    uint8_t unit;    /* scales of superblocks are in units of 2^-unit */
} af_layout;

/* X(name, TYPE, bits, offset, columns, minimum, super, book, bfloat, unit). q2_k keeps a scale and a minimum in one
 * byte as its file does.
 */
#define AF_LAYOUTS(X)                                                                                                  \
    X(q4_0, Q4_0, 4, 8, 32, false, false, AF_BOOK_NONE, false, 0)                                                      \
    X(q4_1, Q4_1, 4, 0, 32, true, false, AF_BOOK_NONE, false, 0)                                                       \
    X(q5_0, Q5_0, 5, 16, 32, false, false, AF_BOOK_NONE, false, 0)                                                     \
    X(q5_1, Q5_1, 5, 0, 32, true, false, AF_BOOK_NONE, false, 0)                                                       \
    X(q8_0, Q8_0, 8, 128, 32, false, false, AF_BOOK_NONE, false, 0)                                                    \
    X(q2_k, Q2_K, 2, 0, 16, true, true, AF_BOOK_NONE, false, 0)                                                        \
    X(q3_k, Q3_K, 3, 4, 16, false, true, AF_BOOK_NONE, false, 0)                                                       \
    X(q4_k, Q4_K, 4, 0, 32, true, true, AF_BOOK_NONE, false, 0)                                                        \
    X(q5_k, Q5_K, 5, 0, 32, true, true, AF_BOOK_NONE, false, 0)                                                        \
    X(q6_k, Q6_K, 6, 32, 16, false, true, AF_BOOK_NONE, false, 0)                                                      \
    X(iq4_nl, IQ4_NL, 4, 128, 32, false, false, AF_BOOK_IQ4, false, 0)                                                 \
    X(iq4_xs, IQ4_XS, 4, 128, 32, false, true, AF_BOOK_IQ4, false, 0)                                                  \
    X(mxfp4, MXFP4, 4, 16, 32, false, false, AF_BOOK_E2M1, true, 0)                                                    \
    X(iq2_xxs, IQ2_XXS, 3, 128, 32, false, true, AF_BOOK_IQ2, false, 3)                                                \
    X(iq2_xs, IQ2_XS, 3, 128, 16, false, true, AF_BOOK_IQ2, false, 3)                                                  \
    X(iq2_s, IQ2_S, 3, 128, 16, false, true, AF_BOOK_IQ2, false, 3)                                                    \
    X(iq3_xxs, IQ3_XXS, 4, 128, 32, false, true, AF_BOOK_IQ3_XXS, false, 2)                                            \
    X(iq3_s, IQ3_S, 4, 16, 32, false, true, AF_BOOK_IQ3_S, false, 0)                                                   \
    X(iq1_s, IQ1_S, 2, 16, 32, false, true, AF_BOOK_IQ1_S, false, 3)                                                   \
    X(iq1_m, IQ1_M, 3, 16, 16, false, true, AF_BOOK_IQ1_M, false, 3)                                                   \
    X(tq1_0, TQ1_0, 2, 8, 32, false, true, AF_BOOK_TERNARY, false, 0)                                                  \
    X(tq2_0, TQ2_0, 2, 8, 32, false, true, AF_BOOK_TERNARY, false, 0)

/* What a panel can be: one of the layouts above, or floats, column by column with the 16 rows side by side. */
typedef enum af_panel_kind {
#define X(name, TYPE, ...) AF_PANEL_##TYPE,
    AF_LAYOUTS(X)
#undef X
        AF_PANEL_F32,
    AF_PANEL_F16,
    AF_PANEL_BF16,
    AF_PANEL_KINDS
} af_panel_kind;

/* Allocations from here on ask for huge pages: fewer TLB misses where weights stream through once a token. */
#define AF_HUGE_BYTES ((size_t)4 << 20)

/* Kernels rely on loops of constant length being unrolled. Not under sanitizers, whose checks would make hundreds of
 * thousands of instructions of them. */
#if defined(__has_feature)
#define AF_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define AF_SANITIZED 1
#else
#define AF_SANITIZED 0
#endif
#if AF_SANITIZED
#define AF_UNROLL
#elif defined(__clang__)
#define AF_UNROLL _Pragma("clang loop unroll(full)")
#else
#define AF_UNROLL _Pragma("GCC unroll 16")
#endif

#define AF_LAYOUT_INLINE static inline __attribute__((always_inline))

AF_LAYOUT_INLINE uint32_t af_layout_blocks(af_layout l) { /* in a step */
    return l.super ? AF_SUPERBLOCK / AF_BLOCK : 2;
}

AF_LAYOUT_INLINE uint32_t af_layout_value_bits(af_layout l) { /* of what a code stands for, below twice its offset */
    return l.book == AF_BOOK_NONE ? l.bits : l.offset == 128 ? 8 : l.offset == 16 ? 5 : 4;
}

/* What kernels of a layout need of a block of activations beside its scale and sum. */
typedef enum af_needs {
    AF_NEEDS_STARTS = 1, /* sums times an offset */
    AF_NEEDS_HALVES = 2, /* sums of 16 columns, and those times an offset */
    AF_NEEDS_ALL = AF_NEEDS_STARTS | AF_NEEDS_HALVES
} af_needs;

AF_LAYOUT_INLINE uint32_t af_layout_needs(af_layout l) {
    return l.columns == 16 ? AF_NEEDS_HALVES : l.offset ? AF_NEEDS_STARTS : 0;
}

AF_LAYOUT_INLINE float af_layout_unit(af_layout l) {
    return 1.0f / (float)(1u << l.unit);
}

AF_LAYOUT_INLINE bool af_layout_nibble_scales(af_layout l) { /* a sub-block's scale and minimum share a byte */
    return l.super && l.minimum && l.columns == 16;
}

AF_LAYOUT_INLINE size_t af_layout_scales_at(af_layout l, uint32_t sub) { /* of sub-block `sub` in a superblock's step */
    (void)l;
    return 64 + (size_t)sub * AF_PANEL;
}

AF_LAYOUT_INLINE size_t af_layout_minima_at(af_layout l, uint32_t sub) {
    return af_layout_scales_at(l, sub + (af_layout_nibble_scales(l) ? 0u : AF_SUPERBLOCK / l.columns));
}

AF_LAYOUT_INLINE size_t af_layout_head_bytes(af_layout l) {
    if (!l.super) return l.minimum ? 128 : 64;
    uint32_t tables = l.minimum && !af_layout_nibble_scales(l) ? 2 : 1;
    return af_layout_scales_at(l, tables * AF_SUPERBLOCK / l.columns);
}

AF_LAYOUT_INLINE size_t af_layout_block_bytes(af_layout l) {
    return (size_t)AF_VECTOR * l.bits;
}

AF_LAYOUT_INLINE size_t af_layout_step_bytes(af_layout l) {
    return af_layout_head_bytes(l) + af_layout_blocks(l) * af_layout_block_bytes(l);
}

#endif

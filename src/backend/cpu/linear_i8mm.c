/* linear_i8mm.c - NEON with products of unsigned and signed bytes: for one token as dots of 4 (usdot), for more as
 * matrices (usmmla), 2 rows of 8 columns times 8 columns of 2 tokens in one instruction, twice a dot's work.
 *
 * Neighbouring groups of 4 columns interleave to rows of 8; two tokens' halves of 16 columns do likewise. A product
 * holds (row, token) (row, token + 1) (row + 1, token) (row + 1, token + 1); two of them untangle to a vector a token.
 */
#if !defined(__clang__) /* CMakeLists.txt */
#define TARGET __attribute__((target("arch=armv8.2-a+dotprod+i8mm")))
#endif
#define SIGNED_BYTES false
#include "backend/cpu/linear_neon.h"

/* 4 groups; which of q's words an instruction takes is part of it. */
INLINE vi dot_16_columns(const vi codes[4], const int8_t *q, vi sum) {
    const int8x16_t x = vld1q_s8(q);
    sum = vusdotq_laneq_s32(sum, vreinterpretq_u8_s32(codes[0]), x, 0);
    sum = vusdotq_laneq_s32(sum, vreinterpretq_u8_s32(codes[1]), x, 1);
    sum = vusdotq_laneq_s32(sum, vreinterpretq_u8_s32(codes[2]), x, 2);
    return vusdotq_laneq_s32(sum, vreinterpretq_u8_s32(codes[3]), x, 3);
}

/* Sums of two rows each, for two tokens. */
typedef struct row_pairs {
    vi low, high;
} row_pairs;

/* Adds 8 columns: those of two groups of codes, and of two tokens side by side. */
INLINE row_pairs multiply_8_columns(row_pairs sums, const vi codes[2], int64x2_t q) {
    const uint8x16_t low = vreinterpretq_u8_s32(vzip1q_s32(codes[0], codes[1]));
    const uint8x16_t high = vreinterpretq_u8_s32(vzip2q_s32(codes[0], codes[1]));
    const int8x16_t x = vreinterpretq_s8_s64(q);
    return (row_pairs){vusmmlaq_s32(sums.low, low, x), vusmmlaq_s32(sums.high, high, x)};
}

INLINE void dot_two_tokens(const vi *codes, const int8_t *q, size_t stride, uint32_t groups, vi sums[2]) {
    row_pairs pairs = {vzip1q_s32(sums[0], sums[1]), vzip2q_s32(sums[0], sums[1])};
    UNROLL
    for (uint32_t g = 0; g < groups; g += 4) {
        const int64x2_t a = vreinterpretq_s64_s8(vld1q_s8(q + 4 * g));
        const int64x2_t b = vreinterpretq_s64_s8(vld1q_s8(q + stride + 4 * g));
        pairs = multiply_8_columns(pairs, codes + g, vzip1q_s64(a, b));
        pairs = multiply_8_columns(pairs, codes + g + 2, vzip2q_s64(a, b));
    }
    sums[0] = vuzp1q_s32(pairs.low, pairs.high);
    sums[1] = vuzp2q_s32(pairs.low, pairs.high);
}

/* Adds to each token's sum, their q `stride` apart, code * q over `groups` groups of 4 columns; tokens: 1, or even. */
INLINE void dot(uint32_t bits, const vi *codes, const int8_t *q, size_t stride, uint32_t groups, uint32_t tokens,
                vi *sums) {
    (void)bits;
    if (tokens == 1) {
        UNROLL
        for (uint32_t g = 0; g < groups; g += 4) *sums = dot_16_columns(codes + g, q + 4 * g, *sums);
        return;
    }
    UNROLL
    for (uint32_t i = 0; i < tokens; i += 2) dot_two_tokens(codes, q + i * stride, stride, groups, sums + i);
}

#include "backend/cpu/linear_lanes.h"

const af_kernels af_kernels_i8mm = AF_KERNELS_TABLE;

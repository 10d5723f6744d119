/* linear_dotprod.c - NEON with dots of 4 signed bytes (sdot): a group of 4 rows is one instruction. */
#if !defined(__clang__) /* CMakeLists.txt */
#define TARGET __attribute__((target("arch=armv8.2-a+dotprod")))
#endif
#define SIGNED_BYTES true
#include "backend/cpu/linear_neon.h"

/* 4 groups; which of q's words an instruction takes is part of it. */
INLINE vi dot_16_columns(uint32_t bits, const vi codes[4], const int8_t *q, vi sum) {
    const int8x16_t x = vld1q_s8(q);
    sum = vdotq_laneq_s32(sum, signed_codes(bits, codes[0]), x, 0);
    sum = vdotq_laneq_s32(sum, signed_codes(bits, codes[1]), x, 1);
    sum = vdotq_laneq_s32(sum, signed_codes(bits, codes[2]), x, 2);
    return vdotq_laneq_s32(sum, signed_codes(bits, codes[3]), x, 3);
}

/* Adds to each token's sum, their q `stride` apart, code * q over `groups` groups of 4 columns. */
INLINE void dot(uint32_t bits, const vi *codes, const int8_t *q, size_t stride, uint32_t groups, uint32_t tokens,
                vi *sums) {
    UNROLL
    for (uint32_t i = 0; i < tokens; i++, q += stride) {
        UNROLL
        for (uint32_t g = 0; g < groups; g += 4) sums[i] = dot_16_columns(bits, codes + g, q + 4 * g, sums[i]);
    }
}

#include "backend/cpu/linear_lanes.h"

const af_kernels af_kernels_dotprod = AF_KERNELS_TABLE;

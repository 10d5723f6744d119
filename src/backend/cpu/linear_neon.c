/* linear_neon.c - NEON as every aarch64 processor has it.
 *
 * Products of bytes come as 16 bits. How many of those may be added before they are widened depends on the codes' size:
 * nothing may pass 32767 = 127 * 258, so 8 groups of codes below 32, 4 of those below 64, 2 of those up to 128.
 */
#define TOGETHER     2 /* each has four sums of its own meanwhile */
#define SIGNED_BYTES true
#include "backend/cpu/linear_neon.h"

/* 16 bytes, the same four in each lane. */
INLINE int8x16_t bytes_at(const int8_t *p) {
    int32_t four;
    __builtin_memcpy(&four, p, sizeof four);
    return vreinterpretq_s8_s32(vdupq_n_s32(four));
}

/* The sum over groups of code * q. */
INLINE vi dot_codes(uint32_t bits, const vi *codes, const int8_t *q, uint32_t groups) {
    const uint32_t together = bits <= 5 ? 8 : bits == 6 ? 4 : 2;
    int16x8_t low = vdupq_n_s16(0), high = low; /* products of two rows each */
    int32x4_t lows = vdupq_n_s32(0), highs = lows;
    UNROLL
    for (uint32_t g = 0; g < groups; g++) {
        const int8x16_t w = signed_codes(bits, codes[g]), x = bytes_at(q + 4 * g);
        const bool first = g % together == 0;
        low = first ? vmull_s8(vget_low_s8(w), vget_low_s8(x)) : vmlal_s8(low, vget_low_s8(w), vget_low_s8(x));
        high = first ? vmull_high_s8(w, x) : vmlal_high_s8(high, w, x);
        if ((g + 1) % together && g + 1 < groups) continue;
        lows = vpadalq_s16(lows, low);
        highs = vpadalq_s16(highs, high);
    }
    return vpaddq_s32(lows, highs);
}

/* Adds to each token's sum, their q `stride` apart, code * q over `groups` groups of 4 columns. */
INLINE void dot(uint32_t bits, const vi *codes, const int8_t *q, size_t stride, uint32_t groups, uint32_t tokens,
                vi *sums) {
    UNROLL
    for (uint32_t i = 0; i < tokens; i++, q += stride) sums[i] = vaddq_s32(sums[i], dot_codes(bits, codes, q, groups));
}

#include "backend/cpu/linear_lanes.h"

const af_kernels af_kernels_neon = AF_KERNELS_TABLE;

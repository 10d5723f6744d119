/* lanes.h - sixteen floats side by side: the one vector type of the elementwise and attention kernels.
 *
 * Each kernel body (lane_rows.h, lane_attend.h) is written once, in terms of `lanes`, and compiled
 * once for each instruction set: lane_kernels_<isa>.c defines LANES_<ISA> and includes it. A lane is the same element
 * and goes through the same IEEE operations in all of them; reductions follow one tree, below.
 * So results are equal bit for bit whatever the instruction set, by construction and not by luck.
 *
 * An instruction set provides
 *     lanes, LANES_TARGET, LANES_TILE (query rows that fit its registers in lane_attend.h)
 *     lanes_zero, lanes_set, lanes_load[_n], lanes_store[_n], lanes_load_f16, lanes_store_f16
 *     lanes_set_f16       one f16 in every lane
 *     lanes_load_i8, lanes_store_i8   whole numbers of -127 .. 127
 *     lanes_add, lanes_sub, lanes_mul, lanes_div, lanes_fma (a * b + c, rounded once)
 *     lanes_max           a > b ? a : b, so a NaN in a gives b
 *     lanes_select_lt     a < b ? x : y, lane by lane
 *     lanes_within        begin <= lane's index < end ? x : y
 *     lanes_pow2          2^n for the integer n in the low bits of t + 1.5 * 2^23 (vecmath.h)
 *     lanes_swap_pairs    (1, 0, 3, 2, ...)
 *     lanes_sum, lanes_peak   sum and maximum over lanes: i with i + 8, then i + 4, i + 2, i + 1
 */
#ifndef AF_CPU_LANES_H
#define AF_CPU_LANES_H

#include <stddef.h>
#include <stdint.h>

#define LANES 16

#if defined(LANES_AVX512)
#include "backend/cpu/lanes_avx512.h"
#elif defined(LANES_AVX2)
#include "backend/cpu/lanes_avx2.h"
#elif defined(LANES_NEON)
#include "backend/cpu/lanes_neon.h"
#else
#include "backend/cpu/lanes_scalar.h"
#endif

#if defined(__clang__)
#define LANES_UNROLL _Pragma("unroll")
#else
#define LANES_UNROLL _Pragma("GCC unroll 16")
#endif

/* How many lanes of the vector at element i of n are there. */
static inline size_t lanes_left(size_t n, size_t i) {
    return n - i < LANES ? n - i : LANES;
}

#endif

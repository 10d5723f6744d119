/* lanes_avx2.h - sixteen floats as two 256-bit registers: AVX2, FMA and F16C (see lanes.h). */
#ifndef AF_CPU_LANES_AVX2_H
#define AF_CPU_LANES_AVX2_H

#include <immintrin.h>
#include <string.h>

#define LANES_TARGET __attribute__((target("avx2,fma,f16c")))
#define LANES_FN     static inline LANES_TARGET __attribute__((always_inline))
#define LANES_TILE   2

typedef struct lanes {
    __m256 lo, hi;
} lanes;

LANES_FN lanes lanes_zero(void) {
    return (lanes){_mm256_setzero_ps(), _mm256_setzero_ps()};
}
LANES_FN lanes lanes_set(float x) {
    return (lanes){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
LANES_FN lanes lanes_load(const float *p) {
    return (lanes){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
LANES_FN void lanes_store(float *p, lanes a) {
    _mm256_storeu_ps(p, a.lo);
    _mm256_storeu_ps(p + 8, a.hi);
}
#include "backend/cpu/lanes_part.h"
LANES_FN lanes lanes_load_f16(const uint16_t *p) {
    return (lanes){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p)),
                   _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(p + 8)))};
}
LANES_FN void lanes_store_f16(uint16_t *p, lanes a) {
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i *)(void *)(p + 8), _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT));
}
LANES_FN lanes lanes_set_f16(uint16_t x) {
    return lanes_set(_cvtsh_ss(x));
}
LANES_FN lanes lanes_load_i8(const int8_t *p) {
    const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
    return (lanes){_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
                   _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(bytes, bytes)))};
}
LANES_FN __m128i lanes_half_i16(__m256 a) {
    const __m256i i = _mm256_cvtps_epi32(a);
    return _mm_packs_epi32(_mm256_castsi256_si128(i), _mm256_extracti128_si256(i, 1));
}
LANES_FN void lanes_store_i8(int8_t *p, lanes a) {
    _mm_storeu_si128((__m128i *)(void *)p, _mm_packs_epi16(lanes_half_i16(a.lo), lanes_half_i16(a.hi)));
}
LANES_FN lanes lanes_add(lanes a, lanes b) {
    return (lanes){_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
LANES_FN lanes lanes_sub(lanes a, lanes b) {
    return (lanes){_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
LANES_FN lanes lanes_mul(lanes a, lanes b) {
    return (lanes){_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
LANES_FN lanes lanes_div(lanes a, lanes b) {
    return (lanes){_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
LANES_FN lanes lanes_fma(lanes a, lanes b, lanes c) {
    return (lanes){_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
LANES_FN lanes lanes_max(lanes a, lanes b) {
    return (lanes){_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
LANES_FN lanes lanes_select_lt(lanes a, lanes b, lanes x, lanes y) {
    return (lanes){_mm256_blendv_ps(y.lo, x.lo, _mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ)),
                   _mm256_blendv_ps(y.hi, x.hi, _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ))};
}
LANES_FN __m256 lanes_within_half(__m256i index, int begin, int end, __m256 x, __m256 y) {
    const __m256i below_end = _mm256_cmpgt_epi32(_mm256_set1_epi32(end), index);
    const __m256i below_begin = _mm256_cmpgt_epi32(_mm256_set1_epi32(begin), index);
    return _mm256_blendv_ps(y, x, _mm256_castsi256_ps(_mm256_andnot_si256(below_begin, below_end)));
}
LANES_FN lanes lanes_within(int begin, int end, lanes x, lanes y) {
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return (lanes){lanes_within_half(index, begin, end, x.lo, y.lo),
                   lanes_within_half(_mm256_add_epi32(index, _mm256_set1_epi32(8)), begin, end, x.hi, y.hi)};
}
LANES_FN __m256 lanes_pow2_half(__m256 t) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_castps_si256(t), _mm256_set1_epi32(127)), 23));
}
LANES_FN lanes lanes_pow2(lanes t) {
    return (lanes){lanes_pow2_half(t.lo), lanes_pow2_half(t.hi)};
}
LANES_FN lanes lanes_swap_pairs(lanes a) {
    return (lanes){_mm256_permute_ps(a.lo, 0xB1), _mm256_permute_ps(a.hi, 0xB1)};
}
LANES_FN float lanes_sum(lanes a) {
    const __m256 by8 = _mm256_add_ps(a.lo, a.hi);
    const __m128 by4 = _mm_add_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
    const __m128 by2 = _mm_add_ps(by4, _mm_movehl_ps(by4, by4));
    return _mm_cvtss_f32(_mm_add_ss(by2, _mm_movehdup_ps(by2)));
}
LANES_FN float lanes_peak(lanes a) {
    const __m256 by8 = _mm256_max_ps(a.lo, a.hi);
    const __m128 by4 = _mm_max_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
    const __m128 by2 = _mm_max_ps(by4, _mm_movehl_ps(by4, by4));
    return _mm_cvtss_f32(_mm_max_ss(by2, _mm_movehdup_ps(by2)));
}

#endif

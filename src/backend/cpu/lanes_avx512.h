/* lanes_avx512.h - sixteen floats as one 512-bit register: AVX-512 F, BW and VL (see lanes.h). */
#ifndef AF_CPU_LANES_AVX512_H
#define AF_CPU_LANES_AVX512_H

#include <immintrin.h>

#define LANES_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,fma,f16c")))
#define LANES_FN     static inline LANES_TARGET __attribute__((always_inline))
#define LANES_TILE   8

typedef __m512 lanes;

LANES_FN lanes lanes_zero(void) {
    return _mm512_setzero_ps();
}
LANES_FN lanes lanes_set(float x) {
    return _mm512_set1_ps(x);
}
LANES_FN lanes lanes_load(const float *p) {
    return _mm512_loadu_ps(p);
}
LANES_FN void lanes_store(float *p, lanes a) {
    _mm512_storeu_ps(p, a);
}
LANES_FN __mmask16 lanes_first(size_t n) {
    return (__mmask16)((1u << n) - 1);
}
LANES_FN lanes lanes_load_n(const float *p, size_t n) {
    return _mm512_maskz_loadu_ps(lanes_first(n), p);
}
LANES_FN void lanes_store_n(float *p, lanes a, size_t n) {
    _mm512_mask_storeu_ps(p, lanes_first(n), a);
}
LANES_FN lanes lanes_load_f16(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
LANES_FN void lanes_store_f16(uint16_t *p, lanes a) {
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}
LANES_FN lanes lanes_set_f16(uint16_t x) {
    return _mm512_set1_ps(_cvtsh_ss(x));
}
LANES_FN lanes lanes_load_i8(const int8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}
LANES_FN void lanes_store_i8(int8_t *p, lanes a) {
    _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(a)));
}
LANES_FN lanes lanes_add(lanes a, lanes b) {
    return _mm512_add_ps(a, b);
}
LANES_FN lanes lanes_sub(lanes a, lanes b) {
    return _mm512_sub_ps(a, b);
}
LANES_FN lanes lanes_mul(lanes a, lanes b) {
    return _mm512_mul_ps(a, b);
}
LANES_FN lanes lanes_div(lanes a, lanes b) {
    return _mm512_div_ps(a, b);
}
LANES_FN lanes lanes_fma(lanes a, lanes b, lanes c) {
    return _mm512_fmadd_ps(a, b, c);
}
LANES_FN lanes lanes_max(lanes a, lanes b) {
    return _mm512_max_ps(a, b);
}
LANES_FN lanes lanes_select_lt(lanes a, lanes b, lanes x, lanes y) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}
LANES_FN lanes lanes_within(int begin, int end, lanes x, lanes y) {
    const __m512i index = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __mmask16 from = _mm512_cmpge_epi32_mask(index, _mm512_set1_epi32(begin));
    return _mm512_mask_blend_ps(_mm512_mask_cmplt_epi32_mask(from, index, _mm512_set1_epi32(end)), y, x);
}
LANES_FN lanes lanes_pow2(lanes t) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(_mm512_castps_si512(t), _mm512_set1_epi32(127)), 23));
}
LANES_FN lanes lanes_swap_pairs(lanes a) {
    return _mm512_permute_ps(a, 0xB1);
}
LANES_FN __m256 lanes_upper(lanes a) {
    return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a), 1));
}
LANES_FN float lanes_sum(lanes a) {
    const __m256 by8 = _mm256_add_ps(_mm512_castps512_ps256(a), lanes_upper(a));
    const __m128 by4 = _mm_add_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
    const __m128 by2 = _mm_add_ps(by4, _mm_movehl_ps(by4, by4));
    return _mm_cvtss_f32(_mm_add_ss(by2, _mm_movehdup_ps(by2)));
}
LANES_FN float lanes_peak(lanes a) {
    const __m256 by8 = _mm256_max_ps(_mm512_castps512_ps256(a), lanes_upper(a));
    const __m128 by4 = _mm_max_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
    const __m128 by2 = _mm_max_ps(by4, _mm_movehl_ps(by4, by4));
    return _mm_cvtss_f32(_mm_max_ss(by2, _mm_movehdup_ps(by2)));
}

#endif

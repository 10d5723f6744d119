/* linear_avx512.h - the words of linear_lanes.h in AVX-512 with VNNI: a vector is the whole panel's group, an integer
 * product one instruction. Included once by each file that speaks them; TARGET, if defined before, names more
 * instruction sets.
 */
#include "backend/cpu/kernels.h"

#include <immintrin.h>

#define AVX512 "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c"
#ifndef TARGET
#define TARGET __attribute__((target(AVX512)))
#endif
#define KERNEL                   static TARGET
#define TILE_KERNEL              static __attribute__((noinline)) TARGET
#define INLINE                   static inline __attribute__((always_inline)) TARGET
#define UNROLL                   AF_UNROLL
#define LANES                    16
#define SIDE(T)                  1
#define TILE_SIZES(F, ...)       F(1, __VA_ARGS__) F(2, __VA_ARGS__) F(4, __VA_ARGS__) F(8, __VA_ARGS__) F(16, __VA_ARGS__)
#define FLOAT_TILE_SIZES(F, ...) F(1, __VA_ARGS__) F(2, __VA_ARGS__) F(4, __VA_ARGS__) F(8, __VA_ARGS__)
#define TOGETHER                 4
#define SIGNED_BYTES             false
#define APART

typedef __m512 vf;
typedef __m512i vi;
typedef uint16_t v16 __attribute__((vector_size(64)));
typedef int32_t v32 __attribute__((vector_size(64)));

INLINE vi load(const unsigned char *p) {
    return _mm512_load_si512(p);
}

INLINE vf load_floats(const unsigned char *p) {
    return _mm512_loadu_ps(p);
}

INLINE vf load_halves(const unsigned char *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

INLINE vf load_bfloats(const unsigned char *p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}

INLINE vi load_bytes(const unsigned char *p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
}

INLINE vi load_signed_bytes(const unsigned char *p) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p));
}

/* 16 bytes, again in each 16 of the vector. */
INLINE vi load_16_bytes(const uint8_t *p) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)p));
}

/* table[index] of each byte, an index below 16. */
INLINE vi look_up(vi table, vi index) {
    return _mm512_shuffle_epi8(table, index);
}

INLINE void store(float *p, vf v) {
    _mm512_storeu_ps(p, v);
}

INLINE vf floats_of(float value) {
    return _mm512_set1_ps(value);
}

INLINE vi ints_of(int32_t value) {
    return _mm512_set1_epi32(value);
}

INLINE vi ints_at(const int8_t *p) {
    int32_t four;
    __builtin_memcpy(&four, p, sizeof four);
    return _mm512_set1_epi32(four);
}

INLINE vi bytes_of(int8_t value) {
    return _mm512_set1_epi8(value);
}

INLINE vi and (vi a, vi b) {
    return _mm512_and_si512(a, b);
}

INLINE vi or_and(vi a, vi b, vi mask) { /* a | (b & mask) */
    return _mm512_ternarylogic_epi32(a, b, mask, 0xf8);
}

INLINE vi shift_right_4(vi a) {
    return _mm512_srli_epi32(a, 4);
}

INLINE vf negative(vf a) {
    return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f));
}

INLINE vf add(vf a, vf b) {
    return _mm512_add_ps(a, b);
}

INLINE vf mul(vf a, vf b) {
    return _mm512_mul_ps(a, b);
}

INLINE vf mul_add(vf a, vf b, vf c) {
    return _mm512_fmadd_ps(a, b, c);
}

INLINE vf to_float(vi a) {
    return _mm512_cvtepi32_ps(a);
}

INLINE vi to_int(vf a) { /* rounds to nearest even; NaN gives 0 */
    return _mm512_maskz_cvtps_epi32(_mm512_cmp_ps_mask(a, a, _CMP_ORD_Q), a);
}

INLINE vf divide(vf a, vf b) {
    return _mm512_div_ps(a, b);
}

/* a / b, or 0 where b is less than `least` or NaN. */
INLINE vf divide_or_zero(float a, vf b, float least) {
    return _mm512_maskz_div_ps(_mm512_cmp_ps_mask(b, floats_of(least), _CMP_GE_OQ), floats_of(a), b);
}

INLINE vi add_ints(vi a, vi b) {
    return _mm512_add_epi32(a, b);
}

INLINE vi max_unsigned(vi a, vi b) {
    return _mm512_max_epu32(a, b);
}

INLINE uint32_t largest(vi a) {
    return _mm512_reduce_max_epu32(a);
}

/* Adds to each token's sum, their q `stride` apart, code * q over `groups` groups of 4 columns. Group by group, so that
 * chains of a few tokens fill the multiplier's latency. */
INLINE void dot(uint32_t bits, const vi *codes, const int8_t *q, size_t stride, uint32_t groups, uint32_t tokens,
                vi *sums) {
    (void)bits;
    UNROLL
    for (uint32_t g = 0; g < groups; g++) {
        UNROLL
        for (uint32_t i = 0; i < tokens; i++)
            sums[i] = _mm512_dpbusd_epi32(sums[i], codes[g], ints_at(q + i * stride + 4 * g));
    }
}

INLINE void store_ints(int32_t *p, vi v) {
    _mm512_storeu_si512(p, v);
}

INLINE void store_16_bytes(int8_t *p, const vi *v) {
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(*v));
}

INLINE int32_t total(vi v) {
    return _mm512_reduce_add_epi32(v);
}

typedef vi (*combine_fn)(vi a, vi b);

/* Lane i of the result combines all lanes of v[i]: quarters of two vectors meet, then of four, then their lanes. */
INLINE vi across(combine_fn combine, const vi v[16]) {
    vi quarters[4], pairs[2];
    UNROLL
    for (uint32_t i = 0; i < 4; i++) { /* quarter k of quarters[i]: v[4 * k + i] */
        vi low = combine(_mm512_shuffle_i32x4(v[i], v[i + 4], 0x44), _mm512_shuffle_i32x4(v[i], v[i + 4], 0xee));
        vi high =
            combine(_mm512_shuffle_i32x4(v[i + 8], v[i + 12], 0x44), _mm512_shuffle_i32x4(v[i + 8], v[i + 12], 0xee));
        quarters[i] = combine(_mm512_shuffle_i32x4(low, high, 0x88), _mm512_shuffle_i32x4(low, high, 0xdd));
    }
    UNROLL
    for (uint32_t i = 0; i < 2; i++)
        pairs[i] = combine(_mm512_unpacklo_epi32(quarters[2 * i], quarters[2 * i + 1]),
                           _mm512_unpackhi_epi32(quarters[2 * i], quarters[2 * i + 1]));
    return combine(_mm512_unpacklo_epi64(pairs[0], pairs[1]), _mm512_unpackhi_epi64(pairs[0], pairs[1]));
}

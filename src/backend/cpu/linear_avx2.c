/* linear_avx2.c - AVX2 with FMA and F16C: a vector is half the panel's group.
 *
 * Products come as sums of two in 16 bits (vpmaddubsw). How many of those may be added before they are widened depends
 * on the codes' size, so that nothing saturates: 2 * 127 * (2^bits - 1) a group. Codes of 8 bits would not fit even
 * once; they go back to signed form, and the sign moves to the activations.
 */
#include "backend/cpu/kernels.h"

#include <immintrin.h>

#define TARGET                   __attribute__((target("avx2,fma,f16c")))
#define KERNEL                   static TARGET
#define TILE_KERNEL              static __attribute__((noinline)) TARGET
#define INLINE                   static inline __attribute__((always_inline)) TARGET
#define UNROLL                   AF_UNROLL
#define LANES                    8
#define SIDE(T)                  1
#define TILE_SIZES(F, ...)       F(1, __VA_ARGS__) F(2, __VA_ARGS__) F(4, __VA_ARGS__)
#define FLOAT_TILE_SIZES(F, ...) F(1, __VA_ARGS__) F(2, __VA_ARGS__)
#define TOGETHER                 4
#define SIGNED_BYTES             true
#define APART

typedef __m256 vf;
typedef __m256i vi;
typedef uint16_t v16 __attribute__((vector_size(32)));
typedef int32_t v32 __attribute__((vector_size(32)));

INLINE vi load(const unsigned char *p) {
    return _mm256_load_si256((const __m256i *)p);
}

INLINE vf load_floats(const unsigned char *p) {
    return _mm256_loadu_ps((const float *)p);
}

INLINE vf load_halves(const unsigned char *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

INLINE vf load_bfloats(const unsigned char *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}

INLINE vi load_bytes(const unsigned char *p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
}

INLINE vi load_signed_bytes(const unsigned char *p) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p));
}

/* 16 bytes, again in each 16 of the vector. */
INLINE vi load_16_bytes(const uint8_t *p) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p));
}

/* table[index] of each byte, an index below 16. */
INLINE vi look_up(vi table, vi index) {
    return _mm256_shuffle_epi8(table, index);
}

INLINE void store(float *p, vf v) {
    _mm256_storeu_ps(p, v);
}

INLINE vf floats_of(float value) {
    return _mm256_set1_ps(value);
}

INLINE vi ints_of(int32_t value) {
    return _mm256_set1_epi32(value);
}

INLINE vi ints_at(const int8_t *p) {
    int32_t four;
    __builtin_memcpy(&four, p, sizeof four);
    return _mm256_set1_epi32(four);
}

INLINE vi bytes_of(int8_t value) {
    return _mm256_set1_epi8(value);
}

INLINE vi and (vi a, vi b) {
    return _mm256_and_si256(a, b);
}

INLINE vi or_and(vi a, vi b, vi mask) { /* a | (b & mask) */
    return _mm256_or_si256(a, _mm256_and_si256(b, mask));
}

INLINE vi shift_right_4(vi a) {
    return _mm256_srli_epi32(a, 4);
}

INLINE vf negative(vf a) {
    return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f));
}

INLINE vf add(vf a, vf b) {
    return _mm256_add_ps(a, b);
}

INLINE vf mul(vf a, vf b) {
    return _mm256_mul_ps(a, b);
}

INLINE vf mul_add(vf a, vf b, vf c) {
    return _mm256_fmadd_ps(a, b, c);
}

INLINE vf to_float(vi a) {
    return _mm256_cvtepi32_ps(a);
}

INLINE vi to_int(vf a) { /* rounds to nearest even; NaN gives 0 */
    return _mm256_and_si256(_mm256_cvtps_epi32(a), _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_ORD_Q)));
}

INLINE vf divide(vf a, vf b) {
    return _mm256_div_ps(a, b);
}

/* a / b, or 0 where b is less than `least` or NaN. */
INLINE vf divide_or_zero(float a, vf b, float least) {
    return _mm256_and_ps(_mm256_div_ps(floats_of(a), b), _mm256_cmp_ps(b, floats_of(least), _CMP_GE_OQ));
}

INLINE vi add_ints(vi a, vi b) {
    return _mm256_add_epi32(a, b);
}

INLINE vi max_unsigned(vi a, vi b) {
    return _mm256_max_epu32(a, b);
}

INLINE uint32_t largest(vi a) {
    __m128i m = _mm_max_epu32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(m);
}

INLINE vi widen(vi pairs) {
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

INLINE vi dot_bytes(const vi *codes, const int8_t *q, uint32_t groups, vi sum) {
    UNROLL
    for (uint32_t g = 0; g < groups; g++) {
        vi weights = _mm256_xor_si256(codes[g], _mm256_set1_epi8(-128));
        vi acts = _mm256_sign_epi8(ints_at(q + 4 * g), weights);
        sum = _mm256_add_epi32(sum, widen(_mm256_maddubs_epi16(_mm256_abs_epi8(weights), acts)));
    }
    return sum;
}

INLINE vi dot_codes(uint32_t bits, const vi *codes, const int8_t *q, uint32_t groups, vi sum) {
    uint32_t together = bits <= 4 ? 8 : bits == 5 ? 4 : 2;
    vi pairs = _mm256_setzero_si256();
    UNROLL
    for (uint32_t g = 0; g < groups; g++) {
        vi product = _mm256_maddubs_epi16(codes[g], ints_at(q + 4 * g));
        pairs = g % together ? _mm256_add_epi16(pairs, product) : product;
        if ((g + 1) % together == 0 || g + 1 == groups) sum = _mm256_add_epi32(sum, widen(pairs));
    }
    return sum;
}

/* Adds to each token's sum, their q `stride` apart, code * q over `groups` groups of 4 columns. */
INLINE void dot(uint32_t bits, const vi *codes, const int8_t *q, size_t stride, uint32_t groups, uint32_t tokens,
                vi *sums) {
    UNROLL
    for (uint32_t i = 0; i < tokens; i++, q += stride)
        sums[i] = bits == 8 ? dot_bytes(codes, q, groups, sums[i]) : dot_codes(bits, codes, q, groups, sums[i]);
}

INLINE void store_ints(int32_t *p, vi v) {
    _mm256_storeu_si256((__m256i *)p, v);
}

INLINE void store_16_bytes(int8_t *p, const vi *v) {
    vi words = _mm256_permute4x64_epi64(_mm256_packs_epi32(v[0], v[1]), 0xd8);
    _mm_storeu_si128((__m128i *)p, _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}

INLINE int32_t total(vi v) {
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1));
    return _mm_cvtsi128_si32(sum);
}

typedef vi (*combine_fn)(vi a, vi b);

/* Lane i of the result combines all lanes of v[i]: halves of two vectors meet, then their lanes. */
INLINE vi across(combine_fn combine, const vi v[8]) {
    vi halves[4], pairs[2];
    UNROLL
    for (uint32_t i = 0; i < 4; i++) /* half k of halves[i]: v[4 * k + i] */
        halves[i] =
            combine(_mm256_permute2x128_si256(v[i], v[i + 4], 0x20), _mm256_permute2x128_si256(v[i], v[i + 4], 0x31));
    UNROLL
    for (uint32_t i = 0; i < 2; i++)
        pairs[i] = combine(_mm256_unpacklo_epi32(halves[2 * i], halves[2 * i + 1]),
                           _mm256_unpackhi_epi32(halves[2 * i], halves[2 * i + 1]));
    return combine(_mm256_unpacklo_epi64(pairs[0], pairs[1]), _mm256_unpackhi_epi64(pairs[0], pairs[1]));
}

#include "backend/cpu/linear_lanes.h"

const af_kernels af_kernels_avx2 = AF_KERNELS_TABLE;

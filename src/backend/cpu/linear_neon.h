/* linear_neon.h - the words of linear_lanes.h in NEON, all but `dot`: a vector is a quarter of the panel's group, and
 * as many quarters go side by side as leave registers for their sums. Included once by each file that speaks them;
 * TARGET, if defined before, names more instruction sets.
 */
#include "backend/cpu/kernels.h"

#include <arm_neon.h>

#ifndef TARGET
#define TARGET
#endif
#define KERNEL                   static TARGET
#define TILE_KERNEL              static __attribute__((noinline)) TARGET
#define INLINE                   static inline __attribute__((always_inline)) TARGET
#define UNROLL                   AF_UNROLL
#define LANES                    4
#define SIDE(T)                  ((T) <= 2 ? 4 : 8 / (T))
#define TILE_SIZES(F, ...)       F(1, __VA_ARGS__) F(2, __VA_ARGS__) F(4, __VA_ARGS__) F(8, __VA_ARGS__)
#define FLOAT_TILE_SIZES(F, ...) TILE_SIZES(F, __VA_ARGS__)
#ifndef TOGETHER
#define TOGETHER 4
#endif
/* gcc would load all codes of a tile at once and run out of registers. */
#define APART __asm__ volatile("" ::: "memory")

typedef float32x4_t vf;
typedef int32x4_t vi;
typedef uint16x8_t v16;
typedef int32x4_t v32;

INLINE vi load(const unsigned char *p) {
    return vreinterpretq_s32_u8(vld1q_u8(p));
}

INLINE vf load_floats(const unsigned char *p) {
    return vld1q_f32((const float *)p);
}

INLINE vf load_halves(const unsigned char *p) {
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}

INLINE vf load_bfloats(const unsigned char *p) {
    return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p)), 16));
}

INLINE uint8x8_t load_4_bytes(const unsigned char *p) { /* and zeros */
    uint32_t four;
    __builtin_memcpy(&four, p, sizeof four);
    return vcreate_u8(four);
}

INLINE vi load_bytes(const unsigned char *p) {
    return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(load_4_bytes(p)))));
}

INLINE vi load_signed_bytes(const unsigned char *p) {
    return vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(load_4_bytes(p)))));
}

INLINE vi load_16_bytes(const uint8_t *p) {
    return load(p);
}

/* table[index] of each byte, an index below 16. */
INLINE vi look_up(vi table, vi index) {
    return vreinterpretq_s32_u8(vqtbl1q_u8(vreinterpretq_u8_s32(table), vreinterpretq_u8_s32(index)));
}

INLINE void store(float *p, vf v) {
    vst1q_f32(p, v);
}

/* Without a call, over which vectors in registers would not live. */
#define STORE_FIRST
INLINE void store_first(float *p, vf v, uint32_t n) {
    vst1q_lane_f32(p, v, 0);
    if (n > 1) vst1q_lane_f32(p + 1, v, 1);
    if (n > 2) vst1q_lane_f32(p + 2, v, 2);
}

INLINE vf floats_of(float value) {
    return vdupq_n_f32(value);
}

INLINE vi ints_of(int32_t value) {
    return vdupq_n_s32(value);
}

INLINE vi bytes_of(int8_t value) {
    return vreinterpretq_s32_s8(vdupq_n_s8(value));
}

INLINE vi and (vi a, vi b) {
    return vandq_s32(a, b);
}

INLINE vi or_and(vi a, vi b, vi mask) { /* a | (b & mask) */
    return vorrq_s32(a, vandq_s32(b, mask));
}

INLINE vi shift_right_4(vi a) { /* of numbers that are not negative */
    return vshrq_n_s32(a, 4);
}

INLINE vf negative(vf a) {
    return vnegq_f32(a);
}

INLINE vf add(vf a, vf b) {
    return vaddq_f32(a, b);
}

INLINE vf mul(vf a, vf b) {
    return vmulq_f32(a, b);
}

INLINE vf mul_add(vf a, vf b, vf c) {
    return vfmaq_f32(c, a, b);
}

INLINE vf to_float(vi a) {
    return vcvtq_f32_s32(a);
}

INLINE vi to_int(vf a) { /* rounds to nearest even; NaN gives 0 */
    return vcvtnq_s32_f32(a);
}

INLINE vf divide(vf a, vf b) {
    return vdivq_f32(a, b);
}

/* a / b, or 0 where b is less than `least` or NaN. */
INLINE vf divide_or_zero(float a, vf b, float least) {
    const uint32x4_t quotient = vreinterpretq_u32_f32(vdivq_f32(floats_of(a), b));
    return vreinterpretq_f32_u32(vandq_u32(quotient, vcgeq_f32(b, floats_of(least))));
}

INLINE vi add_ints(vi a, vi b) {
    return vaddq_s32(a, b);
}

INLINE vi max_unsigned(vi a, vi b) {
    return vreinterpretq_s32_u32(vmaxq_u32(vreinterpretq_u32_s32(a), vreinterpretq_u32_s32(b)));
}

INLINE uint32_t largest(vi a) {
    return vmaxvq_u32(vreinterpretq_u32_s32(a));
}

INLINE void store_ints(int32_t *p, vi v) {
    vst1q_s32(p, v);
}

INLINE void store_16_bytes(int8_t *p, const vi *v) {
    const int16x8_t low = vcombine_s16(vmovn_s32(v[0]), vmovn_s32(v[1]));
    const int16x8_t high = vcombine_s16(vmovn_s32(v[2]), vmovn_s32(v[3]));
    vst1q_s8(p, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
}

INLINE int32_t total(vi v) {
    return vaddvq_s32(v);
}

typedef vi (*combine_fn)(vi a, vi b);

INLINE vi pairs_across(combine_fn combine, vi a, vi b) { /* a02, b02, a13, b13 */
    return combine(vzip1q_s32(a, b), vzip2q_s32(a, b));
}

/* Lane i of the result combines all lanes of v[i]. */
INLINE vi across(combine_fn combine, const vi v[4]) {
    const int64x2_t a = vreinterpretq_s64_s32(pairs_across(combine, v[0], v[1]));
    const int64x2_t b = vreinterpretq_s64_s32(pairs_across(combine, v[2], v[3]));
    return combine(vreinterpretq_s32_s64(vzip1q_s64(a, b)), vreinterpretq_s32_s64(vzip2q_s64(a, b)));
}

/* Codes as signed bytes. Those of 8 bits do not fit: 128 is taken off them. */
INLINE int8x16_t signed_codes(uint32_t bits, vi codes) {
    return vreinterpretq_s8_s32(bits == 8 ? veorq_s32(codes, bytes_of(-128)) : codes);
}

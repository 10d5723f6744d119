/* lanes_neon.h - sixteen floats as four 128-bit registers: NEON as every aarch64 processor has it (see lanes.h). */
#ifndef AF_CPU_LANES_NEON_H
#define AF_CPU_LANES_NEON_H

#include <arm_neon.h>
#include <string.h>

#define LANES_TARGET
#define LANES_FN   static inline __attribute__((always_inline))
#define LANES_TILE 2

typedef struct lanes {
    float32x4_t q0, q1, q2, q3;
} lanes;

/* The same of each quarter of one, two or three operands. */
#define LANES_OF_1(f, a)    ((lanes){f((a).q0), f((a).q1), f((a).q2), f((a).q3)})
#define LANES_OF_2(f, a, b) ((lanes){f((a).q0, (b).q0), f((a).q1, (b).q1), f((a).q2, (b).q2), f((a).q3, (b).q3)})
#define LANES_OF_3(f, a, b, c)                                                                                         \
    ((lanes){f((a).q0, (b).q0, (c).q0), f((a).q1, (b).q1, (c).q1), f((a).q2, (b).q2, (c).q2),                          \
             f((a).q3, (b).q3, (c).q3)})

LANES_FN lanes lanes_set(float x) {
    const float32x4_t all = vdupq_n_f32(x);
    return (lanes){all, all, all, all};
}
LANES_FN lanes lanes_zero(void) {
    return lanes_set(0.0f);
}
LANES_FN lanes lanes_load(const float *p) {
    return (lanes){vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)};
}
LANES_FN void lanes_store(float *p, lanes a) {
    vst1q_f32(p, a.q0);
    vst1q_f32(p + 4, a.q1);
    vst1q_f32(p + 8, a.q2);
    vst1q_f32(p + 12, a.q3);
}
#include "backend/cpu/lanes_part.h"
LANES_FN float32x4_t lanes_quarter_f16(const uint16_t *p) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
LANES_FN lanes lanes_load_f16(const uint16_t *p) {
    return (lanes){lanes_quarter_f16(p), lanes_quarter_f16(p + 4), lanes_quarter_f16(p + 8), lanes_quarter_f16(p + 12)};
}
LANES_FN uint16x4_t lanes_half_floats(float32x4_t a) {
    return vreinterpret_u16_f16(vcvt_f16_f32(a));
}
LANES_FN void lanes_store_f16(uint16_t *p, lanes a) {
    vst1_u16(p, lanes_half_floats(a.q0));
    vst1_u16(p + 4, lanes_half_floats(a.q1));
    vst1_u16(p + 8, lanes_half_floats(a.q2));
    vst1_u16(p + 12, lanes_half_floats(a.q3));
}
LANES_FN lanes lanes_set_f16(uint16_t x) {
    const float32x4_t all = vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(x)));
    return (lanes){all, all, all, all};
}
LANES_FN float32x4_t lanes_of_i16(int16x4_t a) {
    return vcvtq_f32_s32(vmovl_s16(a));
}
LANES_FN lanes lanes_load_i8(const int8_t *p) {
    const int8x16_t bytes = vld1q_s8(p);
    const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_s8(vget_high_s8(bytes));
    return (lanes){lanes_of_i16(vget_low_s16(low)), lanes_of_i16(vget_high_s16(low)), lanes_of_i16(vget_low_s16(high)),
                   lanes_of_i16(vget_high_s16(high))};
}
LANES_FN int8x8_t lanes_half_i8(float32x4_t a, float32x4_t b) {
    return vmovn_s16(vcombine_s16(vmovn_s32(vcvtq_s32_f32(a)), vmovn_s32(vcvtq_s32_f32(b))));
}
LANES_FN void lanes_store_i8(int8_t *p, lanes a) {
    vst1_s8(p, lanes_half_i8(a.q0, a.q1));
    vst1_s8(p + 8, lanes_half_i8(a.q2, a.q3));
}
LANES_FN lanes lanes_add(lanes a, lanes b) {
    return LANES_OF_2(vaddq_f32, a, b);
}
LANES_FN lanes lanes_sub(lanes a, lanes b) {
    return LANES_OF_2(vsubq_f32, a, b);
}
LANES_FN lanes lanes_mul(lanes a, lanes b) {
    return LANES_OF_2(vmulq_f32, a, b);
}
LANES_FN lanes lanes_div(lanes a, lanes b) {
    return LANES_OF_2(vdivq_f32, a, b);
}
LANES_FN lanes lanes_fma(lanes a, lanes b, lanes c) {
    return LANES_OF_3(vfmaq_f32, c, a, b);
}
LANES_FN float32x4_t lanes_max_quarter(float32x4_t a, float32x4_t b) { /* FMAX would keep a NaN of either */
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}
LANES_FN lanes lanes_max(lanes a, lanes b) {
    return LANES_OF_2(lanes_max_quarter, a, b);
}
LANES_FN lanes lanes_select_lt(lanes a, lanes b, lanes x, lanes y) {
    return (lanes){vbslq_f32(vcltq_f32(a.q0, b.q0), x.q0, y.q0), vbslq_f32(vcltq_f32(a.q1, b.q1), x.q1, y.q1),
                   vbslq_f32(vcltq_f32(a.q2, b.q2), x.q2, y.q2), vbslq_f32(vcltq_f32(a.q3, b.q3), x.q3, y.q3)};
}
LANES_FN float32x4_t lanes_within_quarter(int first, int begin, int end, float32x4_t x, float32x4_t y) {
    const int32x4_t index = vaddq_s32((int32x4_t){0, 1, 2, 3}, vdupq_n_s32(first));
    const uint32x4_t from = vcgeq_s32(index, vdupq_n_s32(begin));
    return vbslq_f32(vandq_u32(from, vcltq_s32(index, vdupq_n_s32(end))), x, y);
}
LANES_FN lanes lanes_within(int begin, int end, lanes x, lanes y) {
    return (lanes){lanes_within_quarter(0, begin, end, x.q0, y.q0), lanes_within_quarter(4, begin, end, x.q1, y.q1),
                   lanes_within_quarter(8, begin, end, x.q2, y.q2), lanes_within_quarter(12, begin, end, x.q3, y.q3)};
}
LANES_FN float32x4_t lanes_pow2_quarter(float32x4_t t) {
    return vreinterpretq_f32_u32(vshlq_n_u32(vaddq_u32(vreinterpretq_u32_f32(t), vdupq_n_u32(127)), 23));
}
LANES_FN lanes lanes_pow2(lanes t) {
    return LANES_OF_1(lanes_pow2_quarter, t);
}
LANES_FN lanes lanes_swap_pairs(lanes a) {
    return LANES_OF_1(vrev64q_f32, a);
}
LANES_FN float lanes_sum(lanes a) {
    const float32x4_t by4 = vaddq_f32(vaddq_f32(a.q0, a.q2), vaddq_f32(a.q1, a.q3));
    const float32x2_t by2 = vadd_f32(vget_low_f32(by4), vget_high_f32(by4));
    return vget_lane_f32(by2, 0) + vget_lane_f32(by2, 1);
}
LANES_FN float lanes_peak(lanes a) {
    const float32x4_t by4 = lanes_max_quarter(lanes_max_quarter(a.q0, a.q2), lanes_max_quarter(a.q1, a.q3));
    const float32x2_t low = vget_low_f32(by4), high = vget_high_f32(by4);
    const float32x2_t by2 = vbsl_f32(vcgt_f32(low, high), low, high);
    const float first = vget_lane_f32(by2, 0), second = vget_lane_f32(by2, 1);
    return first > second ? first : second;
}

#undef LANES_OF_1
#undef LANES_OF_2
#undef LANES_OF_3

#endif

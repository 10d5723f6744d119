/* kernel_check_peaks.c - what this machine can do at best, measured: multiply-adds in registers with each instruction
 * set, one vector of sums after another so that none waits for the last, on all threads. */
#include "kernel_check.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define RUNS 500000
#define SUMS 12

/* A pool task `name`: RUNS times SUMS steps of sums[i] and x, which the compiler must not see through. */
#define PEAK(name, target, vector, zero, barrier, step)                                                                \
    target static void name(void *user, uint32_t task, uint32_t worker) {                                              \
        (void)user, (void)task, (void)worker;                                                                          \
        vector x = zero, sums[SUMS];                                                                                   \
        for (int i = 0; i < SUMS; i++) sums[i] = x;                                                                    \
        for (int run = 0; run < RUNS; run++) {                                                                         \
            _Pragma("GCC unroll 12") for (int i = 0; i < SUMS; i++) step;                                              \
            __asm__ volatile("" : barrier(x));                                                                         \
        }                                                                                                              \
        for (int i = 0; i < SUMS; i++) __asm__ volatile("" : barrier(sums[i]));                                        \
    }

#define PLAIN
#define FEATURES(list) __attribute__((target(list)))

/* In the vectors that every processor of the kind has, as the compiler finds them in plain C too. */
typedef float floats __attribute__((vector_size(16)));
typedef int32_t ints __attribute__((vector_size(16)));
#if defined(__x86_64__)
#define REGISTER "+x"
#elif defined(__aarch64__)
#define REGISTER "+w"
#else
#define REGISTER "+m"
#endif
PEAK(plain_int8, PLAIN, ints, (ints){0}, REGISTER, sums[i] = sums[i] * x + x)
PEAK(plain_f32, PLAIN, floats, (floats){0}, REGISTER, sums[i] = sums[i] * x + x)

typedef struct peak {
    af_pool_fn int8, f32;
    double int8_macs, f32_macs; /* of one step */
} peak;

#if defined(__x86_64__)
PEAK(avx2_int8, FEATURES("avx2"), __m256i, _mm256_setzero_si256(), "+x",
     sums[i] = _mm256_add_epi32(sums[i], _mm256_madd_epi16(_mm256_maddubs_epi16(x, sums[i]), x)))
PEAK(avx2_f32, FEATURES("avx2,fma"), __m256, _mm256_setzero_ps(), "+x", sums[i] = _mm256_fmadd_ps(x, x, sums[i]))
PEAK(avx512_int8, FEATURES("avx512f,avx512vnni"), __m512i, _mm512_setzero_si512(), "+v",
     sums[i] = _mm512_dpbusd_epi32(sums[i], x, x))
PEAK(avx512_f32, FEATURES("avx512f"), __m512, _mm512_setzero_ps(), "+v", sums[i] = _mm512_fmadd_ps(x, x, sums[i]))

/* Tiles half as deep as they could be, as a block of 32 columns leaves them. */
FEATURES("amx-tile,amx-int8") static void amx_int8(void *user, uint32_t task, uint32_t worker) {
    (void)user, (void)task, (void)worker;
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } SHAPES = {1, 0, {0}, {64, 64, 64, 64, 32, 64}, {16, 16, 16, 16, 16, 8}};
    _tile_loadconfig(&SHAPES);
    for (int run = 0; run < RUNS / 4; run++) {
        _tile_dpbssd(0, 4, 5);
        _tile_dpbssd(1, 4, 5);
        _tile_dpbssd(2, 4, 5);
        _tile_dpbssd(3, 4, 5);
    }
    _tile_release();
}

static const peak PEAKS[] = {
    [AF_ISA_SCALAR] = {plain_int8, plain_f32, 4, 4},
    [AF_ISA_AVX2] = {avx2_int8, avx2_f32, 32, 8},
    [AF_ISA_AVX512] = {avx512_int8, avx512_f32, 64, 16},
    [AF_ISA_AMX] = {amx_int8, avx512_f32, 16.0 * 16 * 32 / SUMS, 16}, /* a tile a run */
};
#elif defined(__aarch64__)
PEAK(neon_int8, PLAIN, int32x4_t, vdupq_n_s32(0), REGISTER,
     sums[i] = vpadalq_s16(sums[i],
                           vmull_s8(vreinterpret_s8_s32(vget_low_s32(sums[i])), vreinterpret_s8_s32(vget_high_s32(x)))))
PEAK(neon_f32, PLAIN, float32x4_t, vdupq_n_f32(0), REGISTER, sums[i] = vfmaq_f32(sums[i], x, x))
PEAK(dotprod_int8, FEATURES("arch=armv8.2-a+dotprod"), int32x4_t, vdupq_n_s32(0), REGISTER,
     sums[i] = vdotq_s32(sums[i], vreinterpretq_s8_s32(x), vreinterpretq_s8_s32(x)))
PEAK(i8mm_int8, FEATURES("arch=armv8.2-a+dotprod+i8mm"), int32x4_t, vdupq_n_s32(0), REGISTER,
     sums[i] = vmmlaq_s32(sums[i], vreinterpretq_s8_s32(x), vreinterpretq_s8_s32(x)))

static const peak PEAKS[] = {
    [AF_ISA_SCALAR] = {plain_int8, plain_f32, 4, 4},
    [AF_ISA_NEON] = {neon_int8, neon_f32, 8, 4},
    [AF_ISA_DOTPROD] = {dotprod_int8, neon_f32, 16, 4},
    [AF_ISA_I8MM] = {i8mm_int8, neon_f32, 32, 4},
};
#else
static const peak PEAKS[] = {[AF_ISA_SCALAR] = {plain_int8, plain_f32, 4, 4}};
#endif

static void run_on_all(void *fn) {
    af_pool_run(kernel_pool(), *(const af_pool_fn *)fn, NULL, af_pool_threads(kernel_pool()));
}

static double rate(af_pool_fn fn, double macs) {
    return macs * SUMS * RUNS * af_pool_threads(kernel_pool()) / kernel_time(run_on_all, &fn);
}

kernel_peaks kernel_peaks_of(af_isa isa) {
    static kernel_peaks found[sizeof PEAKS / sizeof *PEAKS];
    kernel_peaks *p = &found[isa];
    if (p->int8 == 0)
        *p = (kernel_peaks){rate(PEAKS[isa].int8, PEAKS[isa].int8_macs), rate(PEAKS[isa].f32, PEAKS[isa].f32_macs)};
    return *p;
}

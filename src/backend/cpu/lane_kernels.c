/* lane_kernels.c - which table of kernels serves an instruction set, in rising order. */
#include "backend/cpu/lane_kernels.h"

static const af_lane_kernels *const tables[] = {
    [AF_ISA_SCALAR] = &af_lane_kernels_scalar,
#if defined(__x86_64__)
    [AF_ISA_AVX2] = &af_lane_kernels_avx2,
    [AF_ISA_AVX512] = &af_lane_kernels_avx512,
    [AF_ISA_AMX] = &af_lane_kernels_avx512,
#elif defined(__aarch64__)
    [AF_ISA_NEON] = &af_lane_kernels_neon,
    [AF_ISA_DOTPROD] = &af_lane_kernels_neon,
    [AF_ISA_I8MM] = &af_lane_kernels_neon,
#endif
};

const af_lane_kernels *af_lane_kernels_of(af_isa isa) {
    return (size_t)isa < sizeof tables / sizeof *tables ? tables[isa] : &af_lane_kernels_scalar;
}

/* isa.c - which instruction set this process uses, and its kernels. */
#include "backend/cpu/kernels.h"
#include "base/os.h"

#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

static const char *const ISA_NAMES[] = {
    [AF_ISA_SCALAR] = "scalar", [AF_ISA_AVX2] = "avx2", [AF_ISA_AVX512] = "avx512-vnni", [AF_ISA_AMX] = "amx-int8"};

#if defined(__x86_64__)
static bool has_f16c(void) { /* clang's __builtin_cpu_supports learned this name late */
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}

static bool has_int8_tiles(void) {
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && d & 1u << 24 /* tiles */ && d & 1u << 25 /* int8 */;
}
#endif

static af_isa machine_isa(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vnni");
    if (avx2 && avx512) return has_int8_tiles() && af_os_allow_tiles() ? AF_ISA_AMX : AF_ISA_AVX512;
    if (avx2) return AF_ISA_AVX2;
#endif
    return AF_ISA_SCALAR;
}

af_isa af_cpu_isa(void) {
    af_isa best = machine_isa();
    const char *wanted = getenv("AF_CPU_ISA");
    if (!wanted) return best;
    for (af_isa isa = AF_ISA_SCALAR; isa < best; isa++) {
        if (strncmp(wanted, ISA_NAMES[isa], strlen(wanted)) == 0 && *wanted) return isa;
    }
    return best;
}

const char *af_isa_name(af_isa isa) {
    return ISA_NAMES[isa];
}

const af_kernels *af_kernels_of(af_isa isa) {
#if defined(__x86_64__)
    if (isa == AF_ISA_AMX) return &af_kernels_amx;
    if (isa == AF_ISA_AVX512) return &af_kernels_avx512;
    if (isa == AF_ISA_AVX2) return &af_kernels_avx2;
#endif
    (void)isa;
    return &af_kernels_scalar;
}

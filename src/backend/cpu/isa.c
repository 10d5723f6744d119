/* isa.c - which instruction set this process uses, and its kernels. */
#include "backend/cpu/kernels.h"
#include "base/os.h"

#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

static const struct {
    const char *name;
    const af_kernels *kernels;
} ISAS[] = {
    [AF_ISA_SCALAR] = {"scalar", &af_kernels_scalar},
#if defined(__x86_64__)
    [AF_ISA_AVX2] = {"avx2", &af_kernels_avx2},
    [AF_ISA_AVX512] = {"avx512-vnni", &af_kernels_avx512},
    [AF_ISA_AMX] = {"amx-int8", &af_kernels_amx},
#elif defined(__aarch64__)
    [AF_ISA_NEON] = {"neon", &af_kernels_neon},
    [AF_ISA_DOTPROD] = {"dotprod", &af_kernels_dotprod},
    [AF_ISA_I8MM] = {"i8mm", &af_kernels_i8mm},
#endif
};

#if defined(__x86_64__)
static bool has_f16c(void) { /* clang's __builtin_cpu_supports learned this name late */
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}

static bool has_int8_tiles(void) {
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && d & 1u << 24 /* tiles */ && d & 1u << 25 /* int8 */;
}

static af_isa machine_isa(void) {
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vnni");
    if (avx2 && avx512) return has_int8_tiles() && af_os_allow_tiles() ? AF_ISA_AMX : AF_ISA_AVX512;
    return avx2 ? AF_ISA_AVX2 : AF_ISA_SCALAR;
}
#elif defined(__aarch64__)
static af_isa machine_isa(void) {
    const unsigned has = af_os_arm_features();
    if (!(has & AF_ARM_DOTPROD)) return AF_ISA_NEON;
    return has & AF_ARM_I8MM ? AF_ISA_I8MM : AF_ISA_DOTPROD;
}
#else
static af_isa machine_isa(void) {
    return AF_ISA_SCALAR;
}
#endif

af_isa af_cpu_isa(void) {
    af_isa best = machine_isa();
    const char *wanted = getenv("AF_CPU_ISA");
    if (!wanted) return best;
    for (af_isa isa = AF_ISA_SCALAR; isa < best; isa++) {
        if (strncmp(wanted, ISAS[isa].name, strlen(wanted)) == 0 && *wanted) return isa;
    }
    return best;
}

const char *af_isa_name(af_isa isa) {
    return ISAS[isa].name;
}

const af_kernels *af_kernels_of(af_isa isa) {
    return ISAS[isa].kernels;
}

/* weigh.c - see weigh.h: which widths there are, and which of them this machine has. */
#include "engine/weigh.h"

#include <string.h>

typedef float four __attribute__((vector_size(16)));
typedef double double_lanes __attribute__((vector_size(32)));

#define WEIGH_BYTES 16
#define WEIGH_TARGET
#define LANE(name) name##_16
#include "engine/weigh_lanes.h"

#ifdef __x86_64__
#define WEIGH_BYTES  32
#define WEIGH_TARGET __attribute__((target("avx2")))
#define LANE(name)   name##_32
#include "engine/weigh_lanes.h"

#define WEIGH_BYTES  64
#define WEIGH_TARGET __attribute__((target("avx512f,avx512dq")))
#define LANE(name)   name##_64
#include "engine/weigh_lanes.h"
#endif

const af_weigher *af_weigher_of(uint32_t bytes) {
    static const af_weigher narrow = {weigh_16, sum_16};
    if (bytes == 16) return &narrow;
#ifdef __x86_64__
    static const af_weigher wide = {weigh_32, sum_32}, widest = {weigh_64, sum_64};
    __builtin_cpu_init();
    if (bytes == 32 && __builtin_cpu_supports("avx2")) return &wide;
    if (bytes == 64 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) return &widest;
#endif
    return NULL;
}

const af_weigher *af_weigher_best(void) {
    const af_weigher *best = NULL;
    for (uint32_t bytes = 64; !best; bytes /= 2) best = af_weigher_of(bytes);
    return best;
}

/* gpu_pace.c - steps to a submit, from what the submits before took. Steps differ, and attention grows with the
 * context, so half of the budget is aimed at, and a portion grows to twice the last one's size at the most. */
#include "backend/webgpu/gpu_pace.h"

#include "base/log.h"

#include <stdlib.h>

#define FIRST_PORTION    16u /* steps, before anything was seen */
#define DEFAULT_MS       500u
#define MOST_MS          60000u
#define NANOSECONDS_A_MS 1000000ull

void af_gpu_pace_open(af_gpu_pace *pace, const af_gpu *gpu) {
    const char *text = getenv("SHIMMY_TDR_BUDGET_MS");
    const bool likely = gpu->info.class == AF_GPU_INTEGRATED;
    uint64_t ms = likely ? DEFAULT_MS : 0;
    if (text && *text >= '0' && *text <= '9') ms = strtoull(text, NULL, 10);
    *pace = (af_gpu_pace){.budget = (ms < MOST_MS ? ms : MOST_MS) * NANOSECONDS_A_MS,
                          .trace = af_env_flag("AIRFRAME_TRACE_SUBMITS")};
}

uint32_t af_gpu_pace_next(af_gpu_pace *pace, uint32_t left, uint32_t tokens) {
    double portion = FIRST_PORTION;
    if (pace->cost > 0) portion = (double)pace->budget / 2 / (pace->cost * tokens);
    if (pace->portion && portion > 2.0 * pace->portion) portion = 2.0 * pace->portion;
    const uint32_t half = (left + 1) / 2;
    pace->portion = portion < 1 ? 1 : portion < half ? (uint32_t)portion : half;
    return pace->portion;
}

void af_gpu_pace_took(af_gpu_pace *pace, uint32_t tokens, uint64_t nanoseconds) {
    pace->cost = (double)nanoseconds / ((double)pace->portion * tokens);
}

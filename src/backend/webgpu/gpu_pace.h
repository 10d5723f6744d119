/* gpu_pace.h - how many steps one submit may hold, so that it ends before a desktop's watchdog takes it for hung.
 *
 * SHIMMY_TDR_BUDGET_MS is the time of one submit; 0: no limit. Unset it is 500 on GPUs that a screen is likely to hang
 * on, integrated ones, and none elsewhere. Only batches beyond the decode list are cut: a token alone takes no such
 * time.
 */
#ifndef AF_GPU_PACE_H
#define AF_GPU_PACE_H

#include "backend/webgpu/gpu.h"

typedef struct af_gpu_pace {
    uint64_t budget;  /* nanoseconds; 0: none */
    double cost;      /* nanoseconds of a step, for each token, in the last submit; 0: none was seen */
    uint32_t portion; /* steps of the last submit */
    uint32_t submits; /* of this batch */
    bool trace;       /* AIRFRAME_TRACE_SUBMITS */
} af_gpu_pace;

void af_gpu_pace_open(af_gpu_pace *pace, const af_gpu *gpu);
/* Steps of the next submit, of `left` that are left: at most half of them, so that what is left shows its cost. */
uint32_t af_gpu_pace_next(af_gpu_pace *pace, uint32_t left, uint32_t tokens);
/* The last submit, of pace->portion steps, took so long. */
void af_gpu_pace_took(af_gpu_pace *pace, uint32_t tokens, uint64_t nanoseconds);

#endif

/* gpu_profile.h - where a batch's time goes: microseconds of each kernel, by timestamps around every dispatch.
 *
 * AIRFRAME_GPU_PROFILE=1 turns it on; a table is printed when the backend closes. Each dispatch then stands in a pass
 * of its own, so the gaps between dispatches are not those of a normal run: compare kernels with each other, not sums
 * with the tokens a second.
 */
#ifndef AF_GPU_PROFILE_H
#define AF_GPU_PROFILE_H

#include "backend/webgpu/gpu_backend.h"

typedef struct af_gpu_profile af_gpu_profile;

/* *out NULL where it is not turned on or the device has no timestamps. */
int af_gpu_profile_open(af_gpu *gpu, size_t steps, af_gpu_profile **out, af_error *error);
void af_gpu_profile_close(af_gpu_profile *profile); /* prints */

/* Encodes steps of the batch at hand, each in a pass of its own. */
void af_gpu_profile_encode(af_gpu_profile *profile, const af_gpu_backend *b, WGPUCommandEncoder encoder,
                           const af_gpu_step *first, const af_gpu_step *end);
/* Encodes the copy of their times. */
void af_gpu_profile_resolve(af_gpu_profile *profile, WGPUCommandEncoder encoder, const af_gpu_steps *steps);
/* After the batch was waited for. */
void af_gpu_profile_collect(af_gpu_profile *profile, const af_gpu_steps *steps, const af_gpu_shape *shape);

#endif

/* gpu_internal.h - shared by gpu_adapter.c, gpu_device.c and gpu_queue.c only. */
#ifndef AF_GPU_INTERNAL_H
#define AF_GPU_INTERNAL_H

#include "backend/webgpu/gpu.h"

#define AF_GPU_ADAPTERS 32

typedef struct af_gpu_candidate {
    WGPUAdapter adapter;
    af_gpu_adapter_info info;
} af_gpu_candidate;

bool af_gpu_describe(const af_gpu_api *api, WGPUAdapter adapter, af_gpu_adapter_info *out);
/* Best first; the caller releases each adapter. `out` has room for AF_GPU_ADAPTERS. */
int af_gpu_find_adapters(const af_gpu_api *api, WGPUInstance instance, af_gpu_candidate *out, size_t *count);
/* Index of the adapter that a device name means, or SIZE_MAX. */
size_t af_gpu_choose(const af_gpu_candidate *all, size_t count, const char *device);
int af_gpu_fail_choice(const af_gpu_candidate *all, size_t count, const char *device, af_error *error);

/* wgpu-native aborts where a call finds the device lost: with it goes this device, and nothing else. */
void af_gpu_guarded(af_gpu *gpu, void (*call)(void *), void *user);

#endif

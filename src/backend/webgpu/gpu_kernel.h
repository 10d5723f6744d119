/* gpu_kernel.h - compute kernels: WGSL text to pipelines, pipelines and buffers to dispatches.
 *
 * A kernel is a row of the table in gpu_kernel.c: its shader files, its entry point, how many buffers it binds and
 * which of them it writes. Shaders are written once; a preamble for the library and the device stands before each
 * (gpu_shader.c). Sizes that a compiler should know are override constants, so a kernel may have several pipelines;
 * each is made once and kept.
 */
#ifndef AF_GPU_KERNEL_H
#define AF_GPU_KERNEL_H

#include "backend/webgpu/gpu.h"

#define AF_GPU_BINDINGS  8
#define AF_GPU_CONSTANTS 14

typedef struct af_gpu_constant {
    const char *name;
    double value;
} af_gpu_constant;

typedef struct af_gpu_pipeline {
    WGPUComputePipeline pipeline;
    WGPUBindGroupLayout layout;
    uint32_t binding_count;
    const char *kernel; /* its name in the table */
} af_gpu_pipeline;

typedef struct af_gpu_kernels af_gpu_kernels;

int af_gpu_kernels_open(af_gpu *gpu, af_gpu_kernels **out, af_error *error);
void af_gpu_kernels_close(af_gpu_kernels *kernels);

/* The pipeline of a kernel with these constants (up to AF_GPU_CONSTANTS). Its layout is there; it runs after
 * af_gpu_kernels_make. */
int af_gpu_kernel(af_gpu_kernels *kernels, const char *name, const af_gpu_constant *constants, size_t count,
                  const af_gpu_pipeline **out, af_error *error);

/* Makes all pipelines that were asked for and are not made yet, on all cores where the library allows it. The error
 * carries the shader's name and the compiler's words: of several, those of the kernel asked for first. */
int af_gpu_kernels_make(af_gpu_kernels *kernels, af_error *error);

/* A buffer's range as one binding. size 0: to its end. */
typedef struct af_gpu_binding {
    WGPUBuffer buffer;
    uint64_t offset, size;
} af_gpu_binding;

WGPUBindGroup af_gpu_bind(af_gpu *gpu, const af_gpu_pipeline *pipeline, const af_gpu_binding *bindings, size_t count);

#endif

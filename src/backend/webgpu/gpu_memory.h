/* gpu_memory.h - how much memory a GPU has: WebGPU does not say, Vulkan does. */
#ifndef AF_GPU_MEMORY_H
#define AF_GPU_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes of the device-local memory of the GPU of that name, and how many of them this process could still use; 0 where
 * not known. False where there is no such GPU or no Vulkan. */
bool af_gpu_memory(const char *name, uint64_t *total, uint64_t *unused);

#endif

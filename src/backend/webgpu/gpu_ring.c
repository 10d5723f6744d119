/* gpu_ring.c - staging buffers in turn. */
#include "backend/webgpu/gpu_ring.h"

#include <stddef.h>

/* A new buffer is mapped as it is made. */
static int make(af_gpu_ring *ring, WGPUBuffer *buffer, unsigned char **at, af_error *error) {
    *buffer = af_gpu_buffer(ring->gpu, ring->bytes, AF_GPU_STAGING, "weights on their way", error);
    if (!*buffer) return AF_ENOMEM;
    *at = ring->gpu->api->wgpuBufferGetMappedRange(*buffer, 0, ring->bytes);
    if (*at) return AF_OK;
    const int status = af_gpu_check(ring->gpu, error);
    if (status != AF_OK) return status;
    return af_fail(error, AF_EIO, "gpu: %.1f MB for weights on their way cannot be mapped", (double)ring->bytes / 1e6);
}

int af_gpu_ring_take(af_gpu_ring *ring, unsigned char **out, af_error *error) {
    WGPUBuffer *buffer = &ring->slots[ring->next].buffer;
    unsigned char **at = &ring->slots[ring->next].at;
    int status = AF_OK;
    if (!*buffer) {
        status = make(ring, buffer, at, error);
    } else if (!*at) {
        *at = af_gpu_map_staging(ring->gpu, *buffer, ring->bytes, ring->slots[ring->next].submission,
                                 &ring->gpu->ring_mapped, error);
        if (!*at) status = AF_EIO;
    }
    *out = *at;
    return status;
}

WGPUBuffer af_gpu_ring_taken(const af_gpu_ring *ring) {
    return ring->slots[ring->next].buffer;
}

void af_gpu_ring_submit(af_gpu_ring *ring, WGPUCommandBuffer commands) {
    ring->gpu->api->wgpuBufferUnmap(ring->slots[ring->next].buffer);
    ring->slots[ring->next].at = NULL;
    ring->slots[ring->next].submission = af_gpu_submit_commands(ring->gpu, commands);
    ring->next = (ring->next + 1) % AF_GPU_RING;
}

void af_gpu_ring_close(af_gpu_ring *ring) {
    if (!ring->slots[0].buffer) return;
    af_gpu_wait(ring->gpu, 0);
    for (uint32_t i = 0; i < AF_GPU_RING; i++) {
        af_gpu_buffer_free(ring->gpu, ring->slots[i].buffer);
        ring->slots[i].buffer = NULL;
        ring->slots[i].at = NULL;
    }
}

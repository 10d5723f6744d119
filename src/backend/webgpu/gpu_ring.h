/* gpu_ring.h - the few buffers through which weights go to the device, again and again.
 *
 * The host fills one while the device still copies from those before, so that reading a file and copying to the device
 * happen together, in bounded memory. The buffers are mapped: threads write into what the device reads, with no copy
 * between.
 *
 *     take:    the next buffer, as memory; waits where the device is not through with it
 *     submit:  commands that read it; then the next is taken
 */
#ifndef AF_GPU_RING_H
#define AF_GPU_RING_H

#include "backend/webgpu/gpu.h"

#define AF_GPU_RING 3

typedef struct af_gpu_ring {
    af_gpu *gpu;
    uint64_t bytes; /* of a buffer */
    uint32_t next;
    struct {
        WGPUBuffer buffer;   /* NULL: not needed so far */
        unsigned char *at;   /* where it is mapped; NULL: it is the device's */
        uint64_t submission; /* that reads it */
    } slots[AF_GPU_RING];
} af_gpu_ring;

/* The next buffer's memory, which is not to be read. Taken twice without a submit it is the same. */
int af_gpu_ring_take(af_gpu_ring *ring, unsigned char **out, af_error *error);
/* What was taken, for commands to copy from. */
WGPUBuffer af_gpu_ring_taken(const af_gpu_ring *ring);
/* Submits commands that read what was taken. */
void af_gpu_ring_submit(af_gpu_ring *ring, WGPUCommandBuffer commands);
/* Waits for the device, and frees. */
void af_gpu_ring_close(af_gpu_ring *ring);

#endif

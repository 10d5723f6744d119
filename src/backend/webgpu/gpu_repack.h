/* gpu_repack.h - the packing of gpu_pack.h done by the device, from the file's bytes (shaders/pack.wgsl).
 *
 * A format of blocks is a row of constants: where its planes of bits and its scales lie. What comes out are
 * gpu_pack.c's bits, which the tests hold against each other. Plain numbers need no packing, and formats that are
 * widened are decoded by the host.
 */
#ifndef AF_GPU_REPACK_H
#define AF_GPU_REPACK_H

#include "backend/webgpu/gpu_kernel.h"
#include "backend/webgpu/gpu_pack.h"

#define AF_GPU_REPACK_PARAMS 5
#define AF_GPU_REPACK_ROOM   16 /* bytes that a buffer of raw blocks has beyond them: words are read whole */

/* Whether a matrix of `format` that becomes `layout` can be packed by the device. */
bool af_gpu_repacks(const af_gpu_layout *layout, const af_format *format);

/* The pipeline for a layout; it runs after af_gpu_kernels_make. Bindings: raw blocks, the chunk. */
int af_gpu_repack_kernel(af_gpu_kernels *kernels, const af_gpu_layout *layout, const af_gpu_pipeline **out,
                         af_error *error);

/* Packs `blocks` blocks of 32 weights whose bytes begin at `from` of the first binding; the streams' offsets are bytes,
 * multiples of 4. */
typedef struct af_gpu_repack {
    uint64_t from, low, high, scale;
    uint32_t blocks;
} af_gpu_repack;
void af_gpu_repack_encode(const af_gpu *gpu, WGPUComputePassEncoder pass, const af_gpu_repack *r);

#endif

/* gpu.h - one open GPU: an adapter, its device and queue, and the few things this backend asks of them.
 *
 * The wrapper turns webgpu's callbacks into this library's convention: calls return a status, the first validation
 * error or the loss of the device is kept and comes back from the next af_gpu_check(), named after what was being done.
 * Everything is called from one thread.
 */
#ifndef AF_GPU_H
#define AF_GPU_H

#include "backend/webgpu/gpu_api.h"

#define AF_GPU_IMMEDIATE_BYTES 64 /* of push constants, what both libraries offer */

typedef enum af_gpu_class { AF_GPU_DISCRETE, AF_GPU_INTEGRATED, AF_GPU_OTHER, AF_GPU_SOFTWARE } af_gpu_class;

typedef struct af_gpu_adapter_info {
    char name[128], driver[128];
    const char *backend; /* "Vulkan" */
    af_gpu_class class;
    uint64_t binding_bytes, buffer_bytes; /* limits of one binding, of one buffer */
    uint32_t workgroup_bytes, workgroup_threads;
    uint32_t subgroup_min, subgroup_max;
    bool f16, subgroups, immediates, timestamps;
    bool matrices; /* subgroups multiply f16 matrices of 16 by 16 into f32 */
} af_gpu_adapter_info;

const char *af_gpu_class_name(af_gpu_class class);

/* All adapters, best first (discrete, integrated, other, software; within a class in the driver's order). At most
 * `room` are written; *count is how many there are. 0 adapters is no error. */
int af_gpu_list(af_gpu_adapter_info *out, size_t room, size_t *count, af_error *error);

/* The adapter that a device name means, without opening it. */
int af_gpu_find(const char *device, af_gpu_adapter_info *out, af_error *error);

typedef enum af_gpu_matrices {
    AF_GPU_MATRICES_NONE,
    AF_GPU_MATRICES_SUBGROUP, /* the device multiplies them */
    AF_GPU_MATRICES_EMULATED, /* our shaders do, for tests */
} af_gpu_matrices;

typedef struct af_gpu {
    const af_gpu_api *api;
    WGPUInstance instance;
    WGPUAdapter adapter;
    WGPUDevice device;
    WGPUQueue queue;
    af_gpu_adapter_info info;
    uint64_t binding_limit;     /* of one storage binding; AIRFRAME_GPU_BINDING_LIMIT lowers it, for tests */
    uint64_t weight_limit;      /* the same where weights are bound; AIRFRAME_GPU_WEIGHT_LIMIT */
    bool use_subgroups;         /* and all are subgroup_size wide; AIRFRAME_GPU_SUBGROUPS=0 turns them off, for tests */
    uint32_t subgroup_size;     /* seen by a probe shader at open; 0: unknown */
    af_gpu_matrices matrices;   /* for prompts; AIRFRAME_GPU_MATRICES=0 or emulated, for tests */
    struct af_gpu_store *store; /* of what Dawn compiled (gpu_store.h); NULL: none is kept */
    bool lost, closing;
    int read_mapped;   /* of af_gpu_read's buffer (af_gpu_map) */
    int work_done;     /* of af_gpu_wait */
    int ring_mapped;   /* of a ring's buffers (gpu_ring.h), one at a time */
    af_error pending;  /* first error not yet told */
    const char *doing; /* what is being done, for messages */
} af_gpu;

/* device: "auto" (discrete, then integrated, never software), "gpu", "gpu:N" (as af_gpu_list numbers them), or part of
 * a name. AF_EUNSUPPORTED lists the adapters there are. */
int af_gpu_open(const char *device, af_gpu **out, af_error *error);
void af_gpu_close(af_gpu *gpu);

/* Before each batch: where AIRFRAME_GPU_LOSE_AFTER is N, the device is destroyed after N batches of the process, once,
 * so that tests see what becomes of a lost one. */
void af_gpu_count_batch(af_gpu *gpu);

/* AF_OK, or the first error since the last check. */
int af_gpu_check(af_gpu *gpu, af_error *error);
/* Until it is told NULL, the first error of calls that this thread makes goes to *into, named after `doing`: for
 * threads beside the one that checks. */
void af_gpu_hear(const char *doing, af_error *into);

/* Submits (NULL: what was written alone), and returns what af_gpu_wait takes to wait for these commands. */
uint64_t af_gpu_submit_commands(af_gpu *gpu, WGPUCommandBuffer commands);
/* Until the device has done a submission, and with Dawn what came after it. 0: until it has done all. */
void af_gpu_wait(af_gpu *gpu, uint64_t submission);

typedef enum af_gpu_usage {
    AF_GPU_STORAGE,  /* read and written by shaders, copied from and to */
    AF_GPU_READBACK, /* mapped by the host after a copy */
    AF_GPU_STAGING,  /* filled by the host while it is mapped, as it is when made, then copied from */
} af_gpu_usage;

/* NULL with the error where the device has no room: it names `what` and the bytes. */
WGPUBuffer af_gpu_buffer(af_gpu *gpu, uint64_t bytes, af_gpu_usage usage, const char *what, af_error *error);
void af_gpu_buffer_free(af_gpu *gpu, WGPUBuffer buffer);
void af_gpu_write(af_gpu *gpu, WGPUBuffer buffer, uint64_t offset, const void *bytes, size_t n);
/* Maps the first `bytes` of a readback buffer once `submission` is through. NULL, with nothing mapped, on failure. The
 * device's callback writes *mapped, perhaps late, so it must live as long as the device. The caller unmaps. */
const void *af_gpu_map(af_gpu *gpu, WGPUBuffer buffer, uint64_t bytes, uint64_t submission, int *mapped,
                       af_error *error);
/* The same for a staging buffer, to be filled again. */
void *af_gpu_map_staging(af_gpu *gpu, WGPUBuffer buffer, uint64_t bytes, uint64_t submission, int *mapped,
                         af_error *error);
/* Copies n bytes of a storage buffer out, waiting for all that was submitted. For tests and `verify`. */
int af_gpu_read(af_gpu *gpu, WGPUBuffer buffer, uint64_t offset, void *bytes, size_t n, af_error *error);

#endif

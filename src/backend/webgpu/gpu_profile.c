/* gpu_profile.c - timestamps around dispatches, added up by kernel and kind of batch. */
#include "backend/webgpu/gpu_profile.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

#define KINDS 128 /* of (kernel, rows) that are told apart */

typedef struct kind {
    const char *kernel;
    uint32_t x;
    bool decode;
    uint64_t count;
    double nanoseconds;
} kind;

struct af_gpu_profile {
    af_gpu *gpu;
    WGPUQuerySet queries;
    WGPUBuffer resolved;
    size_t most; /* steps */
    uint64_t *times;
    double period;
    kind kinds[KINDS];
    size_t kind_count;
};

int af_gpu_profile_open(af_gpu *gpu, size_t steps, af_gpu_profile **out, af_error *error) {
    *out = NULL;
    if (!af_env_flag("AIRFRAME_GPU_PROFILE") || !gpu->info.timestamps || !gpu->api->wgpuQueueGetTimestampPeriod)
        return AF_OK;
    af_gpu_profile *p = calloc(1, sizeof *p);
    uint64_t *times = calloc(steps * 2, sizeof *times);
    if (!p || !times) {
        free(p);
        free(times);
        return af_fail_memory(error, steps * 16, "a profile");
    }
    p->gpu = gpu;
    p->times = times;
    p->most = steps;
    p->period = (double)gpu->api->wgpuQueueGetTimestampPeriod(gpu->queue);
    WGPUQuerySetDescriptor descriptor = WGPU_QUERY_SET_DESCRIPTOR_INIT;
    descriptor.type = WGPUQueryType_Timestamp;
    descriptor.count = (uint32_t)(steps * 2);
    p->queries = gpu->api->wgpuDeviceCreateQuerySet(gpu->device, &descriptor);
    WGPUBufferDescriptor buffer = WGPU_BUFFER_DESCRIPTOR_INIT;
    buffer.size = (steps * 16 + 255) / 256 * 256;
    buffer.usage = WGPUBufferUsage_QueryResolve | WGPUBufferUsage_CopySrc;
    p->resolved = gpu->api->wgpuDeviceCreateBuffer(gpu->device, &buffer);
    *out = p;
    return af_gpu_check(gpu, error);
}

static int by_time(const void *a, const void *b) {
    const kind *x = a, *y = b;
    return (x->nanoseconds < y->nanoseconds) - (x->nanoseconds > y->nanoseconds);
}

static void print(af_gpu_profile *p) {
    qsort(p->kinds, p->kind_count, sizeof *p->kinds, by_time);
    af_trace("%-16s %8s %7s %9s %10s %9s", "kernel", "rows", "list", "count", "total ms", "us each");
    for (size_t i = 0; i < p->kind_count; i++) {
        const kind *k = &p->kinds[i];
        af_trace("%-16s %8u %7s %9llu %10.2f %9.2f", k->kernel, k->x, k->decode ? "decode" : "general",
                 (unsigned long long)k->count, k->nanoseconds / 1e6, k->nanoseconds / 1e3 / (double)k->count);
    }
}

void af_gpu_profile_close(af_gpu_profile *p) {
    if (!p) return;
    print(p);
    if (p->queries) p->gpu->api->wgpuQuerySetRelease(p->queries);
    if (p->resolved) af_gpu_buffer_free(p->gpu, p->resolved);
    free(p->times);
    free(p);
}

void af_gpu_profile_encode(af_gpu_profile *p, const af_gpu_backend *b, WGPUCommandEncoder encoder,
                           const af_gpu_step *first, const af_gpu_step *end) {
    const af_gpu_api *api = p->gpu->api;
    for (const af_gpu_step *s = first; s < end; s++) {
        const uint32_t i = (uint32_t)(s - b->now.steps->p);
        WGPUPassTimestampWrites writes = WGPU_PASS_TIMESTAMP_WRITES_INIT;
        writes.querySet = p->queries;
        writes.beginningOfPassWriteIndex = 2 * i;
        writes.endOfPassWriteIndex = 2 * i + 1;
        WGPUComputePassDescriptor descriptor = WGPU_COMPUTE_PASS_DESCRIPTOR_INIT;
        descriptor.timestampWrites = &writes;
        WGPUComputePassEncoder pass = api->wgpuCommandEncoderBeginComputePass(encoder, &descriptor);
        af_gpu_encode_step(b, pass, s, &b->now.shape);
        api->wgpuComputePassEncoderEnd(pass);
        api->wgpuComputePassEncoderRelease(pass);
    }
}

void af_gpu_profile_resolve(af_gpu_profile *p, WGPUCommandEncoder encoder, const af_gpu_steps *steps) {
    p->gpu->api->wgpuCommandEncoderResolveQuerySet(encoder, p->queries, 0, (uint32_t)steps->count * 2, p->resolved, 0);
}

static kind *find_kind(af_gpu_profile *p, const af_gpu_step *s, bool decode) {
    for (size_t i = 0; i < p->kind_count; i++)
        if (p->kinds[i].kernel == s->kernel && p->kinds[i].x == s->x && p->kinds[i].decode == decode)
            return &p->kinds[i];
    if (p->kind_count == KINDS) return &p->kinds[KINDS - 1];
    p->kinds[p->kind_count] = (kind){.kernel = s->kernel, .x = s->x, .decode = decode};
    return &p->kinds[p->kind_count++];
}

void af_gpu_profile_collect(af_gpu_profile *p, const af_gpu_steps *steps, const af_gpu_shape *shape) {
    if (af_gpu_read(p->gpu, p->resolved, 0, p->times, steps->count * 16, NULL) != AF_OK) return;
    for (size_t i = 0; i < steps->count; i++) {
        const af_gpu_step *s = &steps->p[i];
        if ((s->per_row ? shape->rows : shape->tokens) == 0) continue;
        kind *k = find_kind(p, s, shape->decode);
        k->count++;
        k->nanoseconds += (double)(p->times[2 * i + 1] - p->times[2 * i]) * p->period;
    }
}

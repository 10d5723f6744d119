/* gpu_profile.c - timestamps around dispatches, added up by kernel and kind of batch. */
#include "backend/webgpu/gpu_profile.h"

#include "base/log.h"
#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KINDS 128 /* of (kernel, rows) that are told apart */

typedef struct kind {
    const char *kernel;
    uint32_t x;
    const char *list;
    uint64_t count;
    uint64_t bytes; /* of weights, of all together */
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
    if (!af_env_flag("AIRFRAME_GPU_PROFILE") || !gpu->info.timestamps) return AF_OK;
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
    p->period = 1.0; /* Dawn resolves to nanoseconds */
    if (gpu->api->wgpuQueueGetTimestampPeriod) p->period = (double)gpu->api->wgpuQueueGetTimestampPeriod(gpu->queue);
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

#define COPIED (64ull << 20)
#define COPIES 16

/* Nanoseconds that copies of a whole buffer take. */
static uint64_t copy_all(af_gpu *gpu, WGPUBuffer from, WGPUBuffer to) {
    WGPUCommandEncoder encoder = gpu->api->wgpuDeviceCreateCommandEncoder(gpu->device, NULL);
    for (int i = 0; i < COPIES; i++) gpu->api->wgpuCommandEncoderCopyBufferToBuffer(encoder, from, 0, to, 0, COPIED);
    WGPUCommandBuffer commands = gpu->api->wgpuCommandEncoderFinish(encoder, NULL);
    gpu->api->wgpuCommandEncoderRelease(encoder);
    const uint64_t start = af_os_nanoseconds();
    af_gpu_wait(gpu, af_gpu_submit_commands(gpu, commands));
    const uint64_t took = af_os_nanoseconds() - start;
    gpu->api->wgpuCommandBufferRelease(commands);
    return took;
}

/* Bytes a nanosecond that copies read and write, the second time; 0 where there is no room to tell. */
static double bandwidth(af_gpu *gpu) {
    WGPUBuffer from = af_gpu_buffer(gpu, COPIED, AF_GPU_STORAGE, "a measurement", NULL);
    WGPUBuffer to = af_gpu_buffer(gpu, COPIED, AF_GPU_STORAGE, "a measurement", NULL);
    double rate = 0;
    if (from && to) {
        copy_all(gpu, from, to);
        rate = 2.0 * (double)COPIED * COPIES / (double)copy_all(gpu, from, to);
    }
    af_gpu_buffer_free(gpu, from);
    af_gpu_buffer_free(gpu, to);
    return rate;
}

static void print_kind(const kind *k, double rate) {
    char bytes[64] = "";
    if (k->bytes && k->nanoseconds > 0) {
        const double speed = (double)k->bytes / k->nanoseconds;
        snprintf(bytes, sizeof bytes, "%10.2f %8.1f %6.0f%%", (double)k->bytes / (double)k->count / 1e6, speed,
                 rate > 0 ? 100 * speed / rate : 0.0);
    }
    af_trace("%-16s %8u %7s %9llu %10.2f %9.2f %s", k->kernel, k->x, k->list, (unsigned long long)k->count,
             k->nanoseconds / 1e6, k->nanoseconds / 1e3 / (double)k->count, bytes);
}

static void print(af_gpu_profile *p) {
    const double rate = bandwidth(p->gpu);
    qsort(p->kinds, p->kind_count, sizeof *p->kinds, by_time);
    af_trace("%-16s %8s %7s %9s %10s %9s %10s %8s %7s", "kernel", "rows", "list", "calls", "total ms", "us each",
             "MB each", "GB/s", "share");
    for (size_t i = 0; i < p->kind_count; i++) print_kind(&p->kinds[i], rate);
    af_trace("share is of the %.1f GB/s that copies on the device read and write", rate);
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

static kind *find_kind(af_gpu_profile *p, const af_gpu_step *s, const char *list) {
    for (size_t i = 0; i < p->kind_count; i++)
        if (p->kinds[i].kernel == s->kernel && p->kinds[i].x == s->x && p->kinds[i].list == list) return &p->kinds[i];
    if (p->kind_count == KINDS) return &p->kinds[KINDS - 1];
    p->kinds[p->kind_count] = (kind){.kernel = s->kernel, .x = s->x, .list = list};
    return &p->kinds[p->kind_count++];
}

void af_gpu_profile_collect(af_gpu_profile *p, const af_gpu_steps *steps, const af_gpu_shape *shape) {
    if (af_gpu_read(p->gpu, p->resolved, 0, p->times, steps->count * 16, NULL) != AF_OK) return;
    static const char general[] = "general", decode[] = "decode", prompt[] = "prompt"; /* told apart by address */
    const char *list = shape->decode ? decode : shape->prompt ? prompt : general;
    for (size_t i = 0; i < steps->count; i++) {
        const af_gpu_step *s = &steps->p[i];
        if (af_gpu_count_of(s, shape) == 0) continue;
        kind *k = find_kind(p, s, list);
        k->count++;
        k->bytes += s->bytes;
        k->nanoseconds += (double)(p->times[2 * i + 1] - p->times[2 * i]) * p->period;
    }
}

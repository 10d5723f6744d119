/* gpu_queue.c - what is done with an open device: submits, waits, buffers, and reading them back.
 *
 * Waiting is where the two libraries differ most, and only here. wgpu-native polls its device up to a submission, and
 * has no wgpuInstanceWaitAny (it aborts). Dawn waits for futures: of a mapping its own, of a submission that of all the
 * work there is. A thread that sleeps in the driver wakes late, so Dawn's is asked for a while first, longer than a
 * step of decoding takes; what takes more than that can spare it.
 */
#include "backend/webgpu/gpu_internal.h"

#include "base/os.h"

#include <string.h>

#define AWAKE_NANOSECONDS 3000000ull

void af_gpu_guarded(af_gpu *gpu, void (*call)(void *), void *user) {
    if (af_os_survive(call, user)) return;
    if (!gpu->pending.code) af_fail(&gpu->pending, AF_EIO, "gpu: the device was lost");
    gpu->lost = true;
}

/* ---- Submits and waits ---- */

typedef struct queued {
    af_gpu *gpu;
    WGPUCommandBuffer commands;
    uint64_t index;
} queued;

static void call_poll(void *user) {
    const queued *s = user;
    s->gpu->api->wgpuDevicePoll(s->gpu->device, true, s->index ? &s->index : NULL);
}

static void call_submit(void *user) {
    queued *s = user;
    const af_gpu_api *api = s->gpu->api;
    const size_t count = s->commands ? 1 : 0;
    if (api->native)
        s->index = api->wgpuQueueSubmitForIndex(s->gpu->queue, count, &s->commands);
    else
        api->wgpuQueueSubmit(s->gpu->queue, count, &s->commands);
}

uint64_t af_gpu_submit_commands(af_gpu *gpu, WGPUCommandBuffer commands) {
    queued s = {.gpu = gpu, .commands = commands};
    if (!gpu->lost) af_gpu_guarded(gpu, call_submit, &s);
    return s.index;
}

/* Dawn's: until the future's callback has set *done, or its wait fails. */
static void wait_for(af_gpu *gpu, WGPUFuture future, const int *done) {
    const uint64_t start = af_os_nanoseconds();
    do gpu->api->wgpuInstanceProcessEvents(gpu->instance);
    while (!*done && af_os_nanoseconds() - start < AWAKE_NANOSECONDS);
    WGPUFutureWaitInfo info = {.future = future};
    if (!*done) gpu->api->wgpuInstanceWaitAny(gpu->instance, 1, &info, UINT64_MAX);
}

static void on_work_done(WGPUQueueWorkDoneStatus status, WGPUStringView message, void *done, void *unused) {
    (void)status, (void)message, (void)unused;
    *(int *)done = 1;
}

static void wait_for_work(af_gpu *gpu) {
    gpu->work_done = 0;
    const WGPUFuture future = gpu->api->wgpuQueueOnSubmittedWorkDone(
        gpu->queue, (WGPUQueueWorkDoneCallbackInfo){.mode = WGPUCallbackMode_AllowProcessEvents,
                                                    .callback = on_work_done,
                                                    .userdata1 = &gpu->work_done});
    wait_for(gpu, future, &gpu->work_done);
}

void af_gpu_wait(af_gpu *gpu, uint64_t submission) {
    queued s = {.gpu = gpu, .index = submission};
    if (gpu->lost) return;
    if (gpu->api->native)
        af_gpu_guarded(gpu, call_poll, &s);
    else
        wait_for_work(gpu);
}

/* ---- Buffers ---- */

static WGPUBufferUsage usage_of(af_gpu_usage usage) {
    if (usage == AF_GPU_READBACK) return WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst;
    if (usage == AF_GPU_STAGING) return WGPUBufferUsage_MapWrite | WGPUBufferUsage_CopySrc;
    return WGPUBufferUsage_Storage | WGPUBufferUsage_CopyDst | WGPUBufferUsage_CopySrc;
}

WGPUBuffer af_gpu_buffer(af_gpu *gpu, uint64_t bytes, af_gpu_usage usage, const char *what, af_error *error) {
    WGPUBufferDescriptor descriptor = WGPU_BUFFER_DESCRIPTOR_INIT;
    descriptor.size = (bytes + 15) & ~(uint64_t)15;
    descriptor.usage = usage_of(usage);
    descriptor.mappedAtCreation = usage == AF_GPU_STAGING;
    if (af_gpu_check(gpu, error) != AF_OK) return NULL; /* something before failed */
    gpu->doing = what;
    WGPUBuffer buffer = gpu->api->wgpuDeviceCreateBuffer(gpu->device, &descriptor);
    if (!gpu->pending.code && buffer) return buffer;
    if (buffer) gpu->api->wgpuBufferRelease(buffer);
    af_gpu_check(gpu, NULL);
    af_fail(error, AF_ENOMEM, "gpu: %s has no room for %s: %.1f MB", gpu->info.name, what, (double)bytes / 1e6);
    return NULL;
}

void af_gpu_buffer_free(af_gpu *gpu, WGPUBuffer buffer) {
    if (!buffer) return;
    gpu->api->wgpuBufferDestroy(buffer);
    gpu->api->wgpuBufferRelease(buffer);
}

void af_gpu_write(af_gpu *gpu, WGPUBuffer buffer, uint64_t offset, const void *bytes, size_t n) {
    gpu->api->wgpuQueueWriteBuffer(gpu->queue, buffer, offset, bytes, n);
}

/* ---- Mapping ---- */

static void on_mapped(WGPUMapAsyncStatus status, WGPUStringView message, void *slot, void *unused) {
    (void)message, (void)unused;
    *(int *)slot = status == WGPUMapAsyncStatus_Success ? 1 : -1;
}

static void map(af_gpu *gpu, WGPUBuffer buffer, WGPUMapMode mode, uint64_t bytes, uint64_t submission, int *mapped) {
    *mapped = 0;
    const WGPUFuture future = gpu->api->wgpuBufferMapAsync(
        buffer, mode, 0, bytes,
        (WGPUBufferMapCallbackInfo){
            .mode = WGPUCallbackMode_AllowProcessEvents, .callback = on_mapped, .userdata1 = mapped});
    while (!*mapped && !gpu->lost) {
        if (gpu->api->native)
            af_gpu_wait(gpu, submission);
        else
            wait_for(gpu, future, mapped);
    }
}

/* AF_OK where a mapping went well and gave p; else the buffer is left unmapped. */
static int check_mapping(af_gpu *gpu, WGPUBuffer buffer, const void *p, uint64_t bytes, int mapped, af_error *error) {
    int status = af_gpu_check(gpu, error);
    if (status == AF_OK && !p)
        status = af_fail(error, AF_EIO, "gpu: %llu bytes cannot be mapped", (unsigned long long)bytes);
    if (status != AF_OK && mapped == 1) gpu->api->wgpuBufferUnmap(buffer);
    return status;
}

const void *af_gpu_map(af_gpu *gpu, WGPUBuffer buffer, uint64_t bytes, uint64_t submission, int *mapped,
                       af_error *error) {
    map(gpu, buffer, WGPUMapMode_Read, bytes, submission, mapped);
    const void *p = *mapped == 1 ? gpu->api->wgpuBufferGetConstMappedRange(buffer, 0, bytes) : NULL;
    return check_mapping(gpu, buffer, p, bytes, *mapped, error) == AF_OK ? p : NULL;
}

void *af_gpu_map_staging(af_gpu *gpu, WGPUBuffer buffer, uint64_t bytes, uint64_t submission, int *mapped,
                         af_error *error) {
    map(gpu, buffer, WGPUMapMode_Write, bytes, submission, mapped);
    void *p = *mapped == 1 ? gpu->api->wgpuBufferGetMappedRange(buffer, 0, bytes) : NULL;
    return check_mapping(gpu, buffer, p, bytes, *mapped, error) == AF_OK ? p : NULL;
}

int af_gpu_read(af_gpu *gpu, WGPUBuffer buffer, uint64_t offset, void *bytes, size_t n, af_error *error) {
    const uint64_t size = (n + 3) & ~(uint64_t)3;
    WGPUBuffer host = af_gpu_buffer(gpu, n, AF_GPU_READBACK, "a copy for the host", error);
    if (!host) return AF_ENOMEM;
    WGPUCommandEncoder encoder = gpu->api->wgpuDeviceCreateCommandEncoder(gpu->device, NULL);
    gpu->api->wgpuCommandEncoderCopyBufferToBuffer(encoder, buffer, offset, host, 0, size);
    WGPUCommandBuffer commands = gpu->api->wgpuCommandEncoderFinish(encoder, NULL);
    const uint64_t submission = af_gpu_submit_commands(gpu, commands);
    gpu->api->wgpuCommandBufferRelease(commands);
    gpu->api->wgpuCommandEncoderRelease(encoder);
    af_error why = {0};
    const void *from = af_gpu_map(gpu, host, size, submission, &gpu->read_mapped, &why);
    if (from) memcpy(bytes, from, n);
    af_gpu_buffer_free(gpu, host);
    if (!from && error) *error = why;
    return from ? AF_OK : why.code;
}

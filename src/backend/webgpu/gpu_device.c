/* gpu_device.c - opening a device, and its errors. What is done with it is gpu_queue.c. */
#include "backend/webgpu/gpu_dawn.h"
#include "backend/webgpu/gpu_internal.h"
#include "backend/webgpu/gpu_store.h"

#include "base/log.h"
#include "base/os.h"

#include <stdlib.h>
#include <string.h>

static int view_length(WGPUStringView view) {
    const size_t n = !view.data ? 0 : view.length == WGPU_STRLEN ? strlen(view.data) : view.length;
    return n > 400 ? 400 : (int)n;
}

/* ---- Callbacks ---- */

static _Thread_local struct {
    const char *doing;
    af_error *into; /* NULL: the device's own */
} hearing;

void af_gpu_hear(const char *doing, af_error *into) {
    hearing.doing = doing;
    hearing.into = into;
    if (into) into->code = AF_OK;
}

static void on_error(WGPUDevice const *device, WGPUErrorType type, WGPUStringView message, void *user, void *unused) {
    (void)device, (void)unused;
    af_gpu *gpu = user;
    af_error *into = hearing.into ? hearing.into : &gpu->pending;
    const char *doing = hearing.into ? hearing.doing : gpu->doing ? gpu->doing : "working";
    if (into->code) return;
    const int code = type == WGPUErrorType_OutOfMemory ? AF_ENOMEM : AF_EUNSUPPORTED;
    af_fail(into, code, "gpu: %s: %.*s", doing, view_length(message), message.data ? message.data : "");
}

static void on_lost(WGPUDevice const *device, WGPUDeviceLostReason reason, WGPUStringView message, void *user,
                    void *unused) {
    (void)device, (void)unused;
    af_gpu *gpu = user;
    if (reason == WGPUDeviceLostReason_Destroyed && gpu->closing) return;
    gpu->lost = true;
    af_fail(&gpu->pending, AF_EIO, "gpu: the device was lost: %.*s", view_length(message),
            message.data ? message.data : "");
}

static void on_log(WGPULogLevel level, WGPUStringView message, void *user) {
    (void)user;
    af_log(level == WGPULogLevel_Error ? AF_LOG_ERROR : AF_LOG_DEBUG, "gpu: %.*s", view_length(message), message.data);
}

static void keep_device(WGPURequestDeviceStatus status, WGPUDevice device, WGPUStringView message, void *user,
                        void *unused) {
    (void)unused;
    af_gpu *gpu = user;
    if (status == WGPURequestDeviceStatus_Success)
        gpu->device = device;
    else
        af_fail(&gpu->pending, AF_EUNSUPPORTED, "gpu: %s refuses a device: %.*s", gpu->info.name, view_length(message),
                message.data ? message.data : "");
}

/* ---- Opening ---- */

static WGPUInstance open_instance(const af_gpu_api *api) {
    if (api->wgpuSetLogCallback) {
        api->wgpuSetLogCallback(on_log, NULL);
        api->wgpuSetLogLevel(WGPULogLevel_Error);
    }
    WGPUInstanceDescriptor descriptor = WGPU_INSTANCE_DESCRIPTOR_INIT;
    WGPUInstanceExtras extras = {.chain.sType = (WGPUSType)WGPUSType_InstanceExtras,
                                 .backends = WGPUInstanceBackend_Primary}; /* without OpenGL: no display is needed */
    descriptor.nextInChain = api->native ? &extras.chain : (WGPUChainedStruct *)&af_dawn_adapter_toggles.chain;
    static const WGPUInstanceFeatureName waits = WGPUInstanceFeatureName_TimedWaitAny; /* for gpu_queue.c */
    descriptor.requiredFeatures = &waits;
    descriptor.requiredFeatureCount = api->native ? 0 : 1;
    return api->wgpuCreateInstance(&descriptor);
}

/* The adapters of an instance of their own, as information. */
static int list_adapters(const af_gpu_api *api, af_gpu_candidate all[AF_GPU_ADAPTERS], size_t *count, af_error *error) {
    WGPUInstance instance = open_instance(api);
    if (!instance) return af_fail(error, AF_EUNSUPPORTED, "gpu: %s gives no instance", api->origin);
    af_gpu_find_adapters(api, instance, all, count);
    for (size_t i = 0; i < *count; i++) api->wgpuAdapterRelease(all[i].adapter);
    api->wgpuInstanceRelease(instance);
    return AF_OK;
}

int af_gpu_list(af_gpu_adapter_info *out, size_t room, size_t *count, af_error *error) {
    const af_gpu_api *api;
    af_gpu_candidate all[AF_GPU_ADAPTERS];
    int status = af_gpu_api_load(&api, error);
    if (status == AF_OK) status = list_adapters(api, all, count, error);
    for (size_t i = 0; status == AF_OK && i < *count && i < room; i++) out[i] = all[i].info;
    return status;
}

int af_gpu_find(const char *device, af_gpu_adapter_info *out, af_error *error) {
    const af_gpu_api *api;
    af_gpu_candidate all[AF_GPU_ADAPTERS];
    size_t count;
    int status = af_gpu_api_load(&api, error);
    if (status == AF_OK) status = list_adapters(api, all, &count, error);
    if (status != AF_OK) return status;
    const size_t chosen = af_gpu_choose(all, count, device);
    if (chosen == SIZE_MAX) return af_gpu_fail_choice(all, count, device, error);
    *out = all[chosen].info;
    return AF_OK;
}

static int choose_adapter(af_gpu *gpu, const char *device, af_error *error) {
    af_gpu_candidate all[AF_GPU_ADAPTERS];
    size_t count;
    af_gpu_find_adapters(gpu->api, gpu->instance, all, &count);
    const size_t chosen = af_gpu_choose(all, count, device);
    const int status = chosen == SIZE_MAX ? af_gpu_fail_choice(all, count, device, error) : AF_OK;
    for (size_t i = 0; i < count; i++) {
        if (i != chosen) {
            gpu->api->wgpuAdapterRelease(all[i].adapter);
            continue;
        }
        gpu->adapter = all[i].adapter;
        gpu->info = all[i].info;
    }
    return status;
}

static int request_device(af_gpu *gpu, af_error *error) {
    WGPUFeatureName features[8];
    size_t count = 0;
    if (gpu->info.f16) features[count++] = WGPUFeatureName_ShaderF16;
    if (gpu->info.subgroups)
        features[count++] = gpu->api->native ? (WGPUFeatureName)WGPUNativeFeature_Subgroup : WGPUFeatureName_Subgroups;
    if (gpu->api->native && gpu->info.immediates) features[count++] = (WGPUFeatureName)WGPUNativeFeature_Immediates;
    if (gpu->info.timestamps) features[count++] = WGPUFeatureName_TimestampQuery;
    if (gpu->info.matrices) features[count++] = AF_DAWN_FEATURE_MATRIX;

    WGPULimits limits = WGPU_LIMITS_INIT;
    gpu->api->wgpuAdapterGetLimits(gpu->adapter, &limits);
    limits.nextInChain = NULL;
    WGPUDeviceDescriptor descriptor = WGPU_DEVICE_DESCRIPTOR_INIT;
    af_dawn_toggles toggles = af_dawn_device_toggles;
    af_dawn_cache cache = {.chain = {.sType = AF_DAWN_STYPE_CACHE},
                           .load = af_gpu_store_load,
                           .load_user = {gpu->store},
                           .store = af_gpu_store_save,
                           .store_user = {gpu->store}};
    if (gpu->store) toggles.chain.next = &cache.chain;
    if (!gpu->api->native) descriptor.nextInChain = &toggles.chain;
    descriptor.requiredFeatureCount = count;
    descriptor.requiredFeatures = features;
    descriptor.requiredLimits = &limits;
    descriptor.deviceLostCallbackInfo =
        (WGPUDeviceLostCallbackInfo){.mode = WGPUCallbackMode_AllowSpontaneous, .callback = on_lost, .userdata1 = gpu};
    descriptor.uncapturedErrorCallbackInfo = (WGPUUncapturedErrorCallbackInfo){.callback = on_error, .userdata1 = gpu};
    gpu->api->wgpuAdapterRequestDevice(gpu->adapter, &descriptor,
                                       (WGPURequestDeviceCallbackInfo){.mode = WGPUCallbackMode_AllowProcessEvents,
                                                                       .callback = keep_device,
                                                                       .userdata1 = gpu});
    gpu->api->wgpuInstanceProcessEvents(gpu->instance);
    if (gpu->device) return AF_OK;
    if (error) *error = gpu->pending;
    return gpu->pending.code ? gpu->pending.code : AF_EUNSUPPORTED;
}

/* A limit, or what a variable lowers it to; a multiple of what bindings are aligned to. */
static uint64_t lowered(uint64_t limit, const char *variable) {
    const char *text = getenv(variable);
    const uint64_t asked = text ? strtoull(text, NULL, 10) : 0;
    return (asked >= 4096 && asked < limit ? asked : limit) & ~(uint64_t)255;
}

static void read_environment(af_gpu *gpu) {
    const char *subgroups = getenv("AIRFRAME_GPU_SUBGROUPS"), *matrices = getenv("AIRFRAME_GPU_MATRICES");
    gpu->binding_limit = lowered(gpu->info.binding_bytes, "AIRFRAME_GPU_BINDING_LIMIT");
    gpu->weight_limit = lowered(gpu->binding_limit, "AIRFRAME_GPU_WEIGHT_LIMIT");
    gpu->use_subgroups = gpu->info.subgroups && !(subgroups && strcmp(subgroups, "0") == 0);
    gpu->matrices = gpu->info.matrices && gpu->info.f16 ? AF_GPU_MATRICES_SUBGROUP : AF_GPU_MATRICES_NONE;
    if (matrices && strcmp(matrices, "0") == 0) gpu->matrices = AF_GPU_MATRICES_NONE;
    if (matrices && strcmp(matrices, "emulated") == 0 && gpu->info.f16) gpu->matrices = AF_GPU_MATRICES_EMULATED;
}

int af_gpu_open(const char *device, af_gpu **out, af_error *error) {
    af_gpu *gpu = calloc(1, sizeof *gpu);
    if (!gpu) return af_fail_memory(error, sizeof *gpu, "a GPU");
    int status = af_gpu_api_load(&gpu->api, error);
    if (status == AF_OK && !(gpu->instance = open_instance(gpu->api)))
        status = af_fail(error, AF_EUNSUPPORTED, "gpu: %s gives no instance", gpu->api->origin);
    if (status == AF_OK) status = choose_adapter(gpu, device, error);
    if (status == AF_OK && !gpu->info.immediates)
        status = af_fail(error, AF_EUNSUPPORTED, "gpu: %s: its driver offers no push constants", gpu->info.name);
    if (status == AF_OK && !gpu->api->native) gpu->store = af_gpu_store_open();
    if (status == AF_OK) status = request_device(gpu, error);
    if (status != AF_OK) {
        af_gpu_close(gpu);
        return status;
    }
    gpu->queue = gpu->api->wgpuDeviceGetQueue(gpu->device);
    read_environment(gpu);
    *out = gpu;
    return AF_OK;
}

static void release_device(void *user) {
    const af_gpu *gpu = user;
    gpu->api->wgpuDeviceDestroy(gpu->device);
    gpu->api->wgpuDeviceRelease(gpu->device);
}

void af_gpu_close(af_gpu *gpu) {
    if (!gpu) return;
    const af_gpu_api *api = gpu->api;
    gpu->closing = true;
    if (gpu->queue) api->wgpuQueueRelease(gpu->queue);
    if (gpu->device) af_gpu_guarded(gpu, release_device, gpu);
    if (gpu->adapter) api->wgpuAdapterRelease(gpu->adapter);
    if (gpu->instance) api->wgpuInstanceRelease(gpu->instance);
    af_gpu_store_close(gpu->store); /* the device asks it until its end */
    free(gpu);
}

void af_gpu_count_batch(af_gpu *gpu) {
    static uint64_t batches;
    const char *after = getenv("AIRFRAME_GPU_LOSE_AFTER");
    if (!after || ++batches != strtoull(after, NULL, 10) + 1) return;
    gpu->api->wgpuDeviceDestroy(gpu->device);
    gpu->lost = false; /* as with a driver, it is a later call that finds it */
    gpu->pending.code = AF_OK;
}

int af_gpu_check(af_gpu *gpu, af_error *error) {
    const int code = gpu->pending.code;
    if (code && error) *error = gpu->pending;
    if (!gpu->lost) gpu->pending.code = AF_OK;
    return code;
}

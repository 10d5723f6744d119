/* gpu_adapter.c - which GPUs there are, and which one a name means. */
#include "backend/webgpu/gpu_dawn.h"
#include "backend/webgpu/gpu_internal.h"

#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *af_gpu_class_name(af_gpu_class class) {
    static const char *const names[] = {"discrete", "integrated", "other", "software"};
    return names[class];
}

static af_gpu_class class_of(WGPUAdapterType type) {
    switch (type) {
    case WGPUAdapterType_DiscreteGPU:
        return AF_GPU_DISCRETE;
    case WGPUAdapterType_IntegratedGPU:
        return AF_GPU_INTEGRATED;
    case WGPUAdapterType_CPU:
        return AF_GPU_SOFTWARE;
    default:
        return AF_GPU_OTHER;
    }
}

static const char *backend_name(WGPUBackendType type) {
    switch (type) {
    case WGPUBackendType_Vulkan:
        return "Vulkan";
    case WGPUBackendType_Metal:
        return "Metal";
    case WGPUBackendType_D3D12:
        return "D3D12";
    case WGPUBackendType_D3D11:
        return "D3D11";
    case WGPUBackendType_OpenGL:
        return "OpenGL";
    case WGPUBackendType_OpenGLES:
        return "OpenGL ES";
    default:
        return "unknown";
    }
}

static void copy_view(char *out, size_t room, WGPUStringView view) {
    const size_t n = !view.data ? 0 : view.length == WGPU_STRLEN ? strlen(view.data) : view.length;
    snprintf(out, room, "%.*s", (int)n, view.data ? view.data : "");
}

bool af_gpu_describe(const af_gpu_api *api, WGPUAdapter adapter, af_gpu_adapter_info *out) {
    WGPUAdapterInfo info = WGPU_ADAPTER_INFO_INIT;
    WGPULimits limits = WGPU_LIMITS_INIT;
    if (api->wgpuAdapterGetInfo(adapter, &info) != WGPUStatus_Success) return false;
    *out = (af_gpu_adapter_info){.class = class_of(info.adapterType), .backend = backend_name(info.backendType)};
    copy_view(out->name, sizeof out->name, info.device);
    copy_view(out->driver, sizeof out->driver, info.description);
    out->subgroup_min = info.subgroupMinSize;
    out->subgroup_max = info.subgroupMaxSize;
    api->wgpuAdapterInfoFreeMembers(info);
    if (api->wgpuAdapterGetLimits(adapter, &limits) != WGPUStatus_Success) return false;
    out->binding_bytes = limits.maxStorageBufferBindingSize;
    out->buffer_bytes = limits.maxBufferSize;
    out->workgroup_bytes = limits.maxComputeWorkgroupStorageSize;
    out->workgroup_threads = limits.maxComputeInvocationsPerWorkgroup;
    out->f16 = api->wgpuAdapterHasFeature(adapter, WGPUFeatureName_ShaderF16);
    out->subgroups = api->wgpuAdapterHasFeature(adapter, api->native ? (WGPUFeatureName)WGPUNativeFeature_Subgroup
                                                                     : WGPUFeatureName_Subgroups);
    out->immediates =
        !api->native || api->wgpuAdapterHasFeature(adapter, (WGPUFeatureName)WGPUNativeFeature_Immediates);
    out->timestamps = api->wgpuAdapterHasFeature(adapter, WGPUFeatureName_TimestampQuery);
    out->matrices = af_dawn_has_matrices(api, adapter);
    return true;
}

/* ---- Enumeration ---- */

static void keep_adapter(WGPURequestAdapterStatus status, WGPUAdapter adapter, WGPUStringView message, void *slot,
                         void *unused) {
    (void)message, (void)unused;
    if (status == WGPURequestAdapterStatus_Success) *(WGPUAdapter *)slot = adapter;
}

/* Dawn has no enumeration in webgpu.h: ask for the fast one, the frugal one and the fallback. */
static size_t request_adapters(const af_gpu_api *api, WGPUInstance instance, WGPUAdapter *out, size_t room) {
    static const struct {
        WGPUPowerPreference power;
        bool fallback;
    } asked[] = {{WGPUPowerPreference_HighPerformance, false}, {WGPUPowerPreference_LowPower, false}, {0, true}};
    size_t count = 0;
    for (size_t i = 0; i < sizeof asked / sizeof *asked && count < room; i++) {
        WGPURequestAdapterOptions options = WGPU_REQUEST_ADAPTER_OPTIONS_INIT;
        options.powerPreference = asked[i].power;
        options.forceFallbackAdapter = asked[i].fallback;
        options.nextInChain = (WGPUChainedStruct *)&af_dawn_adapter_toggles.chain; /* read only */
        WGPUAdapter found = NULL;
        api->wgpuInstanceRequestAdapter(instance, &options,
                                        (WGPURequestAdapterCallbackInfo){.mode = WGPUCallbackMode_AllowProcessEvents,
                                                                         .callback = keep_adapter,
                                                                         .userdata1 = &found});
        api->wgpuInstanceProcessEvents(instance);
        if (found) out[count++] = found;
    }
    return count;
}

static size_t enumerate(const af_gpu_api *api, WGPUInstance instance, WGPUAdapter *out, size_t room) {
    if (!api->native) return request_adapters(api, instance, out, room);
    WGPUAdapter all[AF_GPU_ADAPTERS];
    const WGPUInstanceEnumerateAdapterOptions options = {.backends = WGPUInstanceBackend_Primary};
    const size_t there = api->wgpuInstanceEnumerateAdapters(instance, &options, NULL);
    if (there > AF_GPU_ADAPTERS) return 0;
    const size_t count = api->wgpuInstanceEnumerateAdapters(instance, &options, all);
    for (size_t i = 0; i < count && i < AF_GPU_ADAPTERS; i++) {
        if (i < room)
            out[i] = all[i];
        else
            api->wgpuAdapterRelease(all[i]);
    }
    return count < room ? count : room;
}

/* Asked for the fast one and for the frugal one, Dawn may give the same twice. */
static bool is_known(const af_gpu_candidate *candidate, const af_gpu_candidate *all, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(all[i].info.name, candidate->info.name) == 0 && all[i].info.class == candidate->info.class)
            return true;
    return false;
}

int af_gpu_find_adapters(const af_gpu_api *api, WGPUInstance instance, af_gpu_candidate *out, size_t *count) {
    WGPUAdapter adapters[AF_GPU_ADAPTERS];
    const size_t found = enumerate(api, instance, adapters, AF_GPU_ADAPTERS);
    *count = 0;
    for (size_t i = 0; i < found; i++) {
        af_gpu_candidate candidate = {.adapter = adapters[i]};
        if (!af_gpu_describe(api, adapters[i], &candidate.info) ||
            (!api->native && is_known(&candidate, out, *count))) {
            api->wgpuAdapterRelease(adapters[i]);
            continue;
        }
        size_t at = (*count)++;
        for (; at > 0 && out[at - 1].info.class > candidate.info.class; at--) out[at] = out[at - 1];
        out[at] = candidate;
    }
    return AF_OK;
}

/* ---- Choice ---- */

static bool name_holds(const char *name, const char *part) {
    return strcasestr(name, part) != NULL;
}

size_t af_gpu_choose(const af_gpu_candidate *all, size_t count, const char *device) {
    char *end;
    if (strncmp(device, "gpu:", 4) == 0) {
        const unsigned long index = strtoul(device + 4, &end, 10);
        return *end || end == device + 4 || index >= count ? SIZE_MAX : index;
    }
    const bool any = strcmp(device, "auto") == 0 || strcmp(device, "gpu") == 0;
    for (size_t i = 0; i < count; i++)
        if (any ? all[i].info.class != AF_GPU_SOFTWARE : name_holds(all[i].info.name, device)) return i;
    return SIZE_MAX;
}

int af_gpu_fail_choice(const af_gpu_candidate *all, size_t count, const char *device, af_error *error) {
    af_buf list = {0};
    for (size_t i = 0; i < count; i++)
        af_buf_printf(&list, "%sgpu:%zu %s (%s)", i ? ", " : "", i, all[i].info.name,
                      af_gpu_class_name(all[i].info.class));
    const int code = af_fail(error, AF_EUNSUPPORTED, "device \"%s\": no such GPU, there is %s", device,
                             count ? list.p : "none (is a Vulkan driver installed?)");
    af_buf_clear(&list);
    return code;
}

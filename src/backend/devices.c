/* devices.c - the GPUs there are, for af_device_list: what the WebGPU backend knows of them in airframe.h's words. */
#include "backend/backend.h"

#ifdef AF_WEBGPU

#include "backend/webgpu/gpu.h"
#include "backend/webgpu/gpu_memory.h"
#include "base/os.h"

#include <string.h>

#define MOST_DEVICES 32

static void add_feature(af_device_info *out, const char *name, bool available, const char *without) {
    out->features[out->feature_count++] = (af_device_feature){name, available, without};
}

static void describe_features(const af_gpu_adapter_info *gpu, af_device_info *out) {
    add_feature(out, "push-constants", gpu->immediates, "it is required: this GPU is not used");
    add_feature(out, "subgroups", gpu->subgroups, "sums go through workgroup memory: slower decoding");
    add_feature(out, "shader-f16", gpu->f16, "shaders unpack half floats to f32 themselves: slower prompts");
    add_feature(out, "subgroup-matrices", gpu->matrices, "prompts by int8 products: two to three times slower");
    add_feature(out, "timestamp-query", gpu->timestamps, "no times of single operations");
}

_Static_assert(sizeof((af_device_info *)0)->name == sizeof((af_gpu_adapter_info *)0)->name, "names are copied whole");

static void describe(const af_gpu_adapter_info *gpu, af_device_info *out) {
    *out = (af_device_info){.backend = gpu->backend,
                            .type = af_gpu_class_name(gpu->class),
                            .buffer_bytes = gpu->buffer_bytes,
                            .binding_bytes = gpu->binding_bytes,
                            .workgroup_bytes = gpu->workgroup_bytes,
                            .workgroup_threads = gpu->workgroup_threads,
                            .subgroup_min = gpu->subgroup_min,
                            .subgroup_max = gpu->subgroup_max};
    memcpy(out->name, gpu->name, sizeof gpu->name);
    memcpy(out->driver, gpu->driver, sizeof gpu->driver);
    af_gpu_memory(gpu->name, &out->memory_bytes, &out->memory_free);
    describe_features(gpu, out);
}

/* The usual reasons, the likeliest first. */
static int explain_none(const char *library, af_error *error) {
    void *loader;
    if (af_os_library_open("libvulkan.so.1", &loader, NULL) != AF_OK)
        return af_fail(error, AF_EUNSUPPORTED, "%s finds none: the Vulkan loader (libvulkan.so.1) is not installed",
                       library);
    if (!af_os_may_have_gpu())
        return af_fail(error, AF_EUNSUPPORTED, "%s finds none, and this machine shows none under /dev", library);
    return af_fail(error, AF_EUNSUPPORTED, "%s finds none: no Vulkan driver answers for the GPU under /dev", library);
}

int af_device_list(af_device_info *out, size_t room, size_t *count, const char **library, af_error *error) {
    const af_gpu_api *api;
    af_gpu_adapter_info all[MOST_DEVICES];
    size_t found;
    int status = af_gpu_api_load(&api, error);
    if (status == AF_OK) status = af_gpu_list(all, MOST_DEVICES, &found, error);
    if (status != AF_OK) return status;
    if (found == 0) return explain_none(api->origin, error);
    for (size_t i = 0; i < found && i < room; i++) describe(&all[i], &out[i]);
    if (room > 0) out[0].preferred = all[0].class != AF_GPU_SOFTWARE;
    if (library) *library = api->origin;
    *count = found;
    return AF_OK;
}

#else

int af_device_list(af_device_info *out, size_t room, size_t *count, const char **library, af_error *error) {
    (void)out, (void)room, (void)count, (void)library;
    return af_fail(error, AF_EUNSUPPORTED, "this build has no GPU backend (the WebGPU library could not be fetched)");
}

#endif

/* gpu_dawn.c - Dawn's toggles, and whether an adapter has the subgroup matrices that our shaders use. */
#include "backend/webgpu/gpu_dawn.h"

static const char *const adapter_names[] = {"allow_unsafe_apis", "vulkan_enable_f16_on_nvidia",
                                            "use_vulkan_memory_model"};
static const char *const device_names[] = {"disable_robustness", "skip_validation", "disable_workgroup_init",
                                           "disable_polyfills_on_integer_div_and_mod"};
static const char *const device_off[] = {"timestamp_quantization"}; /* profiles want nanoseconds */

const af_dawn_toggles af_dawn_adapter_toggles = {.chain = {.sType = AF_DAWN_STYPE_TOGGLES},
                                                 .enabled_count = sizeof adapter_names / sizeof *adapter_names,
                                                 .enabled = adapter_names};
const af_dawn_toggles af_dawn_device_toggles = {.chain = {.sType = AF_DAWN_STYPE_TOGGLES},
                                                .enabled_count = sizeof device_names / sizeof *device_names,
                                                .enabled = device_names,
                                                .disabled_count = sizeof device_off / sizeof *device_off,
                                                .disabled = device_off};

bool af_dawn_has_matrices(const af_gpu_api *api, WGPUAdapter adapter) {
    if (api->native || !api->wgpuAdapterHasFeature(adapter, AF_DAWN_FEATURE_MATRIX)) return false;
    af_dawn_matrix_configs found = {.chain = {.sType = AF_DAWN_STYPE_MATRIX_CONFIGS}};
    WGPUAdapterInfo info = WGPU_ADAPTER_INFO_INIT;
    info.nextInChain = &found.chain;
    if (api->wgpuAdapterGetInfo(adapter, &info) != WGPUStatus_Success) return false;
    bool has = false;
    for (size_t i = 0; i < found.count; i++) {
        const af_dawn_matrix_config *c = &found.configs[i];
        has |= c->component == AF_DAWN_COMPONENT_F16 && c->result == AF_DAWN_COMPONENT_F32 && c->m == 16 &&
               c->n == 16 && c->k == 16;
    }
    api->wgpuAdapterInfoFreeMembers(info);
    return has; /* the list itself, some hundred bytes, is the library's and stays */
}

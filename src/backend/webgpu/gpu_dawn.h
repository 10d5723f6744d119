/* gpu_dawn.h - what Dawn's webgpu.h has beyond the common one, as far as it is used here.
 *
 * Values and layouts are those of Dawn's generated webgpu.h (dawn.json, BSD-3-Clause); the header we compile against is
 * wgpu-native's, which agrees with it in all that the two share.
 */
#ifndef AF_GPU_DAWN_H
#define AF_GPU_DAWN_H

#include "backend/webgpu/gpu_api.h"

#define AF_DAWN_STYPE_TOGGLES        ((WGPUSType)0x0005000A)
#define AF_DAWN_STYPE_CACHE          ((WGPUSType)0x00050007)
#define AF_DAWN_STYPE_MATRIX_CONFIGS ((WGPUSType)0x0005003B)
#define AF_DAWN_FEATURE_MATRIX       ((WGPUFeatureName)0x00050034) /* chromium-experimental-subgroup-matrix */
#define AF_DAWN_COMPONENT_F32        1
#define AF_DAWN_COMPONENT_F16        2

/* Chained to an instance's, adapter's or device's descriptor. */
typedef struct af_dawn_toggles {
    WGPUChainedStruct chain;
    size_t enabled_count;
    const char *const *enabled;
    size_t disabled_count;
    const char *const *disabled;
} af_dawn_toggles;

/* Chained to a device's descriptor: who keeps what was compiled. Until 2025 Dawn had three pointers in place of the two
 * structs, under the same number: a load function where load_next stands, a store function, which gets a key before its
 * length, where load does. Such a Dawn finds no load function, and load knows it by a length that is none. */
typedef struct af_dawn_cache {
    WGPUChainedStruct chain;
    WGPUStringView isolation; /* becomes part of every key */
    void *load_next;          /* NULL, as store_next is */
    size_t (*load)(size_t key_size, const uint8_t *key, size_t value_size, uint8_t *value, void *user, void *unused);
    void *load_user[2];
    void *store_next;
    void (*store)(size_t key_size, const uint8_t *key, size_t value_size, const uint8_t *value, void *user,
                  void *unused);
    void *store_user[2];
} af_dawn_cache;
_Static_assert(sizeof(af_dawn_cache) == 96, "as Dawn has it on 64 bits");

typedef struct af_dawn_matrix_config { /* left (m, k) by right (k, n) */
    uint32_t component, result;
    uint32_t m, n, k;
} af_dawn_matrix_config;

/* Chained to what wgpuAdapterGetInfo fills. */
typedef struct af_dawn_matrix_configs {
    WGPUChainedStruct chain;
    size_t count;
    const af_dawn_matrix_config *configs;
} af_dawn_matrix_configs;

/* For instances and adapters: experimental features, f16 where NVIDIA's driver has it, and the memory model that
 * subgroup matrices need. */
extern const af_dawn_toggles af_dawn_adapter_toggles;
/* For devices: our shaders index within what is bound and set what they read, and Dawn's checks cost time. */
extern const af_dawn_toggles af_dawn_device_toggles;

/* The adapter multiplies f16 matrices of 16 by 16 into f32 ones. */
bool af_dawn_has_matrices(const af_gpu_api *api, WGPUAdapter adapter);

#endif

/* gpu_api.h - the functions of webgpu.h that this backend calls, as a table filled at run time.
 *
 * Nothing is linked: the library (wgpu-native, or Dawn where one is named or found beside the executable) is loaded by
 * loader.c and every function is looked up by name. Functions only wgpu-native has are optional and NULL elsewhere.
 */
#ifndef AF_GPU_API_H
#define AF_GPU_API_H

#include "base/status.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#include <webgpu.h>
#include <wgpu.h>
#pragma GCC diagnostic pop

#define AF_GPU_FUNCTIONS(REQUIRED, OPTIONAL)                                                                           \
    REQUIRED(wgpuCreateInstance)                                                                                       \
    REQUIRED(wgpuInstanceProcessEvents)                                                                                \
    REQUIRED(wgpuInstanceRequestAdapter)                                                                               \
    REQUIRED(wgpuInstanceRelease)                                                                                      \
    REQUIRED(wgpuInstanceWaitAny)                                                                                      \
    REQUIRED(wgpuAdapterGetInfo)                                                                                       \
    REQUIRED(wgpuAdapterInfoFreeMembers)                                                                               \
    REQUIRED(wgpuAdapterGetLimits)                                                                                     \
    REQUIRED(wgpuAdapterHasFeature)                                                                                    \
    REQUIRED(wgpuAdapterRequestDevice)                                                                                 \
    REQUIRED(wgpuAdapterRelease)                                                                                       \
    REQUIRED(wgpuDeviceGetQueue)                                                                                       \
    REQUIRED(wgpuDeviceCreateBuffer)                                                                                   \
    REQUIRED(wgpuDeviceCreateShaderModule)                                                                             \
    REQUIRED(wgpuDeviceCreateBindGroupLayout)                                                                          \
    REQUIRED(wgpuDeviceCreateBindGroup)                                                                                \
    REQUIRED(wgpuDeviceCreatePipelineLayout)                                                                           \
    REQUIRED(wgpuDeviceCreateComputePipeline)                                                                          \
    REQUIRED(wgpuDeviceCreateCommandEncoder)                                                                           \
    REQUIRED(wgpuDeviceDestroy)                                                                                        \
    REQUIRED(wgpuDeviceRelease)                                                                                        \
    REQUIRED(wgpuBufferMapAsync)                                                                                       \
    REQUIRED(wgpuBufferGetConstMappedRange)                                                                            \
    REQUIRED(wgpuBufferGetMappedRange)                                                                                 \
    REQUIRED(wgpuBufferUnmap)                                                                                          \
    REQUIRED(wgpuBufferDestroy)                                                                                        \
    REQUIRED(wgpuBufferRelease)                                                                                        \
    REQUIRED(wgpuShaderModuleRelease)                                                                                  \
    REQUIRED(wgpuBindGroupLayoutRelease)                                                                               \
    REQUIRED(wgpuBindGroupRelease)                                                                                     \
    REQUIRED(wgpuPipelineLayoutRelease)                                                                                \
    REQUIRED(wgpuComputePipelineRelease)                                                                               \
    REQUIRED(wgpuCommandEncoderBeginComputePass)                                                                       \
    REQUIRED(wgpuCommandEncoderCopyBufferToBuffer)                                                                     \
    REQUIRED(wgpuCommandEncoderFinish)                                                                                 \
    REQUIRED(wgpuCommandEncoderRelease)                                                                                \
    REQUIRED(wgpuCommandBufferRelease)                                                                                 \
    REQUIRED(wgpuComputePassEncoderSetPipeline)                                                                        \
    REQUIRED(wgpuComputePassEncoderSetBindGroup)                                                                       \
    REQUIRED(wgpuComputePassEncoderSetImmediates)                                                                      \
    REQUIRED(wgpuComputePassEncoderDispatchWorkgroups)                                                                 \
    REQUIRED(wgpuComputePassEncoderEnd)                                                                                \
    REQUIRED(wgpuComputePassEncoderRelease)                                                                            \
    REQUIRED(wgpuDeviceCreateQuerySet)                                                                                 \
    REQUIRED(wgpuQuerySetRelease)                                                                                      \
    REQUIRED(wgpuCommandEncoderResolveQuerySet)                                                                        \
    REQUIRED(wgpuQueueSubmit)                                                                                          \
    REQUIRED(wgpuQueueWriteBuffer)                                                                                     \
    REQUIRED(wgpuQueueOnSubmittedWorkDone)                                                                             \
    REQUIRED(wgpuQueueRelease)                                                                                         \
    OPTIONAL(wgpuInstanceEnumerateAdapters)                                                                            \
    OPTIONAL(wgpuQueueSubmitForIndex)                                                                                  \
    OPTIONAL(wgpuQueueGetTimestampPeriod)                                                                              \
    OPTIONAL(wgpuDevicePoll)                                                                                           \
    OPTIONAL(wgpuDeviceCreateShaderModuleTrusted)                                                                      \
    OPTIONAL(wgpuSetLogCallback)                                                                                       \
    OPTIONAL(wgpuSetLogLevel)                                                                                          \
    OPTIONAL(wgpuGetVersion)

#define AF_GPU_MEMBER(name) __typeof__(name) *name;
typedef struct af_gpu_api {
    AF_GPU_FUNCTIONS(AF_GPU_MEMBER, AF_GPU_MEMBER)
    void *library;      /* as os.h handles it */
    bool native;        /* wgpu-native: the optional functions are there */
    const char *origin; /* "wgpu-native (embedded)", or the path it was loaded from */
} af_gpu_api;
#undef AF_GPU_MEMBER

/* Loads a library once a process and fills the table: AIRFRAME_WEBGPU_LIB if set, else Dawn beside the executable, else
 * the embedded wgpu-native. AF_EUNSUPPORTED says what was tried. The table lives until the process ends, because
 * drivers do not survive being unloaded. */
int af_gpu_api_load(const af_gpu_api **out, af_error *error);

#endif

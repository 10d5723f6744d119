/* gpu_loader.c - finds a WebGPU library, loads it and looks up its functions. */
#include "backend/webgpu/gpu_api.h"

#include "base/os.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

extern const unsigned char af_gpu_embedded[], af_gpu_embedded_end[];

static const char *const beside_executable[] = {"libwebgpu_dawn.so"};

static int look_up(af_gpu_api *api, af_error *error) {
    const char *missing = NULL;
#define REQUIRED(name)                                                                                                 \
    if (!(*(void **)&api->name = af_os_library_symbol(api->library, #name)) && !missing) missing = #name;
#define OPTIONAL(name) *(void **)&api->name = af_os_library_symbol(api->library, #name);
    AF_GPU_FUNCTIONS(REQUIRED, OPTIONAL)
#undef REQUIRED
#undef OPTIONAL
    if (missing) return af_fail(error, AF_EUNSUPPORTED, "%s: has no function %s", api->origin, missing);
    api->native = api->wgpuDevicePoll && api->wgpuQueueSubmitForIndex && api->wgpuInstanceEnumerateAdapters;
    return AF_OK;
}

static int load_file(af_gpu_api *api, const char *path, af_error *error) {
    const int status = af_os_library_open(path, &api->library, error);
    api->origin = strdup(path);
    return status;
}

static int load(af_gpu_api *api, af_error *error) {
    const char *named = getenv("AIRFRAME_WEBGPU_LIB");
    if (named && *named) return load_file(api, named, error);
    char path[4096];
    for (size_t i = 0; i < sizeof beside_executable / sizeof *beside_executable; i++)
        if (af_os_beside_executable(beside_executable[i], path, sizeof path)) return load_file(api, path, error);
    api->origin = "wgpu-native (embedded)";
    return af_os_library_open_memory("wgpu-native", af_gpu_embedded, (size_t)(af_gpu_embedded_end - af_gpu_embedded),
                                     &api->library, error);
}

int af_gpu_api_load(const af_gpu_api **out, af_error *error) {
    static af_gpu_api api;
    static int status = 1; /* not tried yet */
    static af_error failure;
    static atomic_flag busy = ATOMIC_FLAG_INIT;
    while (atomic_flag_test_and_set(&busy)) continue; /* another thread loads it: milliseconds, once a process */
    if (status == 1) {
        status = load(&api, &failure);
        if (status == AF_OK) status = look_up(&api, &failure);
    }
    atomic_flag_clear(&busy);
    if (status != AF_OK && error) *error = failure;
    if (status == AF_OK) *out = &api;
    return status;
}

/* backend.c - which backend a device name means.
 *
 * "cpu" is the CPU; "auto" the best GPU, or the CPU where there is none (with a line that says so); every other name is
 * a GPU's: "gpu", "gpu:N", or part of an adapter's name.
 */
#include "backend/backend.h"

#include "base/log.h"
#include "base/os.h"

#include <string.h>

#ifdef AF_WEBGPU
#include "backend/webgpu/gpu_backend.h"
#else
static int af_webgpu_open(const char *device, const af_plan *plan, const af_backend_options *options, af_backend **out,
                          af_error *error) {
    (void)plan, (void)options, (void)out;
    return af_fail(error, AF_EUNSUPPORTED, "device \"%s\": this build has no GPU backend, there is cpu", device);
}
#endif

int af_backend_open(const char *name, const af_plan *plan, const af_backend_options *asked, af_backend **out,
                    af_error *error) {
    af_backend_options with_hook = *asked;
    if (!with_hook.hook && af_env_flag("SHIMMY_DEBUG_RAW")) with_hook.hook = &af_raw_trace;
    const af_backend_options *options = &with_hook;
    if (!name) name = "auto";
    if (strcmp(name, "cpu") == 0) return af_cpu_open(plan, options, out, error);
    if (strcmp(name, "auto") != 0) return af_webgpu_open(name, plan, options, out, error);
    af_error why = {0};
    if (!af_os_may_have_gpu())
        af_fail(&why, AF_EUNSUPPORTED, "this machine has none");
    else if (af_webgpu_open(name, plan, options, out, &why) == AF_OK)
        return AF_OK;
    af_log(AF_LOG_INFO, "no GPU is used: %s", why.text);
    return af_cpu_open(plan, options, out, error);
}

/* backend.c - which backend a device name means.
 *
 * "cpu" is the CPU; "auto" the best GPU, or the CPU where there is none (with a line that says so); every other name is
 * a GPU's: "gpu", "gpu:N", or part of an adapter's name. With a GPU, what the placement leaves to the CPU runs there.
 */
#include "backend/backend.h"

#include "backend/split.h"
#include "base/log.h"
#include "base/os.h"

#include <stdlib.h>
#include <string.h>

#ifdef AF_WEBGPU
#include "backend/webgpu/gpu_backend.h"
#else
static int af_webgpu_open(const char *device, const af_plan *plan, const af_backend_options *options, af_backend **out,
                          af_error *error) {
    (void)plan, (void)options, (void)out;
    return af_fail(error, AF_EUNSUPPORTED, "device \"%s\": this build has no GPU backend, there is cpu", device);
}
static int af_webgpu_layers(const char *device, const af_plan *plan, const af_backend_options *options,
                            uint32_t *layers, af_error *error) {
    (void)plan, (void)options, (void)layers;
    return af_webgpu_open(device, NULL, NULL, NULL, error);
}
#endif

int af_backend_open_part(const char *device, const af_plan *plan, const af_backend_options *options, af_backend **out,
                         af_error *error) {
    if (strcmp(device, "cpu") == 0) return af_cpu_open(plan, options, out, error);
    return af_webgpu_open(device, plan, options, out, error);
}

/* As the placement says. */
static int open_placed(const char *device, const af_plan *plan, const af_backend_options *options, af_backend **out,
                       af_error *error) {
    uint8_t *sides = calloc(plan->op_count, sizeof *sides);
    if (!sides) return af_fail_memory(error, plan->op_count, "a plan's places");
    int status;
    if (!af_place(plan, &options->placement, sides))
        status = af_backend_open_part(device, plan, options, out, error);
    else if (memchr(sides, AF_SIDE_GPU, plan->op_count))
        status = af_split_open(device, plan, sides, options, out, error);
    else
        status = af_backend_open_part("cpu", plan, options, out, error);
    free(sides);
    return status;
}

/* A GPU, alone or with the CPU: where it is not said how, with as many layers as it has room for. A device may turn out
 * to have less than it said, so the number is lowered until it opens. */
static int open_gpu(const char *device, const af_plan *plan, const af_backend_options *options, af_backend **out,
                    af_error *error) {
    af_error full = {0};
    af_backend_options fewer = *options;
    uint32_t layers = 0;
    int status = open_placed(device, plan, options, out, &full);
    const bool may_split = status == AF_ENOMEM && !options->placement.layers_given &&
                           af_webgpu_layers(device, plan, options, &layers, NULL) == AF_OK;
    fewer.placement.layers_given = true;
    if (layers >= plan->layers) layers = plan->layers - 1; /* it seemed to have room */
    while (may_split && status == AF_ENOMEM) {
        af_log(AF_LOG_WARNING, "%s. It gets %u of %u layers", full.text, layers, plan->layers);
        fewer.placement.gpu_layers = layers;
        status = open_placed(device, plan, &fewer, out, &full);
        if (layers == 0) break;
        layers = layers * 3 / 4;
    }
    if (status != AF_OK && error) *error = full;
    return status;
}

static int check_placement(const char *device, const af_placement *p, af_error *error) {
    if (strcmp(device, "cpu") != 0 || !p->layers_given || p->gpu_layers == 0) return AF_OK;
    return af_fail(error, AF_EINVAL, "gpu_layers: %u layers are to be on a GPU, the device is \"cpu\"", p->gpu_layers);
}

int af_backend_open(const char *name, const af_plan *plan, const af_backend_options *asked, af_backend **out,
                    af_error *error) {
    af_backend_options with_hook = *asked;
    if (!with_hook.hook && af_env_flag("SHIMMY_DEBUG_RAW")) with_hook.hook = &af_raw_trace;
    const af_backend_options *options = &with_hook;
    if (!name) name = "auto";
    const int status = check_placement(name, &options->placement, error);
    if (status != AF_OK) return status;
    if (strcmp(name, "cpu") == 0) return af_cpu_open(plan, options, out, error);
    if (strcmp(name, "auto") != 0) return open_gpu(name, plan, options, out, error);
    af_error why = {0};
    if (!af_os_may_have_gpu())
        af_fail(&why, AF_EUNSUPPORTED, "this machine has none");
    else if (open_gpu(name, plan, options, out, &why) == AF_OK)
        return AF_OK;
    af_log(AF_LOG_INFO, "no GPU is used: %s", why.text);
    return af_cpu_open(plan, options, out, error);
}

int af_backend_submit(af_backend *backend, const af_plan *plan, const af_batch *batch, af_ticket *ticket,
                      af_error *error) {
    const af_span whole = {.end = plan->op_count};
    int status = backend->ops->begin(backend, batch, error);
    if (status == AF_OK) status = backend->ops->run_span(backend, &whole, error);
    return status == AF_OK ? backend->ops->end(backend, ticket, error) : status;
}

/* settings.c - the defaults of airframe.h's option structs for engines and requests, and how an engine's sizes follow
 * from them: what the caller asks, what the model allows, what memory holds.
 */
#include "engine/engine_internal.h"

#include <math.h>

#define FALLBACK_CTX   4096u               /* for a file that does not say its context */
#define LEAST_CTX      512u                /* memory never lowers the context below this */
#define ROWS_MIN       64u                 /* logit rows one step may give, where fewer requests run together */
#define PARALLEL       4u                  /* requests that run together */
#define MOST_PAGES     (UINT32_C(1) << 30) /* of a pool */
#define PARALLEL_WHOLE 32u                 /* ... of a plan that takes prompts whole: they come and go with each step */

af_engine_options af_engine_options_default(void) {
    return (af_engine_options){.device = "auto",
                               .gpu_layers = AF_GPU_LAYERS_AUTO,
                               .queue = 64,
                               .prefill_chunk = 512,
                               .kv = AF_KV_F16,
                               .cache_ram = AF_CACHE_RAM_AUTO,
                               .cache_disk = UINT64_C(4) << 30};
}

/* ---- Sampling and requests ---- */

/* A file's hints are bytes from outside: one that is out of bounds is passed over. `field` is one of *sampling. */
static void overlay(af_sampling *sampling, float *field, float hint) {
    float before = *field;
    if (isnan(hint)) return;
    *field = hint;
    if (af_sampling_check(sampling, NULL) < 0) *field = before;
}

af_sampling af_sampling_default(const af_model *model) {
    af_sampling sampling = {
        .temperature = 1, .top_p = 1, .repeat_penalty = 1, .repeat_last_n = 64, .seed = AF_SEED_RANDOM};
    if (!model) return sampling;
    af_model_info info;
    af_model_get_info(model, &info);
    overlay(&sampling, &sampling.temperature, info.sampling.temperature);
    overlay(&sampling, &sampling.top_p, info.sampling.top_p);
    overlay(&sampling, &sampling.min_p, info.sampling.min_p);
    overlay(&sampling, &sampling.repeat_penalty, info.sampling.repeat_penalty);
    if (info.sampling.top_k >= 0) sampling.top_k = info.sampling.top_k;
    return sampling;
}

af_request af_request_default(const af_model *model) {
    return (af_request){.max_tokens = -1, .keep = -1, .logprobs = -1, .sampling = af_sampling_default(model)};
}

/* ---- An engine's sizes ---- */

uint32_t af_step_max_tokens(const af_engine_options *options) {
    return options->prefill_chunk + options->parallel;
}

/* At least one row for each request, so that all can go on in every step. */
uint32_t af_step_max_rows(const af_engine_options *options) {
    return options->parallel > ROWS_MIN ? options->parallel : ROWS_MIN;
}

static uint64_t extra_bytes(const af_plan *plan, const af_engine_options *options) {
    return options->cache_ram == AF_CACHE_RAM_AUTO || !af_kv_can_keep(plan) ? 0 : options->cache_ram;
}

/* Text kept beyond what runs has pages in every group. */
void af_engine_pages(const af_plan *plan, const af_engine_options *options, uint32_t pages[AF_PLAN_GROUPS]) {
    const uint32_t step = af_step_max_tokens(options);
    af_kv_sizes(plan, options->ctx, options->parallel, step > AF_AHEAD_MOST ? step : AF_AHEAD_MOST, pages);
    const uint64_t page_bytes = af_plan_kv_bytes(plan, AF_KV_PAGE, af_kv_cost_of(options->kv));
    const uint64_t extra = page_bytes ? extra_bytes(plan, options) / page_bytes : 0;
    for (size_t g = 0; g < plan->group_count; g++)
        pages[g] = extra < MOST_PAGES - pages[g] ? pages[g] + (uint32_t)extra : MOST_PAGES;
}

static int check_range(const char *name, uint32_t value, uint32_t least, uint32_t most, af_error *error) {
    if (value >= least && value <= most) return AF_OK;
    return af_fail(error, AF_EINVAL, "%s: found %u, must be at least %u and at most %u", name, value, least, most);
}

static uint64_t cache_bytes(const af_plan *plan, const af_engine_options *options, uint32_t ctx) {
    return af_plan_kv_bytes(plan, ctx, af_kv_cost_of(options->kv)) * (plan->whole ? 1 : options->parallel);
}

/* The largest context, in whole pages, whose cache takes at most `bytes`. */
static uint32_t ctx_that_fits(const af_plan *plan, const af_engine_options *options, uint32_t most, uint64_t bytes) {
    uint32_t fits = 0, too_many = most / AF_KV_PAGE + 1;
    while (too_many - fits > 1) {
        uint32_t middle = fits + (too_many - fits) / 2;
        if (cache_bytes(plan, options, middle * AF_KV_PAGE) <= bytes) {
            fits = middle;
        } else {
            too_many = middle;
        }
    }
    return fits * AF_KV_PAGE;
}

/* Half of the memory that is left is the cache's at most; weights that are mapped but not yet resident, and everybody
 * else, have the other. */
static uint32_t native_or_what_fits(const af_plan *plan, const af_engine_options *options, bool *lowered) {
    uint32_t native = plan->context ? plan->context : FALLBACK_CTX;
    uint64_t half = af_os_memory_available() / 2, extra = extra_bytes(plan, options);
    uint64_t budget = half > extra ? half - extra : 0;
    *lowered = false;
    if (native <= LEAST_CTX || cache_bytes(plan, options, native) <= budget) return native;
    uint32_t ctx = ctx_that_fits(plan, options, native, budget);
    *lowered = true;
    return ctx > LEAST_CTX ? ctx : LEAST_CTX;
}

int af_settle_options(const af_plan *plan, af_engine_options *options, bool *ctx_from_memory, af_error *error) {
    if (options->parallel == 0) options->parallel = plan->whole ? PARALLEL_WHOLE : PARALLEL;
    int rc = check_range("parallel", options->parallel, 1, 1024, error);
    if (rc == 0) rc = check_range("queue", options->queue, 0, 65536, error);
    if (rc == 0) rc = check_range("prefill_chunk", options->prefill_chunk, 1, 65536, error);
    if (rc == 0 && options->gpu_layers < AF_GPU_LAYERS_AUTO)
        rc = af_fail(error, AF_EINVAL, "gpu_layers: found %d, must be 0 or more, or %d for auto", options->gpu_layers,
                     AF_GPU_LAYERS_AUTO);
    if (rc < 0) return rc;
    *ctx_from_memory = false;
    if (options->ctx == 0) {
        options->ctx = native_or_what_fits(plan, options, ctx_from_memory);
    } else if (plan->context && options->ctx > plan->context) {
        return af_fail(error, AF_EINVAL, "ctx: %u tokens asked, the model's context holds %u", options->ctx,
                       plan->context);
    }
    if (plan->whole && options->prefill_chunk < options->ctx) options->prefill_chunk = options->ctx;
    return AF_OK;
}

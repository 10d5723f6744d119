/* engine.c - the engine's thread and its queue.
 *
 * One thread owns model, cache and device. Callers only touch the list of live jobs, under one mutex: af_submit
 * appends, af_cancel marks, af_engine_close says so, and each wakes the thread, which sleeps while the list is empty.
 * Between two steps the thread looks at the list: it ends what was cancelled and admits those who wait, first come
 * first served.
 *
 * It is not a thread pool and holds no timers: time limits are the caller's, by af_cancel.
 */
#include "engine/engine_internal.h"
#include "engine/model_internal.h"

#include "base/log.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define BUSY_SAVES 1 /* pages that are copied for the disk in a step, a millisecond's work */

/* ---- Submitting and cancelling: any thread ---- */

static int enqueue(af_engine *engine, af_job *job, uint64_t *id, af_error *error) {
    if (engine->closing) return af_fail(error, AF_ECANCELED, "the engine is closing");
    if (engine->live_count == engine->parallel + engine->queue) {
        return af_fail(error, AF_EFULL, "the queue is full: %u requests run and %u wait, at most %u and %u may",
                       engine->admitted_count, engine->live_count - engine->admitted_count, engine->parallel,
                       engine->queue);
    }
    job->id = ++engine->next_id;
    if (id) *id = job->id;
    engine->live[engine->live_count++] = job;
    af_cond_signal(engine->changed);
    return AF_OK;
}

int af_submit(af_engine *engine, const af_request *request, uint64_t *id, af_error *error) {
    af_job *job = NULL;
    const af_job_frame frame = {.plan = engine->plan,
                                .tokenizer = engine->tokenizer,
                                .ctx = engine->ctx,
                                .speculates = engine->speculates,
                                .shifts = engine->shifts,
                                .keep = engine->options.keep};
    int rc = af_job_open(request, &frame, &job, error);
    if (rc < 0) return rc;
    af_mutex_lock(engine->mutex);
    rc = enqueue(engine, job, id, error);
    af_mutex_unlock(engine->mutex);
    if (rc < 0) af_job_close(job);
    return rc;
}

void af_cancel(af_engine *engine, uint64_t id) {
    af_mutex_lock(engine->mutex);
    for (uint32_t i = 0; i < engine->live_count; i++) {
        if (engine->live[i]->id == id) atomic_store(&engine->live[i]->cancelled, true);
    }
    af_mutex_unlock(engine->mutex);
}

void af_engine_get_info(const af_engine *engine, af_engine_info *out) {
    *out = (af_engine_info){.ctx = engine->ctx,
                            .ctx_from_memory = engine->ctx_from_memory,
                            .parallel = engine->parallel,
                            .queue = engine->queue,
                            .threads = engine->threads,
                            .kv_bytes = engine->kv_bytes,
                            .device = engine->device};
    af_mutex_lock(engine->mutex);
    out->running = engine->admitted_count;
    out->waiting = engine->live_count - engine->admitted_count;
    out->prompt_tokens = engine->prompt_tokens;
    out->generated_tokens = engine->generated_tokens;
    out->accepted_tokens = engine->accepted_tokens;
    out->rejected_tokens = engine->rejected_tokens;
    out->kept_pages = engine->kept_pages;
    af_mutex_unlock(engine->mutex);
    const af_page_stats disk = af_disk_stats(engine->disk);
    out->disk_bytes = disk.bytes;
    out->disk_saved = disk.saved;
    out->disk_restored = disk.restored;
    out->disk_refused = disk.refused;
}

/* ---- The engine's thread ---- */

static void remove_from(af_job **jobs, uint32_t *count, const af_job *job) {
    uint32_t i = 0;
    while (i < *count && jobs[i] != job) i++;
    if (i == *count) return;
    memmove(jobs + i, jobs + i + 1, (*count - i - 1) * sizeof *jobs);
    --*count;
}

void af_engine_end(af_engine *engine, af_job *job, const int32_t *ids, size_t id_count, af_finish finish,
                   const af_error *error) {
    remove_from(engine->running, &engine->running_count, job);
    af_disk_leave(engine->disk, job);
    if (job->seq && finish != AF_FINISH_ERROR) {
        const uint32_t done = af_job_shareable(job, engine->apart);
        af_kv_keep(engine->kv, job->seq, job->tokens, done);
        af_disk_note(engine->disk, job, done);
    }
    af_kv_seq_release(engine->kv, job->seq);
    af_mutex_lock(engine->mutex);
    remove_from(engine->live, &engine->live_count, job);
    engine->admitted_count -= job->admitted;
    af_mutex_unlock(engine->mutex);
    af_job_emit(job, ids, id_count, finish, error);
    af_job_close(job);
}

/* The mutex is held. Returns how many jobs are to be ended. */
static uint32_t collect_ending(af_engine *engine) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < engine->live_count; i++) {
        af_job *job = engine->live[i];
        if (engine->closing || atomic_load(&job->cancelled)) engine->ending[count++] = job;
    }
    return count;
}

/* The mutex is held. */
static void admit_waiting(af_engine *engine) {
    for (uint32_t i = 0; i < engine->live_count && engine->running_count < engine->parallel; i++) {
        af_job *job = engine->live[i];
        if (job->admitted || atomic_load(&job->cancelled)) continue;
        job->admitted = true;
        engine->admitted_count++;
        engine->running[engine->running_count++] = job;
    }
}

static void prepare_admitted(af_engine *engine) {
    for (uint32_t i = 0; i < engine->running_count; i++) {
        af_job *job = engine->running[i];
        if (job->seq) continue;
        job->seq = af_kv_seq_take(engine->kv);
        assert(job->seq);
        for (uint32_t k = 0; k < job->prompt_count; k++) af_sampler_accept(job->sampler, job->tokens[k]);
    }
}

/* Texts go to disk while there is nothing else to do. */
static void save_while_idle(af_engine *engine) {
    for (bool left = engine->disk != NULL; left;) {
        af_mutex_lock(engine->mutex);
        const bool idle = engine->live_count == 0 && !engine->closing;
        af_mutex_unlock(engine->mutex);
        left = idle && af_disk_save(engine, AF_PAGE_SLOTS);
        if (left) af_disk_pause(engine->disk);
    }
}

/* Sleeps until there is work, ends what is to be ended, admits. False when the engine closes. */
static bool prepare_step(af_engine *engine) {
    save_while_idle(engine);
    af_mutex_lock(engine->mutex);
    while (engine->live_count == 0 && !engine->closing) af_cond_wait(engine->changed, engine->mutex);
    uint32_t ending = collect_ending(engine);
    bool closing = engine->closing;
    af_mutex_unlock(engine->mutex);
    for (uint32_t i = 0; i < ending; i++) {
        af_engine_end(engine, engine->ending[i], NULL, 0, AF_FINISH_CANCEL, NULL);
    }
    if (closing) return false;
    af_mutex_lock(engine->mutex);
    admit_waiting(engine);
    af_mutex_unlock(engine->mutex);
    prepare_admitted(engine);
    return true;
}

/* Ends the running jobs: all of them, or those that have something in a cache that is gone. */
static void end_running(af_engine *engine, bool all, const af_error *error) {
    for (uint32_t i = engine->running_count; i-- > 0;) {
        af_job *job = engine->running[i];
        if (all || job->done > 0) af_engine_end(engine, job, NULL, 0, AF_FINISH_ERROR, error);
    }
}

/* After its device was lost a backend is opened again. As long as that fails, requests end with the reason, and each
 * further one is another attempt. */
static bool have_backend(af_engine *engine) {
    af_error error = {0};
    if (engine->backend) return true;
    if (engine->open(engine->plan, &engine->options, &engine->backend, &error) == AF_OK) {
        af_log(AF_LOG_WARNING, "the device was opened again");
        af_disk_check(engine);
        return true;
    }
    engine->backend = NULL;
    af_log(AF_LOG_ERROR, "the device cannot be opened again: %s", error.text);
    end_running(engine, true, &error);
    return false;
}

void af_engine_drop_lost(af_engine *engine, const af_error *error) {
    af_backend *backend = engine->backend;
    if (!engine->open || !backend->ops->lost || !backend->ops->lost(backend)) return;
    af_log(AF_LOG_ERROR, "%s", error->text);
    end_running(engine, false, error);
    for (uint32_t i = 0; i < engine->running_count; i++) af_disk_begin_anew(engine, engine->running[i]);
    af_kv_forget(engine->kv);
    engine->backend = NULL;
    backend->ops->close(backend);
}

/* Until the engine closes or the device is lost. */
static void serve(void *user) {
    af_engine *engine = user;
    while (prepare_step(engine)) {
        if (!have_backend(engine)) continue;
        af_step_run(engine);
        if (!engine->backend) return;
        af_disk_save(engine, BUSY_SAVES);
    }
    af_disk_flush(engine);
    engine->over = true;
}

/* A library that lost a device may leave this thread in a state of panic (os_survive_linux.c), so each further device
 * is served by a thread of its own while this one waits. */
static void run_engine(void *user) {
    af_engine *engine = user;
    serve(engine);
    while (!engine->over) {
        af_thread *next;
        af_error error;
        if (af_thread_start(&next, "airframe", serve, engine, &error) == AF_OK)
            af_thread_join(next);
        else
            serve(engine);
    }
}

/* ---- Open and close ---- */

static int allocate(af_engine *engine, const af_engine_options *options, af_error *error) {
    size_t jobs = (size_t)options->parallel + options->queue;
    engine->running = calloc(options->parallel, sizeof(af_job *));
    engine->ending = calloc(jobs, sizeof(af_job *));
    engine->live = calloc(jobs, sizeof(af_job *));
    engine->mutex = af_mutex_open();
    engine->changed = af_cond_open();
    engine->offers = calloc(options->parallel, sizeof *engine->offers);
    if (!engine->running || !engine->ending || !engine->offers || !engine->live || !engine->mutex || !engine->changed) {
        return af_fail_memory(error, jobs * 2 * sizeof(af_job *), "the engine's queue");
    }
    uint32_t pages[AF_PLAN_GROUPS];
    int rc =
        af_step_open(af_step_max_tokens(options), af_step_max_rows(options), options->parallel, &engine->step, error);
    if (rc < 0) return rc;
    af_engine_pages(engine->plan, options, pages);
    const bool keep = options->cache_ram != 0;
    return af_kv_open(engine->plan, pages, options->ctx, options->parallel, keep, &engine->kv, error);
}

static int open_disk(af_engine *engine, const af_engine_parts *parts, af_error *error) {
    if (!engine->options.cache_dir) return AF_OK;
    if (engine->options.cache_ram == 0)
        return af_fail(error, AF_EINVAL, "cache_dir: nothing can be kept on disk where cache_ram is 0");
    if (af_kv_keeps(engine->kv)) return af_disk_open(engine, parts->model, &engine->disk, error);
    af_log(AF_LOG_INFO, "nothing is kept on disk: this model's states cannot be taken up again");
    return AF_OK;
}

static int keep_device(af_engine *engine, const char *name, af_error *error) {
    engine->asked_device = strdup(name ? name : "auto");
    engine->options.device = engine->asked_device;
    return engine->asked_device ? AF_OK : af_fail_memory(error, strlen(name), "an engine");
}

/* All but the backend. */
static void release(af_engine *engine) {
    af_disk_close(engine->disk);
    af_kv_close(engine->kv);
    af_step_close(&engine->step);
    af_cond_close(engine->changed);
    af_mutex_close(engine->mutex);
    free(engine->live);
    free(engine->ending);
    free(engine->running);
    free(engine->offers);
    free(engine->asked_device);
    free(engine);
}

int af_engine_open_with(const af_engine_parts *parts, const af_engine_options *options, af_engine **out,
                        af_error *error) {
    assert(options->ctx > 0 && options->parallel > 0 && options->prefill_chunk > 0);
    af_engine *engine = calloc(1, sizeof *engine);
    if (!engine) return af_fail_memory(error, sizeof *engine, "an engine");
    engine->plan = parts->plan;
    engine->tokenizer = parts->tokenizer;
    engine->backend = parts->backend;
    engine->open = parts->open;
    engine->options = *options;
    engine->options.progress = NULL; /* the caller's line is long gone when a device is opened again */
    engine->threads = parts->backend->ops->threads(parts->backend);
    engine->kv_bytes = parts->backend->ops->kv_bytes(parts->backend);
    engine->ctx_from_memory = parts->ctx_from_memory;
    engine->ctx = options->ctx;
    engine->shifts = options->context_shift && !parts->plan->whole;
    engine->parallel = options->parallel;
    engine->queue = options->queue;
    engine->prefill_chunk = options->prefill_chunk;
    engine->apart = !parts->backend->ops->same_in_any_batch;
    engine->speculates = af_speculate_can(parts->plan, parts->backend, options);
    engine->trace_chunks = af_env_flag("AIRFRAME_TRACE_PREFILL_CHUNKS");
    parts->backend->ops->describe(parts->backend, engine->device, sizeof engine->device);
    int rc = keep_device(engine, options->device, error);
    if (rc == 0) rc = allocate(engine, options, error);
    if (rc == 0) rc = open_disk(engine, parts, error);
    if (rc == 0) rc = af_thread_start(&engine->thread, "airframe", run_engine, engine, error);
    if (rc < 0) {
        release(engine);
        return rc;
    }
    *out = engine;
    return AF_OK;
}

static int open_backend(const af_plan *plan, const af_engine_options *options, af_backend **out, af_error *error) {
    af_backend_options backend = {.threads = options->threads,
                                  .pin_threads = options->pin_threads,
                                  .exact = options->exact,
                                  .kv = options->kv,
                                  .carries = options->parallel,
                                  .max_tokens = af_step_max_tokens(options),
                                  .max_rows = af_step_max_rows(options),
                                  .placement = {.layers_given = options->gpu_layers != AF_GPU_LAYERS_AUTO,
                                                .gpu_layers = (uint32_t)options->gpu_layers,
                                                .cpu_moe = options->cpu_moe},
                                  .progress = options->progress,
                                  .progress_user = options->progress_user};
    af_engine_pages(plan, options, backend.pages);
    return af_backend_open(options->device ? options->device : "auto", plan, &backend, out, error);
}

static int find_parts(const af_model *model, af_engine_parts *parts, af_error *error) {
    parts->plan = af_model_plan_of(model);
    parts->tokenizer = af_model_tokenizer(model);
    if (!parts->plan) {
        af_model_info info;
        af_model_get_info(model, &info);
        return af_fail(error, AF_EUNSUPPORTED, "%s: %s", info.path,
                       info.why_not[0] ? info.why_not : "was opened without its plan");
    }
    return parts->tokenizer ? AF_OK : af_model_explain_text(model, error);
}

int af_engine_open(const af_model *model, const af_engine_options *asked, af_engine **out, af_error *error) {
    af_engine_options options = asked ? *asked : af_engine_options_default();
    unsigned char fingerprint[AF_SHA256_BYTES];
    af_engine_parts parts = {0};
    int rc = find_parts(model, &parts, error);
    if (rc == 0) rc = af_settle_options(parts.plan, &options, &parts.ctx_from_memory, error);
    if (rc == 0) rc = open_backend(parts.plan, &options, &parts.backend, error);
    if (rc < 0) return rc;
    parts.open = open_backend;
    if (options.cache_dir) {
        af_model_fingerprint(model, fingerprint);
        parts.model = fingerprint;
    }
    rc = af_engine_open_with(&parts, &options, out, error);
    if (rc < 0) parts.backend->ops->close(parts.backend);
    return rc;
}

void af_engine_close(af_engine *engine) {
    if (!engine) return;
    af_mutex_lock(engine->mutex);
    engine->closing = true;
    af_cond_signal(engine->changed);
    af_mutex_unlock(engine->mutex);
    af_thread_join(engine->thread);
    assert(engine->live_count == 0);
    if (engine->backend) engine->backend->ops->close(engine->backend);
    release(engine);
}

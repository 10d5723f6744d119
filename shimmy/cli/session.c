/* session.c - see session.h. */
#include "cli/session.h"

#include "base/os.h"
#include "cli/discover.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROGRESS_AFTER 300000000u /* nanoseconds: what loads faster needs no line */

static uint32_t number_or(int64_t value, uint32_t fallback) {
    return value == SHIMMY_UNSET ? fallback : (uint32_t)value;
}

/* One of the names that the option's table allows. */
static af_kv_type kv_type(const char *name) {
    static const char *const names[AF_KV_TYPES] = {[AF_KV_F16] = "f16", [AF_KV_F32] = "f32", [AF_KV_Q8_0] = "q8_0"};
    unsigned type = 0;
    while (type + 1 < AF_KV_TYPES && strcmp(name, names[type]) != 0) type++;
    return (af_kv_type)type;
}

#define MOST_LAYERS 65535
#define MOST_CACHE  (1ull << 50) /* bytes */

static int read_gpu_layers(const char *text, int32_t *out, af_error *error) {
    if (!text || strcmp(text, "auto") == 0) return 0;
    char *end;
    const long layers = strtol(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || layers > MOST_LAYERS)
        return af_fail(error, SHIMMY_USAGE, "--gpu-layers: found \"%s\", allowed: auto or 0 to %d", text, MOST_LAYERS);
    *out = (int32_t)layers;
    return 0;
}

/* Bytes, with K, M or G of 1024, its square or its cube; and a word that leaves the default, or NULL. */
static int read_bytes(const char *option, const char *word, const char *text, uint64_t *out, af_error *error) {
    static const char units[] = "KMG";
    if (!text || (word && strcmp(text, word) == 0)) return 0;
    char *end;
    errno = 0;
    const unsigned long long number = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    const unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    if (*text < '0' || *text > '9' || end[unit != NULL] || errno || number > MOST_CACHE >> shift)
        return af_fail(error, SHIMMY_USAGE,
                       "--%s: found \"%s\", allowed: %s%sbytes to %lluG, with K, M or G or without", option, text,
                       word ? word : "", word ? ", or " : "", MOST_CACHE >> 30);
    *out = (uint64_t)number << shift;
    return 0;
}

int shimmy_engine_options(const shimmy_options *options, uint32_t parallel, af_engine_options *out, af_error *error) {
    af_engine_options e = af_engine_options_default();
    if (options->device) e.device = options->device;
    if (!*e.device)
        return af_fail(error, SHIMMY_USAGE, "--device: found an empty name, allowed: auto, cpu or a GPU's name");
    e.threads = number_or(options->threads, e.threads);
    e.pin_threads = options->pin_threads;
    e.ctx = number_or(options->ctx, e.ctx);
    e.parallel = number_or(options->parallel, parallel);
    e.queue = number_or(options->queue, e.queue);
    e.prefill_chunk = number_or(options->prefill_chunk, e.prefill_chunk);
    if (options->kv) e.kv = kv_type(options->kv);
    if (options->speculate && !strcmp(options->speculate, "off")) e.speculate = AF_SPECULATE_OFF;
    if (options->cache_dir && *options->cache_dir) e.cache_dir = options->cache_dir;
    e.context_shift = options->context_shift;
    e.keep = number_or(options->keep, e.keep);
    e.exact = options->exact;
    e.cpu_moe = options->cpu_moe ? MOST_LAYERS : number_or(options->n_cpu_moe, e.cpu_moe);
    int status = read_gpu_layers(options->gpu_layers, &e.gpu_layers, error);
    if (!status) status = read_bytes("cache-ram", "auto", options->cache_ram, &e.cache_ram, error);
    if (!status) status = read_bytes("cache-disk", NULL, options->cache_disk, &e.cache_disk, error);
    *out = e;
    return status;
}

/* ---- Progress ---- */

void shimmy_progress_done(shimmy_progress *progress) {
    if (progress->shown >= 0) fputs("\r\033[K", stderr);
    progress->shown = -1;
}

static void show_progress(void *user, double fraction) {
    shimmy_progress *p = user;
    const int percent = (int)(fraction * 100);
    if (percent >= 100) shimmy_progress_done(p);
    if (percent >= 100 || percent == p->shown || af_os_nanoseconds() - p->started < PROGRESS_AFTER) return;
    p->shown = percent;
    fprintf(stderr, "\rshimmy: loading %s %3d%%", p->name, percent);
    fflush(stderr);
}

void shimmy_progress_start(shimmy_progress *progress, const char *name, af_engine_options *engine) {
    *progress = (shimmy_progress){.name = name, .started = af_os_nanoseconds(), .shown = -1};
    if (!af_os_stderr_is_terminal()) return;
    engine->progress = show_progress;
    engine->progress_user = progress;
}

/* ---- Model and engine ---- */

int shimmy_session_model(const shimmy_options *options, const char *model, af_load load, shimmy_session *out,
                         af_error *error) {
    shimmy_session s = {0};
    int status = shimmy_resolve(model, options->model_dirs, &s.path, &s.name, error);
    if (status) return status;
    af_model_options file = af_model_options_default();
    file.load = load;
    file.ctx = number_or(options->ctx, 0);
    const uint64_t start = af_os_nanoseconds();
    status = af_model_open(s.path, &file, &s.model, error);
    s.load_ms = (double)(af_os_nanoseconds() - start) / 1e6;
    if (status) {
        shimmy_session_close(&s);
        return status;
    }
    *out = s;
    return 0;
}

int shimmy_session_engine(const shimmy_options *options, const char *model, const af_engine_options *engine,
                          shimmy_session *out, af_error *error) {
    shimmy_session s;
    int status = shimmy_session_model(options, model, AF_LOAD_MODEL, &s, error);
    if (status) return status;
    af_engine_options e = *engine;
    shimmy_progress progress;
    shimmy_progress_start(&progress, s.name, &e);
    status = af_engine_open(s.model, &e, &s.engine, error);
    s.load_ms += (double)(af_os_nanoseconds() - progress.started) / 1e6;
    shimmy_progress_done(&progress);
    if (status) {
        shimmy_session_close(&s);
        return status;
    }
    *out = s;
    return 0;
}

void shimmy_session_close(shimmy_session *session) {
    af_engine_close(session->engine);
    af_model_close(session->model);
    af_free(session->name);
    af_free(session->path);
    *session = (shimmy_session){0};
}

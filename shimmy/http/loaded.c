/* loaded.c - see loaded.h. */
#include "http/loaded.h"

#include "base/log.h"
#include "http/serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TEMPLATE_BYTES = 16 * 1024 * 1024,
    SHOWN = 64,      /* as many as a request may show */
    SAY_SECONDS = 5, /* between two lines of a long load's progress */
    PERMILLE = 1000
};

#define NANOSECONDS 1000000000u

/* ---- The template, and the tags in it ---- */

static int load_template(shimmy_loaded *loaded, const char *path, af_error *error) {
    char *text;
    size_t size;
    if (!path) return 0;
    int rc = af_os_read_file(path, TEMPLATE_BYTES, &text, &size, error);
    if (rc < 0) return rc;
    rc = af_template_open(text, size, &loaded->template, error);
    af_free(text);
    return rc < 0 ? af_fail_within(error, rc, "--chat-template %s", path) : 0;
}

static bool mentions(const void *user, const char *text) {
    const shimmy_loaded *loaded = user;
    return af_model_template_mentions(loaded->model, loaded->template, text);
}

/* Tags may be control tokens, which say nothing unless asked to. */
static int show_tag(const shimmy_loaded *loaded, const char *tag, af_ids *shown, af_error *error) {
    int32_t *ids;
    size_t count;
    if (!tag) return 0;
    int rc = af_tokenize(loaded->model, tag, strlen(tag), AF_PARSE_SPECIAL, &ids, &count, error);
    if (rc < 0) return rc;
    bool kept = count == 0 || af_ids_append(shown, ids, count);
    af_free(ids);
    return kept ? 0 : af_fail_memory(error, count, "tags");
}

static int load_spans(shimmy_loaded *loaded, shimmy_reasoning mode, af_error *error) {
    const shimmy_tags *tags = shimmy_choose_tags(mode, mentions, loaded);
    if (!tags) return 0;
    const char *const texts[] = {tags->open, tags->close, tags->instead, tags->aside, tags->turn};
    af_ids shown = {0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof texts / sizeof *texts; i++) rc = show_tag(loaded, texts[i], &shown, error);
    loaded->spans[mode] = (shimmy_spans){tags, shown.p, shown.len < SHOWN ? shown.len : SHOWN};
    return rc;
}

static int load_tags(shimmy_loaded *loaded, af_error *error) {
    int rc = 0;
    for (int mode = 0; rc == 0 && mode < SHIMMY_REASONINGS; mode++)
        rc = load_spans(loaded, (shimmy_reasoning)mode, error);
    return rc;
}

/* ---- How far it is ---- */

typedef struct progress {
    const shimmy_load *what;
    void (*next)(void *user, double fraction); /* the command line's own, or NULL */
    void *next_user;
    uint64_t said; /* when a line last told */
} progress;

static void on_progress(void *user, double fraction) {
    progress *p = user;
    const unsigned permille = (unsigned)(fraction * PERMILLE);
    atomic_store(p->what->permille, permille);
    if (p->next) p->next(p->next_user, fraction);
    const uint64_t now = af_os_nanoseconds();
    if (now - p->said < (uint64_t)SAY_SECONDS * NANOSECONDS || permille >= PERMILLE) return;
    p->said = now;
    af_log(AF_LOG_INFO, "loading %s: %u%%", p->what->name, permille / (PERMILLE / 100));
}

/* ---- All of it ---- */

static void say_context(const shimmy_loaded *loaded, const af_engine_info *info) {
    const char *why = "as asked by --ctx";
    if (info->ctx_from_memory)
        why = "what memory allows";
    else if (info->ctx == loaded->info.context)
        why = "the model's native length";
    fprintf(stderr, "shimmy: %s: context %u tokens (%s; native %u), %u at once and %u waiting, %s\n", loaded->name,
            info->ctx, why, loaded->info.context, info->parallel, info->queue, info->device ? info->device : "");
}

/* A --ctx that was meant for another model does not keep one from loading whose context is shorter. */
static uint32_t context_for(const shimmy_serve_options *options, const shimmy_load *what) {
    const af_model_options header = {.load = AF_LOAD_HEADER};
    uint32_t ctx = options->engine.ctx ? options->engine.ctx : options->ctx;
    af_model *model;
    if (what->own || !ctx || af_model_open(what->path, &header, &model, NULL) < 0) return ctx;
    af_model_info info;
    af_model_get_info(model, &info);
    af_model_close(model);
    return info.context && info.context < ctx ? info.context : ctx;
}

static int open_parts(shimmy_loaded *loaded, const shimmy_serve_options *options, const shimmy_load *what,
                      af_error *error) {
    af_model_options model_options = af_model_options_default();
    af_engine_options engine_options = options->engine;
    progress p = {.what = what, .said = af_os_nanoseconds()};
    if (what->own) {
        p.next = engine_options.progress;
        p.next_user = engine_options.progress_user;
    }
    engine_options.progress = on_progress;
    engine_options.progress_user = &p;
    engine_options.ctx = context_for(options, what);
    model_options.ctx = engine_options.ctx;
    int rc = af_model_open(what->path, &model_options, &loaded->model, error);
    if (rc == 0) rc = load_template(loaded, what->own ? options->chat_template : NULL, error);
    if (rc == 0) rc = load_tags(loaded, error);
    if (rc == 0) rc = af_engine_open(loaded->model, &engine_options, &loaded->engine, error);
    return rc;
}

int shimmy_loaded_open(const shimmy_serve_options *options, const shimmy_load *what, shimmy_loaded **out,
                       af_error *error) {
    shimmy_loaded *loaded = calloc(1, sizeof *loaded);
    if (!loaded) return af_fail_memory(error, sizeof *loaded, what->name);
    loaded->name = what->name;
    loaded->path = strdup(what->path);
    int rc = loaded->path ? 0 : af_fail_memory(error, strlen(what->path), "a path");
    if (rc == 0) rc = open_parts(loaded, options, what, error);
    if (rc < 0) {
        shimmy_loaded_close(loaded);
        return rc;
    }
    af_engine_info info;
    af_engine_get_info(loaded->engine, &info);
    af_model_get_info(loaded->model, &loaded->info);
    loaded->ctx = info.ctx;
    loaded->limits = (shimmy_request_limits){
        .vocabulary = loaded->info.vocabulary,
        .sampling = af_sampling_default(loaded->model),
        .reasoning = options->reasoning,
        .penalty_compat = options->penalty_compat,
    };
    say_context(loaded, &info);
    *out = loaded;
    return 0;
}

void shimmy_loaded_stop(shimmy_loaded *loaded) {
    af_engine_close(loaded->engine);
    loaded->engine = NULL;
}

void shimmy_loaded_close(shimmy_loaded *loaded) {
    if (!loaded) return;
    shimmy_loaded_stop(loaded);
    af_template_close(loaded->template);
    af_model_close(loaded->model);
    for (int mode = 0; mode < SHIMMY_REASONINGS; mode++) af_free(loaded->spans[mode].shown);
    free(loaded->path);
    free(loaded);
}

/* cmd_serve.c - `shimmy serve`: which model, and the options of the server (http/serve.h does the rest). */
#include "base/log.h"
#include "cli/commands.h"
#include "cli/discover.h"
#include "cli/output.h"
#include "cli/session.h"
#include "http/serve.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_BIND     "127.0.0.1:11435"
#define DEFAULT_MAX_BODY ((uint64_t)8 << 20)

static shimmy_reasoning reasoning_of(const char *name) {
    if (!name || strcmp(name, "auto") == 0) return SHIMMY_REASONING_AUTO;
    return strcmp(name, "none") == 0 ? SHIMMY_REASONING_NONE : SHIMMY_REASONING_DEEPSEEK;
}

static af_pooling pooling_of(const char *name) {
    if (!name) return AF_POOLING_MODEL;
    if (strcmp(name, "mean") == 0) return AF_POOLING_MEAN;
    return strcmp(name, "cls") == 0 ? AF_POOLING_CLS : AF_POOLING_LAST;
}

static int first_model(const shimmy_options *options, char **path, char **name, af_error *error) {
    shimmy_catalog catalog;
    int status = shimmy_discover(options->model_dirs, &catalog, error);
    if (status) return status;
    if (catalog.found_count) {
        const shimmy_found *first = &catalog.found[0];
        shimmy_note("serving %s (%s: %s)%s", first->name, first->place, first->path,
                    catalog.found_count > 1 ? "; choose another of `shimmy list` with --model-path" : "");
        *path = strdup(first->path);
        *name = strdup(first->name);
        if (!*path || !*name) status = af_fail_memory(error, strlen(first->path), "a path");
    } else {
        status = af_fail(error, AF_EINVAL,
                         "no model found: give one with --model-path FILE, or put a .gguf file into ~/models "
                         "(`shimmy discover` lists the places looked at)");
    }
    shimmy_catalog_clear(&catalog);
    return status;
}

int shimmy_cmd_serve(const shimmy_options *options, af_error *error) {
    af_log_set_level(AF_LOG_INFO);
    shimmy_serve_options serve = {
        .bind = options->bind ? options->bind : DEFAULT_BIND,
        .chat_template = options->chat_template,
        .max_body = options->max_body == SHIMMY_UNSET ? DEFAULT_MAX_BODY : (uint64_t)options->max_body,
        .ctx = options->ctx == SHIMMY_UNSET ? 0 : (uint32_t)options->ctx,
        .penalty_compat = options->penalty_compat && strcmp(options->penalty_compat, "shimmy") == 0,
        .allow_special = options->allow_special,
        .reasoning = reasoning_of(options->reasoning),
        .pooling = pooling_of(options->pooling),
        .raw_log = af_env_flag("SHIMMY_DEBUG_RAW"),
    };
    int status = shimmy_engine_options(options, af_engine_options_default().parallel, &serve.engine, error);
    if (status) return status;
    char *path = NULL, *name = NULL;
    status = options->model_path ? shimmy_resolve(options->model_path, options->model_dirs, &path, &name, error)
                                 : first_model(options, &path, &name, error);
    if (!status) {
        serve.model_path = path;
        serve.model_name = name;
        shimmy_progress progress;
        shimmy_progress_start(&progress, name, &serve.engine);
        status = shimmy_serve(&serve, error);
        shimmy_progress_done(&progress);
    }
    free(name);
    free(path);
    return status;
}

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
    shimmy_reasoning how = SHIMMY_REASONING_AUTO;
    if (name) shimmy_reasoning_named(name, &how); /* the table of options has checked it */
    return how;
}

static af_pooling pooling_of(const char *name) {
    if (!name) return AF_POOLING_MODEL;
    if (strcmp(name, "mean") == 0) return AF_POOLING_MEAN;
    return strcmp(name, "cls") == 0 ? AF_POOLING_CLS : AF_POOLING_LAST;
}

static shimmy_log_form log_form(const char *name) {
    if (!name || strcmp(name, "text") == 0) return SHIMMY_LOG_TEXT;
    return strcmp(name, "json") == 0 ? SHIMMY_LOG_JSON : SHIMMY_LOG_OFF;
}

static const char *origins_of(const char *cors) {
    if (!cors) return "*";
    return strcmp(cors, "none") == 0 ? "" : cors;
}

static int read_unix_mode(const char *text, uint32_t *out, af_error *error) {
    char *end;
    if (!text) return 0;
    const unsigned long mode = strtoul(text, &end, 8);
    if (*text < '0' || *text > '7' || *end || mode == 0 || mode > 0777)
        return af_fail(error, SHIMMY_USAGE, "--unix-mode: found '%s', allowed are octal rights, 1 to 777", text);
    *out = (uint32_t)mode;
    return 0;
}

/* A prefix begins with a slash and ends with none. */
static int read_prefix(const char *text, const char **out, af_error *error) {
    *out = "";
    if (!text || !*text || strcmp(text, "/") == 0) return 0;
    if (*text != '/' || text[strlen(text) - 1] == '/' || strpbrk(text, "?#% "))
        return af_fail(error, SHIMMY_USAGE, "--path-prefix: found '%s', expected a path as /llm", text);
    *out = text;
    return 0;
}

/* Who may ask, from where, and how. */
static int read_access(const shimmy_options *options, shimmy_serve_options *serve, af_error *error) {
    serve->api_key = options->api_key;
    serve->api_keys = options->api_keys;
    serve->origins = origins_of(options->cors);
    serve->tls_cert = options->tls_cert;
    serve->tls_key = options->tls_key;
    serve->log = log_form(options->log);
    serve->request_seconds = (uint32_t)options->request_timeout;
    if (!options->tls_cert != !options->tls_key)
        return af_fail(error, SHIMMY_USAGE, "--tls-cert and --tls-key go together: %s is missing",
                       options->tls_cert ? "--tls-key" : "--tls-cert");
    int status = read_prefix(options->path_prefix, &serve->path_prefix, error);
    return status ? status : read_unix_mode(options->unix_mode, &serve->unix_mode, error);
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
        .models_max = 1,
        .load_seconds = 600,
        .raw_log = af_env_flag("SHIMMY_DEBUG_RAW"),
    };
    int status = shimmy_engine_options(options, af_engine_options_default().parallel, &serve.engine, error);
    if (!status) status = read_access(options, &serve, error);
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

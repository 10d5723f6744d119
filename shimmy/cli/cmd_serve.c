/* cmd_serve.c - `shimmy serve`: which model, and the options of the server (http/serve.h does the rest). */
#include "base/log.h"
#include "cli/commands.h"
#include "cli/discover.h"
#include "cli/output.h"
#include "cli/session.h"
#include "http/serve.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_BIND         "127.0.0.1:11435"
#define DEFAULT_MAX_BODY     ((uint64_t)8 << 20)
#define DEFAULT_LOAD_SECONDS 600

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

/* ---- Models ---- */

/* The models of this machine, as a server of several asks for them. */
typedef struct offering {
    const shimmy_options *options;
    shimmy_catalog first; /* as they were at the start */
    bool told;            /* ... which the server knows */
    const char **places;  /* where they lie: folders looked at, then files */
} offering;

static void tell(const shimmy_catalog *catalog, shimmy_offer_fn offer, void *to) {
    for (size_t i = 0; i < catalog->found_count; i++) {
        const shimmy_found *f = &catalog->found[i];
        offer(to, &(shimmy_offer){f->name, f->path, f->architecture, f->quantization, f->bytes});
    }
}

/* Looks again each time but the first. */
static int offer_models(void *user, shimmy_offer_fn offer, void *to, af_error *error) {
    offering *o = user;
    shimmy_catalog now;
    if (!o->told) {
        o->told = true;
        tell(&o->first, offer, to);
        return 0;
    }
    const int status = shimmy_discover(o->options->model_dirs, &now, error);
    if (status) return status;
    tell(&now, offer, to);
    shimmy_catalog_clear(&now);
    return 0;
}

static int open_offering(offering *o, shimmy_serve_options *serve, af_error *error) {
    const int status = shimmy_discover(o->options->model_dirs, &o->first, error);
    if (status) return status;
    const shimmy_catalog *c = &o->first;
    o->places = calloc(c->place_count + c->found_count + 1, sizeof *o->places);
    if (!o->places) return af_fail_memory(error, c->place_count * sizeof *o->places, "the list of models");
    for (size_t i = 0; i < c->place_count; i++) o->places[i] = c->places[i].path;
    for (size_t i = 0; i < c->found_count; i++) o->places[c->place_count + i] = c->found[i].path;
    serve->places = o->places;
    serve->place_count = c->place_count + c->found_count;
    serve->discover = offer_models;
    serve->discover_user = o;
    return 0;
}

static int64_t number_or(int64_t value, int64_t fallback) {
    return value == SHIMMY_UNSET ? fallback : value;
}

/* One model given is all that is served, unless there is to be room for others. */
static int read_models(const shimmy_options *options, shimmy_serve_options *serve, offering *o, af_error *error) {
    serve->models_max = (uint32_t)number_or(options->models_max, 1);
    serve->load_seconds = (uint32_t)number_or(options->load_timeout, DEFAULT_LOAD_SECONDS);
    serve->idle_seconds = (uint32_t)number_or(options->model_idle, 0);
    return options->model_path && serve->models_max == 1 ? 0 : open_offering(o, serve, error);
}

static int run_server(shimmy_serve_options *serve, af_error *error) {
    shimmy_progress progress;
    shimmy_progress_start(&progress, serve->model_name ? serve->model_name : "", &serve->engine);
    const int status = shimmy_serve(serve, error);
    shimmy_progress_done(&progress);
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
        .sandbox = !options->no_sandbox,
    };
    int status = shimmy_engine_options(options, af_engine_options_default().parallel, &serve.engine, error);
    if (!status) status = read_access(options, &serve, error);
    if (status) return status;
    char *path = NULL, *name = NULL;
    offering o = {.options = options};
    if (options->model_path) status = shimmy_resolve(options->model_path, options->model_dirs, &path, &name, error);
    if (!status) status = read_models(options, &serve, &o, error);
    serve.model_path = path;
    serve.model_name = name;
    if (!status) status = run_server(&serve, error);
    shimmy_catalog_clear(&o.first);
    free(o.places);
    free(name);
    free(path);
    return status;
}

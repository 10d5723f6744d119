/* serve.c - the life of a server: bind, load beside a loop that already answers, serve, drain, end. See serve.h.
 *
 * Order of birth: loop, listener, mailbox, workers, loader; of death: listener, connections, workers, engine, mailbox,
 * model. Nothing runs on a timer: an idle server sleeps in one epoll_wait.
 */
#include "http/serve.h"

#include "base/log.h"
#include "base/os.h"
#include "http/router.h"
#include "http/server.h"

#include <event2/event.h>
#include <event2/thread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    TEXT_WORKERS = 2,
    DRAIN_SECONDS = 30,
    DESCRIPTORS_KEPT = 64, /* for files, the model's shards, and sockets being refused */
    CONNECTIONS = 4096,
    BODIES_HELD = 16, /* times --max-body: bytes of all bodies together */
    TEMPLATE_BYTES = 16 * 1024 * 1024,
    SHOWN = 64, /* as many as a request may show */
    SIGNALS = 3
};

typedef struct serving {
    shimmy_server server;
    struct event *signals[SIGNALS], *drain_timer;
    bool draining;

    af_thread *loader;
    shimmy_mail loaded; /* posted by the loader when done */
    int outcome;        /* of loading; negative ends the server */
    af_error *error;
} serving;

/* ---- Loading, on its own thread ---- */

static int load_template(shimmy_server *server, af_error *error) {
    const char *path = server->options->chat_template;
    char *text;
    size_t size;
    if (!path) return 0;
    int rc = af_os_read_file(path, TEMPLATE_BYTES, &text, &size, error);
    if (rc < 0) return rc;
    rc = af_template_open(text, size, &server->template, error);
    af_free(text);
    return rc < 0 ? af_fail_within(error, rc, "--chat-template %s", path) : 0;
}

static bool mentions(const void *user, const char *text) {
    const shimmy_server *server = user;
    return af_model_template_mentions(server->model, server->template, text);
}

/* Tags may be control tokens, which say nothing unless asked to. */
static int show_tag(shimmy_server *server, const char *tag, af_ids *shown, af_error *error) {
    int32_t *ids;
    size_t count;
    if (!tag) return 0;
    int rc = af_tokenize(server->model, tag, strlen(tag), AF_PARSE_SPECIAL, &ids, &count, error);
    if (rc < 0) return rc;
    bool kept = count == 0 || af_ids_append(shown, ids, count);
    af_free(ids);
    return kept ? 0 : af_fail_memory(error, count, "tags");
}

static int load_spans(shimmy_server *server, shimmy_reasoning mode, af_error *error) {
    const shimmy_tags *tags = shimmy_choose_tags(mode, mentions, server);
    if (!tags) return 0;
    const char *const texts[] = {tags->open, tags->close, tags->instead, tags->aside, tags->turn};
    af_ids shown = {0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof texts / sizeof *texts; i++) rc = show_tag(server, texts[i], &shown, error);
    server->spans[mode] = (shimmy_spans){tags, shown.p, shown.len < SHOWN ? shown.len : SHOWN};
    return rc;
}

static int load_tags(shimmy_server *server, af_error *error) {
    int rc = 0;
    for (int mode = 0; rc == 0 && mode < SHIMMY_REASONINGS; mode++)
        rc = load_spans(server, (shimmy_reasoning)mode, error);
    return rc;
}

static int load_all(shimmy_server *server, af_error *error) {
    const shimmy_serve_options *options = server->options;
    af_model_options model_options = af_model_options_default();
    af_engine_options engine_options = options->engine;
    if (!engine_options.ctx) engine_options.ctx = options->ctx;
    model_options.ctx = engine_options.ctx;
    int rc = af_model_open(options->model_path, &model_options, &server->model, error);
    if (rc == 0) rc = load_template(server, error);
    if (rc == 0) rc = load_tags(server, error);
    if (rc == 0) rc = af_engine_open(server->model, &engine_options, &server->engine, error);
    return rc;
}

static void load(void *user) {
    serving *s = user;
    s->outcome = load_all(&s->server, s->error);
    shimmy_mailbox_post(s->server.mailbox, &s->loaded);
}

/* ---- Ready ---- */

static void print_ready(const shimmy_server *server, const af_engine_info *info) {
    const char *why = "as asked by --ctx";
    if (info->ctx_from_memory)
        why = "what memory allows";
    else if (info->ctx == server->info.context)
        why = "the model's native length";
    fprintf(stderr, "shimmy: %s: context %u tokens (%s; native %u), %u at once and %u waiting, %s\n",
            server->limits.model_name, info->ctx, why, server->info.context, info->parallel, info->queue,
            info->device ? info->device : "");
    printf("shimmy: listening on %s\n", shimmy_listener_address(server->listener));
    fflush(stdout);
}

static void on_loaded(shimmy_mail *mail) {
    serving *s = (serving *)(void *)((char *)mail - offsetof(serving, loaded));
    shimmy_server *server = &s->server;
    af_thread_join(s->loader);
    s->loader = NULL;
    if (s->outcome < 0) {
        event_base_loopbreak(server->base);
        return;
    }
    af_engine_info info;
    af_engine_get_info(server->engine, &info);
    af_model_get_info(server->model, &server->info);
    server->ctx = info.ctx;
    server->limits = (shimmy_request_limits){
        .model_name = server->options->model_name,
        .model_path = server->options->model_path,
        .vocabulary = server->info.vocabulary,
        .sampling = af_sampling_default(server->model),
        .reasoning = server->options->reasoning,
        .penalty_compat = server->options->penalty_compat,
    };
    server->ready = true;
    print_ready(server, &info);
}

/* ---- What connections report ---- */

static void on_socket(void *user, int fd) {
    shimmy_server *server = user;
    shimmy_http_accept(server->http, fd);
    if (shimmy_http_full(server->http)) shimmy_listener_pause(server->listener, true);
}

static void on_closed(void *user) {
    serving *s = user;
    if (s->draining && !shimmy_http_count(s->server.http))
        event_base_loopexit(s->server.base, NULL);
    else if (s->server.listener)
        shimmy_listener_pause(s->server.listener, false);
}

static void on_request(void *user, shimmy_conn *conn, const shimmy_http_request *request) {
    serving *s = user;
    shimmy_route_request(&s->server, conn, request);
}

static void write_error(af_buf *out, int status, const char *message) {
    shimmy_refusal refusal;
    const char *code = status == 413 ? "body_too_large" : status == 503 ? "overloaded" : "invalid_http";
    shimmy_refuse(&refusal, status, code, NULL, "%s", message);
    shimmy_write_refusal(out, &refusal);
}

static void on_done(void *user, const shimmy_http_done *done) {
    serving *s = user;
    shimmy_metrics *metrics = &s->server.metrics;
    shimmy_metrics_request(metrics, shimmy_route_index(&s->server, done->method, done->path), done->status);
    if (done->tokens.prompt) shimmy_metrics_time(metrics, SHIMMY_TIME_WHOLE, done->nanoseconds);
    atomic_fetch_add(&metrics->cached_tokens, done->tokens.cached);
    shimmy_log_request(s->server.options->log, done);
}

/* ---- Ending ---- */

/* Leaves at once, from a second signal or while loading, where nothing can be waited for. */
static void leave_now(serving *s, int code) {
    shimmy_listener_close(s->server.listener);
    fflush(NULL);
    _exit(code);
}

static void on_drain_over(int fd, short what, void *user) {
    (void)fd, (void)what;
    serving *s = user;
    event_base_loopexit(s->server.base, NULL);
}

static void on_signal(int number, short what, void *user) {
    (void)what;
    serving *s = user;
    if (s->draining) leave_now(s, 128 + number);
    if (s->loader) leave_now(s, 0);
    s->draining = true;
    shimmy_listener_close(s->server.listener);
    s->server.listener = NULL;
    evtimer_add(s->drain_timer, &(struct timeval){.tv_sec = DRAIN_SECONDS});
    shimmy_http_drain(s->server.http);
    if (!shimmy_http_count(s->server.http)) event_base_loopexit(s->server.base, NULL);
}

/* ---- SIGHUP: files are read again, and what was read before stays where one of them is broken ---- */

static void say_reloaded(const char *what, int outcome, const af_error *error) {
    if (outcome < 0)
        af_log(AF_LOG_ERROR, "%s; the %s in use stays", error->text, what);
    else
        af_log(AF_LOG_INFO, "read again: the %s", what);
}

static void reload_keys(shimmy_server *server) {
    af_error error;
    shimmy_keys *keys = NULL;
    const int rc = shimmy_keys_open(server->options->api_key, server->options->api_keys, &keys, &error);
    if (rc == 0) {
        shimmy_keys_close(server->keys);
        server->keys = keys;
    }
    say_reloaded("file of keys", rc, &error);
}

static void on_reload(int number, short what, void *user) {
    (void)number, (void)what;
    shimmy_server *server = &((serving *)user)->server;
    af_error error;
    if (server->tls) say_reloaded("certificate", shimmy_tls_reload(server->tls, &error), &error);
    if (server->options->api_keys) reload_keys(server);
}

static int open_signals(serving *s, af_error *error) {
    static const struct {
        int number;
        event_callback_fn handler;
    } rows[SIGNALS] = {{SIGTERM, on_signal}, {SIGINT, on_signal}, {SIGHUP, on_reload}};
    const bool reloads = s->server.options->api_keys || s->server.options->tls_cert;
    signal(SIGPIPE, SIG_IGN);
    s->drain_timer = evtimer_new(s->server.base, on_drain_over, s);
    bool failed = !s->drain_timer;
    for (size_t i = 0; i < (reloads ? SIGNALS : SIGNALS - 1) && !failed; i++) {
        s->signals[i] = evsignal_new(s->server.base, rows[i].number, rows[i].handler, s);
        failed = !s->signals[i] || evsignal_add(s->signals[i], NULL) < 0;
    }
    return failed ? af_fail(error, AF_ENOMEM, "signal handlers: out of memory") : 0;
}

static int open_base(shimmy_server *server, af_error *error) {
    if (evthread_use_pthreads() < 0) return af_fail(error, AF_ENOMEM, "libevent: cannot use threads");
    server->base = event_base_new();
    return server->base ? 0 : af_fail(error, AF_ENOMEM, "libevent: no event loop");
}

static size_t most_connections(void) {
    long limit = sysconf(_SC_OPEN_MAX);
    if (limit < 2 * DESCRIPTORS_KEPT) return DESCRIPTORS_KEPT / 2;
    return limit - DESCRIPTORS_KEPT > CONNECTIONS ? CONNECTIONS : (size_t)(limit - DESCRIPTORS_KEPT);
}

static size_t most_held(uint64_t max_body) {
    return max_body > SIZE_MAX / BODIES_HELD ? SIZE_MAX : (size_t)max_body * BODIES_HELD;
}

static int open_all(serving *s, af_error *error) {
    shimmy_server *server = &s->server;
    server->max_held = most_held(server->options->max_body);
    shimmy_http_options http = {
        .max_body = server->options->max_body,
        .max_held = server->max_held,
        .held = &server->held,
        .max_connections = most_connections(),
        .on_request = on_request,
        .write_error = write_error,
        .on_closed = on_closed,
        .on_done = on_done,
        .origins = server->options->origins,
        .user = s,
    };
    const shimmy_serve_options *options = server->options;
    int rc = shimmy_keys_open(options->api_key, options->api_keys, &server->keys, error);
    if (rc == 0 && options->tls_cert) rc = shimmy_tls_open(options->tls_cert, options->tls_key, &server->tls, error);
    http.tls = server->tls;
    if (rc == 0) rc = open_base(server, error);
    if (rc == 0) rc = open_signals(s, error);
    if (rc == 0) rc = shimmy_http_open(server->base, &http, &server->http, error);
    if (rc == 0)
        rc = shimmy_listener_open(server->base,
                                  &(shimmy_listener_options){options->bind, options->unix_mode, server->tls}, on_socket,
                                  server, &server->listener, error);
    if (rc == 0) rc = shimmy_mailbox_open(server->base, &server->mailbox, error);
    if (rc == 0) rc = shimmy_workers_open(TEXT_WORKERS, &server->workers, error);
    if (rc == 0) rc = af_thread_start(&s->loader, "loader", load, s, error);
    return rc;
}

static void close_all(serving *s) {
    shimmy_server *server = &s->server;
    for (size_t i = 0; i < SIGNALS; i++) /* from here on a signal has its usual meaning */
        if (s->signals[i]) event_free(s->signals[i]);
    if (s->loader) af_thread_join(s->loader);
    shimmy_listener_close(server->listener);
    server->listener = NULL;
    shimmy_http_close(server->http);
    shimmy_tls_close(server->tls);
    shimmy_keys_close(server->keys);
    shimmy_workers_close(server->workers);
    af_engine_close(server->engine); /* the last events go to the mailbox */
    shimmy_mailbox_close(server->mailbox);
    af_template_close(server->template);
    af_model_close(server->model);
    if (s->drain_timer) event_free(s->drain_timer);
    if (server->base) event_base_free(server->base);
    for (int mode = 0; mode < SHIMMY_REASONINGS; mode++) af_free(server->spans[mode].shown);
    shimmy_said_clear(&server->spare);
    af_buf_clear(&server->event);
}

int shimmy_serve(const shimmy_serve_options *options, af_error *error) {
    af_error unseen;
    serving s = {.server = {.options = options, .started = af_os_unix_time()}};
    s.error = error ? error : &unseen;
    s.loaded.deliver = on_loaded;
    int rc = open_all(&s, s.error);
    if (rc == 0) {
        event_base_dispatch(s.server.base);
        rc = s.outcome;
    }
    close_all(&s);
    return rc;
}

/* serve.c - the life of a server: bind, load beside a loop that already answers, serve, drain, end. See serve.h.
 *
 * Order of birth: loop, listener, mailbox, sandbox, workers, loader; of death: listener, connections, workers, loader
 * and engines, mailbox, models. Nothing runs on a timer: an idle server sleeps in one epoll_wait.
 */
#include "http/serve.h"

#include "base/log.h"
#include "base/os.h"
#include "http/confine.h"
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
    PARALLEL = 4,          /* where the model decides */
    PATIENCE_SECONDS = 5,  /* before a busy model gives way to one that is waited for */
    DESCRIPTORS_KEPT = 64, /* for files, the models' shards, and sockets being refused */
    CONNECTIONS = 4096,
    BODIES_HELD = 16, /* times --max-body: bytes of all bodies together */
    SIGNALS = 3
};

#define NANOSECONDS 1000000000u

typedef struct serving {
    shimmy_server server;
    struct event *signals[SIGNALS], *drain_timer;
    bool draining;

    /* The model that the server is started with, if it is with one. */
    shimmy_waiter first;
    shimmy_loaded *loaded;
    shimmy_mail arrived; /* posted by the loader when it is there, or will not come */
    int outcome;         /* of loading it; negative ends the server */
    af_error *error;
    bool tried; /* the loader's: `error` has been written, or need not be */
} serving;

/* ---- Models: what the registry asks for, on the loader's thread ---- */

static int open_model(void *user, const shimmy_load *what, shimmy_loaded **out, af_error *error) {
    serving *s = user;
    const int rc = shimmy_loaded_open(s->server.options, what, out, error);
    if (rc < 0 && !s->tried) *s->error = *error;
    s->tried = true;
    return rc;
}

static void stop_model(void *user, shimmy_loaded *loaded) {
    (void)user;
    shimmy_loaded_stop(loaded);
}

static void close_model(void *user, shimmy_loaded *loaded) {
    (void)user;
    shimmy_loaded_close(loaded);
    af_os_memory_trim();
}

static void count_model(void *user, const shimmy_loaded *loaded, shimmy_model_numbers *sum) {
    (void)user;
    af_engine_info info;
    af_engine_get_info(loaded->engine, &info);
    sum->running += info.running;
    sum->waiting += info.waiting;
    sum->prompt_tokens += info.prompt_tokens;
    sum->generated_tokens += info.generated_tokens;
    sum->accepted_tokens += info.accepted_tokens;
    sum->rejected_tokens += info.rejected_tokens;
    sum->kv_bytes += info.kv_bytes;
}

static int find_models(void *user, shimmy_offer_fn offer, void *to, af_error *error) {
    const shimmy_serve_options *options = ((const serving *)user)->server.options;
    return options->discover(options->discover_user, offer, to, error);
}

static int open_models(serving *s, af_error *error) {
    shimmy_server *server = &s->server;
    const shimmy_serve_options *options = server->options;
    const uint32_t parallel = options->engine.parallel ? options->engine.parallel : PARALLEL;
    const shimmy_models_options models = {
        .max = options->models_max,
        .waiting = parallel + options->engine.queue,
        .load_time = (uint64_t)options->load_seconds * NANOSECONDS,
        .idle_time = (uint64_t)options->idle_seconds * NANOSECONDS,
        .patience = (uint64_t)PATIENCE_SECONDS * NANOSECONDS,
        .keeper = {.open = open_model,
                   .stop = stop_model,
                   .close = close_model,
                   .count = count_model,
                   .discover = options->discover ? find_models : NULL,
                   .user = s},
    };
    int rc = shimmy_models_open(&models, &server->models, error);
    if (rc == 0 && options->model_path)
        rc = shimmy_models_add(server->models, options->model_name, options->model_path, error);
    if (rc == 0) rc = shimmy_models_refresh(server->models, error);
    server->several = options->discover != NULL;
    if (rc == 0 && !shimmy_models_count(server->models))
        rc = af_fail(error, AF_EINVAL,
                     "no model found: give one with --model-path FILE, or put a .gguf file into ~/models (`shimmy "
                     "discover` lists the places looked at)");
    return rc;
}

/* ---- Ready ---- */

static void become_ready(shimmy_server *server) {
    server->ready = true;
    printf("shimmy: listening on %s\n", shimmy_listener_address(server->listener));
    fflush(stdout);
}

/* The loop hears of the model that was asked for at the start. */
static void on_arrived(shimmy_mail *mail) {
    serving *s = (serving *)(void *)((char *)mail - offsetof(serving, arrived));
    if (s->outcome < 0) {
        event_base_loopbreak(s->server.base);
        return;
    }
    shimmy_models_release(s->server.models, s->loaded);
    become_ready(&s->server);
}

static void on_first(shimmy_waiter *waiter, shimmy_loaded *loaded, const shimmy_refusal *refusal) {
    serving *s = (serving *)(void *)((char *)waiter - offsetof(serving, first));
    s->loaded = loaded;
    if (refusal) s->outcome = AF_EIO; /* `error` says why */
    shimmy_mailbox_post(s->server.mailbox, &s->arrived);
}

/* Loads what the command line names. Without it a server loads what it is asked for, and is ready at once. */
static int begin(serving *s, af_error *error) {
    shimmy_server *server = &s->server;
    shimmy_refusal refusal;
    int rc = shimmy_models_start(server->models, error);
    if (rc < 0) return rc;
    if (!server->options->model_path) {
        fprintf(stderr, "shimmy: %zu models, each loaded when it is asked for\n", shimmy_models_count(server->models));
        become_ready(server);
        return 0;
    }
    rc = shimmy_models_take(server->models, "", &s->first, &s->loaded, &refusal);
    return rc < 0 ? af_fail(error, rc, "%s", refusal.message) : 0;
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
    if (!s->server.ready) leave_now(s, 0);
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
        .times = server->options->times,
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
    if (rc == 0 && options->sandbox) rc = shimmy_confine(options, error); /* from here on: threads */
    if (rc == 0) rc = shimmy_workers_open(TEXT_WORKERS, &server->workers, error);
    if (rc == 0) rc = open_models(s, error);
    return rc == 0 ? begin(s, error) : rc;
}

static void close_all(serving *s) {
    shimmy_server *server = &s->server;
    for (size_t i = 0; i < SIGNALS; i++) /* from here on a signal has its usual meaning */
        if (s->signals[i]) event_free(s->signals[i]);
    shimmy_listener_close(server->listener);
    server->listener = NULL;
    shimmy_http_close(server->http);
    shimmy_tls_close(server->tls);
    shimmy_keys_close(server->keys);
    shimmy_workers_close(server->workers);
    if (server->models && !shimmy_models_stop(server->models)) leave_now(s, 0); /* a file is being loaded for nobody */
    shimmy_mailbox_close(server->mailbox); /* after the engines' last events have come to it */
    shimmy_models_close(server->models);
    if (s->drain_timer) event_free(s->drain_timer);
    if (server->base) event_base_free(server->base);
    shimmy_said_clear(&server->spare);
    af_buf_clear(&server->event);
}

int shimmy_serve(const shimmy_serve_options *options, af_error *error) {
    af_error unseen;
    serving s = {.server = {.options = options, .started = af_os_unix_time()}};
    s.error = error ? error : &unseen;
    s.arrived.deliver = on_arrived;
    s.first = (shimmy_waiter){.over = on_first, .endless = true};
    int rc = open_all(&s, s.error);
    if (rc == 0) {
        event_base_dispatch(s.server.base);
        rc = s.outcome;
    }
    close_all(&s);
    return rc;
}

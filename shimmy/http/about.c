/* about.c - see about.h. */
#include "http/about.h"

#include "base/os.h"
#include "http/router.h"
#include "openai/response.h"
#include "openai/write.h"

#include <string.h>

/* ---- Health ---- */

typedef struct listing {
    const shimmy_server *server;
    af_buf *out;
    size_t count;
} listing;

static void write_loading(void *user, const shimmy_model_view *view) {
    listing *l = user;
    if (view->state != SHIMMY_MODEL_LOADING) return;
    af_buf_text(l->out, l->count++ ? ",{\"model\":" : ",\"loading\":[{\"model\":");
    shimmy_write_text(l->out, view->name);
    af_buf_printf(l->out, ",\"progress\":%.3g}", view->progress);
}

static void write_progress(void *user, const shimmy_model_view *view) {
    const listing *l = user;
    if (view->state == SHIMMY_MODEL_LOADING && view->progress > 0)
        af_buf_printf(l->out, ",\"progress\":%.3g", view->progress);
}

/* Healthy is a server that answers requests: it need not wait for models that are loaded while it does. */
void shimmy_get_health(shimmy_server *server, const char *name, shimmy_reply *reply) {
    (void)name;
    listing l = {.out = &reply->body};
    if (!server->ready) {
        reply->status = 503;
        reply->retry_after = 1;
    }
    af_buf_printf(l.out, "{\"status\":\"%s\"", server->ready ? "ok" : "loading");
    shimmy_models_each(server->models, server->ready ? write_loading : write_progress, &l);
    af_buf_text(l.out, l.count ? "]}" : "}");
}

/* ---- Models ---- */

static void write_card(const listing *l, const shimmy_model_view *view) {
    const bool loading = view->state == SHIMMY_MODEL_LOADING;
    const shimmy_model_card card = {
        .name = view->name,
        .architecture = view->architecture,
        .quantization = view->quantization,
        .created = l->server->started,
        .bytes = view->bytes,
        .info = view->loaded ? &view->loaded->info : NULL,
        .context = view->loaded ? view->loaded->ctx : 0,
        .status = view->loaded ? "loaded"
                  : loading    ? "loading"
                               : "unloaded",
        .progress = loading ? view->progress : -1,
        .error = view->error,
    };
    shimmy_write_model(l->out, &card);
}

static void write_one(void *user, const shimmy_model_view *view) {
    listing *l = user;
    if (l->count++) af_buf_byte(l->out, ',');
    write_card(l, view);
}

void shimmy_get_models(shimmy_server *server, const char *name, shimmy_reply *reply) {
    (void)name;
    listing l = {.server = server, .out = &reply->body};
    af_buf_text(l.out, "{\"object\":\"list\",\"data\":[");
    shimmy_models_each(server->models, write_one, &l);
    af_buf_text(l.out, "]}");
}

void shimmy_get_model(shimmy_server *server, const char *name, shimmy_reply *reply) {
    shimmy_refusal refusal;
    listing l = {.server = server, .out = &reply->body};
    if (shimmy_models_look(server->models, name, write_one, &l, &refusal) < 0) shimmy_reply_refusal(reply, &refusal);
}

/* ---- Routes ---- */

void shimmy_get_index(shimmy_server *server, const char *name, shimmy_reply *reply) {
    (void)name;
    const char *address = shimmy_listener_address(server->listener);
    bool is_unix = strncmp(address, "unix:", 5) == 0;
    reply->type = "text/plain; charset=utf-8";
    af_buf_printf(&reply->body, "shimmy %s: an OpenAI-compatible server for local GGUF models%s\n\n", af_version(),
                  server->ready ? "" : " (the model is still loading)");
    for (size_t i = 0; i < shimmy_route_count; i++)
        af_buf_printf(&reply->body, "    %-5s%s%s\n", shimmy_routes[i].method, shimmy_routes[i].path,
                      shimmy_routes[i].path[1] && strrchr(shimmy_routes[i].path, '/')[1] == 0 ? "{id}" : "");
    af_buf_printf(&reply->body,
                  "\ncurl %s%s%s/v1/chat/completions -d '{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}'\n",
                  is_unix ? "--unix-socket " : "", is_unix ? address + 5 : address, is_unix ? " http://localhost" : "");
}

/* ---- Metrics ---- */

static const char *route_name(size_t route) {
    return shimmy_routes[route].path;
}

/* What is counted of a model, in the order of the table below. */
typedef enum number {
    BATCH,
    QUEUE,
    RUNNING,
    WAITING,
    PROMPT,
    GENERATED,
    ACCEPTED,
    REJECTED,
    KV,
    LOADED,
    LOADS,
    AWAITING,
    KEPT,
    DISK,
    SAVED,
    RESTORED,
    REFUSED,
    NUMBERS
} number;

typedef struct counted {
    const char *name; /* lives as long as the server */
    uint64_t numbers[NUMBERS];
} counted;

typedef struct counting {
    af_buf models; /* counted[] */
    af_buf info;   /* lines of shimmy_info */
    bool labels;   /* there are several: those never asked for are left out */
} counting;

static void write_info(af_buf *out, const char *name, const char *device) {
    af_buf_printf(out, "shimmy_info{version=\"%s\",model=", af_version());
    shimmy_write_text(out, name);
    af_buf_text(out, ",device=");
    shimmy_write_text(out, device ? device : "");
    af_buf_text(out, "} 1\n");
}

static void count_model(void *user, const shimmy_model_view *view) {
    counting *c = user;
    if (c->labels && view->state == SHIMMY_MODEL_ABSENT && !view->loads && !view->waiting)
        return; /* of many, perhaps */
    counted one = {.name = view->name,
                   .numbers = {[RUNNING] = view->numbers.running,
                               [WAITING] = view->numbers.waiting,
                               [PROMPT] = view->numbers.prompt_tokens,
                               [GENERATED] = view->numbers.generated_tokens,
                               [ACCEPTED] = view->numbers.accepted_tokens,
                               [REJECTED] = view->numbers.rejected_tokens,
                               [KV] = view->numbers.kv_bytes,
                               [LOADED] = view->loaded != NULL,
                               [LOADS] = view->loads,
                               [AWAITING] = view->waiting}};
    if (view->loaded) {
        af_engine_info info;
        af_engine_get_info(view->loaded->engine, &info);
        one.numbers[BATCH] = info.parallel;
        one.numbers[QUEUE] = info.queue;
        one.numbers[KEPT] = info.kept_pages;
        one.numbers[DISK] = info.disk_bytes;
        one.numbers[SAVED] = info.disk_saved;
        one.numbers[RESTORED] = info.disk_restored;
        one.numbers[REFUSED] = info.disk_refused;
        write_info(&c->info, view->name, info.device);
    }
    af_buf_append(&c->models, &one, sizeof one);
}

/* A server of one model names it in shimmy_info alone; one of several labels what is a model's. */
static void write_by_model(af_buf *out, const af_buf *models, bool labels) {
    static const struct {
        const char *name, *type, *help;
    } rows[NUMBERS] = {
        [BATCH] = {"shimmy_batch_limit", "gauge", "Requests that may run together (--parallel)"},
        [QUEUE] = {"shimmy_queue_limit", "gauge", "Requests that may wait (--queue)"},
        [RUNNING] = {"shimmy_requests_running", "gauge", "Requests in the batch"},
        [WAITING] = {"shimmy_requests_waiting", "gauge", "Requests in the queue"},
        [PROMPT] = {"shimmy_prompt_tokens_total", "counter", "Prompt tokens run since the start"},
        [GENERATED] = {"shimmy_generated_tokens_total", "counter", "Tokens generated since the start"},
        [ACCEPTED] = {"shimmy_accepted_tokens_total", "counter", "Generated tokens that speculation had guessed"},
        [REJECTED] = {"shimmy_rejected_tokens_total", "counter", "Tokens guessed and checked for nothing"},
        [KV] = {"shimmy_kv_bytes", "gauge", "Bytes reserved for the KV cache"},
        [LOADED] = {"shimmy_model_loaded", "gauge", "Whether the model is in memory"},
        [LOADS] = {"shimmy_model_loads_total", "counter", "How often the model was loaded"},
        [AWAITING] = {"shimmy_model_requests_waiting", "gauge", "Requests that wait for the model to be loaded"},
        [KEPT] = {"shimmy_kept_pages", "gauge", "Pages of 32 tokens in memory that requests may begin with"},
        [DISK] = {"shimmy_disk_bytes", "gauge", "Bytes in the folder of --cache-dir"},
        [SAVED] = {"shimmy_disk_saved_pages_total", "counter", "Pages written to disk since the model was loaded"},
        [RESTORED] = {"shimmy_disk_restored_pages_total", "counter", "Pages read again from disk, likewise"},
        [REFUSED] = {"shimmy_disk_refused_total", "counter", "Files on disk that were damaged and removed, likewise"},
    };
    const counted *all = (const void *)models->p;
    for (size_t i = 0; i < NUMBERS; i++) {
        af_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", rows[i].name, rows[i].help, rows[i].name, rows[i].type);
        for (size_t k = 0; k < models->len / sizeof *all; k++) {
            af_buf_text(out, rows[i].name);
            if (labels) af_buf_text(out, "{model=");
            if (labels) shimmy_write_text(out, all[k].name);
            af_buf_printf(out, "%s %llu\n", labels ? "}" : "", (unsigned long long)all[k].numbers[i]);
        }
    }
}

static void write_whole(af_buf *out, const shimmy_server *server) {
    const struct {
        const char *name, *type, *help;
        uint64_t value;
    } rows[] = {
        {"shimmy_start_time_seconds", "gauge", "When the server began, in seconds since 1970",
         (uint64_t)server->started},
        {"shimmy_connections", "gauge", "Open connections", shimmy_http_count(server->http)},
        {"shimmy_cached_tokens_total", "counter", "Prompt tokens taken from the cache",
         atomic_load(&server->metrics.cached_tokens)},
        {"shimmy_resident_bytes", "gauge", "Bytes of memory this process holds", af_os_memory_resident()},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        shimmy_write_metric(out, rows[i].name, rows[i].type, rows[i].help, (double)rows[i].value);
}

void shimmy_get_metrics(shimmy_server *server, const char *name, shimmy_reply *reply) {
    (void)name;
    af_buf *out = &reply->body;
    counting c = {.labels = server->several};
    reply->type = "text/plain; version=0.0.4; charset=utf-8";
    shimmy_models_each(server->models, count_model, &c);
    write_whole(out, server);
    write_by_model(out, &c.models, c.labels);
    af_buf_text(out, "# HELP shimmy_info What is served, and on what\n# TYPE shimmy_info gauge\n");
    if (c.info.len) af_buf_append(out, c.info.p, c.info.len);
    shimmy_write_requests(out, &server->metrics, route_name);
    shimmy_write_timings(out, &server->metrics);
    af_buf_clear(&c.models);
    af_buf_clear(&c.info);
}

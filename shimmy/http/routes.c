/* routes.c - the table of routes, and the small answers that need no engine. */
#include "base/os.h"
#include "base/utf8.h"
#include "http/embed.h"
#include "http/router.h"
#include "openai/fields.h"
#include "openai/write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Answered on the loop ---- */

static void get_health(shimmy_server *server, const char *name, shimmy_reply *reply) {
    (void)name;
    if (!server->ready) {
        reply->status = 503;
        reply->retry_after = 1;
    }
    af_buf_printf(&reply->body, "{\"status\":\"%s\"}", server->ready ? "ok" : "loading");
}

static shimmy_model_card card_of(const shimmy_server *server) {
    return (shimmy_model_card){server->limits.model_name, server->started, server->ctx, &server->info};
}

static void get_models(shimmy_server *server, const char *name, shimmy_reply *reply) {
    (void)name;
    shimmy_model_card card = card_of(server);
    shimmy_write_model_list(&reply->body, &card, 1);
}

static void get_model(shimmy_server *server, const char *name, shimmy_reply *reply) {
    shimmy_refusal refusal;
    shimmy_model_card card = card_of(server);
    if (shimmy_model_matches(name, &server->limits)) {
        shimmy_write_model(&reply->body, &card);
        return;
    }
    shimmy_refuse(&refusal, 404, "model_not_found", "model", "model: '%.200s' is not served here; served is '%.200s'",
                  name, server->limits.model_name);
    shimmy_reply_refusal(reply, &refusal);
}

static void get_index(shimmy_server *server, const char *name, shimmy_reply *reply) {
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

static const char *route_name(size_t route) {
    return shimmy_routes[route].path;
}

static void write_info(af_buf *out, const shimmy_server *server, const af_engine_info *info) {
    af_buf_printf(out,
                  "# HELP shimmy_info What is served, and on what\n# TYPE shimmy_info gauge\n"
                  "shimmy_info{version=\"%s\",model=",
                  af_version());
    shimmy_write_text(out, server->limits.model_name);
    af_buf_text(out, ",device=");
    shimmy_write_text(out, info->device ? info->device : "");
    af_buf_text(out, "} 1\n");
}

static void get_metrics(shimmy_server *server, const char *name, shimmy_reply *reply) {
    (void)name;
    af_engine_info info;
    af_engine_get_info(server->engine, &info);
    reply->type = "text/plain; version=0.0.4; charset=utf-8";
    const struct {
        const char *name, *type, *help;
        uint64_t value;
    } rows[] = {
        {"shimmy_start_time_seconds", "gauge", "When the server began, in seconds since 1970",
         (uint64_t)server->started},
        {"shimmy_batch_limit", "gauge", "Requests that may run together (--parallel)", info.parallel},
        {"shimmy_queue_limit", "gauge", "Requests that may wait (--queue)", info.queue},
        {"shimmy_connections", "gauge", "Open connections", shimmy_http_count(server->http)},
        {"shimmy_cached_tokens_total", "counter", "Prompt tokens taken from the cache",
         atomic_load(&server->metrics.cached_tokens)},
        {"shimmy_resident_bytes", "gauge", "Bytes of memory this process holds", af_os_memory_resident()},
        {"shimmy_requests_running", "gauge", "Requests in the batch", info.running},
        {"shimmy_requests_waiting", "gauge", "Requests in the queue", info.waiting},
        {"shimmy_prompt_tokens_total", "counter", "Prompt tokens run since the start", info.prompt_tokens},
        {"shimmy_generated_tokens_total", "counter", "Tokens generated since the start", info.generated_tokens},
        {"shimmy_kv_bytes", "gauge", "Bytes reserved for the KV cache", info.kv_bytes},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        shimmy_write_metric(&reply->body, rows[i].name, rows[i].type, rows[i].help, (double)rows[i].value);
    write_info(&reply->body, server, &info);
    shimmy_write_requests(&reply->body, &server->metrics, route_name);
    shimmy_write_timings(&reply->body, &server->metrics);
}

/* ---- Answered by a text worker ---- */

static int post_chat(shimmy_call *call) {
    return shimmy_generate(call, true);
}

static int post_completion(shimmy_call *call) {
    return shimmy_generate(call, false);
}

static void write_piece(af_buf *out, const char *text, size_t length) {
    if (af_utf8_valid(text, length)) {
        shimmy_write_string(out, text, length);
        return;
    }
    for (size_t i = 0; i < length; i++) /* half a character is given as its bytes */
        af_buf_printf(out, "%c%u", i ? ',' : '[', (unsigned char)text[i]);
    af_buf_byte(out, ']');
}

static void write_tokens(shimmy_call *call, const int32_t *ids, size_t count, bool with_pieces) {
    af_buf *out = &call->reply.body;
    af_buf_text(out, "{\"tokens\":[");
    for (size_t i = 0; i < count; i++) {
        const char *text = "";
        size_t length = 0;
        if (i) af_buf_byte(out, ',');
        af_buf_printf(out, with_pieces ? "{\"id\":%d,\"piece\":" : "%d", ids[i]);
        if (!with_pieces) continue;
        af_token_piece(call->server->model, ids[i], &text, &length);
        write_piece(out, text, length);
        af_buf_byte(out, '}');
    }
    af_buf_text(out, "]}");
}

/* A text, or an id as it stands. */
static int add_content(shimmy_call *call, const json_t *item, const char *param, unsigned flags, af_ids *out) {
    int32_t *ids, id;
    size_t count;
    af_error error;
    if (!json_is_string(item)) {
        int rc = shimmy_read_id(item, param, call->server->info.vocabulary, &id, &call->refusal);
        if (rc == 0) af_ids_push(out, id);
        return rc;
    }
    int rc = af_tokenize(call->server->model, json_string_value(item), json_string_length(item), flags, &ids, &count,
                         &error);
    if (rc < 0) return shimmy_refuse_error(&call->refusal, &error, param);
    if (count) af_ids_append(out, ids, count);
    af_free(ids);
    return 0;
}

/* A text, or an array of texts and ids; special tokens are added around the first text only. */
static int add_contents(shimmy_call *call, const json_t *content, unsigned flags, af_ids *out) {
    if (!json_is_array(content) && !json_is_string(content))
        return shimmy_wrong_type(content, "content", "a string or an array of strings and token ids", &call->refusal);
    if (json_is_string(content)) return add_content(call, content, "content", flags, out);
    for (size_t i = 0; i < json_array_size(content); i++) {
        char param[32];
        snprintf(param, sizeof param, "content[%zu]", i);
        int rc =
            add_content(call, json_array_get(content, i), param, i ? flags & ~(unsigned)AF_ADD_SPECIAL : flags, out);
        if (rc < 0) return rc;
    }
    return 0;
}

/* The text is the caller's own: control tokens count unless parse_special says no, as with llama.cpp's server. */
static int tokenize_body(shimmy_call *call, json_t *json) {
    bool add = false, parse = true, pieces = false;
    af_ids ids = {0};
    int rc = shimmy_read_bool(json, "add_special", &add, &call->refusal);
    if (rc == 0) rc = shimmy_read_bool(json, "parse_special", &parse, &call->refusal);
    if (rc == 0) rc = shimmy_read_bool(json, "with_pieces", &pieces, &call->refusal);
    unsigned flags = (add ? AF_ADD_SPECIAL : 0u) | (parse ? AF_PARSE_SPECIAL : 0u);
    if (rc == 0) rc = add_contents(call, shimmy_field(json, "content"), flags, &ids);
    if (rc == 0 && ids.failed) rc = shimmy_refuse(&call->refusal, 503, "out_of_memory", NULL, "out of memory");
    if (rc == 0) write_tokens(call, ids.p, ids.len, pieces);
    af_ids_clear(&ids);
    return rc;
}

static int detokenize_body(shimmy_call *call, json_t *json) {
    int32_t *ids = NULL;
    size_t count = 0, length = 0;
    char *text = NULL;
    af_error error;
    int rc = shimmy_read_ids(shimmy_field(json, "tokens"), "tokens", call->server->info.vocabulary, &ids, &count,
                             &call->refusal);
    if (rc < 0) return rc;
    rc = af_detokenize(call->server->model, ids, count, &text, &length, &error);
    af_free(ids);
    if (rc < 0) return shimmy_refuse_error(&call->refusal, &error, "tokens");
    af_buf_text(&call->reply.body, "{\"content\":");
    shimmy_write_string(&call->reply.body, text, length);
    af_buf_byte(&call->reply.body, '}');
    af_free(text);
    return 0;
}

static int template_body(shimmy_call *call, json_t *json) {
    bool continues;
    char *render = NULL;
    af_prompt prompt = {0};
    af_error error;
    af_render_options options = af_render_options_default();
    int rc = shimmy_request_messages(json, &render, &continues, &call->refusal);
    if (rc < 0) return rc;
    rc =
        af_model_render(call->server->model, call->server->template, render, strlen(render), &options, &prompt, &error);
    af_free(render);
    if (rc < 0) return shimmy_refuse_error(&call->refusal, &error, "messages");
    af_buf_text(&call->reply.body, "{\"prompt\":");
    shimmy_write_string(&call->reply.body, prompt.text, prompt.length);
    af_buf_byte(&call->reply.body, '}');
    af_prompt_clear(&prompt);
    return 0;
}

/* Parses the body for one of the three above. */
static int with_json(shimmy_call *call, int (*answer)(shimmy_call *call, json_t *json)) {
    json_t *json;
    int rc = shimmy_parse_body(call->body, call->body_length, &json, &call->refusal);
    if (rc < 0) return rc;
    rc = answer(call, json);
    json_decref(json);
    return rc;
}

static int post_tokenize(shimmy_call *call) {
    return with_json(call, tokenize_body);
}

static int post_detokenize(shimmy_call *call) {
    return with_json(call, detokenize_body);
}

static int post_template(shimmy_call *call) {
    return with_json(call, template_body);
}

/* The names without /v1 are what llama.cpp's server also answers to. */
const shimmy_route shimmy_routes[] = {
    {"GET", "/", false, get_index, NULL},
    {"GET", "/health", false, get_health, NULL},
    {"GET", "/metrics", true, get_metrics, NULL},
    {"GET", "/v1/models", true, get_models, NULL},
    {"GET", "/v1/models/", true, get_model, NULL},
    {"POST", "/v1/chat/completions", true, NULL, post_chat},
    {"POST", "/v1/completions", true, NULL, post_completion},
    {"POST", "/v1/embeddings", true, NULL, shimmy_embed},
    {"POST", "/tokenize", true, NULL, post_tokenize},
    {"POST", "/detokenize", true, NULL, post_detokenize},
    {"POST", "/apply-template", true, NULL, post_template},
    {"GET", "/models", true, get_models, NULL},
    {"GET", "/v1/health", false, get_health, NULL},
    {"POST", "/chat/completions", true, NULL, post_chat},
    {"POST", "/completions", true, NULL, post_completion},
    {"POST", "/embeddings", true, NULL, shimmy_embed},
};
const size_t shimmy_route_count = sizeof shimmy_routes / sizeof *shimmy_routes;

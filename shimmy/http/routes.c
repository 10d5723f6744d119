/* routes.c - the table of routes, and the small answers that need no engine. */
#include "http/about.h"
#include "http/embed.h"
#include "http/router.h"
#include "openai/fields.h"
#include "openai/write.h"

#include "base/log.h"
#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* With what has come to lie on this machine since it was last looked at. */
static int list_models(shimmy_call *call, json_t *json) {
    af_error error;
    (void)json;
    if (shimmy_models_refresh(call->server->models, &error) < 0) af_log(AF_LOG_ERROR, "%s", error.text);
    shimmy_get_models(call->server, "", &call->reply);
    return 0;
}

static int post_chat(shimmy_call *call, json_t *json) {
    return shimmy_generate(call, true, json);
}

static int post_completion(shimmy_call *call, json_t *json) {
    return shimmy_generate(call, false, json);
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
        af_token_piece(call->on->model, ids[i], &text, &length);
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
        int rc = shimmy_read_id(item, param, call->on->info.vocabulary, &id, &call->refusal);
        if (rc == 0) af_ids_push(out, id);
        return rc;
    }
    int rc =
        af_tokenize(call->on->model, json_string_value(item), json_string_length(item), flags, &ids, &count, &error);
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
static int post_tokenize(shimmy_call *call, json_t *json) {
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

static int post_detokenize(shimmy_call *call, json_t *json) {
    int32_t *ids = NULL;
    size_t count = 0, length = 0;
    char *text = NULL;
    af_error error;
    int rc = shimmy_read_ids(shimmy_field(json, "tokens"), "tokens", call->on->info.vocabulary, &ids, &count,
                             &call->refusal);
    if (rc < 0) return rc;
    rc = af_detokenize(call->on->model, ids, count, &text, &length, &error);
    af_free(ids);
    if (rc < 0) return shimmy_refuse_error(&call->refusal, &error, "tokens");
    af_buf_text(&call->reply.body, "{\"content\":");
    shimmy_write_string(&call->reply.body, text, length);
    af_buf_byte(&call->reply.body, '}');
    af_free(text);
    return 0;
}

static int post_template(shimmy_call *call, json_t *json) {
    bool continues;
    char *render = NULL;
    af_prompt prompt = {0};
    af_error error;
    af_render_options options = af_render_options_default();
    int rc = shimmy_request_messages(json, &render, &continues, &call->refusal);
    if (rc < 0) return rc;
    rc = af_model_render(call->on->model, call->on->template, render, strlen(render), &options, &prompt, &error);
    af_free(render);
    if (rc < 0) return shimmy_refuse_error(&call->refusal, &error, "messages");
    af_buf_text(&call->reply.body, "{\"prompt\":");
    shimmy_write_string(&call->reply.body, prompt.text, prompt.length);
    af_buf_byte(&call->reply.body, '}');
    af_prompt_clear(&prompt);
    return 0;
}

/* The names without /v1 are what llama.cpp's server also answers to. */
const shimmy_route shimmy_routes[] = {
    {"GET", "/", false, shimmy_get_index, NULL},
    {"GET", "/health", false, shimmy_get_health, NULL},
    {"GET", "/metrics", true, shimmy_get_metrics, NULL},
    {"GET", "/v1/models", true, shimmy_get_models, list_models},
    {"GET", "/v1/models/", true, shimmy_get_model, NULL},
    {"POST", "/v1/chat/completions", true, NULL, post_chat},
    {"POST", "/v1/completions", true, NULL, post_completion},
    {"POST", "/v1/embeddings", true, NULL, shimmy_embed},
    {"POST", "/tokenize", true, NULL, post_tokenize},
    {"POST", "/detokenize", true, NULL, post_detokenize},
    {"POST", "/apply-template", true, NULL, post_template},
    {"GET", "/models", true, shimmy_get_models, list_models},
    {"GET", "/v1/health", false, shimmy_get_health, NULL},
    {"POST", "/chat/completions", true, NULL, post_chat},
    {"POST", "/completions", true, NULL, post_completion},
    {"POST", "/embeddings", true, NULL, shimmy_embed},
};
const size_t shimmy_route_count = sizeof shimmy_routes / sizeof *shimmy_routes;

/* request.c - see request.h. What concerns the choice of tokens is in request_choice.c; the rest is checked a function
 * a field. */
#include "openai/request.h"

#include "openai/fields.h"
#include "openai/request_choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Fields of both routes ---- */

static int read_max_tokens(const json_t *json, shimmy_request *out, shimmy_refusal *refusal) {
    out->max_tokens = -1;
    int rc = shimmy_read_int(json, "max_tokens", -1, INT64_MAX, &out->max_tokens, refusal);
    if (rc < 0 || !out->chat) return rc;
    return shimmy_read_int(json, "max_completion_tokens", -1, INT64_MAX, &out->max_tokens, refusal);
}

static int add_stop(const json_t *value, const char *param, shimmy_request *out, shimmy_refusal *refusal) {
    if (!json_is_string(value)) return shimmy_wrong_type(value, param, "a string", refusal);
    size_t length = json_string_length(value);
    if (strlen(json_string_value(value)) < length)
        return shimmy_refuse(refusal, 400, "invalid_value", param, "%s: found U+0000, which no stop string may hold",
                             param);
    if (length > SHIMMY_STOP_BYTES)
        return shimmy_refuse(refusal, 400, "string_too_long", param, "%s: found %zu bytes, at most %d are allowed",
                             param, length, SHIMMY_STOP_BYTES);
    if (length) out->stops[out->stop_count++] = json_string_value(value); /* an empty one stops nothing */
    return 0;
}

static int read_stops(const json_t *json, shimmy_request *out, shimmy_refusal *refusal) {
    const json_t *value = shimmy_field(json, "stop");
    if (!value) return 0;
    if (json_is_string(value)) return add_stop(value, "stop", out, refusal);
    if (!json_is_array(value)) return shimmy_wrong_type(value, "stop", "a string or an array of strings", refusal);
    size_t count = json_array_size(value);
    if (count > SHIMMY_STOPS)
        return shimmy_refuse(refusal, 400, "array_above_max_length", "stop",
                             "stop: found %zu strings, at most %d are allowed", count, SHIMMY_STOPS);
    for (size_t i = 0; i < count; i++) {
        char param[32];
        snprintf(param, sizeof param, "stop[%zu]", i);
        int rc = add_stop(json_array_get(value, i), param, out, refusal);
        if (rc < 0) return rc;
    }
    return 0;
}

static int read_stream(const json_t *json, shimmy_request *out, shimmy_refusal *refusal) {
    int rc = shimmy_read_bool(json, "stream", &out->stream, refusal);
    if (rc < 0) return rc;
    const json_t *options = shimmy_field(json, "stream_options");
    if (!options) return 0;
    if (!json_is_object(options)) return shimmy_wrong_type(options, "stream_options", "an object", refusal);
    return shimmy_read_bool(options, "include_usage", &out->include_usage, refusal);
}

static bool is_off(const json_t *value) {
    if (!value || json_is_false(value)) return true;
    if (json_is_object(value)) return json_object_size(value) == 0;
    return json_is_string(value) && json_string_length(value) == 0;
}

/* What would change the answer but is not done yet: refused rather than passed over in silence. */
static int check_unsupported(const json_t *json, shimmy_refusal *refusal) {
    static const char *const names[] = {"grammar", "suffix"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!is_off(shimmy_field(json, names[i])))
            return shimmy_refuse(refusal, 400, "unsupported", names[i], "%s: not supported", names[i]);
    }
    const json_t *format = shimmy_field(json, "response_format");
    if (!format) return 0;
    if (!json_is_object(format)) return shimmy_wrong_type(format, "response_format", "an object", refusal);
    const char *type = json_string_value(json_object_get(format, "type"));
    if (type && strcmp(type, "text") == 0) return 0;
    return shimmy_refuse(refusal, 400, "unsupported", "response_format.type",
                         "response_format.type: found '%.60s', only 'text' is supported", type ? type : "nothing");
}

static int read_common(const json_t *json, const shimmy_request_limits *limits, shimmy_request *out,
                       shimmy_refusal *refusal) {
    int64_t n = 1;
    int rc = read_stream(json, out, refusal);
    if (rc == 0) rc = read_max_tokens(json, out, refusal);
    if (rc == 0) rc = read_stops(json, out, refusal);
    if (rc == 0) rc = shimmy_read_int(json, "n", 1, SHIMMY_CHOICES, &n, refusal);
    out->n = (uint32_t)n;
    if (rc == 0) rc = shimmy_request_choice(json, limits, out, refusal);
    if (rc == 0) rc = check_unsupported(json, refusal);
    return rc;
}

/* ---- Prompts of /v1/completions: a string, ids, or an array of either ---- */

int shimmy_read_prompt(const json_t *value, const char *param, const shimmy_request_limits *limits,
                       shimmy_prompt *prompt, shimmy_refusal *refusal) {
    *prompt = (shimmy_prompt){0};
    if (json_is_string(value)) {
        prompt->text = json_string_value(value);
        prompt->length = json_string_length(value);
    } else if (json_is_array(value) && json_array_size(value)) {
        int rc = shimmy_read_ids(value, param, limits->vocabulary, &prompt->ids, &prompt->count, refusal);
        if (rc < 0) return rc;
    } else if (json_is_array(value)) {
        return shimmy_refuse(refusal, 400, "empty_array", param, "%s: found an empty array", param);
    } else {
        return shimmy_wrong_type(value, param, "a string or an array of token ids", refusal);
    }
    return 0;
}

bool shimmy_is_one_prompt(const json_t *value) {
    const json_t *first = json_array_get(value, 0);
    return !json_is_array(value) || !first || json_is_number(first);
}

static int add_prompt(const json_t *value, const char *param, const shimmy_request_limits *limits, shimmy_request *out,
                      shimmy_refusal *refusal) {
    int rc = shimmy_read_prompt(value, param, limits, &out->prompts[out->prompt_count], refusal);
    out->prompt_count += rc == 0;
    return rc;
}

static int read_prompts(const json_t *json, const shimmy_request_limits *limits, shimmy_request *out,
                        shimmy_refusal *refusal) {
    const json_t *value = shimmy_field(json, "prompt");
    if (shimmy_is_one_prompt(value)) return add_prompt(value, "prompt", limits, out, refusal);
    size_t count = json_array_size(value);
    if (count * out->best_of > SHIMMY_CHOICES)
        return shimmy_refuse(refusal, 400, "array_above_max_length", "prompt",
                             "prompt: %zu prompts of %u choices, at most %d choices together are allowed", count,
                             out->best_of, SHIMMY_CHOICES);
    for (size_t i = 0; i < count; i++) {
        char param[32];
        snprintf(param, sizeof param, "prompt[%zu]", i);
        int rc = add_prompt(json_array_get(value, i), param, limits, out, refusal);
        if (rc < 0) return rc;
    }
    return 0;
}

/* ---- Whole requests ---- */

static int read_reasoning(const json_t *json, const shimmy_request_limits *limits, shimmy_request *out,
                          shimmy_refusal *refusal) {
    const char *name = NULL;
    out->reasoning = limits->reasoning;
    int rc = shimmy_read_text(json, "reasoning_format", &name, refusal);
    if (rc < 0 || !name || shimmy_reasoning_named(name, &out->reasoning)) return rc;
    return shimmy_refuse(refusal, 400, "invalid_value", "reasoning_format",
                         "reasoning_format: found '%s', allowed are 'auto', 'none' and 'deepseek'", name);
}

int shimmy_request_read(bool chat, json_t *json, const shimmy_request_limits *limits, shimmy_request *out,
                        shimmy_refusal *refusal) {
    memset(out, 0, sizeof *out);
    out->chat = chat;
    out->json = json_incref(json);
    int rc = read_common(out->json, limits, out, refusal);
    if (rc == 0 && chat) {
        out->prompt_count = 1;
        rc = shimmy_request_messages(out->json, &out->render, &out->continues, refusal);
        if (rc == 0) rc = read_reasoning(out->json, limits, out, refusal);
    } else if (rc == 0) {
        rc = read_prompts(out->json, limits, out, refusal);
        if (rc == 0) rc = shimmy_read_bool(out->json, "echo", &out->echo, refusal);
    }
    if (rc < 0) shimmy_request_clear(out);
    return rc;
}

void shimmy_request_clear(shimmy_request *request) {
    for (size_t i = 0; i < SHIMMY_CHOICES; i++) free(request->prompts[i].ids);
    free(request->render);
    free(request->bias);
    free(request->end_ids);
    json_decref(request->json);
    memset(request, 0, sizeof *request);
}

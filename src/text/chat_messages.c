/* chat_messages.c - a chat request's JSON: checking it, and changing messages to what templates expect.
 *
 * Only what rendering relies on is checked; unknown fields pass through to the template, which may know them.
 */
#include "text/chat_messages.h"

#include <assert.h>
#include <string.h>

static const char *kind_name(const json_t *json) {
    static const char *const names[] = {
        [JSON_OBJECT] = "an object",   [JSON_ARRAY] = "a list",  [JSON_STRING] = "a string",
        [JSON_INTEGER] = "an integer", [JSON_REAL] = "a number", [JSON_TRUE] = "a boolean",
        [JSON_FALSE] = "a boolean",    [JSON_NULL] = "null"};
    return json ? names[json_typeof(json)] : "nothing";
}

/* ---- Checking ---- */

/* Fields of a request, and the kinds of value they may have beside null. */
typedef bool (*check)(const json_t *json);

static bool is_object(const json_t *json) {
    return json_is_object(json);
}

static bool is_list(const json_t *json) {
    return json_is_array(json);
}

static bool is_boolean(const json_t *json) {
    return json_is_boolean(json);
}

static const struct {
    const char *name;
    check good;
    const char *expected;
} fields[] = {
    {"tools", is_list, "a list"},
    {"documents", is_list, "a list"},
    {"add_generation_prompt", is_boolean, "a boolean"},
    {"continue_final_message", is_boolean, "a boolean"},
    {"chat_template_kwargs", is_object, "an object"},
};

static int check_parts(const json_t *parts, size_t message, af_error *error) {
    size_t i;
    json_t *part;
    json_array_foreach((json_t *)parts, i, part) {
        if (!json_is_object(part))
            return af_fail(error, AF_EINVAL, "messages[%zu].content[%zu]: found %s, expected an object", message, i,
                           kind_name(part));
        const json_t *type = json_object_get(part, "type");
        if (!json_is_string(type))
            return af_fail(error, AF_EINVAL, "messages[%zu].content[%zu].type: found %s, expected a string", message, i,
                           kind_name(type));
    }
    return 0;
}

static int check_message(const json_t *message, size_t i, af_error *error) {
    if (!json_is_object(message))
        return af_fail(error, AF_EINVAL, "messages[%zu]: found %s, expected an object", i, kind_name(message));
    const json_t *role = json_object_get(message, "role"), *content = json_object_get(message, "content");
    if (!json_is_string(role))
        return af_fail(error, AF_EINVAL, "messages[%zu].role: found %s, expected a string", i, kind_name(role));
    if (json_is_array(content)) return check_parts(content, i, error);
    if (content && !json_is_string(content) && !json_is_null(content))
        return af_fail(error, AF_EINVAL, "messages[%zu].content: found %s, expected a string or a list of parts", i,
                       kind_name(content));
    const json_t *calls = json_object_get(message, "tool_calls");
    if (calls && !json_is_array(calls) && !json_is_null(calls))
        return af_fail(error, AF_EINVAL, "messages[%zu].tool_calls: found %s, expected a list", i, kind_name(calls));
    return 0;
}

static int check_request(const json_t *request, af_error *error) {
    if (!json_is_object(request))
        return af_fail(error, AF_EINVAL, "request: found %s, expected an object", kind_name(request));
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const json_t *value = json_object_get(request, fields[i].name);
        if (value && !json_is_null(value) && !fields[i].good(value))
            return af_fail(error, AF_EINVAL, "%s: found %s, expected %s", fields[i].name, kind_name(value),
                           fields[i].expected);
    }
    const json_t *messages = json_object_get(request, "messages");
    if (!json_is_array(messages))
        return af_fail(error, AF_EINVAL, "messages: found %s, expected a list", kind_name(messages));
    if (json_array_size(messages) == 0)
        return af_fail(error, AF_EINVAL, "messages: found an empty list, expected at least one message");
    size_t i;
    json_t *message;
    json_array_foreach((json_t *)messages, i, message) {
        int status = check_message(message, i, error);
        if (status) return status;
    }
    return 0;
}

int af_chat_parse(const char *request, size_t length, json_t **out, af_error *error) {
    json_error_t where;
    json_t *json = json_loadb(request, length, JSON_ALLOW_NUL | JSON_DECODE_ANY, &where);
    if (!json)
        return af_fail(error, AF_EINVAL, "request: line %d, column %d: %s", where.line, where.column, where.text);
    int status = check_request(json, error);
    if (status)
        json_decref(json);
    else
        *out = json;
    return status;
}

/* ---- Changing ---- */

static int set_new(json_t *object, const char *key, json_t *value, af_error *error) {
    return json_object_set_new(object, key, value) ? af_fail_memory(error, 0, key) : 0;
}

/* The texts of a list of parts, one after the other. */
static int join_parts(json_t *message, size_t i, const json_t *parts, af_error *error) {
    af_buf text = {0};
    size_t at;
    json_t *part;
    int status = 0;
    json_array_foreach((json_t *)parts, at, part) {
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *piece = json_object_get(part, "text");
        if (strcmp(type, "text") != 0)
            status =
                af_fail(error, AF_EINVAL,
                        "messages[%zu].content[%zu].type: found '%s', expected 'text' (this model reads text only)", i,
                        at, type);
        else if (!json_is_string(piece))
            status = af_fail(error, AF_EINVAL, "messages[%zu].content[%zu].text: found %s, expected a string", i, at,
                             kind_name(piece));
        if (status) goto done;
        af_buf_append(&text, json_string_value(piece), json_string_length(piece));
    }
    status = text.failed ? af_fail_memory(error, text.len, "content")
                         : set_new(message, "content", json_stringn(text.p ? text.p : "", text.len), error);
done:
    af_buf_clear(&text);
    return status;
}

/* "arguments": "{...}" of a tool call becomes the object; what is no object stays as it is. */
static int parse_arguments(json_t *call, af_error *error) {
    json_t *function = json_object_get(call, "function");
    if (!function) function = call;
    const json_t *arguments = json_object_get(function, "arguments");
    if (!json_is_string(arguments)) return 0;
    size_t n = json_string_length(arguments);
    json_t *parsed = n ? json_loadb(json_string_value(arguments), n, JSON_ALLOW_NUL, NULL) : json_object();
    if (json_is_object(parsed)) return set_new(function, "arguments", parsed, error);
    json_decref(parsed);
    return 0;
}

static void drop_nulls(json_t *message) {
    void *next;
    for (void *at = json_object_iter(message); at; at = next) {
        next = json_object_iter_next(message, at);
        if (json_is_null(json_object_iter_value(at))) json_object_del(message, json_object_iter_key(at));
    }
}

/* A string becomes a list of one part. */
static int make_parts(json_t *message, af_error *error) {
    json_t *content = json_object_get(message, "content");
    if (!json_is_string(content)) return 0;
    return set_new(message, "content", json_pack("[{s:s, s:O}]", "type", "text", "text", content), error);
}

typedef struct known { /* to the template */
    bool developer, strings;
} known;

static int normalize_message(json_t *message, size_t i, known knows, af_error *error) {
    drop_nulls(message);
    int status = 0;
    if (!knows.developer && strcmp(json_string_value(json_object_get(message, "role")), "developer") == 0)
        status = set_new(message, "role", json_string("system"), error);
    const json_t *content = json_object_get(message, "content");
    if (!status && json_is_array(content)) status = join_parts(message, i, content, error);
    if (!status && !knows.strings) status = make_parts(message, error);
    size_t at;
    json_t *call;
    json_array_foreach(json_object_get(message, "tool_calls"), at, call) if (!status) status =
        parse_arguments(call, error);
    return status;
}

int af_chat_normalize(json_t *messages, const af_jinja *jinja, bool wants_parts, af_error *error) {
    const known knows = {.developer = af_jinja_mentions(jinja, "developer"), .strings = !wants_parts};
    size_t i;
    json_t *message;
    json_array_foreach(messages, i, message) {
        int status = normalize_message(message, i, knows, error);
        if (status) return status;
    }
    return 0;
}

bool af_chat_fill_contents(json_t *messages) {
    bool filled = false;
    size_t i;
    json_t *message;
    json_array_foreach(messages, i, message) if (!json_object_get(message, "content")) filled |=
        json_object_set_new(message, "content", json_string("")) == 0;
    return filled;
}

int af_chat_mark_end(json_t *messages, const char *mark, af_error *error) {
    size_t last = json_array_size(messages) - 1;
    json_t *owner = json_array_get(messages, last), *text = json_object_get(owner, "content");
    const char *key = "content";
    if (json_is_array(text)) {
        const json_t *parts = text;
        text = NULL;
        for (size_t i = json_array_size(parts); !text && i-- > 0;) {
            owner = json_array_get(parts, i);
            text = json_object_get(owner, "text");
        }
        key = "text";
    }
    if (!json_is_string(text))
        return af_fail(error, AF_EINVAL, "messages[%zu].content: found %s, and continue_final_message needs a text",
                       last, kind_name(text));
    af_buf marked = {0};
    af_buf_append(&marked, json_string_value(text), json_string_length(text));
    af_buf_text(&marked, mark);
    int status = marked.failed ? af_fail_memory(error, marked.len, key)
                               : set_new(owner, key, json_stringn(marked.p, marked.len), error);
    af_buf_clear(&marked);
    return status;
}

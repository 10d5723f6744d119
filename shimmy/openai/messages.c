/* messages.c - the messages of a chat request, checked for shape only: what roles mean is the template's business.
 *
 * A last message from the assistant is continued, as llama.cpp's server does, unless the request says how it wants to
 * end: with add_generation_prompt or continue_final_message. One that calls tools is complete.
 */
#include "openai/fields.h"
#include "openai/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The kinds of part that are text, and where they have it. */
static const struct text_part {
    const char *type, *key;
} text_parts[] = {{"text", "text"}, {"input_text", "text"}, {"output_text", "text"}, {"refusal", "refusal"}};

static const struct text_part *find_text_part(const char *type) {
    for (size_t i = 0; i < sizeof text_parts / sizeof *text_parts; i++)
        if (strcmp(text_parts[i].type, type) == 0) return &text_parts[i];
    return NULL;
}

/* A part as templates know it: {"type": "text", "text": ...}. */
static int plain_part(json_t *part, const struct text_part *kind, json_t *text, shimmy_refusal *refusal) {
    if (kind == text_parts) return 0;
    if (json_object_set(part, "text", text) < 0 || json_object_set_new(part, "type", json_string("text")) < 0)
        return shimmy_refuse(refusal, 503, "out_of_memory", "messages", "messages: out of memory");
    return 0;
}

static int check_part(json_t *part, const char *param, shimmy_refusal *refusal) {
    char field[96];
    if (!json_is_object(part)) return shimmy_wrong_type(part, param, "an object", refusal);
    snprintf(field, sizeof field, "%.80s.type", param);
    const char *type = json_string_value(json_object_get(part, "type"));
    if (!type) return shimmy_wrong_type(json_object_get(part, "type"), field, "a string", refusal);
    const struct text_part *kind = find_text_part(type);
    if (!kind)
        return shimmy_refuse(
            refusal, 400, "unsupported", field,
            "%s: found '%.60s'; this model cannot see images or hear sound, it takes 'text' parts only", field, type);
    snprintf(field, sizeof field, "%.80s.%s", param, kind->key);
    json_t *text = json_object_get(part, kind->key);
    if (!json_is_string(text)) return shimmy_wrong_type(text, field, "a string", refusal);
    return plain_part(part, kind, text, refusal);
}

/* A string, parts, or nothing. */
static int check_content(const json_t *message, const char *param, shimmy_refusal *refusal) {
    const json_t *content = shimmy_field(message, "content");
    char field[96];
    snprintf(field, sizeof field, "%.80s.content", param);
    if (!content || json_is_string(content)) return 0;
    if (!json_is_array(content)) return shimmy_wrong_type(content, field, "a string or an array of parts", refusal);
    for (size_t i = 0; i < json_array_size(content); i++) {
        char part[96];
        snprintf(part, sizeof part, "%.70s[%zu]", field, i);
        int rc = check_part(json_array_get(content, i), part, refusal);
        if (rc < 0) return rc;
    }
    return 0;
}

static int check_message(const json_t *message, const char *param, shimmy_refusal *refusal) {
    if (!json_is_object(message)) return shimmy_wrong_type(message, param, "an object", refusal);
    char field[96];
    snprintf(field, sizeof field, "%.80s.role", param);
    const json_t *role = json_object_get(message, "role");
    if (!json_is_string(role)) return shimmy_wrong_type(role, field, "a string", refusal);
    if (!json_string_length(role))
        return shimmy_refuse(refusal, 400, "invalid_value", field, "%s: found an empty string", field);
    snprintf(field, sizeof field, "%.80s.tool_calls", param);
    const json_t *calls = shimmy_field(message, "tool_calls");
    if (calls && !json_is_array(calls)) return shimmy_wrong_type(calls, field, "an array", refusal);
    return check_content(message, param, refusal);
}

static int check_messages(const json_t *json, shimmy_refusal *refusal) {
    const json_t *messages = shimmy_field(json, "messages");
    if (!json_is_array(messages)) return shimmy_wrong_type(messages, "messages", "an array", refusal);
    if (!json_array_size(messages))
        return shimmy_refuse(refusal, 400, "empty_array", "messages",
                             "messages: found 0 messages, at least 1 is needed");
    for (size_t i = 0; i < json_array_size(messages); i++) {
        char param[96];
        snprintf(param, sizeof param, "messages[%zu]", i);
        int rc = check_message(json_array_get(messages, i), param, refusal);
        if (rc < 0) return rc;
    }
    return 0;
}

/* "none" hides the tools; forcing a call is not done here. *hidden tells. */
static int check_tool_choice(const json_t *json, bool *hidden, shimmy_refusal *refusal) {
    const json_t *choice = shimmy_field(json, "tool_choice");
    *hidden = false;
    if (!choice) return 0;
    const char *text = json_string_value(choice);
    if (text && strcmp(text, "auto") == 0) return 0;
    if (text && strcmp(text, "none") == 0) {
        *hidden = true;
        return 0;
    }
    return shimmy_refuse(refusal, 400, "unsupported", "tool_choice",
                         "tool_choice: only \"auto\" and \"none\" are supported yet");
}

/* What a template sees, with the type each must have. */
static const struct seen_field {
    const char *name;
    json_type type;
    const char *wanted;
} seen[] = {
    {"messages", JSON_ARRAY, "an array"},
    {"tools", JSON_ARRAY, "an array"},
    {"documents", JSON_ARRAY, "an array"},
    {"chat_template_kwargs", JSON_OBJECT, "an object"},
    {"add_generation_prompt", JSON_TRUE, "true or false"},
    {"continue_final_message", JSON_TRUE, "true or false"},
};

static int keep_field(const json_t *json, const struct seen_field *field, json_t *kept, shimmy_refusal *refusal) {
    json_t *value = shimmy_field(json, field->name);
    if (!value) return 0;
    bool right = field->type == JSON_TRUE ? json_is_boolean(value) : json_typeof(value) == field->type;
    if (!right) return shimmy_wrong_type(value, field->name, field->wanted, refusal);
    if (json_object_set(kept, field->name, value) < 0)
        return shimmy_refuse(refusal, 503, "out_of_memory", field->name, "%s: out of memory", field->name);
    return 0;
}

/* Whether a request that does not say how it ends is to go on with its last message. */
static bool ends_in_assistant(const json_t *json) {
    const json_t *messages = json_object_get(json, "messages");
    const json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    const char *role = json_string_value(json_object_get(last, "role"));
    return strcmp(role, "assistant") == 0 && shimmy_field(last, "content") &&
           !json_array_size(json_object_get(last, "tool_calls")) && !shimmy_field(json, "add_generation_prompt") &&
           !shimmy_field(json, "continue_final_message");
}

/* A message that is continued is not followed by the opening of another. */
static int settle_end(const json_t *json, json_t *kept, bool *continues, shimmy_refusal *refusal) {
    *continues = ends_in_assistant(json) || json_is_true(json_object_get(kept, "continue_final_message"));
    if (!*continues || shimmy_field(json, "add_generation_prompt")) return 0;
    if (json_object_set_new(kept, "continue_final_message", json_true()) < 0 ||
        json_object_set_new(kept, "add_generation_prompt", json_false()) < 0)
        return shimmy_refuse(refusal, 503, "out_of_memory", "messages", "messages: out of memory");
    return 0;
}

int shimmy_request_messages(json_t *json, char **render, bool *continues, shimmy_refusal *refusal) {
    bool hide_tools;
    int rc = check_messages(json, refusal);
    if (rc == 0) rc = check_tool_choice(json, &hide_tools, refusal);
    if (rc < 0) return rc;
    json_t *kept = json_object();
    for (size_t i = 0; rc == 0 && i < sizeof seen / sizeof *seen; i++) {
        if (hide_tools && strcmp(seen[i].name, "tools") == 0) continue;
        rc = keep_field(json, &seen[i], kept, refusal);
    }
    if (rc == 0) rc = settle_end(json, kept, continues, refusal);
    if (rc == 0) {
        *render = json_dumps(kept, JSON_COMPACT);
        if (!*render) rc = shimmy_refuse(refusal, 503, "out_of_memory", "messages", "messages: out of memory");
    }
    json_decref(kept);
    return rc;
}

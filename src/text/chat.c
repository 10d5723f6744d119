/* chat.c - from a chat request to a rendered prompt.
 *
 * To end the text where the last message's content ends, a mark is appended to that content and looked for in what was
 * rendered: as templates trim, quote and wrap contents in ways of their own, nothing else finds the place. The mark is
 * chosen so that the request does not contain it, and ends with a space that shows whether the template trimmed.
 */
#include "text/chat.h"

#include "text/chat_messages.h"
#include "text/jinja_value.h"

#include <stdio.h>
#include <string.h>

/* For files without a template, mostly base models: a dialogue as it would stand in a plain text,
 *
 *     You are a helpful assistant.
 *
 *     User: What is the capital of France?
 *     Assistant: Paris.
 *     User: And of Italy?
 *     Assistant:
 *
 * with the system's words first. No control tokens: such a model never saw any in a dialogue. */
const char af_chat_default_template[] =
    "{%- for message in messages %}\n"
    "{%- set content = message.content | default('', true) | trim %}\n"
    "{%- if message.role == 'system' or message.role == 'developer' %}\n"
    "{{- content + '\\n\\n' }}\n"
    "{%- elif message.role == 'assistant' %}\n"
    "{{- 'Assistant: ' + content }}\n"
    "{%- for call in message.tool_calls or [] %}\n"
    "{{- ('\\n' if content or not loop.first) ~ (call.function or call) | tojson }}\n"
    "{%- endfor %}\n"
    "{{- '\\n' }}\n"
    "{%- elif message.role == 'user' %}\n"
    "{{- 'User: ' + content + '\\n' }}\n"
    "{%- else %}\n"
    "{{- message.role | capitalize + ': ' + content + '\\n' }}\n"
    "{%- endif %}\n"
    "{%- endfor %}\n"
    "{%- if add_generation_prompt %}{{- 'Assistant:' }}{% endif %}\n";

enum { MARK_SIZE = 48 };

/* "<<continue-0>> ", or with the first number that the request does not have. */
static void choose_mark(const char *request, size_t n, char mark[MARK_SIZE]) {
    unsigned number = 0;
    do snprintf(mark, MARK_SIZE, "@@continue-here-%u@@ ", number++);
    while (memmem(request, n, mark, strlen(mark) - 1));
}

/* Cuts the text at the mark; without the white space before it if the template trimmed. */
static int cut_at_mark(af_buf *text, af_buf *origin, const char *mark, af_error *error) {
    size_t n = strlen(mark) - 1; /* without the space */
    size_t at = text->len >= n ? text->len - n + 1 : 0;
    while (at > 0 && memcmp(text->p + at - 1, mark, n) != 0) at--;
    if (at == 0) return af_fail(error, AF_EINVAL, "continue_final_message: the template drops the last message");
    at--;
    bool trimmed = at + n >= text->len || text->p[at + n] != ' ';
    const j_string before = {.p = text->p, .n = at};
    size_t from, to = at;
    if (trimmed) af_j_strip(&before, NULL, false, true, &from, &to);
    text->len = origin->len = to;
    text->p[to] = 0;
    return 0;
}

/* What the template sees: messages, tools, ... and the caller's own variables over them. */
static json_t *make_variables(json_t *request) {
    json_t *variables = json_object(), *add = json_object_get(request, "add_generation_prompt");
    static const char *const passed[] = {"messages", "tools", "documents"};
    bool good = variables != NULL;
    for (size_t i = 0; good && i < sizeof passed / sizeof *passed; i++) {
        json_t *value = json_object_get(request, passed[i]);
        bool empty = !value || (i > 0 && json_array_size(value) == 0);
        good = json_object_set_new(variables, passed[i], empty ? json_null() : json_incref(value)) == 0;
    }
    good = good && json_object_set_new(variables, "add_generation_prompt", json_boolean(!json_is_false(add))) == 0;
    json_t *own = json_object_get(request, "chat_template_kwargs");
    if (good && json_is_object(own)) good = json_object_update(variables, own) == 0;
    if (good) return variables;
    json_decref(variables);
    return NULL;
}

typedef struct rendering {
    const af_jinja *jinja;
    const af_render_options *options;
    af_buf text, origin;
} rendering;

static int render_once(rendering *job, json_t *request, af_error *error) {
    json_t *variables = make_variables(request);
    if (!variables) return af_fail_memory(error, 0, "request");
    const af_jinja_context context = {.variables = variables,
                                      .bos = job->options->bos ? job->options->bos : "",
                                      .eos = job->options->eos ? job->options->eos : "",
                                      .now = job->options->now};
    af_buf_clear(&job->text);
    af_buf_clear(&job->origin);
    int status = af_jinja_render(job->jinja, &context, &job->text, &job->origin, error);
    if (status == AF_EFORMAT) af_fail_within(error, status, "chat template");
    json_decref(variables);
    return status;
}

/* A template that cannot do without a content gets an empty one; if that does not help, the first error stands. */
static int render_messages(rendering *job, json_t *request, af_error *error) {
    int status = render_once(job, request, error);
    if (!status || job->options->raw) return status;
    if (!af_chat_fill_contents(json_object_get(request, "messages"))) return status;
    return render_once(job, request, NULL) ? status : 0;
}

/* Whether a message with this content, which holds the mark, is printed by the template. Takes the content. */
static bool prints(const rendering *job, json_t *content, const char *mark) {
    rendering probe = {.jinja = job->jinja, .options = job->options};
    json_t *request = json_pack("{s:[{s:s, s:o}]}", "messages", "role", "user", "content", content);
    bool found = request && render_once(&probe, request, NULL) == 0 &&
                 memmem(probe.text.p ? probe.text.p : "", probe.text.len, mark, strlen(mark));
    json_decref(request);
    af_buf_clear(&probe.text);
    af_buf_clear(&probe.origin);
    return found;
}

/* Some templates, mostly of models that see, go through a content's parts and lose one that is a string. */
static bool wants_parts(const rendering *job) {
    static const char mark[] = "@@content@@";
    if (!af_jinja_mentions(job->jinja, "'text'") && !af_jinja_mentions(job->jinja, "\"text\"")) return false;
    return !prints(job, json_string(mark), mark) &&
           prints(job, json_pack("[{s:s, s:s}]", "type", "text", "text", mark), mark);
}

static int render_request(rendering *job, json_t *request, const char *mark, af_error *error) {
    json_t *messages = json_object_get(request, "messages");
    bool continues = json_is_true(json_object_get(request, "continue_final_message"));
    int status = job->options->raw ? 0 : af_chat_normalize(messages, job->jinja, wants_parts(job), error);
    if (!status && continues) status = af_chat_mark_end(messages, mark, error);
    if (!status) status = render_messages(job, request, error);
    if (!status && continues) status = cut_at_mark(&job->text, &job->origin, mark, error);
    return status;
}

static int take_prompt(rendering *job, af_prompt *out, af_error *error) {
    size_t n, n_origin;
    char *text = af_buf_take(&job->text, &n);
    uint8_t *origin = (uint8_t *)af_buf_take(&job->origin, &n_origin);
    if (!text || !origin) {
        af_free(text);
        af_free(origin);
        return af_fail_memory(error, job->text.len, "prompt");
    }
    *out = (af_prompt){.text = text, .origin = origin, .length = n};
    return 0;
}

int af_chat_render(const af_jinja *jinja, const char *request, size_t length, const af_render_options *options,
                   af_prompt *out, af_error *error) {
    static const af_render_options defaults;
    rendering job = {.jinja = jinja, .options = options ? options : &defaults};
    json_t *json;
    int status = af_chat_parse(request, length, &json, error);
    if (status) return status;
    char mark[MARK_SIZE];
    choose_mark(request, length, mark);
    status = render_request(&job, json, mark, error);
    if (!status) status = take_prompt(&job, out, error);
    json_decref(json);
    af_buf_clear(&job.text);
    af_buf_clear(&job.origin);
    return status;
}

/* cmd_generate.c - `shimmy generate`: one answer, streamed to standard output.
 *
 * A prompt is a user's message and goes through the model's chat template; nothing in it becomes a control token, save
 * with --allow-special. With --raw it is the model's input itself, parsed as the caller wrote it. Nothing but the
 * model's text is printed: a line's end follows only on a terminal, so that a pipe gets the exact bytes.
 */
#include "base/os.h"
#include "cli/cli_job.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/output.h"
#include "cli/session.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- The prompt ---- */

/* {"messages": [...]}, freed with af_free. */
static int chat_request(const shimmy_options *options, af_slice prompt, char **text, af_error *error) {
    json_t *messages = json_array();
    if (options->system)
        json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "system", "content", options->system));
    const int appended =
        json_array_append_new(messages, json_pack("{s:s, s:s%}", "role", "user", "content", prompt.p, prompt.n));
    json_t *request = json_pack("{s:o}", "messages", messages);
    *text = request && !appended ? json_dumps(request, JSON_COMPACT) : NULL;
    json_decref(request);
    return *text ? 0 : af_fail(error, AF_EFORMAT, "--prompt: found bytes that are no UTF-8");
}

static int chat_ids(const shimmy_options *options, const af_model *model, af_slice prompt, int32_t **ids, size_t *count,
                    af_error *error) {
    af_template *custom = NULL;
    char *request = NULL;
    af_prompt rendered = {0};
    const af_render_options render = af_render_options_default();
    int status = options->chat_template ? shimmy_input_template(options->chat_template, &custom, error) : 0;
    if (!status) status = chat_request(options, prompt, &request, error);
    if (!status) status = af_model_render(model, custom, request, strlen(request), &render, &rendered, error);
    if (!status && options->allow_special && rendered.length) memset(rendered.origin, 0, rendered.length);
    if (!status) status = af_prompt_tokenize(model, &rendered, ids, count, error);
    af_prompt_clear(&rendered);
    af_free(request);
    af_template_close(custom);
    return status;
}

static int prompt_ids(const shimmy_options *options, const af_model *model, int32_t **ids, size_t *count,
                      af_error *error) {
    char *owned;
    af_slice prompt;
    int status = shimmy_input_argument(options->prompt, &owned, &prompt, error);
    if (status) return status;
    status = options->raw ? af_tokenize(model, prompt.p, prompt.n, AF_ADD_SPECIAL | AF_PARSE_SPECIAL, ids, count, error)
                          : chat_ids(options, model, prompt, ids, count, error);
    af_free(owned);
    return status;
}

/* ---- The answer ---- */

typedef struct answer {
    bool stream;
    char last; /* character written */
    af_buf text;
    af_ids ids;
} answer;

static void on_event(void *user, const af_event *event) {
    answer *a = user;
    if (a->stream) {
        if (!event->length) return;
        fwrite(event->text, 1, event->length, stdout);
        fflush(stdout);
        a->last = event->text[event->length - 1];
        return;
    }
    af_buf_append(&a->text, event->text, event->length);
    af_ids_append(&a->ids, event->ids, event->id_count);
}

static const char *finish_name(af_finish finish) {
    return finish == AF_FINISH_STOP ? "stop" : finish == AF_FINISH_LENGTH ? "length" : "cancelled";
}

static int print_answer(const answer *a, const shimmy_job *job, af_error *error) {
    if (a->text.failed || a->ids.failed) return af_fail_memory(error, a->text.len, "the answer");
    json_t *usage = json_pack("{s:I, s:I, s:I}", "prompt_tokens", (json_int_t)job->prompt_tokens, "completion_tokens",
                              (json_int_t)job->completion_tokens, "total_tokens",
                              (json_int_t)job->prompt_tokens + job->completion_tokens);
    json_t *object =
        json_pack("{s:o, s:o, s:s, s:o}", "text", shimmy_json_text(a->text.p ? a->text.p : "", a->text.len), "ids",
                  shimmy_json_ids(a->ids.p, a->ids.len), "finish_reason", finish_name(job->finish), "usage", usage);
    return shimmy_print_json(object, error);
}

static void set_sampling(const shimmy_options *options, af_sampling *s) {
    if (!isnan(options->temperature)) s->temperature = (float)options->temperature;
    if (!isnan(options->top_p)) s->top_p = (float)options->top_p;
    if (!isnan(options->min_p)) s->min_p = (float)options->min_p;
    if (!isnan(options->repeat_penalty)) s->repeat_penalty = (float)options->repeat_penalty;
    if (options->top_k != SHIMMY_UNSET) s->top_k = (int32_t)options->top_k;
    s->seed = options->seed < 0 ? AF_SEED_RANDOM : (uint64_t)options->seed;
}

static int answer_prompt(const shimmy_options *options, const shimmy_session *session, const int32_t *ids, size_t count,
                         af_error *error) {
    af_request request = af_request_default(session->model);
    request.prompt = ids;
    request.prompt_count = count;
    request.max_tokens = options->max_tokens;
    request.stops = options->stops;
    request.stop_count = (size_t)options->stop_count;
    request.ignore_eos = options->ignore_eos;
    set_sampling(options, &request.sampling);

    answer a = {.stream = !options->json, .last = '\n'};
    shimmy_job job = {.on_event = on_event, .user = &a};
    int status = shimmy_job_run(&job, session->engine, &request, error);
    if (a.stream && a.last != '\n' && af_os_stdout_is_terminal()) putchar('\n');
    /* A cancelled answer is still what was said so far. */
    if (options->json && (status == 0 || status == AF_ECANCELED)) {
        const int printed = print_answer(&a, &job, error);
        if (printed) status = printed;
    }
    af_buf_clear(&a.text);
    af_ids_clear(&a.ids);
    return status;
}

int shimmy_cmd_generate(const shimmy_options *options, af_error *error) {
    if (!options->prompt) return af_fail(error, SHIMMY_USAGE, "generate needs --prompt TEXT (or - for standard input)");
    if (options->raw && (options->system || options->chat_template))
        return af_fail(error, SHIMMY_USAGE, "%s: not with --raw, which uses no chat template",
                       options->system ? "--system" : "--chat-template");
    af_engine_options engine;
    int status = shimmy_engine_options(options, 1, &engine, error);
    if (status) return status;
    shimmy_session session;
    status = shimmy_session_engine(options, options->arguments[0], &engine, &session, error);
    if (status) return status;
    int32_t *ids = NULL;
    size_t count = 0;
    status = prompt_ids(options, session.model, &ids, &count, error);
    if (!status) status = answer_prompt(options, &session, ids, count, error);
    af_free(ids);
    shimmy_session_close(&session);
    return status;
}

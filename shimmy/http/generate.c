/* generate.c - a text worker's part of a completion: request to prompts, prompts to ids, ids to the engine. */
#include "http/call.h"

#include "base/os.h"

#include <stdlib.h>
#include <string.h>

/* Ids of one prompt, owned, and how its answers begin. */
typedef struct tokens {
    int32_t *ids;
    size_t count;
    shimmy_split split;
} tokens;

/* ---- Engine's thread ---- */

/* Adds an event's text to what was said. */
static bool take_text(shimmy_choice *choice, const af_event *event) {
    return shimmy_split_push(&choice->split, event->text, event->length, &choice->said) &&
           (event->finish == AF_FINISH_NONE || shimmy_split_finish(&choice->split, &choice->said));
}

static void on_event(void *user, const af_event *event) {
    shimmy_choice *choice = user;
    shimmy_call *call = choice->call;
    bool over = event->finish != AF_FINISH_NONE;
    if (!over && !event->length) return;
    af_mutex_lock(call->lock);
    bool kept = call->gone || take_text(choice, event);
    choice->finish = event->finish;
    choice->cached = event->cached_tokens;
    choice->completion = event->completion_tokens;
    if (event->error) choice->error = *event->error;
    if (over && !kept) {
        choice->finish = AF_FINISH_ERROR;
        af_fail_memory(&choice->error, event->length, "the answer's text");
    }
    af_mutex_unlock(call->lock);
    if (over || call->stream) shimmy_call_post(call);
    if (over) shimmy_call_unref(call);
}

/* ---- Prompts ---- */

static int chat_tokens(shimmy_call *call, const shimmy_request *request, tokens *out) {
    const shimmy_server *server = call->server;
    af_prompt prompt = {0};
    af_error error;
    af_render_options options = af_render_options_default();
    int rc = af_model_render(server->model, server->template, request->render, strlen(request->render), &options,
                             &prompt, &error);
    if (rc == 0) {
        shimmy_split_begin(&out->split, server->tags, &prompt, request->continues);
        if (server->options->allow_special && prompt.length) memset(prompt.origin, 0, prompt.length);
        rc = af_prompt_tokenize(server->model, &prompt, &out->ids, &out->count, &error);
    }
    af_prompt_clear(&prompt);
    return rc < 0 ? shimmy_refuse_error(&call->refusal, &error, "messages") : 0;
}

static int raw_tokens(shimmy_call *call, shimmy_prompt *prompt, tokens *out) {
    af_error error;
    if (!prompt->text) { /* ids, checked already: moved */
        *out = (tokens){.ids = prompt->ids, .count = prompt->count};
        prompt->ids = NULL;
        return 0;
    }
    int rc = af_tokenize(call->server->model, prompt->text, prompt->length, AF_ADD_SPECIAL | AF_PARSE_SPECIAL,
                         &out->ids, &out->count, &error);
    return rc < 0 ? shimmy_refuse_error(&call->refusal, &error, "prompt") : 0;
}

static int check_length(shimmy_call *call, const char *param, size_t count) {
    if (!count)
        return shimmy_refuse(&call->refusal, 400, "empty_string", param, "%s: found 0 tokens, at least 1 is needed",
                             param);
    if (count < call->server->ctx) return 0;
    return shimmy_refuse(&call->refusal, 400, "context_length_exceeded", param,
                         "%s: found %zu tokens; the context is %u tokens, prompt and answer together (--ctx)", param,
                         count, call->server->ctx);
}

static int all_tokens(shimmy_call *call, shimmy_request *request, tokens *out) {
    const char *param = request->chat ? "messages" : "prompt";
    for (size_t i = 0; i < request->prompt_count; i++) {
        int rc = request->chat ? chat_tokens(call, request, &out[i]) : raw_tokens(call, &request->prompts[i], &out[i]);
        if (rc == 0) rc = check_length(call, param, out[i].count);
        if (rc < 0) return rc;
        call->prompt_tokens += out[i].count;
    }
    return 0;
}

/* ---- Choices ---- */

/* "echo": a choice's text begins with its prompt. */
static int echo_prompt(shimmy_call *call, const shimmy_prompt *prompt, const tokens *prompt_tokens, af_buf *text) {
    af_error error;
    if (prompt->text) {
        af_buf_append(text, prompt->text, prompt->length);
        return 0;
    }
    char *bytes;
    size_t length;
    int rc = af_detokenize(call->server->model, prompt_tokens->ids, prompt_tokens->count, &bytes, &length, &error);
    if (rc < 0) return shimmy_refuse_error(&call->refusal, &error, "prompt");
    af_buf_append(text, bytes, length);
    af_free(bytes);
    return 0;
}

static int submit(shimmy_call *call, const shimmy_request *request, const tokens *prompt, size_t index) {
    shimmy_choice *choice = &call->choices[index];
    af_request asked = af_request_default(call->server->model);
    asked.prompt = prompt->ids;
    asked.prompt_count = prompt->count;
    asked.max_tokens = request->max_tokens;
    asked.stops = request->stops;
    asked.stop_count = request->stop_count;
    asked.ignore_eos = request->ignore_eos;
    asked.shown = request->chat ? call->server->shown : NULL;
    asked.shown_count = request->chat ? call->server->shown_count : 0;
    asked.sampling = request->sampling;
    if (asked.sampling.seed != AF_SEED_RANDOM) asked.sampling.seed += index % request->n; /* choices differ */
    asked.on_event = on_event;
    asked.user = choice;
    choice->split = prompt->split;
    uint64_t id;
    af_error error;
    shimmy_call_ref(call); /* the engine's, until the final event */
    int rc = af_submit(call->server->engine, &asked, &id, &error);
    if (rc < 0) {
        shimmy_call_unref(call);
        return shimmy_refuse_error(&call->refusal, &error, request->chat ? "messages" : "prompt");
    }
    af_mutex_lock(call->lock);
    choice->engine_id = id;
    bool gone = call->gone;
    af_mutex_unlock(call->lock);
    if (gone) af_cancel(call->server->engine, id);
    return 0;
}

/* Takes back what was submitted before one was refused. */
static void cancel_all(shimmy_call *call) {
    af_mutex_lock(call->lock);
    call->gone = true;
    af_mutex_unlock(call->lock);
    for (size_t i = 0; i < call->choice_count; i++)
        if (call->choices[i].engine_id) af_cancel(call->server->engine, call->choices[i].engine_id);
}

static int open_choices(shimmy_call *call, const shimmy_request *request, const tokens *prompts) {
    size_t count = request->prompt_count * request->n;
    shimmy_choice *choices = calloc(count, sizeof *choices);
    if (!choices) return shimmy_refuse(&call->refusal, 503, "out_of_memory", NULL, "out of memory");
    af_mutex_lock(call->lock);
    call->choices = choices;
    call->choice_count = count;
    af_mutex_unlock(call->lock);
    int rc = 0;
    for (size_t i = 0; i < count; i++) choices[i].call = call;
    for (size_t i = 0; rc == 0 && request->echo && i < count; i++) {
        size_t prompt = i / request->n;
        rc = echo_prompt(call, &request->prompts[prompt], &prompts[prompt], &choices[i].said.content);
    }
    for (size_t i = 0; rc == 0 && i < count; i++) rc = submit(call, request, &prompts[i / request->n], i);
    if (rc < 0) cancel_all(call);
    return rc;
}

int shimmy_generate(shimmy_call *call, bool chat) {
    const shimmy_server *server = call->server;
    if (!server->info.generates)
        return shimmy_refuse(&call->refusal, 400, "unsupported", "model",
                             "model: '%.200s' gives embeddings, not text: it answers POST /v1/embeddings",
                             server->limits.model_name);
    shimmy_request *request = malloc(sizeof *request);
    if (!request) return shimmy_refuse(&call->refusal, 503, "out_of_memory", NULL, "out of memory");
    int rc = shimmy_request_parse(chat, call->body, call->body_length, &server->limits, request, &call->refusal);
    if (rc < 0) goto done;
    call->stream = request->stream;
    call->n = request->n;
    shimmy_answer_begin(&call->head, chat, server->limits.model_name, af_os_unix_time());
    call->head.include_usage = request->include_usage;
    tokens prompts[SHIMMY_CHOICES] = {{0}};
    rc = all_tokens(call, request, prompts);
    if (rc == 0) rc = open_choices(call, request, prompts);
    for (size_t i = 0; i < SHIMMY_CHOICES; i++) af_free(prompts[i].ids);
    shimmy_request_clear(request);
done:
    free(request);
    return rc;
}

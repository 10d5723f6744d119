/* generate.c - a text worker's part of a completion: request to prompts, prompts to ids. choices.c hands them to the
 * engine.
 */
#include "http/call.h"
#include "http/choices.h"

#include "base/os.h"

#include <stdlib.h>
#include <string.h>

/* ---- Prompts ---- */

static int chat_tokens(shimmy_call *call, const shimmy_request *request, shimmy_tokens *out) {
    const shimmy_loaded *on = call->on;
    af_prompt prompt = {0};
    af_error error;
    af_render_options options = af_render_options_default();
    int rc =
        af_model_render(on->model, on->template, request->render, strlen(request->render), &options, &prompt, &error);
    if (rc == 0) {
        shimmy_split_begin(&out->split, on->spans[request->reasoning].tags, &prompt, request->continues);
        if (call->server->options->allow_special && prompt.length) memset(prompt.origin, 0, prompt.length);
        rc = af_prompt_tokenize(on->model, &prompt, &out->ids, &out->count, &error);
    }
    af_prompt_clear(&prompt);
    return rc < 0 ? shimmy_refuse_error(&call->refusal, &error, "messages") : 0;
}

static int raw_tokens(shimmy_call *call, shimmy_prompt *prompt, shimmy_tokens *out) {
    af_error error;
    if (!prompt->text) { /* ids, checked already: moved */
        *out = (shimmy_tokens){.ids = prompt->ids, .count = prompt->count};
        prompt->ids = NULL;
        return 0;
    }
    int rc = af_tokenize(call->on->model, prompt->text, prompt->length, AF_ADD_SPECIAL | AF_PARSE_SPECIAL, &out->ids,
                         &out->count, &error);
    return rc < 0 ? shimmy_refuse_error(&call->refusal, &error, "prompt") : 0;
}

static int check_length(shimmy_call *call, const char *param, size_t count) {
    if (!count)
        return shimmy_refuse(&call->refusal, 400, "empty_string", param, "%s: found 0 tokens, at least 1 is needed",
                             param);
    if (count < call->on->ctx) return 0;
    return shimmy_refuse(&call->refusal, 400, "context_length_exceeded", param,
                         "%s: found %zu tokens; the context is %u tokens, prompt and answer together (--ctx)", param,
                         count, call->on->ctx);
}

static int all_tokens(shimmy_call *call, shimmy_request *request, shimmy_tokens *out) {
    const char *param = request->chat ? "messages" : "prompt";
    for (size_t i = 0; i < request->prompt_count; i++) {
        int rc = request->chat ? chat_tokens(call, request, &out[i]) : raw_tokens(call, &request->prompts[i], &out[i]);
        if (rc == 0) rc = check_length(call, param, out[i].count);
        if (rc < 0) return rc;
        call->prompt_tokens += out[i].count;
    }
    return 0;
}

int shimmy_generate(shimmy_call *call, bool chat, json_t *json) {
    const shimmy_loaded *on = call->on;
    if (!on->info.generates)
        return shimmy_refuse(&call->refusal, 400, "unsupported", "model",
                             "model: '%.200s' gives embeddings, not text: it answers POST /v1/embeddings", on->name);
    shimmy_request *request = malloc(sizeof *request);
    if (!request) return shimmy_refuse(&call->refusal, 503, "out_of_memory", NULL, "out of memory");
    int rc = shimmy_request_read(chat, json, &on->limits, request, &call->refusal);
    if (rc < 0) goto done;
    call->stream = request->stream;
    call->n = request->best_of;
    call->shown = request->n;
    call->ends = request->end_ids; /* moved, for as long as the engine speaks */
    call->end_count = request->end_count;
    shimmy_answer_begin(&call->head, chat, on->name, af_os_unix_time());
    call->head.include_usage = request->include_usage;
    call->head.pieces = request->logprobs >= 0 ? on->model : NULL;
    shimmy_tokens prompts[SHIMMY_CHOICES] = {{0}};
    rc = all_tokens(call, request, prompts);
    if (rc == 0) rc = shimmy_choices_open(call, request, prompts);
    for (size_t i = 0; i < SHIMMY_CHOICES; i++) af_free(prompts[i].ids);
    request->end_ids = NULL;
    shimmy_request_clear(request);
done:
    free(request);
    return rc;
}

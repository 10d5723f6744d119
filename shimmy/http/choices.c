/* choices.c - see choices.h. */
#include "http/choices.h"

#include "base/os.h"
#include "openai/logprobs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Engine's thread ---- */

/* Adds an event's text to what was said. */
static bool take_text(shimmy_choice *choice, const af_event *event) {
    return shimmy_split_push(&choice->split, event->text, event->length, &choice->said) &&
           (event->finish == AF_FINISH_NONE || shimmy_split_finish(&choice->split, &choice->said));
}

static bool ends(const shimmy_call *call, int32_t id) {
    for (size_t i = 0; i < call->end_count; i++)
        if (call->ends[i] == id) return true;
    return af_token_is_end(call->on->model, id);
}

/* Adds a token that the text shows, and moves on in the text. */
static bool take_chance(shimmy_choice *choice, const af_logprob *logprob) {
    const char *piece = "";
    size_t length = 0;
    const uint32_t at = choice->character;
    af_token_piece(choice->call->on->model, logprob->id, &piece, &length);
    choice->character += shimmy_characters(piece, length);
    return shimmy_chances_push(&choice->said.chances, logprob, at);
}

/* An end token says nothing and is left out, as OpenAI leaves it out. */
static bool take_chances(shimmy_choice *choice, const af_event *event) {
    const shimmy_call *call = choice->call;
    bool kept = true;
    for (size_t i = 0; event->logprobs && i < event->id_count; i++) {
        const af_logprob *logprob = &event->logprobs[i];
        const bool end = event->finish == AF_FINISH_STOP && i + 1 == event->id_count && ends(call, logprob->id);
        choice->likelihood += (double)logprob->logprob;
        if (call->head.pieces && !end) kept = take_chance(choice, logprob) && kept;
    }
    return kept;
}

/* A prompt's token, for "echo": it waits with its like for the first event. */
static void on_prompt_logprob(void *user, size_t position, const af_logprob *logprob) {
    const shimmy_choice *choice = user;
    shimmy_token_chance *chances = (void *)choice->echoed.p;
    chances[position].logprob = *logprob;
}

static bool take_echo(shimmy_choice *choice) {
    bool kept = !choice->echoed.len || af_buf_append(&choice->said.chances, choice->echoed.p, choice->echoed.len);
    choice->echoed.len = 0;
    return kept;
}

/* A whole flight of tokens counts as one: it came at one time. */
static void take_time(shimmy_choice *choice, const af_event *event) {
    shimmy_metrics *metrics = &choice->call->server->metrics;
    if (!event->id_count) return;
    const uint64_t now = af_os_nanoseconds(), since = choice->last_token ? choice->last_token : choice->call->arrived;
    shimmy_metrics_time(metrics, choice->last_token ? SHIMMY_TIME_BETWEEN : SHIMMY_TIME_FIRST, now - since);
    choice->last_token = now;
}

static void on_event(void *user, const af_event *event) {
    shimmy_choice *choice = user;
    shimmy_call *call = choice->call;
    bool over = event->finish != AF_FINISH_NONE;
    take_time(choice, event);
    if (!over && !event->length && !event->logprobs) return;
    af_mutex_lock(call->lock);
    bool kept = call->gone || (take_text(choice, event) && take_echo(choice) && take_chances(choice, event));
    choice->finish = event->finish;
    choice->cached = event->cached_tokens;
    choice->completion = event->completion_tokens;
    choice->accepted = event->accepted_tokens;
    choice->rejected = event->rejected_tokens;
    if (event->error) choice->error = *event->error;
    if (over && !kept) {
        choice->finish = AF_FINISH_ERROR;
        af_fail_memory(&choice->error, event->length, "the answer's text");
    }
    af_mutex_unlock(call->lock);
    if (over || call->stream) shimmy_call_post(call);
    if (over) shimmy_call_unref(call);
}

/* ---- Choices ---- */

/* "echo": a choice's text begins with its prompt. */
static int echo_prompt(shimmy_call *call, const shimmy_prompt *prompt, const shimmy_tokens *prompt_tokens,
                       af_buf *text) {
    af_error error;
    if (prompt->text) {
        af_buf_append(text, prompt->text, prompt->length);
        return 0;
    }
    char *bytes;
    size_t length;
    int rc = af_detokenize(call->on->model, prompt_tokens->ids, prompt_tokens->count, &bytes, &length, &error);
    if (rc < 0) return shimmy_refuse_error(&call->refusal, &error, "prompt");
    af_buf_append(text, bytes, length);
    af_free(bytes);
    return 0;
}

/* How many bytes of the text a token is. One that the text does not show (the beginning of all) is none, and the space
 * that some vocabularies put before a text is none of it. */
static size_t shown_bytes(const af_model *model, int32_t id, const char *text, size_t left) {
    const char *piece = "";
    size_t length = 0;
    af_token_piece(model, id, &piece, &length);
    if (length <= left && memcmp(text, piece, length) == 0) return length;
    const bool spaced = length > 0 && piece[0] == ' ' && length - 1 <= left;
    return spaced && memcmp(text, piece + 1, length - 1) == 0 ? length - 1 : 0;
}

/* The tokens of an echoed prompt in their places, without their chances yet: nothing foretold the first. */
static bool place_echo(shimmy_choice *choice, const shimmy_tokens *prompt) {
    const char *text = choice->said.content.p ? choice->said.content.p : "";
    const size_t length = choice->said.content.len;
    size_t at = 0;
    for (size_t i = 0; i < prompt->count; i++) {
        const af_logprob unknown = {.id = prompt->ids[i], .logprob = NAN};
        if (!shimmy_chances_push(&choice->echoed, &unknown, choice->character)) return false;
        const size_t bytes = shown_bytes(choice->call->on->model, prompt->ids[i], text + at, length - at);
        choice->character += shimmy_characters(text + at, bytes);
        at += bytes;
    }
    return true;
}

static af_request engine_request(const shimmy_call *call, const shimmy_request *request, const shimmy_tokens *prompt,
                                 const af_logit_bias *bias, size_t bias_count) {
    const bool echoes = request->echo && request->logprobs >= 0;
    af_request asked = af_request_default(call->on->model);
    asked.prompt = prompt->ids;
    asked.prompt_count = prompt->count;
    asked.max_tokens = request->max_tokens;
    asked.stops = request->stops;
    asked.stop_count = request->stop_count;
    asked.ignore_eos = request->ignore_eos;
    asked.end_ids = request->end_ids;
    asked.end_count = request->end_count;
    asked.min_tokens = request->min_tokens;
    asked.keep = request->keep;
    asked.bias = bias;
    asked.bias_count = bias_count;
    asked.dry_breakers = request->breakers;
    asked.dry_breaker_count = request->breaker_count;
    asked.logprobs = request->logprobs < 0 && request->best_of > request->n ? 0 : request->logprobs;
    if (request->chat) {
        asked.shown = call->on->spans[request->reasoning].shown;
        asked.shown_count = call->on->spans[request->reasoning].shown_count;
    }
    asked.sampling = request->sampling;
    asked.on_event = on_event;
    asked.on_prompt_logprob = echoes ? on_prompt_logprob : NULL;
    return asked;
}

static int submit(shimmy_call *call, const shimmy_request *request, af_request asked, const shimmy_tokens *prompt,
                  size_t index) {
    shimmy_choice *choice = &call->choices[index];
    if (asked.sampling.seed != AF_SEED_RANDOM) asked.sampling.seed += index % call->n; /* choices differ */
    asked.user = choice;
    choice->split = prompt->split;
    if (asked.on_prompt_logprob && !place_echo(choice, prompt))
        return shimmy_refuse(&call->refusal, 503, "out_of_memory", NULL, "out of memory");
    uint64_t id;
    af_error error;
    shimmy_call_ref(call); /* the engine's, until the final event */
    int rc = af_submit(call->on->engine, &asked, &id, &error);
    if (rc < 0) {
        shimmy_call_unref(call);
        return shimmy_refuse_error(&call->refusal, &error, request->chat ? "messages" : "prompt");
    }
    af_mutex_lock(call->lock);
    choice->engine_id = id;
    bool gone = call->gone;
    af_mutex_unlock(call->lock);
    if (gone) af_cancel(call->on->engine, id);
    return 0;
}

/* A bias on a text is one on each of its tokens. */
static int expand_bias(shimmy_call *call, const shimmy_bias *bias, af_buf *out) {
    int32_t *ids = NULL;
    size_t count = 0;
    af_error error;
    int rc = af_tokenize(call->on->model, bias->text, bias->length, AF_PARSE_SPECIAL, &ids, &count, &error);
    if (rc < 0) return shimmy_refuse_error(&call->refusal, &error, "logit_bias");
    for (size_t i = 0; i < count; i++) {
        const af_logit_bias one = {ids[i], bias->value};
        af_buf_append(out, &one, sizeof one);
    }
    af_free(ids);
    return 0;
}

static int expand_biases(shimmy_call *call, const shimmy_request *request, af_logit_bias **out, size_t *count) {
    af_buf all = {0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < request->bias_count; i++) {
        const shimmy_bias *bias = &request->bias[i];
        const af_logit_bias one = {bias->id, bias->value};
        if (bias->text)
            rc = expand_bias(call, bias, &all);
        else
            af_buf_append(&all, &one, sizeof one);
    }
    if (rc == 0 && all.failed) rc = shimmy_refuse(&call->refusal, 503, "out_of_memory", NULL, "out of memory");
    size_t bytes = 0;
    if (rc < 0 || !all.len)
        af_buf_clear(&all);
    else
        *out = (af_logit_bias *)(void *)af_buf_take(&all, &bytes);
    *count = bytes / sizeof **out;
    return rc;
}

int shimmy_choices_open(shimmy_call *call, const shimmy_request *request, const shimmy_tokens *prompts) {
    size_t count = request->prompt_count * call->n;
    shimmy_choice *choices = calloc(count, sizeof *choices);
    if (!choices) return shimmy_refuse(&call->refusal, 503, "out_of_memory", NULL, "out of memory");
    af_mutex_lock(call->lock);
    call->choices = choices;
    call->choice_count = count;
    af_mutex_unlock(call->lock);
    int rc = 0;
    for (size_t i = 0; i < count; i++) choices[i].call = call;
    for (size_t i = 0; rc == 0 && request->echo && i < count; i++) {
        size_t prompt = i / call->n;
        rc = echo_prompt(call, &request->prompts[prompt], &prompts[prompt], &choices[i].said.content);
    }
    af_logit_bias *bias = NULL;
    size_t bias_count = 0;
    if (rc == 0) rc = expand_biases(call, request, &bias, &bias_count);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        const shimmy_tokens *prompt = &prompts[i / call->n];
        rc = submit(call, request, engine_request(call, request, prompt, bias, bias_count), prompt, i);
    }
    free(bias);
    if (rc < 0) shimmy_call_cancel(call); /* those submitted before one was refused */
    return rc;
}

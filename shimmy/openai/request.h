/* request.h - POST /v1/chat/completions and /v1/completions: from JSON to what the engine is asked.
 *
 * Pure: knows neither sockets nor models beyond the facts in shimmy_request_limits. Everything a request can get wrong
 * on its own is refused here; what needs the model (template, tokens, context) is refused by whoever asks it.
 */
#ifndef SHIMMY_OPENAI_REQUEST_H
#define SHIMMY_OPENAI_REQUEST_H

#include "openai/error.h"
#include "openai/reasoning.h"

#include <jansson.h>

enum {
    SHIMMY_STOPS = 16,
    SHIMMY_STOP_BYTES = 4096,
    SHIMMY_CHOICES = 32, /* prompts times best_of */
    SHIMMY_BREAKERS = 32,
    SHIMMY_BIASES = 4096,
    SHIMMY_ENDS = 64
};

typedef struct shimmy_request_limits {
    uint32_t vocabulary;
    af_sampling sampling;       /* the defaults */
    shimmy_reasoning reasoning; /* where a request says nothing */
    bool penalty_compat;
} shimmy_request_limits;

/* A prompt is text or ids. */
typedef struct shimmy_prompt {
    const char *text; /* borrowed from the JSON; NULL: ids */
    size_t length;
    int32_t *ids;
    size_t count;
} shimmy_prompt;

/* A bias for a token, or for every token of a text. */
typedef struct shimmy_bias {
    const char *text; /* borrowed from the JSON; NULL: `id` */
    size_t length;
    int32_t id;
    float value;
} shimmy_bias;

typedef struct shimmy_request {
    bool chat;
    bool stream, include_usage;
    bool echo;
    bool ignore_eos;
    uint32_t n;       /* choices for each prompt */
    uint32_t best_of; /* made for each prompt, of which the n likeliest are shown */
    uint32_t min_tokens;
    int64_t keep;     /* as af_request's */
    int32_t logprobs; /* as af_request's */
    shimmy_bias *bias;
    size_t bias_count;
    int32_t *end_ids;
    size_t end_count;
    const char *breakers[SHIMMY_BREAKERS]; /* DRY's; the usual ones, or borrowed from the JSON */
    size_t breaker_count;
    int64_t max_tokens;
    af_sampling sampling;
    const char *stops[SHIMMY_STOPS]; /* borrowed from the JSON */
    size_t stop_count;
    char *render;                          /* chat: the JSON text for af_model_render */
    bool continues;                        /* chat: the answer goes on with the last message */
    shimmy_reasoning reasoning;            /* chat: how what a model thinks is told from its answer */
    shimmy_prompt prompts[SHIMMY_CHOICES]; /* completions */
    size_t prompt_count;                   /* 1 for chat */
    json_t *json;                          /* owner of what is borrowed */
} shimmy_request;

/* Reads a body. On success the caller clears *out, which keeps a reference to the JSON; on failure there is nothing to
 * clear. Which model is asked for is another's business. */
int shimmy_request_read(bool chat, json_t *json, const shimmy_request_limits *limits, shimmy_request *out,
                        shimmy_refusal *refusal);
void shimmy_request_clear(shimmy_request *request);

/* A prompt from the JSON: a string, or ids of the vocabulary, at least one. *out->ids is freed with af_free. */
int shimmy_read_prompt(const json_t *value, const char *param, const shimmy_request_limits *limits, shimmy_prompt *out,
                       shimmy_refusal *refusal);
/* Whether the value is one prompt, or else an array of prompts, at least one. */
bool shimmy_is_one_prompt(const json_t *value);

/* Checks "messages" and keeps of a chat request what a template sees; *render is freed with af_free. *continues tells
 * whether the prompt ends inside the last message. Parts that are text under another name get their usual one. */
int shimmy_request_messages(json_t *json, char **render, bool *continues, shimmy_refusal *refusal);

#endif

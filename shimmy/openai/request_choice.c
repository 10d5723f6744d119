/* request_choice.c - the fields of a request that say how its tokens are chosen: a table for the numbers, a function
 * for each of the others. Names, shapes and defaults are OpenAI's, and llama-server's for what OpenAI does not have.
 */
#include "openai/request_choice.h"

#include "openai/fields.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Sampling ---- */

/* Each field of af_sampling that a request may set, with its bounds. */
static const struct real_field {
    const char *name;
    double low, high;
    size_t offset;
} reals[] = {
    {"temperature", 0, FLT_MAX, offsetof(af_sampling, temperature)},
    {"top_p", 0, 1, offsetof(af_sampling, top_p)},
    {"min_p", 0, 1, offsetof(af_sampling, min_p)},
    {"presence_penalty", -2, 2, offsetof(af_sampling, presence_penalty)},
    {"frequency_penalty", -2, 2, offsetof(af_sampling, frequency_penalty)},
    {"repeat_penalty", FLT_MIN, 1e6, offsetof(af_sampling, repeat_penalty)},
    {"typical_p", 0, 1, offsetof(af_sampling, typical_p)},
    {"top_n_sigma", -FLT_MAX, FLT_MAX, offsetof(af_sampling, top_n_sigma)},
    {"dynatemp_range", 0, FLT_MAX, offsetof(af_sampling, dynatemp_range)},
    {"dynatemp_exponent", 0, FLT_MAX, offsetof(af_sampling, dynatemp_exponent)},
    {"xtc_probability", 0, 1, offsetof(af_sampling, xtc_probability)},
    {"xtc_threshold", 0, 1, offsetof(af_sampling, xtc_threshold)},
    {"dry_multiplier", 0, FLT_MAX, offsetof(af_sampling, dry_multiplier)},
    {"dry_base", 0, FLT_MAX, offsetof(af_sampling, dry_base)},
    {"mirostat_tau", 0, FLT_MAX, offsetof(af_sampling, mirostat_tau)},
    {"mirostat_eta", 0, FLT_MAX, offsetof(af_sampling, mirostat_eta)},
};

static const struct int_field {
    const char *name;
    int64_t low, high;
    size_t offset;
} ints[] = {
    {"top_k", -1, INT32_MAX, offsetof(af_sampling, top_k)},
    {"repeat_last_n", -1, INT32_MAX, offsetof(af_sampling, repeat_last_n)},
    {"dry_allowed_length", 0, INT32_MAX, offsetof(af_sampling, dry_allowed_length)},
    {"dry_penalty_last_n", -1, INT32_MAX, offsetof(af_sampling, dry_last_n)},
    {"mirostat", 0, 2, offsetof(af_sampling, mirostat)},
};

/* The seed documents' meaning of the two penalties (--penalty-compat shimmy): one repeat penalty from the larger. */
static void apply_compat(af_sampling *s) {
    float raw = s->presence_penalty > s->frequency_penalty ? s->presence_penalty : s->frequency_penalty;
    if (raw > 0) s->repeat_penalty = 1 + raw * 0.5f;
    s->presence_penalty = s->frequency_penalty = 0;
}

static int read_sampling(const json_t *json, const shimmy_request_limits *limits, af_sampling *out,
                         shimmy_refusal *refusal) {
    *out = limits->sampling;
    out->xtc_threshold = 0.1f; /* llama-server's defaults */
    out->dry_last_n = -1;
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        float *field = (float *)((char *)out + reals[i].offset);
        double value = *field;
        int rc = shimmy_read_real(json, reals[i].name, reals[i].low, reals[i].high, &value, refusal);
        if (rc < 0) return rc;
        *field = (float)value;
    }
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) {
        int32_t *field = (int32_t *)(void *)((char *)out + ints[i].offset);
        int64_t value = *field;
        int rc = shimmy_read_int(json, ints[i].name, ints[i].low, ints[i].high, &value, refusal);
        if (rc < 0) return rc;
        *field = (int32_t)value;
    }
    if (out->top_k < 0) out->top_k = 0;                /* -1: off, as other servers write it */
    if (out->top_p < FLT_MIN) out->top_p = FLT_MIN;    /* 0 keeps the best token alone */
    if (out->top_n_sigma < 0) out->top_n_sigma = 0;    /* -1: off, as llama-server writes it */
    if (out->dry_last_n == 0) out->dry_multiplier = 0; /* looks back at nothing */
    if (limits->penalty_compat) apply_compat(out);
    int64_t seed = -1; /* AF_SEED_RANDOM */
    int rc = shimmy_read_int(json, "seed", INT64_MIN, INT64_MAX, &seed, refusal);
    out->seed = (uint64_t)seed;
    return rc;
}

/* ---- The order of the stages ---- */

static int add_stage(const json_t *value, size_t place, af_sampling *out, shimmy_refusal *refusal) {
    char param[32];
    snprintf(param, sizeof param, "samplers[%zu]", place);
    if (!json_is_string(value)) return shimmy_wrong_type(value, param, "a stage's name", refusal);
    const char *name = json_string_value(value);
    const af_stage stage = af_stage_named(name);
    if (stage == AF_STAGE_END)
        return shimmy_refuse(refusal, 400, "invalid_value", param,
                             "%s: found '%.40s', stages are penalties, dry, temperature, top_n_sigma, top_k, typ_p, "
                             "top_p, min_p, xtc",
                             param, name);
    if (strchr((const char *)out->order, stage))
        return shimmy_refuse(refusal, 400, "invalid_value", param, "%s: '%s' stands there twice", param, name);
    out->order[strlen((const char *)out->order)] = (uint8_t)stage; /* fewer stages than places: 0 ends it */
    return 0;
}

static int read_order(const json_t *json, af_sampling *out, shimmy_refusal *refusal) {
    const json_t *value = shimmy_field(json, "samplers");
    if (!value) return 0;
    if (!json_is_array(value)) return shimmy_wrong_type(value, "samplers", "an array of stages' names", refusal);
    for (size_t i = 0; i < json_array_size(value); i++) {
        int rc = add_stage(json_array_get(value, i), i, out, refusal);
        if (rc < 0) return rc;
    }
    return 0;
}

/* ---- DRY's breakers ---- */

static int read_breakers(const json_t *json, shimmy_request *out, shimmy_refusal *refusal) {
    static const char *const usual[] = {"\n", ":", "\"", "*"};
    const json_t *value = shimmy_field(json, "dry_sequence_breakers");
    if (!value) {
        memcpy(out->breakers, usual, sizeof usual);
        out->breaker_count = sizeof usual / sizeof *usual;
        return 0;
    }
    if (!json_is_array(value)) return shimmy_wrong_type(value, "dry_sequence_breakers", "an array of strings", refusal);
    if (json_array_size(value) > SHIMMY_BREAKERS)
        return shimmy_refuse(refusal, 400, "array_above_max_length", "dry_sequence_breakers",
                             "dry_sequence_breakers: found %zu strings, at most %d are allowed", json_array_size(value),
                             SHIMMY_BREAKERS);
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *item = json_array_get(value, i);
        if (!json_is_string(item)) return shimmy_wrong_type(item, "dry_sequence_breakers", "strings", refusal);
        out->breakers[out->breaker_count++] = json_string_value(item);
    }
    return 0;
}

/* ---- Biases: {"id": number}, or [[id or text, number or false], ...] ---- */

static int add_bias(const char *param, const json_t *what, const json_t *value, uint32_t vocabulary,
                    shimmy_request *out, shimmy_refusal *refusal) {
    shimmy_bias *bias = &out->bias[out->bias_count];
    *bias = (shimmy_bias){.text = json_string_value(what), .length = json_string_length(what)};
    if (json_is_false(value))
        bias->value = -INFINITY;
    else if (json_is_number(value) && fabs(json_number_value(value)) <= 1e6)
        bias->value = (float)json_number_value(value);
    else
        return shimmy_wrong_type(value, param, "a number up to 1e6, or false to forbid the token", refusal);
    out->bias_count++;
    return bias->text ? 0 : shimmy_read_id(what, param, vocabulary, &bias->id, refusal);
}

/* A key of OpenAI's object: an id in digits. */
static int add_keyed_bias(const char *key, const json_t *value, uint32_t vocabulary, shimmy_request *out,
                          shimmy_refusal *refusal) {
    char param[64];
    char *end;
    snprintf(param, sizeof param, "logit_bias.%.40s", key);
    const long long id = strtoll(key, &end, 10);
    if (!*key || *end) return shimmy_refuse(refusal, 400, "invalid_token", param, "%s: is not a token id", param);
    json_t *number = json_integer(id);
    int rc = add_bias(param, number, value, vocabulary, out, refusal);
    json_decref(number);
    return rc;
}

static int add_paired_bias(size_t i, const json_t *pair, uint32_t vocabulary, shimmy_request *out,
                           shimmy_refusal *refusal) {
    char param[64];
    snprintf(param, sizeof param, "logit_bias[%zu]", i);
    if (!json_is_array(pair) || json_array_size(pair) != 2)
        return shimmy_wrong_type(pair, param, "a pair of a token id or text and its bias", refusal);
    return add_bias(param, json_array_get(pair, 0), json_array_get(pair, 1), vocabulary, out, refusal);
}

static int read_biases(const json_t *json, uint32_t vocabulary, shimmy_request *out, shimmy_refusal *refusal) {
    json_t *given = shimmy_field(json, "logit_bias");
    if (!given) return 0;
    const bool keyed = json_is_object(given);
    if (!keyed && !json_is_array(given))
        return shimmy_wrong_type(given, "logit_bias", "an object of token ids, or an array of pairs", refusal);
    const size_t count = keyed ? json_object_size(given) : json_array_size(given);
    if (count > SHIMMY_BIASES)
        return shimmy_refuse(refusal, 400, "array_above_max_length", "logit_bias",
                             "logit_bias: found %zu tokens, at most %d are allowed", count, SHIMMY_BIASES);
    out->bias = calloc(count + 1, sizeof *out->bias);
    if (!out->bias) return shimmy_refuse(refusal, 503, "out_of_memory", "logit_bias", "logit_bias: out of memory");
    int rc = 0;
    const char *key;
    json_t *value;
    json_object_foreach(keyed ? given : NULL, key, value) {
        if (rc == 0) rc = add_keyed_bias(key, value, vocabulary, out, refusal);
    }
    for (size_t i = 0; !keyed && rc == 0 && i < count; i++)
        rc = add_paired_bias(i, json_array_get(given, i), vocabulary, out, refusal);
    return rc;
}

/* ---- Ends ---- */

static int read_ends(const json_t *json, const shimmy_request_limits *limits, shimmy_request *out,
                     shimmy_refusal *refusal) {
    int64_t least = 0;
    int rc = shimmy_read_bool(json, "ignore_eos", &out->ignore_eos, refusal);
    if (rc == 0) rc = shimmy_read_int(json, "min_tokens", 0, INT32_MAX, &least, refusal);
    out->min_tokens = (uint32_t)least;
    out->keep = -1;
    if (rc == 0) rc = shimmy_read_int(json, "n_keep", 0, INT32_MAX, &out->keep, refusal);
    const json_t *ids = shimmy_field(json, "stop_token_ids");
    if (rc < 0 || !ids) return rc;
    rc = shimmy_read_ids(ids, "stop_token_ids", limits->vocabulary, &out->end_ids, &out->end_count, refusal);
    if (rc < 0 || out->end_count <= SHIMMY_ENDS) return rc;
    return shimmy_refuse(refusal, 400, "array_above_max_length", "stop_token_ids",
                         "stop_token_ids: found %zu, at most %d are allowed", out->end_count, SHIMMY_ENDS);
}

/* ---- Log-probabilities ---- */

/* Chat: "logprobs": true, and so many of the likeliest in "top_logprobs". */
static int read_chat_logprobs(const json_t *json, shimmy_request *out, shimmy_refusal *refusal) {
    bool wanted = false;
    int64_t top = 0;
    const json_t *value = shimmy_field(json, "logprobs");
    const bool zero = json_is_integer(value) && json_integer_value(value) == 0; /* as some clients write false */
    int rc = zero ? 0 : shimmy_read_bool(json, "logprobs", &wanted, refusal);
    if (rc == 0) rc = shimmy_read_int(json, "top_logprobs", 0, AF_LOGPROBS_MOST, &top, refusal);
    if (rc < 0) return rc;
    if (top > 0 && !wanted)
        return shimmy_refuse(refusal, 400, "invalid_value", "top_logprobs",
                             "top_logprobs: found %lld, which needs logprobs to be true", (long long)top);
    out->logprobs = wanted ? (int32_t)top : -1;
    return 0;
}

/* Completions: "logprobs": how many of the likeliest. */
static int read_text_logprobs(const json_t *json, shimmy_request *out, shimmy_refusal *refusal) {
    int64_t top = -1;
    const bool off = json_is_false(shimmy_field(json, "logprobs"));
    int rc = off ? 0 : shimmy_read_int(json, "logprobs", 0, AF_LOGPROBS_MOST, &top, refusal);
    out->logprobs = (int32_t)top;
    return rc;
}

static int read_best_of(const json_t *json, shimmy_request *out, shimmy_refusal *refusal) {
    int64_t best_of = out->n;
    int rc = out->chat ? 0 : shimmy_read_int(json, "best_of", out->n, SHIMMY_CHOICES, &best_of, refusal);
    out->best_of = (uint32_t)best_of;
    if (rc < 0 || !out->stream || out->best_of == out->n) return rc;
    return shimmy_refuse(refusal, 400, "invalid_value", "best_of",
                         "best_of: found %u with n %u, which cannot be streamed: the best are known at the end",
                         out->best_of, out->n);
}

int shimmy_request_choice(const json_t *json, const shimmy_request_limits *limits, shimmy_request *out,
                          shimmy_refusal *refusal) {
    int rc = read_sampling(json, limits, &out->sampling, refusal);
    if (rc == 0) rc = read_order(json, &out->sampling, refusal);
    if (rc == 0) rc = read_breakers(json, out, refusal);
    if (rc == 0) rc = read_biases(json, limits->vocabulary, out, refusal);
    if (rc == 0) rc = read_ends(json, limits, out, refusal);
    if (rc == 0) rc = (out->chat ? read_chat_logprobs : read_text_logprobs)(json, out, refusal);
    if (rc == 0) rc = read_best_of(json, out, refusal);
    return rc;
}

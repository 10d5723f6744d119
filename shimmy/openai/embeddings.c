/* embeddings.c - see embeddings.h. */
#include "openai/embeddings.h"

#include "openai/fields.h"
#include "openai/write.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Requests ---- */

static int read_input(const json_t *value, const char *param, const shimmy_request_limits *limits,
                      shimmy_embed_request *out, shimmy_refusal *refusal) {
    shimmy_prompt *input = &out->inputs[out->count];
    int rc = shimmy_read_prompt(value, param, limits, input, refusal);
    if (rc < 0) return rc;
    out->count++;
    if (!input->text || input->length) return 0;
    return shimmy_refuse(refusal, 400, "empty_string", param, "%s: found an empty string", param);
}

static int read_inputs(const json_t *json, const shimmy_request_limits *limits, shimmy_embed_request *out,
                       shimmy_refusal *refusal) {
    const json_t *value = shimmy_field(json, "input");
    const bool one = shimmy_is_one_prompt(value);
    const size_t count = one ? 1 : json_array_size(value);
    if (count > SHIMMY_EMBED_INPUTS)
        return shimmy_refuse(refusal, 400, "array_above_max_length", "input",
                             "input: found %zu texts, at most %d are allowed", count, SHIMMY_EMBED_INPUTS);
    out->inputs = calloc(count, sizeof *out->inputs);
    if (!out->inputs) return shimmy_refuse(refusal, 503, "out_of_memory", NULL, "out of memory");
    if (one) return read_input(value, "input", limits, out, refusal);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        char param[32];
        snprintf(param, sizeof param, "input[%zu]", i);
        rc = read_input(json_array_get(value, i), param, limits, out, refusal);
    }
    return rc;
}

static int read_format(const json_t *json, bool *base64, shimmy_refusal *refusal) {
    const char *format = "float";
    int rc = shimmy_read_text(json, "encoding_format", &format, refusal);
    if (rc < 0) return rc;
    *base64 = strcmp(format, "base64") == 0;
    if (*base64 || strcmp(format, "float") == 0) return 0;
    return shimmy_refuse(refusal, 400, "invalid_value", "encoding_format",
                         "encoding_format: found '%.60s', allowed are 'float' and 'base64'", format);
}

int shimmy_embed_read(json_t *json, const shimmy_request_limits *limits, uint32_t width, shimmy_embed_request *out,
                      shimmy_refusal *refusal) {
    int64_t dimensions = width;
    memset(out, 0, sizeof *out);
    out->json = json_incref(json);
    int rc = read_format(out->json, &out->base64, refusal);
    if (rc == 0) rc = shimmy_read_int(out->json, "dimensions", 1, width, &dimensions, refusal);
    if (rc == 0) rc = read_inputs(out->json, limits, out, refusal);
    out->dimensions = (uint32_t)dimensions;
    if (rc < 0) shimmy_embed_clear(out);
    return rc;
}

void shimmy_embed_clear(shimmy_embed_request *request) {
    for (size_t i = 0; i < request->count; i++) free(request->inputs[i].ids);
    free(request->inputs);
    json_decref(request->json);
    memset(request, 0, sizeof *request);
}

/* ---- Answers ---- */

void shimmy_embed_cut(const float *vector, uint32_t width, uint32_t dimensions, float *out) {
    double squares = 0;
    memcpy(out, vector, dimensions * sizeof *out);
    if (dimensions == width) return;
    for (uint32_t i = 0; i < dimensions; i++) squares += (double)vector[i] * (double)vector[i];
    const double factor = squares > 0 ? 1 / sqrt(squares) : 0;
    for (uint32_t i = 0; i < dimensions; i++) out[i] = (float)((double)vector[i] * factor);
}

/* Nine digits carry an f32 whole. */
static void write_numbers(af_buf *out, const float *vector, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) af_buf_printf(out, "%c%.9g", i ? ',' : '[', (double)vector[i]);
    af_buf_byte(out, ']');
}

static unsigned char byte_at(const float *vector, size_t at) {
    uint32_t bits;
    memcpy(&bits, &vector[at / 4], sizeof bits);
    return (unsigned char)(bits >> (8 * (at % 4)));
}

static void write_base64(af_buf *out, const float *vector, uint32_t count) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t bytes = 4 * (size_t)count;
    af_buf_byte(out, '"');
    for (size_t at = 0; at < bytes; at += 3) {
        uint32_t group = 0;
        for (size_t k = 0; k < 3; k++) group = group << 8 | (at + k < bytes ? byte_at(vector, at + k) : 0);
        for (size_t k = 0; k < 4; k++) af_buf_byte(out, at + k <= bytes ? letters[group >> (18 - 6 * k) & 63] : '=');
    }
    af_buf_byte(out, '"');
}

void shimmy_write_embeddings(af_buf *out, const shimmy_embed_answer *answer) {
    af_buf_text(out, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < answer->count; i++) {
        const float *vector = answer->vectors + i * answer->dimensions;
        af_buf_printf(out, "%s{\"object\":\"embedding\",\"index\":%zu,\"embedding\":", i ? "," : "", i);
        if (answer->base64)
            write_base64(out, vector, answer->dimensions);
        else
            write_numbers(out, vector, answer->dimensions);
        af_buf_byte(out, '}');
    }
    af_buf_text(out, "],\"model\":");
    shimmy_write_text(out, answer->model);
    af_buf_printf(out, ",\"usage\":{\"prompt_tokens\":%llu,\"total_tokens\":%llu}}",
                  (unsigned long long)answer->prompt_tokens, (unsigned long long)answer->prompt_tokens);
}

size_t shimmy_embeddings_bytes(size_t count, uint32_t dimensions, bool base64) {
    const size_t number = base64 ? 6 : 14, around = 64;
    return count * (dimensions * number + around);
}

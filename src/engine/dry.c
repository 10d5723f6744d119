/* dry.c - see dry.h. How far each place of the text agrees with the text's end is the Z function of the text read
 * backwards, which takes one pass however repetitive the text is.
 */
#include "engine/dry.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int af_dry_open(const af_sampling *params, uint32_t vocabulary, af_dry *out, af_error *error) {
    *out = (af_dry){.multiplier = params->dry_multiplier,
                    .base = params->dry_base > 0 ? params->dry_base : 1.75f,
                    .allowed_length = params->dry_allowed_length > 0 ? (uint32_t)params->dry_allowed_length : 2,
                    .active = params->dry_multiplier > 0,
                    .window = params->dry_last_n > 0 ? (uint32_t)params->dry_last_n : 0,
                    .vocabulary = vocabulary};
    if (!out->active) return AF_OK;
    out->longest = calloc(vocabulary, sizeof *out->longest);
    return out->longest ? AF_OK : af_fail_memory(error, vocabulary * sizeof *out->longest, "DRY's lengths");
}

void af_dry_close(af_dry *dry) {
    free(dry->breaks);
    free(dry->history);
    free(dry->matched);
    free(dry->longest);
    *dry = (af_dry){0};
}

void af_dry_set_breaks(af_dry *dry, uint8_t *breaks) {
    free(dry->breaks);
    dry->breaks = breaks;
}

static bool grow(af_dry *dry) {
    const size_t capacity = dry->capacity ? dry->capacity * 2 : 256;
    int32_t *history = realloc(dry->history, capacity * sizeof *history);
    if (!history) return false;
    dry->history = history;
    uint32_t *matched = realloc(dry->matched, capacity * sizeof *matched);
    if (!matched) return false;
    dry->matched = matched;
    dry->capacity = capacity;
    return true;
}

/* The text is moved down when it is twice the window, so that a token costs constant time. */
bool af_dry_accept(af_dry *dry, int32_t id) {
    if (!dry->active) return true;
    assert(id >= 0 && (uint32_t)id < dry->vocabulary);
    if (dry->window && dry->count >= 2 * (size_t)dry->window) {
        memmove(dry->history, dry->history + dry->count - dry->window, dry->window * sizeof *dry->history);
        dry->count = dry->window;
    }
    if (dry->count == dry->capacity && !grow(dry)) return false;
    dry->history[dry->count++] = id;
    return true;
}

/* Z function of text[n - 1], text[n - 2], ...: z[i] tokens before place n - i agree with those before the end. */
static void match_backwards(const int32_t *text, uint32_t n, uint32_t *z) {
    uint32_t left = 0, right = 0;
    for (uint32_t i = 1; i < n; i++) {
        uint32_t length = i < right ? z[i - left] : 0;
        if (length > right - i && i < right) length = right - i;
        while (i + length < n && text[n - 1 - length] == text[n - 1 - i - length]) length++;
        z[i] = length;
        if (i + length <= right) continue;
        left = i;
        right = i + length;
    }
}

/* Tokens before the end that hold no breaker. */
static uint32_t unbroken(const af_dry *dry, const int32_t *text, uint32_t n) {
    uint32_t length = 0;
    while (length < n && !(dry->breaks && dry->breaks[text[n - 1 - length]])) length++;
    return length;
}

void af_dry_apply(af_dry *dry, float *row) {
    const size_t span = dry->window && dry->count > dry->window ? dry->window : dry->count;
    const int32_t *text = dry->history + dry->count - span;
    const uint32_t n = (uint32_t)span;
    if (n <= dry->allowed_length) return;
    const uint32_t most = unbroken(dry, text, n);
    if (most < dry->allowed_length) return;
    match_backwards(text, n, dry->matched);
    for (uint32_t i = 1; i < n; i++) {
        const uint32_t length = dry->matched[i] < most ? dry->matched[i] : most;
        const int32_t next = text[n - i];
        if (length >= dry->allowed_length && length > dry->longest[next]) dry->longest[next] = length;
    }
    for (uint32_t i = 1; i < n; i++) {
        uint32_t *length = &dry->longest[text[n - i]];
        if (*length) row[text[n - i]] -= dry->multiplier * powf(dry->base, (float)(*length - dry->allowed_length));
        *length = 0;
    }
}

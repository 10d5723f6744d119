/* stops.c - Knuth-Morris-Pratt for a few strings side by side. With sixteen strings at the most, sixteen small automata
 * are simpler than one over all of them, and no slower where it matters: a token has a few bytes.
 */
#include "engine/stops.h"

#include <stdlib.h>
#include <string.h>

/* The state after `byte`, from a state where `matched` bytes matched (less than the length). */
static uint32_t advance(const af_stop *stop, uint32_t matched, char byte) {
    while (matched > 0 && stop->bytes[matched] != byte) matched = stop->fallback[matched - 1];
    return matched + (stop->bytes[matched] == byte);
}

static void fill_fallback(af_stop *stop) {
    stop->fallback[0] = 0;
    for (uint32_t i = 1; i < stop->length; i++) {
        stop->fallback[i] = advance(stop, stop->fallback[i - 1], stop->bytes[i]);
    }
}

static int open_stop(const char *string, size_t index, af_stop *out, af_error *error) {
    size_t length = strlen(string);
    if (length == 0) return af_fail(error, AF_EINVAL, "stop[%zu]: is empty, must hold a character", index);
    if (length > AF_STOP_BYTES_MAX) {
        return af_fail(error, AF_EINVAL, "stop[%zu]: has %zu bytes, at most %d are allowed", index, length,
                       AF_STOP_BYTES_MAX);
    }
    out->length = (uint32_t)length;
    out->bytes = malloc(length);
    out->fallback = malloc(length * sizeof *out->fallback);
    if (!out->bytes || !out->fallback) return af_fail_memory(error, length * 5, "a stop string");
    memcpy(out->bytes, string, length);
    fill_fallback(out);
    return AF_OK;
}

int af_stops_open(const char *const *strings, size_t count, af_stops *out, af_error *error) {
    *out = (af_stops){0};
    if (count > AF_STOPS_MAX) {
        return af_fail(error, AF_EINVAL, "stop: has %zu strings, at most %d are allowed", count, AF_STOPS_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        out->count = i + 1;
        int rc = open_stop(strings[i], i, &out->stops[i], error);
        if (rc == 0) continue;
        af_stops_close(out);
        return rc;
    }
    return AF_OK;
}

void af_stops_close(af_stops *stops) {
    for (size_t i = 0; i < stops->count; i++) {
        free(stops->stops[i].bytes);
        free(stops->stops[i].fallback);
    }
    stops->count = 0;
}

/* The length of the longest string that ends with this byte, 0 if none does. */
static uint32_t watch_byte(af_stops *stops, char byte) {
    uint32_t found = 0;
    for (size_t i = 0; i < stops->count; i++) {
        af_stop *stop = &stops->stops[i];
        stop->matched = advance(stop, stop->matched, byte);
        if (stop->matched == stop->length && stop->length > found) found = stop->length;
    }
    return found;
}

bool af_stops_scan(af_stops *stops, af_buf *text, size_t from) {
    if (stops->count == 0) return false;
    for (size_t i = from; i < text->len; i++) {
        uint32_t found = watch_byte(stops, text->p[i]);
        if (found == 0) continue;
        text->len = i + 1 - found;
        text->p[text->len] = '\0';
        return true;
    }
    return false;
}

size_t af_stops_held(const af_stops *stops) {
    uint32_t held = 0;
    for (size_t i = 0; i < stops->count; i++) {
        if (stops->stops[i].matched > held) held = stops->stops[i].matched;
    }
    return held;
}

/* output.c - see output.h. Results go to standard output and nothing else does. */
#include "cli/output.h"

#include "base/utf8.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int shimmy_print_json(json_t *object, af_error *error) {
    char *line = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(10)) : NULL;
    json_decref(object);
    if (!line) return af_fail_memory(error, 0, "JSON output");
    puts(line);
    af_free(line);
    return 0;
}

json_t *shimmy_json_text(const char *bytes, size_t n) {
    if (af_utf8_valid(bytes, n)) return json_stringn(bytes, n);
    af_buf text = {0};
    for (size_t i = 0; i < n;) {
        uint32_t codepoint;
        const size_t length = af_utf8_decode(bytes + i, n - i, &codepoint);
        af_buf_append(&text, length ? bytes + i : "\xEF\xBF\xBD", length ? length : 3);
        i += length ? length : 1;
    }
    json_t *string = text.failed ? NULL : json_stringn(text.p, text.len);
    af_buf_clear(&text);
    return string;
}

json_t *shimmy_json_string(const char *text) {
    return shimmy_json_text(text, strlen(text));
}

json_t *shimmy_json_real(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *shimmy_json_ids(const int32_t *ids, size_t count) {
    json_t *array = json_array();
    for (size_t i = 0; i < count && array; i++) {
        if (json_array_append_new(array, json_integer(ids[i]))) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

void shimmy_print_ids(const int32_t *ids, size_t count) {
    putchar('[');
    for (size_t i = 0; i < count; i++) printf(i ? ",%d" : "%d", ids[i]);
    puts("]");
}

static const char *scaled(double value, const char *const *units, char text[SHIMMY_SIZE_TEXT]) {
    size_t unit = 0;
    while (value >= 999.95 && units[unit + 1]) {
        value /= 1000;
        unit++;
    }
    snprintf(text, SHIMMY_SIZE_TEXT, unit ? "%.1f%s" : "%.0f%s", value, units[unit]);
    return text;
}

const char *shimmy_size(uint64_t bytes, char text[SHIMMY_SIZE_TEXT]) {
    static const char *const units[] = {" B", " kB", " MB", " GB", " TB", NULL};
    return scaled((double)bytes, units, text);
}

const char *shimmy_amount(uint64_t count, char text[SHIMMY_SIZE_TEXT]) {
    static const char *const units[] = {"", " k", " M", " B", " T", NULL};
    return scaled((double)count, units, text);
}

const char *shimmy_without_path(const char *message, const char *path) {
    const size_t n = strlen(path);
    return strncmp(message, path, n) == 0 && strncmp(message + n, ": ", 2) == 0 ? message + n + 2 : message;
}

void shimmy_note(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("shimmy: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

/* status.c - filling the caller's af_error, and the two odds and ends every user of the library needs. */
#include "base/print.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int af_fail(af_error *error, int code, const char *format, ...) {
    assert(code < 0);
    if (!error) return code;
    va_list arguments;
    va_start(arguments, format);
    char line[sizeof error->text]; /* the arguments may point into *error */
    size_t length = af_print_line(line, sizeof line, format, arguments);
    va_end(arguments);
    memcpy(error->text, line, length + 1);
    error->code = code;
    return code;
}

int af_fail_within(af_error *error, int code, const char *format, ...) {
    if (!error) return code;
    va_list arguments;
    va_start(arguments, format);
    char prefix[sizeof error->text];
    af_print_line(prefix, sizeof prefix, format, arguments);
    va_end(arguments);
    return af_fail(error, error->code < 0 ? error->code : code, "%s: %s", prefix, error->text);
}

int af_fail_memory(af_error *error, size_t size, const char *what) {
    return af_fail(error, AF_ENOMEM, "%s: out of memory (%zu bytes)", what, size);
}

const char *af_status_name(int code) {
    static const char *const names[] = {"ok",          "invalid", "io",       "memory",   "format",
                                        "unsupported", "full",    "canceled", "template", "context"};
    size_t index = code <= 0 ? (size_t) - (long)code : sizeof names;
    return index < sizeof names / sizeof *names ? names[index] : "unknown";
}

void af_free(void *memory) {
    free(memory);
}

const char *af_version(void) {
    return AF_VERSION;
}

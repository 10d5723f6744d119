/* log.c - see log.h. A line is written by one call, so that lines of several threads do not mix. */
#include "base/log.h"

#include "base/print.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic af_log_level wanted = AF_LOG_WARNING;

void af_log_set_level(af_log_level level) {
    atomic_store_explicit(&wanted, level, memory_order_relaxed);
}

void af_log(af_log_level level, const char *format, ...) {
    if (level > atomic_load_explicit(&wanted, memory_order_relaxed)) return;
    static const char *const names[] = {"error", "warning", "info", "debug"};
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    af_print_line(line, sizeof line, format, arguments);
    va_end(arguments);
    fprintf(stderr, "shimmy: %s: %s\n", names[level], line);
}

void af_trace(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    flockfile(stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    funlockfile(stderr);
    va_end(arguments);
}

bool af_env_flag(const char *name) {
    const char *value = getenv(name);
    return value && *value && strcmp(value, "0") != 0;
}

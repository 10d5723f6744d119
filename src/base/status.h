/* status.h - the one way to report an error: fill the caller's af_error, return the code.
 *
 *     if (!map) return af_fail(error, AF_EIO, "%s: cannot map %zu bytes: %s", path, size, strerror(errno));
 *
 * Bytes from outside produce errors; mistakes of the program assert.
 */
#ifndef AF_STATUS_H
#define AF_STATUS_H

#include "airframe.h"

#include <stdarg.h>

#if defined(__GNUC__)
#define AF_PRINTF(format_at, first_at) __attribute__((format(printf, format_at, first_at)))
#else
#define AF_PRINTF(format_at, first_at)
#endif

/* Writes code and message into *error (NULL allowed) and returns code. Bytes that are no printable UTF-8 (a hostile
 * file's key, say) are shown as \xHH, line breaks as \n, so that a message stays one line. Returns code. */
int af_fail(af_error *error, int code, const char *format, ...) AF_PRINTF(3, 4);

/* Puts "prefix: " before a message that is there already. Returns error->code, or `code` when error is NULL. */
int af_fail_within(af_error *error, int code, const char *format, ...) AF_PRINTF(3, 4);

/* The AF_ENOMEM of an allocation of `size` bytes for `what`. */
int af_fail_memory(af_error *error, size_t size, const char *what);

/* "invalid", "io", ... for logs. */
const char *af_status_name(int code);

#endif

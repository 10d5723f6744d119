/* print.h - text for people's eyes from bytes nobody vouches for. */
#ifndef AF_PRINT_H
#define AF_PRINT_H

#include "base/status.h"

/* Formats into out (size > 0) as one printable line of UTF-8: control characters and broken bytes become \xHH, line
 * breaks \n, and a text too long is cut at a character's edge. Returns its length. */
size_t af_print_line(char *out, size_t size, const char *format, va_list arguments);

#endif

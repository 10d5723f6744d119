/* print.c - the one place that makes a message safe to show: file bytes reach terminals and logs only through it. */
#include "base/print.h"

#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

/* Longer than any line it is printed to, so that only the line's own length ever cuts. */
#define FORMATTED_MAX 4096

/* Controls, and the characters that break or turn a line: U+2028/9 and the bidirectional overrides. */
static bool printable(uint32_t c) {
    bool control = c < 0x20 || (c >= 0x7f && c < 0xa0);
    bool turns_line = (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
    return !control && !turns_line;
}

/* What stands in the line for the bytes at p; *taken is how many of them it covers. At most 4 bytes. */
static size_t show_one(const char *p, size_t n, char out[4], size_t *taken) {
    uint32_t c;
    size_t length = af_utf8_decode(p, n, &c);
    if (length && printable(c)) {
        memcpy(out, p, length);
        *taken = length;
        return length;
    }
    *taken = 1;
    if (*p == '\n') {
        memcpy(out, "\\n", 2);
        return 2;
    }
    static const char digits[] = "0123456789abcdef";
    unsigned char byte = (unsigned char)*p;
    const char escape[4] = {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    memcpy(out, escape, 4);
    return 4;
}

size_t af_print_line(char *out, size_t size, const char *format, va_list arguments) {
    char raw[FORMATTED_MAX];
    vsnprintf(raw, sizeof raw, format, arguments);
    size_t n = strlen(raw), at = 0, length = 0;
    while (at < n) {
        char shown[4];
        size_t taken, width = show_one(raw + at, n - at, shown, &taken);
        if (length + width >= size) break;
        memcpy(out + length, shown, width);
        length += width;
        at += taken;
    }
    out[length] = '\0';
    return length;
}

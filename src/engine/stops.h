/* stops.h - finds stop strings in text that arrives in pieces, and says how much of it may already be shown.
 *
 * Up to AF_STOPS_MAX strings are watched at once, byte by byte, each by its own Knuth-Morris-Pratt automaton: time is
 * linear in the text whatever the strings are. Text that may be the beginning of a stop string is held back until it is
 * clear. The string that ends first wins; of several that end together, the longest.
 */
#ifndef AF_STOPS_H
#define AF_STOPS_H

#include "base/buf.h"

#define AF_STOPS_MAX      16
#define AF_STOP_BYTES_MAX 4096

typedef struct af_stop {
    char *bytes;
    uint32_t *fallback; /* (length) of the first i + 1 bytes, the longest proper prefix that is also a suffix */
    uint32_t length;
    uint32_t matched; /* bytes of it that the text now ends with */
} af_stop;

typedef struct af_stops {
    af_stop stops[AF_STOPS_MAX];
    size_t count;
} af_stops;

/* Copies the strings. AF_EINVAL for too many, for one that is empty or too long. */
int af_stops_open(const char *const *strings, size_t count, af_stops *out, af_error *error);
void af_stops_close(af_stops *stops);

/* Watches text->p from `from` on, where the bytes before it were watched by earlier calls. On a match, cuts the text
 * before the stop string and returns true. */
bool af_stops_scan(af_stops *stops, af_buf *text, size_t from);
/* Bytes at the end of the text watched so far that may be the beginning of a stop string. */
size_t af_stops_held(const af_stops *stops);

#endif

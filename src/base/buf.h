/* buf.h - a growing byte buffer with a ceiling.
 *
 * Failure is sticky: an append that cannot be done sets `failed` and does nothing more, so that a writer checks once at
 * the end. After every append the contents are NUL-terminated beyond `len`.
 */
#ifndef AF_BUF_H
#define AF_BUF_H

#include "base/status.h"

typedef struct af_buf {
    char *p; /* NULL until the first append */
    size_t len, cap;
    size_t ceiling; /* the most bytes it may hold; 0: none */
    bool failed;    /* out of memory or past the ceiling */
} af_buf;

void af_buf_clear(af_buf *b); /* frees; keeps the ceiling */
bool af_buf_append(af_buf *b, const void *bytes, size_t n);
bool af_buf_byte(af_buf *b, char byte);
bool af_buf_fill(af_buf *b, char byte, size_t n);
bool af_buf_text(af_buf *b, const char *text);
bool af_buf_printf(af_buf *b, const char *format, ...) AF_PRINTF(2, 3);
bool af_buf_reserve(af_buf *b, size_t extra); /* room for n more bytes */
/* Hands the memory over (to af_free) and empties the buffer; never NULL unless failed. */
char *af_buf_take(af_buf *b, size_t *len);

/* A slice of somebody else's bytes. */
typedef struct af_slice {
    const char *p;
    size_t n;
} af_slice;

static inline af_slice af_slice_of(const char *p, size_t n) {
    return (af_slice){p, n};
}
af_slice af_slice_text(const char *text); /* NUL-terminated */
bool af_slice_equal(af_slice a, af_slice b);
bool af_slice_is(af_slice a, const char *text);

/* A growing array of token ids with the same sticky failure. */
typedef struct af_ids {
    int32_t *p;
    size_t len, cap;
    bool failed;
} af_ids;

void af_ids_clear(af_ids *ids);
bool af_ids_push(af_ids *ids, int32_t id);
bool af_ids_append(af_ids *ids, const int32_t *p, size_t n);

#endif

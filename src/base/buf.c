/* buf.c - growing arrays of bytes and of token ids. Capacity doubles, so appends are constant time on average. */
#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 64

void af_buf_clear(af_buf *b) {
    free(b->p);
    *b = (af_buf){.ceiling = b->ceiling};
}

/* The capacity to grow to for `need` bytes (the NUL included): doubled, but not past the ceiling and its NUL. */
static size_t grown(size_t cap, size_t need, size_t ceiling) {
    size_t doubled = cap > SIZE_MAX / 2 ? need : cap * 2;
    if (doubled < FIRST_CAPACITY) doubled = FIRST_CAPACITY;
    if (ceiling && doubled > ceiling) doubled = ceiling + 1;
    return doubled > need ? doubled : need;
}

bool af_buf_reserve(af_buf *b, size_t extra) {
    if (b->failed) return false;
    size_t limit = b->ceiling ? b->ceiling : SIZE_MAX - 1;
    if (b->len > limit || extra > limit - b->len) return !(b->failed = true);
    size_t need = b->len + extra + 1;
    if (need <= b->cap) return true;
    size_t cap = grown(b->cap, need, b->ceiling);
    char *p = realloc(b->p, cap);
    if (!p) return !(b->failed = true);
    b->p = p;
    b->cap = cap;
    return true;
}

bool af_buf_append(af_buf *b, const void *bytes, size_t n) {
    if (!af_buf_reserve(b, n)) return false;
    if (n) memcpy(b->p + b->len, bytes, n);
    b->len += n;
    b->p[b->len] = '\0';
    return true;
}

bool af_buf_byte(af_buf *b, char byte) {
    return af_buf_append(b, &byte, 1);
}

bool af_buf_fill(af_buf *b, char byte, size_t n) {
    if (!af_buf_reserve(b, n)) return false;
    memset(b->p + b->len, byte, n);
    b->len += n;
    b->p[b->len] = '\0';
    return true;
}

bool af_buf_text(af_buf *b, const char *text) {
    return af_buf_append(b, text, strlen(text));
}

bool af_buf_printf(af_buf *b, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int n = vsnprintf(NULL, 0, format, arguments);
    bool done = n >= 0 && af_buf_reserve(b, (size_t)n);
    if (done) {
        vsnprintf(b->p + b->len, (size_t)n + 1, format, again);
        b->len += (size_t)n;
    } else {
        b->failed = true;
    }
    va_end(again);
    va_end(arguments);
    return done;
}

char *af_buf_take(af_buf *b, size_t *len) {
    if (!af_buf_append(b, "", 0)) {
        af_buf_clear(b);
        return NULL;
    }
    char *p = b->p;
    if (len) *len = b->len;
    *b = (af_buf){.ceiling = b->ceiling};
    return p;
}

af_slice af_slice_text(const char *text) {
    return af_slice_of(text, strlen(text));
}

bool af_slice_equal(af_slice a, af_slice b) {
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

bool af_slice_is(af_slice a, const char *text) {
    return af_slice_equal(a, af_slice_text(text));
}

void af_ids_clear(af_ids *ids) {
    free(ids->p);
    *ids = (af_ids){0};
}

static bool ids_reserve(af_ids *ids, size_t extra) {
    if (ids->failed) return false;
    size_t limit = SIZE_MAX / sizeof *ids->p / 2;
    if (extra > limit - ids->len) return !(ids->failed = true);
    size_t need = ids->len + extra;
    if (need <= ids->cap) return true;
    size_t cap = ids->cap * 2 > need ? ids->cap * 2 : need + FIRST_CAPACITY;
    int32_t *p = realloc(ids->p, cap * sizeof *p);
    if (!p) return !(ids->failed = true);
    ids->p = p;
    ids->cap = cap;
    return true;
}

bool af_ids_push(af_ids *ids, int32_t id) {
    return af_ids_append(ids, &id, 1);
}

bool af_ids_append(af_ids *ids, const int32_t *p, size_t n) {
    if (!ids_reserve(ids, n)) return false;
    if (n) memcpy(ids->p + ids->len, p, n * sizeof *p);
    ids->len += n;
    return true;
}

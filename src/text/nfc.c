/* nfc.c - composition, stretch by stretch.
 *
 * Characters below U+0300 neither combine with what comes before nor change by themselves: they end a stretch and may
 * begin the next. A stretch is decomposed, its marks are put in canonical order, and it is composed again, by the
 * tables of utf8proc. The order is ours because utf8proc's is quadratic in a run of marks, which anybody can send.
 */
#include "text/nfc.h"

#include "base/utf8.h"

#include <stdlib.h>
#include <utf8proc.h>

#define FIRST_COMBINING 0x300
#define LEAD_OF_FIRST   0xCC /* UTF-8's first byte of U+0300 */
#define OPTIONS         (UTF8PROC_STABLE | UTF8PROC_COMPOSE)
#define LONGEST         8 /* room for a character's canonical decomposition; Unicode's longest has 4 */

typedef struct codes {
    utf8proc_int32_t *p;
    uint64_t *order; /* as many elements */
    size_t len, cap;
} codes;

static bool reserve(codes *c, size_t extra) {
    if (c->len + extra <= c->cap) return true;
    const size_t cap = (c->len + extra) * 2;
    utf8proc_int32_t *p = realloc(c->p, cap * sizeof *p);
    if (p) c->p = p;
    uint64_t *order = realloc(c->order, cap * sizeof *order);
    if (order) c->order = order;
    if (p && order) c->cap = cap;
    return p && order;
}

static int compare(const void *left, const void *right) {
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* Sorts a run of n marks by combining class; those of one class keep their order. Class, place and code point share a
 * number: 8, 35 and 21 bits. */
static void sort_marks(utf8proc_int32_t *marks, uint64_t *order, size_t n) {
    bool sorted = true;
    for (size_t i = 0; i < n; i++) {
        const uint64_t class = (uint64_t)utf8proc_get_property(marks[i])->combining_class;
        order[i] = class << 56 | (uint64_t)i << 21 | (uint64_t)marks[i];
        if (i && order[i] < order[i - 1]) sorted = false;
    }
    if (sorted) return;
    qsort(order, n, sizeof *order, compare);
    for (size_t i = 0; i < n; i++) marks[i] = (utf8proc_int32_t)(order[i] & 0x1FFFFF);
}

static void put_in_order(codes *c) {
    for (size_t i = 0, from; i < c->len; i++) {
        from = i;
        while (i < c->len && utf8proc_get_property(c->p[i])->combining_class != 0) i++;
        if (i - from > 1) sort_marks(c->p + from, c->order, i - from);
    }
}

static bool decompose(codes *c, uint32_t character) {
    int boundary = 0;
    if (!reserve(c, LONGEST)) return false;
    const utf8proc_ssize_t n =
        utf8proc_decompose_char((utf8proc_int32_t)character, c->p + c->len, LONGEST, OPTIONS, &boundary);
    if (n < 0 || n > LONGEST) return false;
    c->len += (size_t)n;
    return true;
}

static bool write_composed(codes *c, af_buf *out) {
    put_in_order(c);
    const utf8proc_ssize_t n = utf8proc_normalize_utf32(c->p, (utf8proc_ssize_t)c->len, OPTIONS);
    for (utf8proc_ssize_t i = 0; i < n; i++) {
        char bytes[4];
        af_buf_append(out, bytes, af_utf8_encode((uint32_t)c->p[i], bytes));
    }
    c->len = 0;
    return n >= 0 && !out->failed;
}

/* Where the stretch begins that the next character from U+0300 on belongs to: a character before it, or the end. */
static size_t find_stretch(af_slice text, size_t at) {
    size_t before = at;
    while (at < text.n && (unsigned char)text.p[at] < LEAD_OF_FIRST) {
        before = at;
        at += (unsigned char)text.p[at] < 0x80 ? 1 : 2;
    }
    return at < text.n ? before : at;
}

/* Composes the stretch at the start of `text`. Returns its bytes, 0 when out of memory. */
static size_t compose_stretch(codes *c, af_slice text, af_buf *out) {
    size_t at = 0;
    while (at < text.n) {
        uint32_t character = 0;
        const size_t n = af_utf8_decode(text.p + at, text.n - at, &character);
        if (at > 0 && character < FIRST_COMBINING) break;
        if (!decompose(c, character)) return 0;
        at += n;
    }
    return write_composed(c, out) ? at : 0;
}

bool af_nfc(af_slice *text, af_buf *copy) {
    size_t at = find_stretch(*text, 0);
    if (at == text->n) return true;
    codes c = {0};
    copy->len = 0;
    bool done = af_buf_append(copy, text->p, at);
    while (done && at < text->n) {
        const size_t n = compose_stretch(&c, af_slice_of(text->p + at, text->n - at), copy);
        const size_t next = find_stretch(*text, at + n);
        done = n > 0 && af_buf_append(copy, text->p + at + n, next - at - n);
        at = next;
    }
    free(c.p);
    free(c.order);
    if (done) *text = af_slice_of(copy->p, copy->len);
    return done;
}

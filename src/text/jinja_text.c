/* jinja_text.c - strings with the origin of their bytes: building, cutting, searching.
 *
 * A j_text under construction keeps no array of origins until a byte of a second origin arrives. Offsets are bytes;
 * what templates count in characters is converted at the edge, and costs a walk unless the string is ASCII.
 */
#include "base/utf8.h"
#include "text/jinja_value.h"

#include <string.h>

/* ---- Building ---- */

void af_j_text_open(j_text *t, j_run *run) {
    *t = (j_text){.run = run};
}

static void *grown(j_text *t, const void *old, size_t cap) {
    void *p = af_j_alloc(t->run, cap);
    if (p && t->n) memcpy(p, old, t->n);
    return p;
}

/* Room for n more bytes in the arena. */
static bool reserve(j_text *t, size_t n) {
    if (t->run->status) return false;
    if (n <= t->cap - t->n) return true;
    size_t cap = t->cap ? t->cap : 48;
    while (cap - t->n < n && cap < SIZE_MAX / 4) cap *= 2;
    if (cap - t->n < n) return af_j_fail(t->run, "a string too long to be built") == 0;
    char *p = grown(t, t->p, cap);
    uint8_t *origins = t->origins ? grown(t, t->origins, cap) : NULL;
    if (!p || (t->origins && !origins)) return false;
    t->p = p;
    t->origins = origins;
    t->cap = cap;
    return true;
}

/* Makes the array of origins exist. */
static bool spread_origins(j_text *t) {
    if (t->origins) return true;
    t->origins = af_j_alloc(t->run, t->cap);
    if (!t->origins) return false;
    memset(t->origins, t->first_origin, t->n);
    return true;
}

/* Origins of the n bytes just about to be counted: `each`, or all `one`. */
static bool note_origins(j_text *t, const uint8_t *each, uint8_t one, size_t n) {
    if (t->n == 0 && !t->origins) t->first_origin = each ? each[0] : one;
    bool uniform = !each && one == t->first_origin;
    if (uniform && !t->origins) return true;
    if (!spread_origins(t)) return false;
    if (each)
        memcpy(t->origins + t->n, each, n);
    else
        memset(t->origins + t->n, one, n);
    return true;
}

static void sink(j_text *t, const char *p, const uint8_t *each, uint8_t one, size_t n) {
    af_buf_append(t->text, p, n);
    if (each)
        af_buf_append(t->origin, each, n);
    else
        af_buf_fill(t->origin, (char)one, n);
    if (t->text->failed || t->origin->failed) af_j_fail(t->run, "the text is longer than is allowed");
}

static void append(j_text *t, const char *p, const uint8_t *each, uint8_t one, size_t n) {
    if (n == 0 || af_j_work(t->run, n / 64)) return;
    if (t->text) {
        sink(t, p, each, one, n);
        return;
    }
    if (!reserve(t, n) || !note_origins(t, each, one, n)) return;
    memcpy(t->p + t->n, p, n);
    t->n += n;
}

void af_j_text_bytes(j_text *t, const char *p, size_t n, uint8_t origin) {
    append(t, p, NULL, origin, n);
}

void af_j_text_c(j_text *t, const char *literal, uint8_t origin) {
    append(t, literal, NULL, origin, strlen(literal));
}

void af_j_text_byte(j_text *t, char byte, uint8_t origin) {
    append(t, &byte, NULL, origin, 1);
}

void af_j_text_code(j_text *t, uint32_t codepoint, uint8_t origin) {
    char bytes[4];
    append(t, bytes, NULL, origin, af_utf8_encode(codepoint, bytes));
}

void af_j_text_part(j_text *t, const j_string *s, size_t from, size_t to) {
    append(t, s->p + from, s->origins ? s->origins + from : NULL, s->origin, to - from);
}

void af_j_text_string(j_text *t, const j_string *s) {
    af_j_text_part(t, s, 0, s->n);
}

void af_j_text_fill(j_text *t, const char *unit, size_t n, uint8_t origin, size_t times) {
    while (times-- > 0 && !t->run->status) append(t, unit, NULL, origin, n);
}

int af_j_text_done(j_text *t, j_value *out) {
    j_string *s = af_j_alloc(t->run, sizeof *s);
    if (!s) return t->run->status;
    *s = (j_string){.p = t->p ? t->p : "", .origins = t->origins, .n = t->n, .origin = t->first_origin};
    s->markup = t->markup;
    *out = af_j_of_string(s);
    return 0;
}

/* ---- Whole strings and parts of them ---- */

int af_j_string(j_run *run, const char *p, size_t n, uint8_t origin, j_value *out) {
    j_text t;
    af_j_text_open(&t, run);
    af_j_text_bytes(&t, p, n, origin);
    return af_j_text_done(&t, out);
}

/* Shares the bytes. */
int af_j_string_part(j_run *run, const j_string *s, size_t from, size_t to, j_value *out) {
    j_string *part = af_j_alloc(run, sizeof *part);
    if (!part) return run->status;
    *part = *s;
    part->p += from;
    part->n = to - from;
    if (part->origins) part->origins += from;
    *out = af_j_of_string(part);
    return 0;
}

uint8_t af_j_origin_at(const j_string *s, size_t at) {
    if (!s->origins || s->n == 0) return s->origin;
    return s->origins[at < s->n ? at : s->n - 1];
}

size_t af_j_char_count(j_run *run, const j_string *s) {
    af_j_work(run, s->n / 16);
    return af_utf8_count(s->p, s->n);
}

size_t af_j_char_offset(const j_string *s, size_t index) {
    size_t at = 0;
    while (index > 0 && at < s->n) {
        at += af_utf8_lead((unsigned char)s->p[at]);
        index--;
    }
    return at;
}

bool af_j_string_is(const j_string *s, const char *text) {
    size_t n = strlen(text);
    return s->n == n && memcmp(s->p, text, n) == 0;
}

bool af_j_string_equal(const j_string *a, const j_string *b) {
    return a == b || (a->n == b->n && memcmp(a->p, b->p, a->n) == 0);
}

size_t af_j_find(j_run *run, const j_string *s, const j_string *part, size_t from, size_t to) {
    if (from > to || part->n > to - from || run->status) return SIZE_MAX;
    const char *p = memmem(s->p + from, to - from, part->p, part->n);
    size_t at = p ? (size_t)(p - s->p) : SIZE_MAX;
    af_j_work(run, ((p ? at : to) - from + part->n) / 8); /* a search may look at a byte several times */
    return at;
}

size_t af_j_find_last(j_run *run, const j_string *s, const j_string *part, size_t from, size_t to) {
    if (from > to || part->n > to - from) return SIZE_MAX;
    size_t at = to - part->n;
    for (;; at--) {
        bool candidate = part->n == 0 || s->p[at] == part->p[0];
        if (candidate && af_j_work(run, 1 + part->n / 32)) return SIZE_MAX;
        if (candidate && memcmp(s->p + at, part->p, part->n) == 0) break;
        if (at == from) {
            at = SIZE_MAX;
            break;
        }
    }
    af_j_work(run, (to - (at == SIZE_MAX ? from : at)) / 16);
    return at;
}

int af_j_escape_html(j_run *run, const j_string *s, j_value *out) {
    static const char *const entities[128] = {
        ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['\''] = "&#39;", ['"'] = "&#34;"};
    j_text t;
    af_j_text_open(&t, run);
    size_t from = 0;
    for (size_t at = 0; !s->markup && at < s->n; at++) {
        unsigned char c = (unsigned char)s->p[at];
        if (c >= 128 || !entities[c]) continue;
        af_j_text_part(&t, s, from, at);
        af_j_text_c(&t, entities[c], af_j_origin_at(s, at));
        from = at + 1;
    }
    af_j_text_part(&t, s, from, s->n);
    t.markup = true;
    return af_j_text_done(&t, out);
}

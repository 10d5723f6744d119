/* detok.c - generated ids to whole UTF-8 characters.
 *
 * Bytes of a character that is not complete wait in `pending`, at most three. What can no longer become a character
 * is given out as U+FFFD, one for each maximal part of a well-formed sequence, as the Unicode standard recommends (3.9,
 * "U+FFFD Substitution of Maximal Subparts") and Python's errors="replace" does.
 */
#include "text/tokenizer.h"

#include "base/utf8.h"

#include <string.h>

#define REPLACEMENT "\xEF\xBF\xBD"

/* The values a sequence's second byte may have (Unicode 15, table 3-7). */
static bool second_byte_fits(unsigned char lead, unsigned char second) {
    switch (lead) {
    case 0xE0:
        return second >= 0xA0 && second <= 0xBF;
    case 0xED:
        return second >= 0x80 && second <= 0x9F;
    case 0xF0:
        return second >= 0x90 && second <= 0xBF;
    case 0xF4:
        return second >= 0x80 && second <= 0x8F;
    default:
        return second >= 0x80 && second <= 0xBF;
    }
}

/* Bytes at p (n of them, at least one) that belong together: a character or the longest part of one. *whole says which;
 * *open, that more bytes could make it a character. */
static size_t sequence(const char *p, size_t n, bool *whole, bool *open) {
    const unsigned char *bytes = (const unsigned char *)p;
    const size_t wanted = af_utf8_lead(*bytes);
    size_t have = 1;
    if (wanted > 1 && n > 1 && second_byte_fits(bytes[0], bytes[1])) {
        have = 2;
        while (have < wanted && have < n && (bytes[have] & 0xC0) == 0x80) have++;
    }
    *whole = have == wanted;
    *open = have < wanted && have == n;
    return have;
}

/* Gives out everything in p but a sequence left open at its end, whose length it returns. */
static size_t give_out(const char *p, size_t n, af_buf *out) {
    size_t given = 0, at = 0;
    while (at < n) {
        bool whole = true, open = false;
        const size_t length = (unsigned char)p[at] < 0x80 ? 1 : sequence(p + at, n - at, &whole, &open);
        if (open) break;
        if (!whole) {
            af_buf_append(out, p + given, at - given);
            af_buf_append(out, REPLACEMENT, 3);
            given = at + length;
        }
        at += length;
    }
    af_buf_append(out, p + given, at - given);
    return n - at;
}

void af_detok_start(af_detok *d, const af_tokenizer *tok) {
    *d = (af_detok){.tok = tok};
}

void af_detok_resume(af_detok *d, const af_tokenizer *tok, int32_t last) {
    const af_token_kind kind = af_tokenizer_kind(tok, last);
    const bool merged = kind == AF_TOKEN_NORMAL || kind == AF_TOKEN_UNUSED || kind == AF_TOKEN_BYTE;
    *d = (af_detok){.tok = tok, .started = merged};
}

/* Takes bytes into `pending` until it holds nothing open. Returns how many. */
static size_t complete_pending(af_detok *d, af_slice bytes, af_buf *out) {
    size_t taken = 0;
    while (d->pending_count && taken < bytes.n) {
        d->pending[d->pending_count++] = bytes.p[taken++];
        const size_t left = give_out(d->pending, d->pending_count, out);
        memmove(d->pending, d->pending + d->pending_count - left, left);
        d->pending_count = (uint32_t)left;
    }
    return taken;
}

static bool is_shown(const af_detok *d, int32_t id) {
    for (size_t i = 0; i < d->shown_count; i++)
        if (d->shown[i] == id) return true;
    return false;
}

bool af_detok_push(af_detok *d, int32_t id, af_buf *out) {
    af_slice bytes = af_tokenizer_piece(d->tok, id, is_shown(d, id));
    if (!bytes.n) return !out->failed;
    bytes = af_tokenizer_running(d->tok, bytes, !d->started);
    d->started = true;
    const size_t taken = complete_pending(d, bytes, out);
    bytes = af_slice_of(bytes.p + taken, bytes.n - taken);
    const size_t left = give_out(bytes.p, bytes.n, out);
    memcpy(d->pending + d->pending_count, bytes.p + bytes.n - left, left);
    d->pending_count += (uint32_t)left;
    return !out->failed;
}

bool af_detok_finish(af_detok *d, af_buf *out) {
    if (d->pending_count) af_buf_append(out, REPLACEMENT, 3);
    d->pending_count = 0;
    return !out->failed;
}

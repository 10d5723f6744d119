/* lowline.c - see lowline.h. */
#include "text/lowline.h"

#include "base/utf8.h"

#include <string.h>

/* The byte of "<0x0A>", or -1. */
static int named_byte(af_slice text) {
    static const char digits[] = "0123456789ABCDEF";
    if (text.n != 6 || memcmp(text.p, "<0x", 3) != 0 || text.p[5] != '>') return -1;
    const char *high = memchr(digits, text.p[3], 16), *low = memchr(digits, text.p[4], 16);
    return high && low ? (int)((high - digits) * 16 + (low - digits)) : -1;
}

size_t af_lowline_unescape(af_slice text, char *out) {
    size_t n = 0;
    for (size_t at = 0; at < text.n;) {
        const bool low_line = af_lowline_at(text.p + at, text.n - at);
        out[n++] = low_line ? ' ' : text.p[at];
        at += low_line ? AF_LOWLINE_LENGTH : 1;
    }
    return n;
}

size_t af_lowline_spell(const void *user, af_slice text, af_token_kind type, char *out, bool *mergeable) {
    (void)user;
    *mergeable = true;
    const int byte = type == AF_TOKEN_BYTE ? named_byte(text) : -1;
    if (byte >= 0) {
        *out = (char)byte;
        return 1;
    }
    if (type == AF_TOKEN_CONTROL || type == AF_TOKEN_UNKNOWN) {
        memcpy(out, text.p, text.n);
        return text.n;
    }
    return af_lowline_unescape(text, out);
}

bool af_lowline_text(bool prefix, af_buf *copy, af_slice *text) {
    if (!prefix && !memmem(text->p, text->n, AF_LOWLINE, AF_LOWLINE_LENGTH)) return true;
    copy->len = 0;
    if (prefix) af_buf_byte(copy, ' ');
    if (!af_buf_append(copy, text->p, text->n)) return false;
    *text =
        af_slice_of(copy->p, prefix + af_lowline_unescape(af_slice_of(copy->p + prefix, text->n), copy->p + prefix));
    return true;
}

static void emit_single(const af_vocab *v, af_slice bytes, af_ids *out) {
    const int32_t id = af_vocab_find(v, bytes);
    if (id >= 0) {
        af_ids_push(out, id);
        return;
    }
    for (size_t i = 0; i < bytes.n; i++) {
        const int32_t byte = v->byte_id[(unsigned char)bytes.p[i]];
        if (byte < 0) {
            if (v->unknown >= 0) af_ids_push(out, v->unknown);
            return;
        }
        af_ids_push(out, byte);
    }
}

void af_lowline_emit(const af_vocab *v, const af_symbol *symbols, af_slice text, af_ids *out) {
    for (size_t at = 0; at < text.n; at = symbols[at].next) {
        if (symbols[at].id >= 0)
            af_ids_push(out, symbols[at].id);
        else
            emit_single(v, af_slice_of(text.p + at, symbols[at].next - at), out);
    }
}

/* ---- Cuts ---- */

static unsigned pair_of(const char *p) {
    return (unsigned)(unsigned char)p[0] << 8 | (unsigned char)p[1];
}

void af_cuts_note(af_cuts *cuts, const af_vocab *v) {
    for (uint32_t id = 0; id < v->count; id++) {
        if (af_vocab_whole(v, id)) continue;
        const af_slice bytes = af_vocab_bytes(v, id);
        for (size_t i = 1; i < bytes.n; i++) {
            const unsigned pair = pair_of(bytes.p + i - 1);
            cuts->adjacent[pair >> 3] |= (uint8_t)(1u << (pair & 7));
        }
    }
}

static size_t character(const char *p, size_t n) {
    uint32_t unused;
    if ((unsigned char)*p < 0x80) return 1;
    const size_t length = af_utf8_decode(p, n, &unused);
    return length ? length : 1;
}

size_t af_cuts_link(const af_cuts *cuts, af_merger *m, const char *p, size_t n) {
    uint32_t prev = UINT32_MAX;
    size_t at = 0;
    do {
        const size_t next = at + character(p + at, n - at);
        m->symbols[at] = (af_symbol){prev, (uint32_t)next, -1};
        prev = (uint32_t)at;
        at = next;
    } while (at < n && cuts->adjacent[pair_of(p + at - 1) >> 3] >> (pair_of(p + at - 1) & 7) & 1);
    return at;
}

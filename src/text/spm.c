/* spm.c - the kind "llama": SentencePiece's BPE. Characters join in the order of their union's score; a character that
 * is no token falls apart into byte tokens.
 *
 * A space is "▁" (U+2581) in the file. Here the tokens are spelled with the space itself, so that text is looked up as
 * it stands; a "▁" that somebody wrote counts as a space, as in SentencePiece.
 *
 * The merge runs over stretches that no token can cross: text is cut where no token holds the two bytes on either side
 * of a cut next to each other. With real vocabularies that is before most words, which keeps the heap small.
 */
#include "text/kind.h"

#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

#define LOW_LINE        "\xE2\x96\x81" /* U+2581, "▁" */
#define LOW_LINE_LENGTH 3

typedef struct spm {
    uint8_t adjacent[1 << 13]; /* a bit for each pair of bytes: some token holds the two side by side */
} spm;

/* ---- Opening ---- */

/* The byte of "<0x0A>", or -1. */
static int named_byte(af_slice text) {
    static const char digits[] = "0123456789ABCDEF";
    if (text.n != 6 || memcmp(text.p, "<0x", 3) != 0 || text.p[5] != '>') return -1;
    const char *high = memchr(digits, text.p[3], 16), *low = memchr(digits, text.p[4], 16);
    return high && low ? (int)((high - digits) * 16 + (low - digits)) : -1;
}

/* Copies `text` with spaces for "▁"; `out` has room for text.n and may be text.p. */
static size_t unescape(af_slice text, char *out) {
    size_t n = 0;
    for (size_t at = 0; at < text.n;) {
        const bool low_line = text.n - at >= LOW_LINE_LENGTH && memcmp(text.p + at, LOW_LINE, LOW_LINE_LENGTH) == 0;
        out[n++] = low_line ? ' ' : text.p[at];
        at += low_line ? LOW_LINE_LENGTH : 1;
    }
    return n;
}

static size_t spell(const void *user, af_slice text, af_token_kind type, char *out, bool *mergeable) {
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
    return unescape(text, out);
}

static unsigned pair_of(const char *p) {
    return (unsigned)(unsigned char)p[0] << 8 | (unsigned char)p[1];
}

static void note_pairs(spm *state, const af_vocab *v) {
    for (uint32_t id = 0; id < v->count; id++) {
        if (af_vocab_whole(v, id)) continue;
        const af_slice bytes = af_vocab_bytes(v, id);
        for (size_t i = 1; i < bytes.n; i++) {
            const unsigned pair = pair_of(bytes.p + i - 1);
            state->adjacent[pair >> 3] |= (uint8_t)(1u << (pair & 7));
        }
    }
}

static int open_spm(const af_gguf *file, af_vocab *v, void **out, af_error *error) {
    static const af_vocab_defaults defaults = {
        .bos = 1, .eos = 2, .unknown = 0, .add_bos = true, .add_space_prefix = true};
    *out = NULL;
    const int status = af_vocab_open(v, file, &defaults, spell, NULL, error);
    if (status) return status;
    if (!v->scores)
        return af_fail(error, AF_EFORMAT, "tokenizer.ggml.scores: absent, the kind \"llama\" merges by them");
    spm *state = calloc(1, sizeof *state);
    if (!state) return af_fail_memory(error, sizeof *state, "a vocabulary");
    note_pairs(state, v);
    *out = state;
    return AF_OK;
}

/* ---- Encoding ---- */

typedef struct stretch {
    const af_vocab *v;
    const char *text;
} stretch;

/* Higher scores as lower numbers: the bits of a float order as an integer once those of negative ones are turned. */
static uint32_t rank_of(float score) {
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    return bits & 0x80000000u ? bits : ~bits & 0x7FFFFFFFu;
}

static bool pair(const void *user, const af_symbol *symbols, uint32_t left, uint32_t *rank, int32_t *id) {
    const stretch *s = user;
    const uint32_t end = symbols[symbols[left].next].next;
    *id = af_vocab_find(s->v, af_slice_of(s->text + left, end - left));
    if (*id < 0) return false;
    *rank = rank_of(s->v->scores[*id]);
    return true;
}

static size_t character(const char *p, size_t n) {
    uint32_t unused;
    if ((unsigned char)*p < 0x80) return 1;
    const size_t length = af_utf8_decode(p, n, &unused);
    return length ? length : 1;
}

/* Links the characters from `p` up to the first place no token crosses. Returns the bytes taken. */
static size_t link_stretch(const spm *state, af_merger *m, const char *p, size_t n) {
    uint32_t prev = UINT32_MAX;
    size_t at = 0;
    do {
        const size_t next = at + character(p + at, n - at);
        m->symbols[at] = (af_symbol){prev, (uint32_t)next, -1};
        prev = (uint32_t)at;
        at = next;
    } while (at < n && state->adjacent[pair_of(p + at - 1) >> 3] >> (pair_of(p + at - 1) & 7) & 1);
    return at;
}

/* A symbol that nothing joined: a token of its own, or its bytes, or the unknown token. */
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

static void emit(const af_vocab *v, const af_symbol *symbols, af_slice text, af_ids *out) {
    for (size_t at = 0; at < text.n; at = symbols[at].next) {
        if (symbols[at].id >= 0)
            af_ids_push(out, symbols[at].id);
        else
            emit_single(v, af_slice_of(text.p + at, symbols[at].next - at), out);
    }
}

/* The text as tokens spell it: the prefix before it, spaces for "▁". Copied only where it differs. */
static bool normalize(const af_vocab *v, bool after_whole, af_buf *copy, af_slice *text) {
    const bool prefix = v->add_space_prefix && after_whole;
    if (!prefix && !memmem(text->p, text->n, LOW_LINE, LOW_LINE_LENGTH)) return true;
    copy->len = 0;
    if (prefix) af_buf_byte(copy, ' ');
    if (!af_buf_append(copy, text->p, text->n)) return false;
    *text = af_slice_of(copy->p, prefix + unescape(af_slice_of(copy->p + prefix, text->n), copy->p + prefix));
    return true;
}

static int encode(const void *state, const af_vocab *v, af_scratch *scratch, af_slice text, bool after_whole,
                  af_ids *out, af_error *error) {
    if (text.n == 0) return AF_OK;
    if (!normalize(v, after_whole, &scratch->text, &text)) return af_fail_memory(error, text.n, "a text's tokens");
    if (!af_merger_reserve(&scratch->merger, text.n)) return af_fail_memory(error, text.n, "a text's tokens");
    for (size_t at = 0, n; at < text.n; at += n) {
        const stretch s = {v, text.p + at};
        n = link_stretch(state, &scratch->merger, s.text, text.n - at);
        if (!af_merge(&scratch->merger, n, pair, &s)) return af_fail_memory(error, n, "a text's tokens");
        emit(v, scratch->merger.symbols, af_slice_of(s.text, n), out);
    }
    return AF_OK;
}

const af_kind af_kind_spm = {"llama", open_spm, free, encode};

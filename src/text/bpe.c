/* bpe.c - the kind "gpt2": byte-level BPE. A pre-tokenizer cuts the text into pieces (pretok.h); within a piece, bytes
 * join in the order of the merge list.
 *
 * The file writes bytes as letters (bytemap.h); tokens are spelled as the bytes themselves, once, at load, and merges
 * are kept as pairs of ids, so that encoding handles no letters and compares no strings. Bytes that are no UTF-8 are
 * pieces of their own, run by run: patterns never see them. A byte that the vocabulary has no token for is left out,
 * as the models' own tokenizers do.
 */
#include "text/bytemap.h"
#include "text/kind.h"
#include "text/merges.h"
#include "text/nfc.h"
#include "text/pretok.h"

#include "base/log.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

typedef struct bpe {
    af_pretok *pre;
    af_pairs pairs;
    bool ignore_merges, compose;
} bpe;

/* ---- Opening ---- */

/* Tokens found whole are written as they are; so are those with a character that stands for no byte, which no text can
 * be merged into. */
static size_t spell(const void *user, af_slice text, af_token_kind type, char *out, bool *mergeable) {
    size_t n;
    const bool whole = type == AF_TOKEN_CONTROL || type == AF_TOKEN_UNKNOWN || type == AF_TOKEN_USER;
    *mergeable = !whole && af_bytemap_decode(user, text, out, &n);
    if (*mergeable) return n;
    memcpy(out, text.p, text.n);
    return text.n;
}

static bool half(const void *user, af_slice text, char *out, size_t *n) {
    return af_bytemap_decode(user, text, out, n);
}

static const af_pretok_rule *choose_rule(const af_gguf *file) {
    af_slice name = {0};
    if (!af_gguf_string(file, "tokenizer.ggml.pre", &name)) {
        af_log(AF_LOG_WARNING, "%s: tokenizer.ggml.pre: absent, text is split by the rules of \"default\"",
               af_gguf_path(file));
        return af_pretok_default();
    }
    const af_pretok_rule *rule = af_pretok_find(name);
    if (rule) return rule;
    af_log(AF_LOG_WARNING, "%s: tokenizer.ggml.pre: \"%.*s\" is not known, text is split by the rules of \"default\"",
           af_gguf_path(file), (int)(name.n < 64 ? name.n : 64), name.p);
    return af_pretok_default();
}

static void close_bpe(void *user) {
    bpe *state = user;
    if (!state) return;
    af_pretok_close(state->pre);
    af_pairs_close(&state->pairs);
    free(state);
}

static int open_bpe(const af_gguf *file, af_vocab *v, void **out, af_error *error) {
    *out = NULL;
    const af_pretok_rule *rule = choose_rule(file);
    const af_vocab_defaults defaults = {.bos = -1, .eos = -1, .unknown = -1, .add_bos = rule->add_bos};
    af_bytemap map;
    af_bytemap_init(&map);
    bpe *state = calloc(1, sizeof *state);
    if (!state) return af_fail_memory(error, sizeof *state, "a vocabulary");
    state->ignore_merges = rule->ignore_merges;
    state->compose = rule->compose;
    af_gguf_bool(file, "tokenizer.ggml.normalizer.nfc", &state->compose);
    int status = af_vocab_open(v, file, &defaults, spell, &map, error);
    v->mask_takes_space = rule->mask_takes_space;
    v->add_space_prefix = false; /* some files have the key; the kind never puts a space */
    if (!status) status = af_merges_read(&state->pairs, v, half, &map, error);
    if (!status) status = af_pretok_open(rule, &state->pre, error);
    if (status)
        close_bpe(state);
    else
        *out = state;
    return status;
}

/* ---- Encoding ---- */

static void link_bytes(const af_vocab *v, af_merger *m, af_slice piece) {
    for (size_t i = 0; i < piece.n; i++) {
        const int32_t id = v->byte_id[(unsigned char)piece.p[i]];
        m->symbols[i] = (af_symbol){(uint32_t)i - 1, (uint32_t)i + 1, id};
    }
}

static bool encode_piece(const bpe *state, const af_vocab *v, af_merger *m, af_slice piece, af_ids *out) {
    const int32_t id = state->ignore_merges ? af_vocab_find(v, piece) : -1;
    if (id >= 0) return af_ids_push(out, id);
    if (!af_merger_reserve(m, piece.n)) return false;
    link_bytes(v, m, piece);
    if (!af_merge(m, piece.n, af_merges_pair, &state->pairs)) return false;
    for (size_t at = 0; at < piece.n; at = m->symbols[at].next) {
        if (m->symbols[at].id >= 0) af_ids_push(out, m->symbols[at].id);
    }
    return !out->failed;
}

/* How many bytes of `text` are UTF-8 (valid) or are not (!valid), from its start. */
static size_t run_length(af_slice text, bool valid) {
    size_t at = 0;
    while (at < text.n) {
        uint32_t unused;
        const size_t length = (unsigned char)text.p[at] < 0x80 ? 1 : af_utf8_decode(text.p + at, text.n - at, &unused);
        if ((length > 0) != valid) break;
        at += valid ? length : 1;
    }
    return at;
}

static int encode_valid(const bpe *state, const af_vocab *v, af_scratch *scratch, af_slice text, af_ids *out,
                        af_error *error) {
    if (state->compose && !af_nfc(&text, &scratch->text)) return af_fail_memory(error, text.n, "a text's tokens");
    af_pretok_walk walk;
    int status = af_pretok_start(&walk, state->pre, text.p, text.n, error);
    while (!status) {
        af_slice piece;
        status = af_pretok_next(&walk, &piece, error);
        if (status || !piece.n) break;
        if (!encode_piece(state, v, &scratch->merger, piece, out))
            status = af_fail_memory(error, piece.n, "a text's tokens");
    }
    af_pretok_finish(&walk);
    return status;
}

static int encode(const void *user, const af_vocab *v, af_scratch *scratch, af_slice text, bool after_whole,
                  af_ids *out, af_error *error) {
    (void)after_whole;
    const bpe *state = user;
    while (text.n) {
        size_t n = run_length(text, true);
        if (n) {
            const int status = encode_valid(state, v, scratch, af_slice_of(text.p, n), out, error);
            if (status) return status;
        } else {
            n = run_length(text, false);
            if (!encode_piece(state, v, &scratch->merger, af_slice_of(text.p, n), out)) {
                return af_fail_memory(error, n, "a text's tokens");
            }
        }
        text = af_slice_of(text.p + n, text.n - n);
    }
    return AF_OK;
}

const af_kind af_kind_bpe = {.open = open_bpe, .close = close_bpe, .encode = encode};

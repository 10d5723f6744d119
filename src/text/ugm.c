/* ugm.c - the kind "t5": SentencePiece's unigram model. Text is normalized, then cut into the tokens whose scores sum
 * up highest, found by dynamic programming from left to right (Viterbi).
 *
 * Sums are floats and the first of equal ones stays, as in SentencePiece: which split wins a tie, or where rounding
 * decides, is part of the tokenizer. Characters without a token cost more than any token and become the unknown token,
 * one for all neighbours, or their byte tokens where the vocabulary has those.
 */
#include "text/charsmap.h"
#include "text/kind.h"
#include "text/lowline.h"
#include "text/trie.h"

#include "base/utf8.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#define UNKNOWN_PENALTY 10.0f
/* Bytes of normalized text for one of text; NFKC's most is 11. A hostile table meets the limit. */
#define MOST_GROWTH 32

typedef struct ugm {
    af_trie trie;
    af_charsmap charsmap;
    float unknown_score;
    bool remove_extra_spaces, has_bytes;
} ugm;

/* ---- Opening ---- */

static void close_ugm(void *user) {
    ugm *state = user;
    if (!state) return;
    af_trie_close(&state->trie);
    af_charsmap_close(&state->charsmap);
    free(state);
}

static void note_scores(ugm *state, const af_vocab *v) {
    float least = FLT_MAX;
    for (uint32_t id = 0; id < v->count; id++) {
        if (v->type[id] == AF_TOKEN_BYTE) state->has_bytes = true;
        if (v->type[id] == AF_TOKEN_NORMAL && v->scores[id] < least) least = v->scores[id];
    }
    state->unknown_score = least - UNKNOWN_PENALTY;
}

static int fill(ugm *state, const af_gguf *file, const af_vocab *v, af_error *error) {
    if (!v->scores) return af_fail(error, AF_EFORMAT, "tokenizer.ggml.scores: absent, the kind \"t5\" chooses by them");
    note_scores(state, v);
    af_gguf_bool(file, "tokenizer.ggml.remove_extra_whitespaces", &state->remove_extra_spaces);
    const int status = af_charsmap_open(&state->charsmap, file, error);
    return status ? status : af_trie_open(&state->trie, v, error);
}

static int open_ugm(const af_gguf *file, af_vocab *v, void **out, af_error *error) {
    static const af_vocab_defaults defaults = {
        .bos = -1, .eos = 1, .unknown = 2, .add_eos = true, .add_space_prefix = true};
    *out = NULL;
    int status = af_vocab_open(v, file, &defaults, af_lowline_spell, NULL, error);
    if (status) return status;
    v->mask_takes_space = true; /* XLM-RoBERTa's <mask> does, the kind's only one in use */
    ugm *state = calloc(1, sizeof *state);
    if (!state) return af_fail_memory(error, sizeof *state, "a vocabulary");
    status = fill(state, file, v, error);
    if (status)
        close_ugm(state);
    else
        *out = state;
    return status;
}

/* ---- Normalizing ---- */

/* Appends what stands for the next text: without the spaces before it where one is there already. */
static void append_part(const ugm *state, af_slice part, bool *after_space, af_buf *out) {
    while (*after_space && part.n && *part.p == ' ') part = af_slice_of(part.p + 1, part.n - 1);
    if (!part.n) return;
    const size_t from = out->len;
    if (!af_buf_append(out, part.p, part.n)) return;
    out->len = from + af_lowline_unescape(af_slice_of(out->p + from, part.n), out->p + from);
    *after_space = state->remove_extra_spaces && part.p[part.n - 1] == ' ';
}

/* SentencePiece's normalizer: replacements, a space before the text, and of several spaces one. */
static bool normalize(const ugm *state, const af_vocab *v, af_slice text, af_buf *out) {
    bool after_space = state->remove_extra_spaces, begun = false;
    out->len = 0;
    out->ceiling = text.n * MOST_GROWTH + 1;
    for (size_t at = 0; at < text.n;) {
        af_slice part;
        at += af_charsmap_next(&state->charsmap, text.p + at, text.n - at, &part);
        if (!begun && state->remove_extra_spaces && af_slice_is(part, " ")) continue;
        if (!begun && v->add_space_prefix) af_buf_byte(out, ' ');
        begun = true;
        append_part(state, part, &after_space, out);
    }
    while (state->remove_extra_spaces && out->len && out->p[out->len - 1] == ' ') out->len--;
    const bool done = !out->failed;
    out->ceiling = 0;
    out->failed = false;
    return done;
}

/* ---- Splitting ---- */

/* The best way to a place in the text: the token that ends there, where it starts, the sum of all scores. */
typedef struct step {
    float score;
    uint32_t start;
    int32_t id; /* -1: a character without a token; -2: no way leads here yet */
} step;

static void offer(step *to, const step *from, uint32_t start, float score, int32_t id) {
    const float sum = score + from->score;
    if (to->id != -2 && !(sum > to->score)) return;
    *to = (step){sum, start, id};
}

/* Offers every token that begins at `at`, and the unknown one where no token is the character there. */
static size_t offer_all(const ugm *state, const af_vocab *v, af_slice text, size_t at, step *steps) {
    uint32_t node = 0, unused;
    const size_t decoded = af_utf8_decode(text.p + at, text.n - at, &unused), character = decoded ? decoded : 1;
    bool known = false;
    for (size_t end = at; end < text.n && af_trie_step(&state->trie, &node, (unsigned char)text.p[end]);) {
        const int32_t id = state->trie.id[node];
        end++;
        if (id < 0) continue;
        offer(&steps[end], &steps[at], (uint32_t)at, v->scores[id], id);
        known = known || end - at == character;
    }
    if (!known) offer(&steps[at + character], &steps[at], (uint32_t)at, state->unknown_score, -1);
    return character;
}

/* The bytes of an unknown character, last first: the way is walked backwards. */
static void push_bytes(const af_vocab *v, af_slice bytes, af_ids *out) {
    for (size_t i = bytes.n; i-- > 0;) {
        const int32_t id = v->byte_id[(unsigned char)bytes.p[i]];
        if (id >= 0 || v->unknown >= 0) af_ids_push(out, id >= 0 ? id : v->unknown);
    }
}

static void push_back_to_front(const ugm *state, const af_vocab *v, af_slice text, const step *steps, af_ids *out) {
    bool after_unknown = false;
    for (size_t end = text.n; end > 0; end = steps[end].start) {
        const step *s = &steps[end];
        if (s->id >= 0)
            af_ids_push(out, s->id);
        else if (state->has_bytes)
            push_bytes(v, af_slice_of(text.p + s->start, end - s->start), out);
        else if (!after_unknown && v->unknown >= 0)
            af_ids_push(out, v->unknown);
        after_unknown = s->id < 0;
    }
}

/* Turns the ids from `from` on around. */
static void reverse(af_ids *ids, size_t from) {
    for (size_t low = from, high = ids->len; low + 1 < high; low++) {
        const int32_t kept = ids->p[low];
        ids->p[low] = ids->p[--high];
        ids->p[high] = kept;
    }
}

static int encode(const void *user, const af_vocab *v, af_scratch *scratch, af_slice text, bool after_whole,
                  af_ids *out, af_error *error) {
    (void)after_whole; /* every text between tokens found whole is one of its own */
    const ugm *state = user;
    if (!normalize(state, v, text, &scratch->text)) return af_fail_memory(error, text.n, "a text's normal form");
    text = af_slice_of(scratch->text.p, scratch->text.len);
    if (text.n == 0) return AF_OK;
    const size_t size = (text.n + 1) * sizeof(step);
    scratch->steps.len = 0;
    if (text.n >= UINT32_MAX || !af_buf_reserve(&scratch->steps, size)) {
        return af_fail_memory(error, size, "a text's tokens");
    }
    step *steps = (step *)(void *)scratch->steps.p;
    for (size_t i = 1; i <= text.n; i++) steps[i].id = -2;
    steps[0] = (step){0, 0, -2};
    for (size_t at = 0; at < text.n;) at += offer_all(state, v, text, at, steps);
    const size_t from = out->len;
    push_back_to_front(state, v, text, steps, out);
    if (out->failed) return af_fail_memory(error, text.n, "a text's tokens");
    reverse(out, from);
    return AF_OK;
}

const af_kind af_kind_ugm = {.low_lines = true, .open = open_ugm, .close = close_ugm, .encode = encode};

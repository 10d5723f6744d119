/* spm.c - the kind "llama": SentencePiece's BPE. Characters join in the order of their union's score; a character that
 * is no token falls apart into byte tokens. lowline.h says how spaces are written and where text is cut.
 */
#include "text/kind.h"
#include "text/lowline.h"

#include <stdlib.h>
#include <string.h>

static int open_spm(const af_gguf *file, af_vocab *v, void **out, af_error *error) {
    static const af_vocab_defaults defaults = {
        .bos = 1, .eos = 2, .unknown = 0, .add_bos = true, .add_space_prefix = true};
    *out = NULL;
    const int status = af_vocab_open(v, file, &defaults, af_lowline_spell, NULL, error);
    if (status) return status;
    if (!v->scores)
        return af_fail(error, AF_EFORMAT, "tokenizer.ggml.scores: absent, the kind \"llama\" merges by them");
    af_cuts *cuts = calloc(1, sizeof *cuts);
    if (!cuts) return af_fail_memory(error, sizeof *cuts, "a vocabulary");
    af_cuts_note(cuts, v);
    *out = cuts;
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

static int encode(const void *state, const af_vocab *v, af_scratch *scratch, af_slice text, bool after_whole,
                  af_ids *out, af_error *error) {
    if (text.n == 0) return AF_OK;
    if (!af_lowline_text(v->add_space_prefix && after_whole, &scratch->text, &text) ||
        !af_merger_reserve(&scratch->merger, text.n)) {
        return af_fail_memory(error, text.n, "a text's tokens");
    }
    for (size_t at = 0, n; at < text.n; at += n) {
        const stretch s = {v, text.p + at};
        n = af_cuts_link(state, &scratch->merger, s.text, text.n - at);
        if (!af_merge(&scratch->merger, n, pair, &s)) return af_fail_memory(error, n, "a text's tokens");
        af_lowline_emit(v, scratch->merger.symbols, af_slice_of(s.text, n), out);
    }
    return AF_OK;
}

const af_kind af_kind_spm = {.low_lines = true, .open = open_spm, .close = free, .encode = encode};

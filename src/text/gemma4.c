/* gemma4.c - the kind "gemma4": BPE over raw characters. Spaces are "▁" as in SentencePiece and a character without a
 * token falls apart into byte tokens (lowline.h), but a list of merges gives the order, as in byte-level BPE
 * (merges.h), and no pattern cuts the text.
 *
 * Some converters write such vocabularies as "gpt2" with a pre-tokenizer's name of their own (tokenizer.c lists them).
 */
#include "text/kind.h"
#include "text/lowline.h"
#include "text/merges.h"

#include <stdlib.h>

typedef struct gemma4 {
    af_pairs pairs;
    af_cuts cuts;
} gemma4;

static bool half(const void *user, af_slice text, char *out, size_t *n) {
    (void)user;
    *n = af_lowline_unescape(text, out);
    return true;
}

/* Early conversions of Gemma 4 say that nothing is added, which the model does not stand (llama.cpp, pull request
 * 21500). */
static bool is_gemma4(const af_gguf *file) {
    af_slice model = {0};
    return af_gguf_string(file, "tokenizer.ggml.model", &model) && af_slice_is(model, "gemma4");
}

static void close_gemma4(void *user) {
    gemma4 *state = user;
    if (!state) return;
    af_pairs_close(&state->pairs);
    free(state);
}

static int open_gemma4(const af_gguf *file, af_vocab *v, void **out, af_error *error) {
    static const af_vocab_defaults defaults = {.bos = -1, .eos = -1, .unknown = -1, .add_bos = true};
    *out = NULL;
    int status = af_vocab_open(v, file, &defaults, af_lowline_spell, NULL, error);
    if (status) return status;
    if (is_gemma4(file)) v->add_bos = true;
    gemma4 *state = calloc(1, sizeof *state);
    if (!state) return af_fail_memory(error, sizeof *state, "a vocabulary");
    status = af_merges_read(&state->pairs, v, half, NULL, error);
    if (status) {
        close_gemma4(state);
        return status;
    }
    af_cuts_note(&state->cuts, v);
    *out = state;
    return AF_OK;
}

static void name_symbols(const af_vocab *v, af_symbol *symbols, af_slice text) {
    for (size_t at = 0; at < text.n; at = symbols[at].next) {
        symbols[at].id = af_vocab_find(v, af_slice_of(text.p + at, symbols[at].next - at));
    }
}

static int encode(const void *user, const af_vocab *v, af_scratch *scratch, af_slice text, bool after_whole,
                  af_ids *out, af_error *error) {
    const gemma4 *state = user;
    af_merger *m = &scratch->merger;
    if (text.n == 0) return AF_OK;
    if (!af_lowline_text(v->add_space_prefix && after_whole, &scratch->text, &text) || !af_merger_reserve(m, text.n)) {
        return af_fail_memory(error, text.n, "a text's tokens");
    }
    for (size_t at = 0, n; at < text.n; at += n) {
        n = af_cuts_link(&state->cuts, m, text.p + at, text.n - at);
        const af_slice stretch = af_slice_of(text.p + at, n);
        name_symbols(v, m->symbols, stretch);
        if (!af_merge(m, n, af_merges_pair, &state->pairs)) return af_fail_memory(error, n, "a text's tokens");
        af_lowline_emit(v, m->symbols, stretch, out);
    }
    return AF_OK;
}

const af_kind af_kind_gemma4 = {.low_lines = true, .open = open_gemma4, .close = close_gemma4, .encode = encode};

/* tokenizer.c - the parts put together: tokens that stand whole are found first (special.h), what lies between them
 * goes to the vocabulary's kind (kind.h). A tokenizer is never modified after opening; each call has its own scratch.
 */
#include "text/tokenizer.h"

#include "text/kind.h"
#include "text/special.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* What a file calls its vocabulary's kind; the first line that fits counts. */
static const struct {
    const char *model, *pre; /* tokenizer.ggml.model and tokenizer.ggml.pre; NULL: any or none */
    const af_kind *kind;
} kinds[] = {
    {"llama", NULL, &af_kind_spm},
    {"gpt2", "gemma4", &af_kind_gemma4},
    {"gpt2", "granite-embed-multi-311m", &af_kind_gemma4},
    {"gpt2", "sarvam-moe", &af_kind_gemma4},
    {"gpt2", NULL, &af_kind_bpe},
    {"gemma4", NULL, &af_kind_gemma4},
    {"bert", NULL, &af_kind_wpm},
    {"t5", NULL, &af_kind_ugm},
};

struct af_tokenizer {
    const af_kind *kind;
    void *state;
    af_vocab vocab;
    af_specials specials;
    bool swallows; /* tokens found whole take the white space after them */
};

/* ---- Opening ---- */

static int find_kind(const af_gguf *file, const af_kind **out, af_error *error) {
    af_slice name = {0}, pre = {0};
    if (!af_gguf_string(file, "tokenizer.ggml.model", &name)) {
        return af_fail(error, AF_EFORMAT, "tokenizer.ggml.model: absent");
    }
    af_gguf_string(file, "tokenizer.ggml.pre", &pre);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!af_slice_is(name, kinds[i].model) || (kinds[i].pre && !af_slice_is(pre, kinds[i].pre))) continue;
        *out = kinds[i].kind;
        return AF_OK;
    }
    const int shown = (int)(name.n < 64 ? name.n : 64);
    return af_fail(error, AF_EUNSUPPORTED,
                   "tokenizer.ggml.model: \"%.*s\", this build reads llama, gpt2, gemma4, bert and t5", shown, name.p);
}

/* Phi-3's tokenizer strips to the right of its tokens, which no key says: the name must do. */
static bool is_phi3(const af_gguf *file) {
    af_slice name = {0};
    af_gguf_string(file, "general.name", &name);
    for (size_t i = 0; i + 4 <= name.n; i++) {
        if (strncasecmp(name.p + i, "phi3", 4) == 0) return true;
        if (i + 5 <= name.n && strncasecmp(name.p + i, "phi-3", 5) == 0) return true;
    }
    return false;
}

int af_tokenizer_open(const af_gguf *file, af_tokenizer **out, af_error *error) {
    const af_kind *kind = NULL;
    int status = find_kind(file, &kind, error);
    if (status) return af_fail_within(error, status, "%s", af_gguf_path(file));
    af_tokenizer *tok = calloc(1, sizeof *tok);
    if (!tok) return af_fail_memory(error, sizeof *tok, "a tokenizer");
    tok->kind = kind;
    tok->swallows = is_phi3(file);
    status = kind->open(file, &tok->vocab, &tok->state, error);
    if (!status) status = af_specials_open(&tok->specials, &tok->vocab, kind->low_lines, error);
    if (status) {
        af_tokenizer_close(tok);
        return af_fail_within(error, status, "%s", af_gguf_path(file));
    }
    *out = tok;
    return AF_OK;
}

void af_tokenizer_close(af_tokenizer *tok) {
    if (!tok) return;
    tok->kind->close(tok->state);
    af_specials_close(&tok->specials);
    af_vocab_close(&tok->vocab);
    free(tok);
}

/* ---- Encoding ---- */

/* Where the text goes on after a token found whole that ends at `at`. */
static size_t swallow(const af_tokenizer *tok, int32_t id, const char *text, size_t n, size_t at) {
    static const char *const keepers[] = {"<unk>", "<s>", "<|endoftext|>"};
    if (!tok->swallows) return at;
    for (size_t i = 0; i < sizeof keepers / sizeof *keepers; i++) {
        if (af_slice_is(af_vocab_bytes(&tok->vocab, (uint32_t)id), keepers[i])) return at;
    }
    while (at < n && isspace((unsigned char)text[at])) at++;
    return at;
}

/* Where the text before a token found whole at `at` ends. */
static size_t give_up_space(const af_tokenizer *tok, int32_t id, const char *text, size_t from, size_t at) {
    if (!tok->vocab.mask_takes_space || id < 0 || id != tok->vocab.mask) return at;
    while (at > from && isspace((unsigned char)text[at - 1])) at--;
    return at;
}

static int encode_text(const af_tokenizer *tok, af_scratch *scratch, const char *text, size_t n, const uint8_t *origin,
                       bool parse, af_ids *out, af_error *error) {
    bool after_whole = true;
    for (size_t at = 0; at < n;) {
        const af_special_match found = af_specials_find(&tok->specials, text, n, at, origin, parse);
        const size_t end = give_up_space(tok, found.id, text, at, found.at);
        if (end > at) {
            const af_slice between = af_slice_of(text + at, end - at);
            const int status = tok->kind->encode(tok->state, &tok->vocab, scratch, between, after_whole, out, error);
            if (status) return status;
            after_whole = false;
        }
        at = found.at;
        if (!found.length) continue;
        af_ids_push(out, found.id);
        after_whole = true;
        at = swallow(tok, found.id, text, n, at + found.length);
    }
    return out->failed ? af_fail_memory(error, n, "a text's tokens") : AF_OK;
}

int af_tokenizer_encode(const af_tokenizer *tok, const char *text, size_t n, const uint8_t *origin, unsigned flags,
                        af_ids *out, af_error *error) {
    if (n >= AF_MERGE_LONGEST) {
        return af_fail(error, AF_EINVAL, "text: %zu bytes, fewer than %zu are allowed", n, AF_MERGE_LONGEST);
    }
    const bool add = flags & AF_ADD_SPECIAL;
    const af_vocab *v = &tok->vocab;
    if (add && v->add_bos && v->bos >= 0) af_ids_push(out, v->bos);
    af_scratch scratch = {0};
    const int status = encode_text(tok, &scratch, text, n, origin, flags & AF_PARSE_SPECIAL, out, error);
    af_merger_clear(&scratch.merger);
    af_buf_clear(&scratch.text);
    af_buf_clear(&scratch.steps);
    if (status) return status;
    if (add && v->add_eos && v->eos >= 0) af_ids_push(out, v->eos);
    return out->failed ? af_fail_memory(error, n, "a text's tokens") : AF_OK;
}

/* ---- Single tokens ---- */

static bool known(const af_tokenizer *tok, int32_t id) {
    return id >= 0 && (uint32_t)id < tok->vocab.count;
}

uint32_t af_tokenizer_count(const af_tokenizer *tok) {
    return tok->vocab.count;
}

af_token_kind af_tokenizer_kind(const af_tokenizer *tok, int32_t id) {
    return known(tok, id) ? tok->vocab.type[id] : AF_TOKEN_UNKNOWN;
}

af_slice af_tokenizer_piece(const af_tokenizer *tok, int32_t id, bool special) {
    const af_token_kind kind = af_tokenizer_kind(tok, id);
    const bool named = kind == AF_TOKEN_CONTROL || kind == AF_TOKEN_UNKNOWN;
    if (!known(tok, id) || (named && !special)) return af_slice_of("", 0);
    return af_vocab_bytes(&tok->vocab, (uint32_t)id);
}

af_slice af_tokenizer_text(const af_tokenizer *tok, int32_t id) {
    return known(tok, id) ? af_vocab_text(&tok->vocab, (uint32_t)id) : af_slice_of("", 0);
}

int32_t af_tokenizer_id(const af_tokenizer *tok, af_slice bytes) {
    const int32_t whole = af_specials_exact(&tok->specials, bytes);
    return whole >= 0 ? whole : af_vocab_find(&tok->vocab, bytes);
}

bool af_tokenizer_is_end(const af_tokenizer *tok, int32_t id) {
    return known(tok, id) && tok->vocab.ends[id];
}

int32_t af_tokenizer_bos(const af_tokenizer *tok) {
    return tok->vocab.bos;
}

int32_t af_tokenizer_eos(const af_tokenizer *tok) {
    return tok->vocab.eos;
}

bool af_tokenizer_adds_bos(const af_tokenizer *tok) {
    return tok->vocab.add_bos && tok->vocab.bos >= 0;
}

/* ---- Decoding ---- */

static bool is_spaced_mark(af_slice bytes) {
    return bytes.n == 2 && *bytes.p == ' ' && memchr(".,?!", bytes.p[1], 4);
}

af_slice af_tokenizer_running(const af_tokenizer *tok, af_slice bytes, bool begins) {
    const af_vocab *v = &tok->vocab;
    const bool prefixed = begins && v->add_space_prefix && bytes.n && *bytes.p == ' ';
    const bool spare = prefixed || (v->clean_up_spaces && is_spaced_mark(bytes));
    return af_slice_of(bytes.p + spare, bytes.n - spare);
}

int af_tokenizer_decode(const af_tokenizer *tok, const int32_t *ids, size_t count, af_buf *out, af_error *error) {
    bool begins = true;
    for (size_t i = 0; i < count; i++) {
        if (!known(tok, ids[i])) {
            return af_fail(error, AF_EINVAL, "id %zu: %d, the vocabulary has %u tokens", i, ids[i], tok->vocab.count);
        }
        const af_slice bytes = af_tokenizer_running(tok, af_vocab_bytes(&tok->vocab, (uint32_t)ids[i]), begins);
        af_buf_append(out, bytes.p, bytes.n);
        begins = af_vocab_whole(&tok->vocab, (uint32_t)ids[i]);
    }
    return out->failed ? af_fail_memory(error, out->len, "a text") : AF_OK;
}

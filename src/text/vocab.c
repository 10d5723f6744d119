/* vocab.c - reads and validates the arrays; vocab_ids.c reads what the keys say of single tokens.
 *
 * One pass spells the tokens into one block, so that a vocabulary of 262,144 tokens costs four allocations and stays
 * together in memory; a second fills the map. Numbers come through gguf.h one by one, which checks their types.
 */
#include "text/vocab.h"

#include "text/vocab_ids.h"

#include <stdlib.h>

#define TOKENS "tokenizer.ggml.tokens"
#define TYPES  "tokenizer.ggml.token_type"
#define SCORES "tokenizer.ggml.scores"

af_slice af_vocab_text(const af_vocab *v, uint32_t id) {
    af_slice text = af_slice_of("", 0);
    af_gguf_array_string(v->texts, id, &text);
    return text;
}

int32_t af_vocab_find(const af_vocab *v, af_slice bytes) {
    uint32_t id;
    return af_map_get(v->map, bytes, &id) ? (int32_t)id : -1;
}

bool af_vocab_whole(const af_vocab *v, uint32_t id) {
    return v->type[id] == AF_TOKEN_CONTROL || v->type[id] == AF_TOKEN_UNKNOWN || v->type[id] == AF_TOKEN_USER;
}

/* ---- Reading ---- */

/* The array of that key with one element a token, or NULL in *out where the key is absent. */
static int parallel_array(const af_vocab *v, const char *key, const af_gguf_array **out, af_error *error) {
    *out = af_gguf_get_array(v->file, key);
    if (!*out) {
        return af_gguf_has(v->file, key) ? af_fail(error, AF_EFORMAT, "%s: not an array of numbers", key) : AF_OK;
    }
    const size_t n = af_gguf_array_count(*out);
    if (n == v->count) return AF_OK;
    return af_fail(error, AF_EFORMAT, "%s: %zu elements, %u tokens need as many", key, n, v->count);
}

static int read_types(af_vocab *v, af_error *error) {
    const af_gguf_array *types;
    const int status = parallel_array(v, TYPES, &types, error);
    if (status) return status;
    for (uint32_t i = 0; i < v->count; i++) {
        int64_t type = AF_TOKEN_NORMAL;
        if (types && !af_gguf_array_i64(types, i, &type)) {
            return af_fail(error, AF_EFORMAT, TYPES ": not an array of integers");
        }
        if (type < 0 || type > AF_TOKEN_BYTE) {
            return af_fail(error, AF_EFORMAT, TYPES "[%u]: %lld, allowed are 1 to 6", i, (long long)type);
        }
        v->type[i] = type ? (uint8_t)type : AF_TOKEN_NORMAL; /* 0 was written for "undefined" */
    }
    return AF_OK;
}

static int read_scores(af_vocab *v, af_error *error) {
    const af_gguf_array *scores;
    const int status = parallel_array(v, SCORES, &scores, error);
    if (status || !scores) return status;
    v->scores = af_arena_alloc(v->arena, v->count * sizeof *v->scores);
    if (!v->scores) return af_fail_memory(error, v->count * sizeof *v->scores, SCORES);
    for (uint32_t i = 0; i < v->count; i++) {
        double score;
        if (!af_gguf_array_f64(scores, i, &score))
            return af_fail(error, AF_EFORMAT, SCORES ": not an array of numbers");
        v->scores[i] = (float)score;
    }
    return AF_OK;
}

/* Bytes of all tokens' texts together: their spelling is never longer. */
static int measure(const af_vocab *v, size_t *total, af_error *error) {
    *total = 0;
    for (uint32_t i = 0; i < v->count; i++) *total += af_vocab_text(v, i).n;
    if (*total <= UINT32_MAX) return AF_OK;
    return af_fail(error, AF_EFORMAT, TOKENS ": %zu bytes of text, at most %u are allowed", *total, UINT32_MAX);
}

/* ---- Tables ---- */

static void note_byte(af_vocab *v, uint32_t id, bool mergeable) {
    const af_slice bytes = af_vocab_bytes(v, id);
    if (bytes.n != 1 || !(mergeable || v->type[id] == AF_TOKEN_BYTE)) return;
    int32_t *of_byte = &v->byte_id[(unsigned char)*bytes.p];
    if (*of_byte < 0 || (v->type[id] == AF_TOKEN_BYTE && v->type[*of_byte] != AF_TOKEN_BYTE)) *of_byte = (int32_t)id;
}

/* Spells every token and returns how many can be merged into; their bits are set in `mergeable`. */
static size_t spell_all(af_vocab *v, af_spell_fn spell, const void *user, uint8_t *mergeable) {
    size_t found = 0;
    uint32_t at = 0;
    for (uint32_t id = 0; id < v->count; id++) {
        bool can = true;
        v->start[id] = at;
        at += (uint32_t)spell(user, af_vocab_text(v, id), v->type[id], v->bytes + at, &can);
        v->start[id + 1] = at;
        can = can && at > v->start[id] && !af_vocab_whole(v, id) && v->type[id] != AF_TOKEN_BYTE;
        note_byte(v, id, can);
        mergeable[id] = can;
        found += can;
    }
    return found;
}

static int fill(af_vocab *v, af_spell_fn spell, const void *user, af_error *error) {
    uint8_t *mergeable = calloc(v->count, 1);
    if (!mergeable) return af_fail_memory(error, v->count, TOKENS);
    const size_t found = spell_all(v, spell, user, mergeable);
    v->map = af_map_open(found);
    for (uint32_t id = 0; v->map && id < v->count; id++) {
        if (mergeable[id]) af_map_put(v->map, af_vocab_bytes(v, id), id);
    }
    free(mergeable);
    return v->map ? AF_OK : af_fail_memory(error, found * sizeof(af_slice), TOKENS);
}

static int allocate(af_vocab *v, af_error *error) {
    size_t total;
    const int status = measure(v, &total, error);
    if (status) return status;
    v->bytes = af_arena_alloc(v->arena, total);
    v->start = af_arena_alloc(v->arena, (v->count + (size_t)1) * sizeof *v->start);
    v->type = af_arena_alloc(v->arena, v->count);
    v->ends = af_arena_zalloc(v->arena, v->count);
    for (size_t i = 0; i < 256; i++) v->byte_id[i] = -1;
    return v->bytes && v->start && v->type && v->ends ? AF_OK : af_fail_memory(error, total, TOKENS);
}

static int find_tokens(af_vocab *v, af_error *error) {
    v->texts = af_gguf_get_array(v->file, TOKENS);
    if (!v->texts) {
        return af_fail(error, AF_EFORMAT, TOKENS ": %s",
                       af_gguf_has(v->file, TOKENS) ? "not an array of strings" : "absent");
    }
    const size_t n = af_gguf_array_count(v->texts);
    if (n == 0 || n > AF_VOCAB_LARGEST) {
        return af_fail(error, AF_EFORMAT, TOKENS ": %zu tokens, allowed are 1 to %zu", n, AF_VOCAB_LARGEST);
    }
    if (af_gguf_array_type(v->texts) != AF_GGUF_STRING) return af_fail(error, AF_EFORMAT, TOKENS ": not strings");
    v->count = (uint32_t)n;
    return AF_OK;
}

int af_vocab_open(af_vocab *v, const af_gguf *file, const af_vocab_defaults *defaults, af_spell_fn spell,
                  const void *user, af_error *error) {
    v->file = file;
    v->arena = af_arena_open(0);
    if (!v->arena) return af_fail_memory(error, 0, "a vocabulary");
    int status = find_tokens(v, error);
    if (!status) status = allocate(v, error);
    if (!status) status = read_types(v, error);
    if (!status) status = read_scores(v, error);
    if (!status) status = af_vocab_read_ids(v, defaults, error);
    if (!status) status = fill(v, spell, user, error);
    return status;
}

void af_vocab_close(af_vocab *v) {
    af_map_close(v->map);
    af_arena_close(v->arena);
    *v = (af_vocab){0};
}

/* merges.c - reads the list into pairs of ids, once, so that merging compares no strings. */
#include "text/merges.h"

#include "base/log.h"

#include <string.h>

#define MERGES "tokenizer.ggml.merges"

typedef struct reader {
    const af_vocab *v;
    af_half_fn half;
    const void *user;
    af_buf bytes;
} reader;

/* Finds the three tokens of the line "left right". */
static bool read_line(reader *r, af_slice line, af_pair *out) {
    const char *space = line.n > 2 ? memchr(line.p + 1, ' ', line.n - 2) : NULL;
    if (!space) return false;
    const af_slice left = af_slice_of(line.p, (size_t)(space - line.p));
    const af_slice right = af_slice_of(space + 1, line.n - left.n - 1);
    size_t n, m;
    r->bytes.len = 0;
    if (!af_buf_reserve(&r->bytes, line.n)) return false;
    char *p = r->bytes.p;
    if (!r->half(r->user, left, p, &n) || !r->half(r->user, right, p + n, &m)) return false;
    const int32_t first = af_vocab_find(r->v, af_slice_of(p, n));
    const int32_t second = af_vocab_find(r->v, af_slice_of(p + n, m));
    out->id = af_vocab_find(r->v, af_slice_of(p, n + m));
    out->left = (uint32_t)first;
    out->right = (uint32_t)second;
    return first >= 0 && second >= 0 && out->id >= 0;
}

/* Returns how many lines were skipped. */
static size_t read_lines(reader *r, const af_gguf_array *lines, size_t count, af_pairs *pairs) {
    size_t skipped = 0;
    for (size_t i = 0; i < count; i++) {
        af_slice line = {0};
        af_pair pair = {.rank = (uint32_t)i};
        af_gguf_array_string(lines, i, &line);
        if (read_line(r, line, &pair))
            af_pairs_put(pairs, pair);
        else
            skipped++;
    }
    return skipped;
}

int af_merges_read(af_pairs *pairs, const af_vocab *v, af_half_fn half, const void *user, af_error *error) {
    const af_gguf_array *lines = af_gguf_get_array(v->file, MERGES);
    if (!lines || af_gguf_array_type(lines) != AF_GGUF_STRING) {
        return af_fail(error, AF_EFORMAT, MERGES ": %s, the vocabulary merges by them",
                       af_gguf_has(v->file, MERGES) ? "not strings" : "absent");
    }
    const size_t count = af_gguf_array_count(lines);
    if (count > UINT32_MAX / 2 || !af_pairs_open(pairs, count)) {
        return af_fail_memory(error, count * sizeof(af_pair), MERGES);
    }
    reader r = {.v = v, .half = half, .user = user};
    const size_t skipped = read_lines(&r, lines, count, pairs);
    const bool failed = r.bytes.failed;
    af_buf_clear(&r.bytes);
    if (failed) return af_fail_memory(error, 0, MERGES);
    if (skipped) {
        af_log(AF_LOG_WARNING, "%s: " MERGES ": %zu of %zu name no tokens and are skipped", af_gguf_path(v->file),
               skipped, count);
    }
    return AF_OK;
}

bool af_merges_pair(const void *user, const af_symbol *symbols, uint32_t left, uint32_t *rank, int32_t *id) {
    const af_pairs *pairs = user;
    const int32_t first = symbols[left].id, second = symbols[symbols[left].next].id;
    if (first < 0 || second < 0) return false;
    const af_pair *found = af_pairs_find(pairs, (uint32_t)first, (uint32_t)second);
    if (!found) return false;
    *rank = found->rank;
    *id = found->id;
    return true;
}

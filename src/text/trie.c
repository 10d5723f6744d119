/* trie.c - built from the sorted tokens, level by level: those below a node are a range of them. */
#include "text/trie.h"

#include <stdlib.h>
#include <string.h>

typedef struct entry {
    af_slice bytes;
    uint32_t id;
} entry;

/* The entries low .. high - 1 begin with the node's `depth` bytes. */
typedef struct span {
    uint32_t low, high, depth;
} span;

typedef struct builder {
    entry *entries;
    uint32_t count;
    span *spans; /* of each node */
} builder;

/* By bytes, a token before those it begins; equal ones by id. */
static int by_bytes(const void *left, const void *right) {
    const entry *a = left, *b = right;
    const size_t shared = a->bytes.n < b->bytes.n ? a->bytes.n : b->bytes.n;
    const int order = memcmp(a->bytes.p, b->bytes.p, shared);
    if (order) return order;
    if (a->bytes.n != b->bytes.n) return a->bytes.n < b->bytes.n ? -1 : 1;
    return a->id < b->id ? -1 : 1;
}

static bool takes(const af_vocab *v, uint32_t id) {
    const size_t n = af_vocab_bytes(v, id).n;
    return v->type[id] == AF_TOKEN_NORMAL && n > 0 && n <= AF_TRIE_LONGEST;
}

/* Collects and sorts the tokens. Returns how many nodes they can need, the root included. */
static size_t collect(builder *b, const af_vocab *v) {
    size_t most = 1;
    for (uint32_t id = 0; id < v->count; id++) {
        if (!takes(v, id)) continue;
        b->entries[b->count++] = (entry){af_vocab_bytes(v, id), id};
        most += af_vocab_bytes(v, id).n;
    }
    qsort(b->entries, b->count, sizeof *b->entries, by_bytes);
    return most;
}

/* Takes the token that ends at the node, of equal ones the first, off its span. */
static int32_t take_token(const builder *b, span *s) {
    int32_t id = -1;
    for (; s->low < s->high && b->entries[s->low].bytes.n == s->depth; s->low++) {
        if (id < 0) id = (int32_t)b->entries[s->low].id;
    }
    return id;
}

static void add_children(af_trie *trie, builder *b, span s) {
    while (s.low < s.high) {
        const uint8_t byte = (uint8_t)b->entries[s.low].bytes.p[s.depth];
        uint32_t end = s.low;
        while (end < s.high && (uint8_t)b->entries[end].bytes.p[s.depth] == byte) end++;
        trie->label[trie->count] = byte;
        b->spans[trie->count++] = (span){s.low, end, s.depth + 1};
        s.low = end;
    }
}

static void build(af_trie *trie, builder *b) {
    trie->label[0] = 0;
    b->spans[0] = (span){0, b->count, 0};
    trie->count = 1;
    for (uint32_t node = 0; node < trie->count; node++) {
        span s = b->spans[node];
        trie->id[node] = take_token(b, &s);
        trie->first[node] = trie->count;
        add_children(trie, b, s);
    }
    trie->first[trie->count] = trie->count;
}

int af_trie_open(af_trie *trie, const af_vocab *v, af_error *error) {
    builder b = {.entries = malloc(v->count * sizeof *b.entries)};
    const size_t most = b.entries ? collect(&b, v) : 0;
    if (most && most < UINT32_MAX) {
        b.spans = malloc(most * sizeof *b.spans);
        trie->first = malloc((most + 1) * sizeof *trie->first);
        trie->label = malloc(most);
        trie->id = malloc(most * sizeof *trie->id);
    }
    const bool enough = b.spans && trie->first && trie->label && trie->id;
    if (enough) build(trie, &b);
    free(b.spans);
    free(b.entries);
    return enough ? AF_OK : af_fail_memory(error, most * sizeof(span), "a vocabulary's tree");
}

void af_trie_close(af_trie *trie) {
    free(trie->first);
    free(trie->label);
    free(trie->id);
    *trie = (af_trie){0};
}

bool af_trie_step(const af_trie *trie, uint32_t *node, unsigned char byte) {
    uint32_t low = trie->first[*node], high = trie->first[*node + 1];
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (trie->label[middle] == byte) {
            *node = middle;
            return true;
        }
        if (trie->label[middle] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

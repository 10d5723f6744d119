/* merge.c - the heap and the list of merge.h. */
#include "text/merge.h"

#include <stdlib.h>

#define FIRST_CAPACITY 256 /* most pieces are words: one allocation serves them all */

void af_merger_clear(af_merger *m) {
    free(m->symbols);
    free(m->heap);
    *m = (af_merger){0};
}

/* Grows an array to hold `need` elements; its contents are kept. */
static bool grow(void **array, size_t *cap, size_t need, size_t size) {
    if (need <= *cap) return true;
    size_t wanted = *cap ? *cap * 2 : FIRST_CAPACITY;
    if (wanted < need) wanted = need;
    void *p = wanted <= SIZE_MAX / size ? realloc(*array, wanted * size) : NULL;
    if (!p) return false;
    *array = p;
    *cap = wanted;
    return true;
}

bool af_merger_reserve(af_merger *m, size_t n) {
    return grow((void **)&m->symbols, &m->symbol_cap, n, sizeof *m->symbols);
}

/* Lets the candidate at `at` rise to its place. */
static void rise(af_candidate *heap, size_t at) {
    const af_candidate moving = heap[at];
    while (at > 0) {
        const size_t parent = (at - 1) / 2;
        if (heap[parent].order <= moving.order) break;
        heap[at] = heap[parent];
        at = parent;
    }
    heap[at] = moving;
}

/* Lets the candidate at `at` sink to its place. */
static void sink(af_candidate *heap, size_t len, size_t at) {
    const af_candidate moving = heap[at];
    for (size_t child; (child = 2 * at + 1) < len; at = child) {
        if (child + 1 < len && heap[child + 1].order < heap[child].order) child++;
        if (moving.order <= heap[child].order) break;
        heap[at] = heap[child];
    }
    heap[at] = moving;
}

static af_candidate pop(af_merger *m) {
    const af_candidate best = m->heap[0];
    m->heap[0] = m->heap[--m->heap_len];
    if (m->heap_len) sink(m->heap, m->heap_len, 0);
    return best;
}

/* Adds the pair that begins at `left`, if it can join, at the heap's end. False when out of memory. */
static bool add(af_merger *m, size_t n, uint32_t left, af_pair_fn pair, const void *user) {
    const uint32_t right = m->symbols[left].next;
    uint32_t rank;
    int32_t id;
    if (right >= n || !pair(user, m->symbols, left, &rank, &id)) return true;
    if (!grow((void **)&m->heap, &m->heap_cap, m->heap_len + 1, sizeof *m->heap)) return false;
    const uint32_t size = m->symbols[right].next - left;
    m->heap[m->heap_len++] = (af_candidate){(uint64_t)rank << 32 | left, size, id};
    return true;
}

static bool push(af_merger *m, size_t n, uint32_t left, af_pair_fn pair, const void *user) {
    const size_t before = m->heap_len;
    if (!add(m, n, left, pair, user)) return false;
    if (m->heap_len > before) rise(m->heap, before);
    return true;
}

static bool collect(af_merger *m, size_t n, af_pair_fn pair, const void *user) {
    m->heap_len = 0;
    for (uint32_t at = 0; at < n; at = m->symbols[at].next) {
        if (!add(m, n, at, pair, user)) return false;
    }
    for (size_t i = m->heap_len / 2; i-- > 0;) sink(m->heap, m->heap_len, i);
    return true;
}

static bool stale(const af_symbol *symbols, size_t n, const af_candidate *c) {
    const uint32_t left = (uint32_t)c->order, right = symbols[left].next;
    return right == 0 || right >= n || symbols[right].next - left != c->size;
}

/* Makes one symbol of two. */
static void join(af_symbol *symbols, size_t n, uint32_t left, int32_t id) {
    const uint32_t right = symbols[left].next, after = symbols[right].next;
    symbols[left].next = after;
    symbols[left].id = id;
    symbols[right].next = 0;
    if (after < n) symbols[after].prev = left;
}

bool af_merge(af_merger *m, size_t n, af_pair_fn pair, const void *user) {
    if (!collect(m, n, pair, user)) return false;
    while (m->heap_len) {
        const af_candidate best = pop(m);
        if (stale(m->symbols, n, &best)) continue;
        const uint32_t left = (uint32_t)best.order, prev = m->symbols[left].prev;
        join(m->symbols, n, left, best.id);
        if (prev != UINT32_MAX && !push(m, n, prev, pair, user)) return false;
        if (!push(m, n, left, pair, user)) return false;
    }
    return true;
}

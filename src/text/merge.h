/* merge.h - the step that SentencePiece's BPE and byte-level BPE share: join the best neighbours until none can join.
 *
 * A text of n bytes is a doubly linked list of symbols. Symbols are named by the offset of their first byte, so that
 * `next` is also where a symbol ends and a length needs no field:
 *
 *     offset    0    1    2    3    4    5
 *     text      l    o    w    e    r         n = 5
 *     next      1    3    -    4    5         after "o" and "w" joined; "-" is dead (next 0)
 *
 * Candidates wait in a binary heap, best rank first, leftmost among equals. A candidate is stale, and skipped, when the
 * span it was made for is no longer exactly two symbols: spans only grow, so its start and size tell. Each join pushes
 * two candidates at most, hence O(n log n), without recursion.
 */
#ifndef AF_MERGE_H
#define AF_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AF_MERGE_LONGEST ((size_t)INT32_MAX) /* bytes of one text */

typedef struct af_symbol {
    uint32_t prev, next; /* offsets; the first symbol's prev is UINT32_MAX, the last one's next is n */
    int32_t id;          /* of the token this symbol is, -1 while unknown */
} af_symbol;

typedef struct af_candidate {
    uint64_t order; /* rank << 32 | offset of the left symbol */
    uint32_t size;  /* bytes of both symbols */
    int32_t id;     /* of the token they make */
} af_candidate;

/* Working memory of one thread, reused from text to text. Zero is empty. */
typedef struct af_merger {
    af_symbol *symbols;
    size_t symbol_cap;
    af_candidate *heap;
    size_t heap_len, heap_cap;
} af_merger;

/* Whether the symbols at `left` and its next join, the token they make and its rank (lower joins first). */
typedef bool (*af_pair_fn)(const void *user, const af_symbol *symbols, uint32_t left, uint32_t *rank, int32_t *id);

void af_merger_clear(af_merger *m);
/* Room for a text of n bytes, 1 to AF_MERGE_LONGEST. False when out of memory. */
bool af_merger_reserve(af_merger *m, size_t n);
/* Joins the symbols that the caller has linked over n bytes. False when out of memory. */
bool af_merge(af_merger *m, size_t n, af_pair_fn pair, const void *user);

#endif

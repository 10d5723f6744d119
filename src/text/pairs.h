/* pairs.h - the merge list of a byte-level BPE vocabulary: (left id, right id) -> rank and id of the union.
 *
 * One open-addressed table of 16-byte entries, so that a look-up is one cache line. The hash multiplies by an odd
 * number drawn from the process's key, so that a hostile file cannot make every pair collide.
 */
#ifndef AF_PAIRS_H
#define AF_PAIRS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct af_pair {
    uint32_t left, right;
    uint32_t rank;
    int32_t id; /* -1: the entry is empty */
} af_pair;

typedef struct af_pairs {
    af_pair *entries;
    unsigned shift; /* 64 - bits of an index */
    size_t mask;
    uint64_t multiplier;
} af_pairs;

bool af_pairs_open(af_pairs *pairs, size_t count); /* false when out of memory */
void af_pairs_close(af_pairs *pairs);
/* At most `count` pairs. One that is there already keeps its rank. */
void af_pairs_put(af_pairs *pairs, af_pair pair);

static inline size_t af_pairs_home(const af_pairs *pairs, uint32_t left, uint32_t right) {
    return (size_t)((((uint64_t)left << 32 | right) * pairs->multiplier) >> pairs->shift);
}

/* NULL if the two do not join. */
static inline const af_pair *af_pairs_find(const af_pairs *pairs, uint32_t left, uint32_t right) {
    for (size_t at = af_pairs_home(pairs, left, right);; at = (at + 1) & pairs->mask) {
        const af_pair *entry = &pairs->entries[at];
        if (entry->id < 0) return NULL;
        if (entry->left == left && entry->right == right) return entry;
    }
}

#endif

/* pairs.c - see pairs.h. */
#include "text/pairs.h"

#include "base/map.h"

#include <stdlib.h>
#include <string.h>

bool af_pairs_open(af_pairs *pairs, size_t count) {
    unsigned bits = 4;
    while (((size_t)1 << bits) < count + count / 2 + 1) bits++;
    pairs->shift = 64 - bits;
    pairs->mask = ((size_t)1 << bits) - 1;
    pairs->multiplier = af_hash("merges", 6) | 1;
    pairs->entries = malloc((pairs->mask + 1) * sizeof *pairs->entries);
    if (pairs->entries) memset(pairs->entries, 0xFF, (pairs->mask + 1) * sizeof *pairs->entries);
    return pairs->entries;
}

void af_pairs_close(af_pairs *pairs) {
    free(pairs->entries);
    *pairs = (af_pairs){0};
}

void af_pairs_put(af_pairs *pairs, af_pair pair) {
    size_t at = af_pairs_home(pairs, pair.left, pair.right);
    for (; pairs->entries[at].id >= 0; at = (at + 1) & pairs->mask) {
        if (pairs->entries[at].left == pair.left && pairs->entries[at].right == pair.right) return;
    }
    pairs->entries[at] = pair;
}

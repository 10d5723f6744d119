/* page_index.c - see page_index.h. */
#include "engine/page_index.h"

#include <stdlib.h>
#include <string.h>

#define LEAST 1024u

void af_page_index_close(af_page_index *index) {
    free(index->entries);
    *index = (af_page_index){0};
}

/* The entry of that name, or the empty one where it would go. */
static size_t place_of(const af_page_index *index, const uint64_t half[2]) {
    size_t at = half[0] & index->mask;
    while (index->entries[at].groups && memcmp(index->entries[at].half, half, sizeof index->entries[at].half) != 0)
        at = (at + 1) & index->mask;
    return at;
}

uint32_t af_page_index_find(const af_page_index *index, const uint64_t half[2]) {
    return index->entries ? index->entries[place_of(index, half)].groups : 0;
}

static bool grow(af_page_index *index) {
    const size_t size = index->entries ? 2 * (index->mask + 1) : LEAST;
    af_page_index larger = {.entries = calloc(size, sizeof *larger.entries), .mask = size - 1, .count = index->count};
    if (!larger.entries) return false;
    for (size_t i = 0; index->entries && i <= index->mask; i++) {
        const af_page_entry *e = &index->entries[i];
        if (e->groups) larger.entries[place_of(&larger, e->half)] = *e;
    }
    free(index->entries);
    *index = larger;
    return true;
}

bool af_page_index_put(af_page_index *index, const uint64_t half[2], uint32_t groups) {
    if ((!index->entries || index->count + 1 > (index->mask + 1) / 3 * 2) && !grow(index)) return false;
    af_page_entry *e = &index->entries[place_of(index, half)];
    index->count += e->groups == 0;
    *e = (af_page_entry){{half[0], half[1]}, groups};
    return true;
}

/* Entries behind the gap whose way begins before it move up. */
void af_page_index_remove(af_page_index *index, const uint64_t half[2]) {
    if (!af_page_index_find(index, half)) return;
    size_t gap = place_of(index, half);
    for (size_t at = (gap + 1) & index->mask; index->entries[at].groups; at = (at + 1) & index->mask) {
        const size_t home = index->entries[at].half[0] & index->mask;
        if (((at - home) & index->mask) < ((at - gap) & index->mask)) continue;
        index->entries[gap] = index->entries[at];
        gap = at;
    }
    index->entries[gap].groups = 0;
    index->count--;
}

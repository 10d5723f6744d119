/* page_index.h - which pages lie on disk: from half of a text's name (page_file.h) to the groups its file has.
 *
 * Open addressing, at most two thirds full, growing. Names are SHA-256 sums and so spread by themselves; half of one is
 * enough to look for a file, which says the rest.
 */
#ifndef AF_PAGE_INDEX_H
#define AF_PAGE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct af_page_entry {
    uint64_t half[2];
    uint32_t groups; /* 0: empty */
} af_page_entry;

typedef struct af_page_index {
    af_page_entry *entries; /* (mask + 1), or NULL */
    size_t mask, count;
} af_page_index;

void af_page_index_close(af_page_index *index);
/* The groups; 0: it is not there. */
uint32_t af_page_index_find(const af_page_index *index, const uint64_t half[2]);
/* Adds it or changes its groups; false when out of memory. */
bool af_page_index_put(af_page_index *index, const uint64_t half[2], uint32_t groups);
void af_page_index_remove(af_page_index *index, const uint64_t half[2]);

#endif

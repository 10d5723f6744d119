/* prefix_cache.h - which text the kept pages of the KV cache hold: a tree whose edges are whole pages of token ids.
 *
 * A node stands for a text that is a whole number of pages long: the text of its parent, then its own AF_KV_PAGE ids.
 * It knows the page of each cache group that holds those positions, or AF_KV_NONE where that was given away (a window's
 * pages go one by one). What a page holds depends on all tokens before it, which is what the way from the root says, so
 * a page may be used by every sequence that goes the same way. Ids are compared, not only their hash.
 *
 * A node is pinned by each sequence whose text goes through it. It may be removed when it has neither pins nor
 * children.
 *
 * This is not where pages are counted or taken back: kv_pool.c and kv_share.c do that. Nothing is allocated after open.
 */
#ifndef AF_PREFIX_CACHE_H
#define AF_PREFIX_CACHE_H

#include "engine/kv_pool.h"
#include "plan/plan.h"

#define AF_PREFIX_ROOT 0 /* the empty text */

typedef struct af_prefix_node {
    int32_t ids[AF_KV_PAGE];
    uint32_t pages[AF_PLAN_GROUPS];
    uint32_t parent, children, pins;
    uint32_t next; /* of its bucket, or of those that are free */
} af_prefix_node;

typedef struct af_prefix_cache {
    af_prefix_node *nodes;            /* (capacity + 1), the root first; NULL: nothing is kept */
    uint32_t *buckets;                /* (bucket_mask + 1) */
    uint32_t bucket_mask, free, used; /* nodes: the first free one; how many are not, the root aside */
} af_prefix_cache;

/* Room for `capacity` nodes beside the root. */
bool af_prefix_open(af_prefix_cache *cache, uint32_t capacity);
void af_prefix_close(af_prefix_cache *cache);

/* The child of `parent` with these ids; AF_KV_NONE: there is none. */
uint32_t af_prefix_find(const af_prefix_cache *cache, uint32_t parent, const int32_t ids[AF_KV_PAGE]);
/* Adds it, without pages; AF_KV_NONE: there is no room. */
uint32_t af_prefix_add(af_prefix_cache *cache, uint32_t parent, const int32_t ids[AF_KV_PAGE]);
/* True if it has no pins, children or pages. */
bool af_prefix_is_bare(const af_prefix_cache *cache, uint32_t node);
/* Removes a bare node. */
void af_prefix_remove(af_prefix_cache *cache, uint32_t node);

#endif

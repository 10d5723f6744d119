/* kv_pool.h - the pages of one cache group: who holds each, and which may be taken.
 *
 * A page is held by sequences (a count of them) and may also be kept by the prefix cache for later ones. So it is
 *     free   nobody holds it and nothing keeps it
 *     idle   kept and held by no sequence: taken back when pages are needed, the longest idle first
 *     held   by one sequence or more, kept or not
 * Idle pages stand in a ring in the order in which they became idle. Nothing is allocated after open.
 */
#ifndef AF_KV_POOL_H
#define AF_KV_POOL_H

#include <stdbool.h>
#include <stdint.h>

#define AF_KV_NONE UINT32_MAX /* no page; no node */

typedef struct af_kv_link {
    uint32_t before, after;
} af_kv_link;

typedef struct af_kv_pool {
    uint32_t window; /* of its group; 0: none */
    uint32_t pages, free_count, idle_count;
    uint32_t *free;   /* (pages) the first free_count are the free ones */
    uint32_t *counts; /* (pages) sequences that hold it */
    uint32_t *nodes;  /* (pages) the node of the prefix cache that keeps it; AF_KV_NONE: it is not kept */
    af_kv_link *idle; /* (pages + 1) the ring; the last entry is where it begins and ends */
} af_kv_pool;

bool af_kv_pool_open(af_kv_pool *pool, uint32_t window, uint32_t pages);
void af_kv_pool_close(af_kv_pool *pool);

/* A free page, which there must be, for one sequence. */
uint32_t af_kv_pool_take(af_kv_pool *pool);
/* One more sequence holds a kept page; one fewer holds a page. */
void af_kv_pool_hold(af_kv_pool *pool, uint32_t page);
void af_kv_pool_give(af_kv_pool *pool, uint32_t page);

/* A held page is kept from now on, or one is kept no more. */
void af_kv_pool_keep(af_kv_pool *pool, uint32_t page, uint32_t node);
void af_kv_pool_forget(af_kv_pool *pool, uint32_t page);
/* The page that has been idle longest; AF_KV_NONE: none is. */
uint32_t af_kv_pool_oldest(const af_kv_pool *pool);

#endif

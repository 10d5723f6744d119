/* kv_pool.c - see kv_pool.h. Free pages are a stack; the ring is one of indices, its head the entry after the last
 * page.
 */
#include "engine/kv_pool.h"

#include <assert.h>
#include <stdlib.h>

bool af_kv_pool_open(af_kv_pool *pool, uint32_t window, uint32_t pages) {
    *pool = (af_kv_pool){.window = window, .pages = pages, .free_count = pages};
    pool->free = calloc(pages, sizeof *pool->free);
    pool->counts = calloc(pages, sizeof *pool->counts);
    pool->nodes = calloc(pages, sizeof *pool->nodes);
    pool->idle = calloc((size_t)pages + 1, sizeof *pool->idle);
    if (!pool->free || !pool->counts || !pool->nodes || !pool->idle) return false;
    for (uint32_t i = 0; i < pages; i++) {
        pool->free[i] = pages - 1 - i; /* page 0 is taken first */
        pool->nodes[i] = AF_KV_NONE;
    }
    pool->idle[pages] = (af_kv_link){pages, pages};
    return true;
}

void af_kv_pool_close(af_kv_pool *pool) {
    free(pool->free);
    free(pool->counts);
    free(pool->nodes);
    free(pool->idle);
    *pool = (af_kv_pool){0};
}

/* ---- The ring ---- */

static void rest(af_kv_pool *pool, uint32_t page) {
    const uint32_t head = pool->pages, last = pool->idle[head].before;
    pool->idle[page] = (af_kv_link){.before = last, .after = head};
    pool->idle[last].after = page;
    pool->idle[head].before = page;
    pool->idle_count++;
}

static void wake(af_kv_pool *pool, uint32_t page) {
    const af_kv_link link = pool->idle[page];
    pool->idle[link.before].after = link.after;
    pool->idle[link.after].before = link.before;
    pool->idle_count--;
}

uint32_t af_kv_pool_oldest(const af_kv_pool *pool) {
    return pool->idle_count > 0 ? pool->idle[pool->pages].after : AF_KV_NONE;
}

/* ---- Pages ---- */

uint32_t af_kv_pool_take(af_kv_pool *pool) {
    assert(pool->free_count > 0);
    const uint32_t page = pool->free[--pool->free_count];
    assert(pool->counts[page] == 0 && pool->nodes[page] == AF_KV_NONE);
    pool->counts[page] = 1;
    return page;
}

void af_kv_pool_hold(af_kv_pool *pool, uint32_t page) {
    assert(pool->nodes[page] != AF_KV_NONE);
    if (pool->counts[page]++ == 0) wake(pool, page);
}

void af_kv_pool_give(af_kv_pool *pool, uint32_t page) {
    assert(pool->counts[page] > 0);
    if (--pool->counts[page] > 0) return;
    if (pool->nodes[page] == AF_KV_NONE)
        pool->free[pool->free_count++] = page;
    else
        rest(pool, page);
}

void af_kv_pool_keep(af_kv_pool *pool, uint32_t page, uint32_t node) {
    assert(pool->counts[page] > 0 && pool->nodes[page] == AF_KV_NONE);
    pool->nodes[page] = node;
}

void af_kv_pool_forget(af_kv_pool *pool, uint32_t page) {
    assert(pool->nodes[page] != AF_KV_NONE);
    pool->nodes[page] = AF_KV_NONE;
    if (pool->counts[page] > 0) return;
    wake(pool, page);
    pool->free[pool->free_count++] = page;
}

/* prefix_cache.c - see prefix_cache.h. Children are found through one table of chained buckets for all nodes, keyed by
 * parent and ids with the process's own hash key (map.h), so that no text can be made to collide.
 */
#include "engine/prefix_cache.h"

#include "base/map.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

bool af_prefix_open(af_prefix_cache *cache, uint32_t capacity) {
    uint32_t buckets = 1;
    while (buckets < capacity && buckets < UINT32_C(1) << 31) buckets *= 2;
    *cache = (af_prefix_cache){.bucket_mask = buckets - 1, .free = AF_KV_NONE};
    cache->nodes = calloc((size_t)capacity + 1, sizeof *cache->nodes);
    cache->buckets = malloc(buckets * sizeof *cache->buckets);
    if (!cache->nodes || !cache->buckets) {
        af_prefix_close(cache);
        return false;
    }
    for (uint32_t i = 0; i < buckets; i++) cache->buckets[i] = AF_KV_NONE;
    for (uint32_t node = capacity; node > AF_PREFIX_ROOT; node--) {
        cache->nodes[node].next = cache->free;
        cache->free = node;
    }
    return true;
}

void af_prefix_close(af_prefix_cache *cache) {
    free(cache->nodes);
    free(cache->buckets);
    *cache = (af_prefix_cache){0};
}

static uint32_t *bucket_of(const af_prefix_cache *cache, uint32_t parent, const int32_t *ids) {
    struct {
        uint32_t parent;
        int32_t ids[AF_KV_PAGE];
    } key = {.parent = parent};
    memcpy(key.ids, ids, sizeof key.ids);
    return &cache->buckets[af_hash(&key, sizeof key) & cache->bucket_mask];
}

uint32_t af_prefix_find(const af_prefix_cache *cache, uint32_t parent, const int32_t ids[AF_KV_PAGE]) {
    uint32_t node = *bucket_of(cache, parent, ids);
    for (; node != AF_KV_NONE; node = cache->nodes[node].next) {
        const af_prefix_node *n = &cache->nodes[node];
        if (n->parent == parent && memcmp(n->ids, ids, sizeof n->ids) == 0) break;
    }
    return node;
}

uint32_t af_prefix_add(af_prefix_cache *cache, uint32_t parent, const int32_t ids[AF_KV_PAGE]) {
    const uint32_t node = cache->free;
    if (node == AF_KV_NONE) return AF_KV_NONE;
    af_prefix_node *n = &cache->nodes[node];
    uint32_t *bucket = bucket_of(cache, parent, ids);
    cache->free = n->next;
    *n = (af_prefix_node){.parent = parent, .next = *bucket};
    memcpy(n->ids, ids, sizeof n->ids);
    for (size_t g = 0; g < AF_PLAN_GROUPS; g++) n->pages[g] = AF_KV_NONE;
    *bucket = node;
    cache->used++;
    cache->nodes[parent].children++;
    return node;
}

bool af_prefix_is_bare(const af_prefix_cache *cache, uint32_t node) {
    const af_prefix_node *n = &cache->nodes[node];
    bool bare = node != AF_PREFIX_ROOT && n->pins == 0 && n->children == 0;
    for (size_t g = 0; g < AF_PLAN_GROUPS; g++) bare = bare && n->pages[g] == AF_KV_NONE;
    return bare;
}

void af_prefix_remove(af_prefix_cache *cache, uint32_t node) {
    assert(af_prefix_is_bare(cache, node));
    af_prefix_node *n = &cache->nodes[node];
    uint32_t *link = bucket_of(cache, n->parent, n->ids);
    while (*link != node) link = &cache->nodes[*link].next;
    *link = n->next;
    cache->nodes[n->parent].children--;
    n->next = cache->free;
    cache->free = node;
    cache->used--;
}

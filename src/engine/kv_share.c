/* kv_share.c - pages that outlive their sequence: kept, taken over by others, taken back.
 *
 * A sequence walks down the tree of prefix_cache.h as its pages fill, and pins the nodes it passes. Where another
 * already left the same text, the sequence goes on with that page and gives its own back: the bits are the same
 * (backend.h, promise 1), and each text is kept once.
 *
 * A prefix can be taken over at the end of a page where every group still has what the next position sees: all of it in
 * the group without a window, the window's last pages in others. The longest such prefix is taken.
 */
#include "engine/kv_internal.h"

#include <assert.h>
#include <string.h>

bool af_kv_can_keep(const af_plan *plan) {
    return !plan->whole && plan->carry_count == 0 && plan->group_count > 0;
}

bool af_kv_keeps(const af_kv *kv) {
    return kv->cache.nodes != NULL;
}

/* ---- Taking back ---- */

/* Removes a node nobody needs, and those above it that only led there. */
static void prune(af_prefix_cache *cache, uint32_t node) {
    while (af_prefix_is_bare(cache, node)) {
        const uint32_t parent = cache->nodes[node].parent;
        af_prefix_remove(cache, node);
        node = parent;
    }
}

static void forget_page(af_kv *kv, uint32_t group, af_prefix_node *node) {
    if (node->pages[group] == AF_KV_NONE) return;
    af_kv_pool_forget(&kv->pools[group], node->pages[group]);
    node->pages[group] = AF_KV_NONE;
}

/* Without the page of a group that sees everything, a node's other pages are of no use (invariants 5 and 6). */
void af_kv_evict(af_kv *kv, uint32_t group) {
    const uint32_t page = af_kv_pool_oldest(&kv->pools[group]);
    assert(page != AF_KV_NONE);
    const uint32_t at = kv->pools[group].nodes[page];
    af_prefix_node *node = &kv->cache.nodes[at];
    forget_page(kv, group, node);
    if (kv->pools[group].window == 0) {
        assert(node->children == 0 && node->pins == 0);
        for (uint32_t g = 0; g < kv->group_count; g++) forget_page(kv, g, node);
    }
    prune(&kv->cache, at);
}

void af_kv_unpin(af_kv *kv, af_kv_seq *seq) {
    for (uint32_t at = seq->node; at != AF_PREFIX_ROOT;) {
        const uint32_t parent = kv->cache.nodes[at].parent;
        kv->cache.nodes[at].pins--;
        if (af_prefix_is_bare(&kv->cache, at)) af_prefix_remove(&kv->cache, at);
        at = parent;
    }
    seq->node = AF_PREFIX_ROOT;
    seq->known = 0;
}

void af_kv_forget(af_kv *kv) {
    for (uint32_t g = 0; g < kv->group_count; g++)
        while (kv->pools[g].idle_count > 0) af_kv_evict(kv, g);
}

/* ---- Keeping ---- */

static void go_to(af_kv *kv, af_kv_seq *seq, uint32_t node) {
    kv->cache.nodes[node].pins++;
    seq->node = node;
    seq->known++;
}

/* The node after the sequence's, for its next page. Nodes can run out only where no group sees everything, since such
 * a group has as many nodes as pages: then texts whose pages are idle make room. */
static uint32_t next_node(af_kv *kv, const af_kv_seq *seq, const int32_t *ids) {
    const uint32_t found = af_prefix_find(&kv->cache, seq->node, ids);
    if (found != AF_KV_NONE) return found;
    for (uint32_t g = 0; g < kv->group_count; g++)
        while (kv->cache.free == AF_KV_NONE && kv->pools[g].idle_count > 0) af_kv_evict(kv, g);
    return af_prefix_add(&kv->cache, seq->node, ids);
}

/* The node keeps the sequence's page, or the sequence takes the one that is kept. */
static void merge_page(af_kv_pool *pool, uint32_t node, uint32_t *kept, uint32_t *own) {
    if (*kept == *own) return;
    if (*kept == AF_KV_NONE) {
        af_kv_pool_keep(pool, *own, node);
        *kept = *own;
        return;
    }
    af_kv_pool_hold(pool, *kept);
    af_kv_pool_give(pool, *own);
    *own = *kept;
}

void af_kv_keep(af_kv *kv, af_kv_seq *seq, const int32_t *tokens, uint32_t done) {
    if (!af_kv_keeps(kv)) return;
    for (uint32_t page = seq->known; page < done / AF_KV_PAGE; page++) {
        const uint32_t node = next_node(kv, seq, tokens + (size_t)page * AF_KV_PAGE);
        if (node == AF_KV_NONE) return;
        for (uint32_t g = 0; g < kv->group_count; g++) {
            const af_kv_range held = seq->held[g];
            if (page < held.first || page >= held.end) continue;
            merge_page(&kv->pools[g], node, &kv->cache.nodes[node].pages[g], &seq->table[g][page]);
        }
        go_to(kv, seq, node);
    }
}

/* ---- Taking over ---- */

/* Whether a sequence of so many pages sees all it may. `runs` are the pages that each group has in a row up to there.
 */
static bool is_enough(const af_kv *kv, const uint32_t runs[AF_PLAN_GROUPS], uint32_t pages) {
    for (uint32_t g = 0; g < kv->group_count; g++) {
        const uint32_t first = af_kv_needed(&kv->pools[g], pages * AF_KV_PAGE, pages * AF_KV_PAGE).first;
        if (runs[g] < pages - first) return false;
    }
    return true;
}

/* The node of the longest text of at most `most` pages that the sequence can go on from; *pages of it. */
static uint32_t longest_prefix(const af_kv *kv, const af_kv_seq *seq, const int32_t *tokens, uint32_t most,
                               uint32_t *pages) {
    uint32_t runs[AF_PLAN_GROUPS] = {0}, best = seq->node;
    *pages = seq->known;
    for (uint32_t g = 0; g < kv->group_count; g++) runs[g] = seq->held[g].end - seq->held[g].first;
    for (uint32_t page = seq->known, at = seq->node; page < most; page++) {
        at = af_prefix_find(&kv->cache, at, tokens + (size_t)page * AF_KV_PAGE);
        if (at == AF_KV_NONE) break;
        for (uint32_t g = 0; g < kv->group_count; g++)
            runs[g] = kv->cache.nodes[at].pages[g] == AF_KV_NONE ? 0 : runs[g] + 1;
        if (!is_enough(kv, runs, page + 1)) continue;
        best = at;
        *pages = page + 1;
    }
    return best;
}

uint32_t af_kv_find(const af_kv *kv, uint32_t node, const int32_t *ids, uint32_t pages[AF_PLAN_GROUPS]) {
    const uint32_t found = af_prefix_find(&kv->cache, node, ids);
    if (found != AF_KV_NONE) memcpy(pages, kv->cache.nodes[found].pages, AF_PLAN_GROUPS * sizeof *pages);
    return found;
}

uint32_t af_kv_reach(const af_kv *kv, const af_kv_seq *seq, const uint32_t *groups, uint32_t count) {
    uint32_t runs[AF_PLAN_GROUPS] = {0}, best = 0;
    for (uint32_t g = 0; g < kv->group_count; g++) runs[g] = seq->held[g].end - seq->held[g].first;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t g = 0; g < kv->group_count; g++) runs[g] = groups[i] >> g & 1 ? runs[g] + 1 : 0;
        if (is_enough(kv, runs, seq->known + i + 1)) best = i + 1;
    }
    return best;
}

uint32_t af_kv_kept(const af_kv *kv) {
    return kv->cache.used;
}

static void take_over(af_kv *kv, af_kv_seq *seq, uint32_t node, uint32_t pages) {
    uint32_t first[AF_PLAN_GROUPS];
    for (uint32_t g = 0; g < kv->group_count; g++) {
        af_kv_range *held = &seq->held[g];
        first[g] = af_kv_needed(&kv->pools[g], pages * AF_KV_PAGE, pages * AF_KV_PAGE).first;
        af_kv_drop_before(&kv->pools[g], held, seq->table[g], first[g]);
        if (held->first == held->end) held->first = first[g];
        held->end = pages;
    }
    for (uint32_t page = pages, at = node; page-- > seq->known; at = kv->cache.nodes[at].parent) {
        kv->cache.nodes[at].pins++;
        for (uint32_t g = 0; g < kv->group_count; g++) {
            if (page < first[g]) continue;
            seq->table[g][page] = kv->cache.nodes[at].pages[g];
            af_kv_pool_hold(&kv->pools[g], seq->table[g][page]);
        }
    }
    seq->node = node;
    seq->known = pages;
}

uint32_t af_kv_adopt(af_kv *kv, af_kv_seq *seq, const int32_t *tokens, uint32_t done, uint32_t most) {
    if (!af_kv_keeps(kv) || seq->known * AF_KV_PAGE != done || most <= done) return done;
    uint32_t pages;
    const uint32_t node = longest_prefix(kv, seq, tokens, most / AF_KV_PAGE, &pages);
    if (pages == seq->known) return done;
    take_over(kv, seq, node, pages);
    return pages * AF_KV_PAGE;
}

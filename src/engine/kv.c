/* kv.c - the page tables behind kv.h.
 *
 * A sequence's table has an entry for every page that a context holds; the pages it has now are those from `first` up
 * to `end`. In a window group both ends move: new pages at `end`, and pages before `first` given back once no later
 * position can see them.
 */
#include "engine/kv_internal.h"

#include <assert.h>
#include <stdlib.h>

static uint32_t pages_for(uint64_t tokens) {
    return (uint32_t)((tokens + AF_KV_PAGE - 1) / AF_KV_PAGE);
}

/* A run of n positions that may begin anywhere in a page touches one page more than n positions fill, at most. */
void af_kv_sizes(const af_plan *plan, uint32_t ctx, uint32_t sequences, uint32_t step, uint32_t pages[AF_PLAN_GROUPS]) {
    for (size_t g = 0; g < AF_PLAN_GROUPS; g++) {
        uint32_t window = g < plan->group_count ? plan->groups[g].window : 0;
        uint32_t whole = pages_for(ctx);
        uint32_t needed = window ? pages_for((uint64_t)window + step) + 1 : whole;
        uint32_t all = (needed < whole ? needed : whole) * sequences;
        if (plan->whole && pages_for(step) + sequences < all) all = pages_for(step) + sequences;
        pages[g] = g < plan->group_count ? all : 0;
    }
}

/* ---- Open and close ---- */

static bool open_seqs(af_kv *kv) {
    kv->seqs = calloc(kv->sequences, sizeof *kv->seqs);
    kv->tables = calloc((size_t)kv->sequences * kv->group_count, kv->table_length * sizeof *kv->tables);
    if (!kv->seqs || !kv->tables) return false;
    uint32_t *table = kv->tables;
    for (uint32_t s = 0; s < kv->sequences; s++) {
        kv->seqs[s].carry = s;
        for (uint32_t g = 0; g < kv->group_count; g++, table += kv->table_length) kv->seqs[s].table[g] = table;
    }
    return true;
}

/* A node for each page of the group that sees everything, since each node has one. Where there is no such group, a text
 * also has nodes whose pages are gone: room for those of every sequence, and as many again as there are pages. */
static bool open_cache(af_kv *kv) {
    uint64_t pages = 0, seeing_all = 0;
    for (uint32_t g = 0; g < kv->group_count; g++) {
        pages += kv->pools[g].pages;
        if (kv->pools[g].window == 0) seeing_all += kv->pools[g].pages;
    }
    uint64_t capacity = seeing_all ? seeing_all : pages + (uint64_t)kv->sequences * kv->table_length;
    return capacity < AF_KV_NONE && af_prefix_open(&kv->cache, (uint32_t)capacity);
}

int af_kv_open(const af_plan *plan, const uint32_t pages[AF_PLAN_GROUPS], uint32_t ctx, uint32_t sequences, bool keep,
               af_kv **out, af_error *error) {
    assert(ctx > 0 && sequences > 0);
    af_kv *kv = calloc(1, sizeof *kv);
    if (!kv) return af_fail_memory(error, sizeof *kv, "the KV cache's tables");
    kv->group_count = (uint32_t)plan->group_count;
    kv->table_length = pages_for(ctx);
    kv->sequences = sequences;
    bool ok = open_seqs(kv);
    for (uint32_t g = 0; ok && g < kv->group_count; g++) {
        ok = af_kv_pool_open(&kv->pools[g], plan->groups[g].window, pages[g]);
    }
    if (ok && keep && af_kv_can_keep(plan)) ok = open_cache(kv);
    if (!ok) {
        size_t size = (size_t)sequences * kv->group_count * kv->table_length * sizeof *kv->tables;
        af_kv_close(kv);
        return af_fail_memory(error, size, "the KV cache's tables");
    }
    *out = kv;
    return AF_OK;
}

void af_kv_close(af_kv *kv) {
    if (!kv) return;
    for (uint32_t g = 0; g < kv->group_count; g++) af_kv_pool_close(&kv->pools[g]);
    af_prefix_close(&kv->cache);
    free(kv->seqs);
    free(kv->tables);
    free(kv);
}

/* ---- Pages ---- */

void af_kv_drop_before(af_kv_pool *pool, af_kv_range *held, uint32_t *table, uint32_t first) {
    for (; held->first < held->end && held->first < first; held->first++) {
        af_kv_pool_give(pool, table[held->first]);
        table[held->first] = AF_KV_NONE;
    }
}

/* From the end to the beginning: kv.h, invariant 6. */
static void drop_all(af_kv_pool *pool, af_kv_range *held, const uint32_t *table) {
    for (; held->end > held->first; held->end--) af_kv_pool_give(pool, table[held->end - 1]);
}

af_kv_range af_kv_needed(const af_kv_pool *pool, uint32_t begin, uint32_t end) {
    uint32_t seen_from = pool->window > 0 && begin >= pool->window ? begin - pool->window + 1 : 0;
    return (af_kv_range){seen_from / AF_KV_PAGE, pages_for(end)};
}

/* ---- Sequences ---- */

af_kv_seq *af_kv_seq_take(af_kv *kv) {
    for (uint32_t s = 0; s < kv->sequences; s++) {
        af_kv_seq *seq = &kv->seqs[s];
        if (seq->taken) continue;
        seq->taken = true;
        for (uint32_t g = 0; g < kv->group_count; g++) {
            seq->held[g] = (af_kv_range){0, 0};
            for (uint32_t i = 0; i < kv->table_length; i++) seq->table[g][i] = AF_KV_NONE;
        }
        return seq;
    }
    return NULL;
}

void af_kv_seq_release(af_kv *kv, af_kv_seq *seq) {
    if (!seq) return;
    assert(seq->taken);
    for (uint32_t g = 0; g < kv->group_count; g++) drop_all(&kv->pools[g], &seq->held[g], seq->table[g]);
    if (af_kv_keeps(kv)) af_kv_unpin(kv, seq);
    seq->taken = false;
}

/* Of the pages given back, those that another sequence holds too give no room. */
static bool has_room(const af_kv_pool *p, af_kv_range held, af_kv_range needed, const uint32_t *table) {
    uint32_t room = p->free_count + p->idle_count, taken = needed.end > held.end ? needed.end - held.end : 0;
    for (uint32_t i = held.first; i < held.end && i < needed.first; i++) room += p->counts[table[i]] == 1;
    return taken <= room;
}

bool af_kv_reserve(af_kv *kv, af_kv_seq *seq, uint32_t begin, uint32_t end) {
    assert(seq->taken && begin <= end && pages_for(end) <= kv->table_length);
    for (uint32_t g = 0; g < kv->group_count; g++) {
        const af_kv_pool *p = &kv->pools[g];
        if (!has_room(p, seq->held[g], af_kv_needed(p, begin, end), seq->table[g])) return false;
    }
    for (uint32_t g = 0; g < kv->group_count; g++) {
        af_kv_pool *p = &kv->pools[g];
        af_kv_range *held = &seq->held[g], needed = af_kv_needed(p, begin, end);
        assert(needed.first <= held->end); /* sequences grow without gaps */
        af_kv_drop_before(p, held, seq->table[g], needed.first);
        for (; held->end < needed.end; held->end++) {
            if (p->free_count == 0) af_kv_evict(kv, g);
            seq->table[g][held->end] = af_kv_pool_take(p);
        }
    }
    return true;
}

void af_kv_view(const af_kv_seq *seq, af_batch_seq *out) {
    for (uint32_t g = 0; g < AF_PLAN_GROUPS; g++) out->pages[g] = seq->table[g];
    out->carry = seq->carry;
}

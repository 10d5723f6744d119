/* kv.c - the pools and page tables behind kv.h.
 *
 * A pool is a stack of free pages beside a count for each page. A sequence's table has an entry for every page that a
 * context holds; the pages it has now are those from `first` up to `end`. In a window group both ends move: new pages
 * at `end`, and pages before `first` given back once no later position can see them.
 */
#include "engine/kv.h"

#include <assert.h>
#include <stdlib.h>

typedef struct pool {
    uint32_t window;
    uint32_t pages, free_count;
    uint32_t *free;   /* (pages) the first free_count are the free ones */
    uint32_t *counts; /* (pages) sequences that hold it */
} pool;

typedef struct range { /* of a sequence's pages in one group */
    uint32_t first, end;
} range;

struct af_kv_seq {
    bool taken;
    uint32_t carry;
    range held[AF_PLAN_GROUPS];
    uint32_t *table[AF_PLAN_GROUPS]; /* (table_length) */
};

struct af_kv {
    uint32_t group_count;
    uint32_t table_length; /* pages of a whole context */
    uint32_t sequences;
    pool pools[AF_PLAN_GROUPS];
    af_kv_seq *seqs;  /* (sequences) */
    uint32_t *tables; /* (sequences, group_count, table_length) */
};

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

static bool open_pool(pool *p, uint32_t window, uint32_t pages) {
    *p = (pool){.window = window, .pages = pages, .free_count = pages};
    p->free = calloc(pages, sizeof *p->free);
    p->counts = calloc(pages, sizeof *p->counts);
    if (!p->free || !p->counts) return false;
    for (uint32_t i = 0; i < pages; i++) p->free[i] = pages - 1 - i; /* page 0 is taken first */
    return true;
}

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

int af_kv_open(const af_plan *plan, const uint32_t pages[AF_PLAN_GROUPS], uint32_t ctx, uint32_t sequences, af_kv **out,
               af_error *error) {
    assert(ctx > 0 && sequences > 0);
    af_kv *kv = calloc(1, sizeof *kv);
    if (!kv) return af_fail_memory(error, sizeof *kv, "the KV cache's tables");
    kv->group_count = (uint32_t)plan->group_count;
    kv->table_length = pages_for(ctx);
    kv->sequences = sequences;
    bool ok = open_seqs(kv);
    for (uint32_t g = 0; ok && g < kv->group_count; g++) {
        ok = open_pool(&kv->pools[g], plan->groups[g].window, pages[g]);
    }
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
    for (uint32_t g = 0; g < kv->group_count; g++) {
        free(kv->pools[g].free);
        free(kv->pools[g].counts);
    }
    free(kv->seqs);
    free(kv->tables);
    free(kv);
}

/* ---- Pages ---- */

static uint32_t take_page(pool *p) {
    uint32_t page = p->free[--p->free_count];
    assert(p->counts[page] == 0);
    p->counts[page] = 1;
    return page;
}

static void give_page(pool *p, uint32_t page) {
    assert(p->counts[page] > 0);
    if (--p->counts[page] == 0) p->free[p->free_count++] = page;
}

/* Gives back the held pages before `first`. */
static void drop_before(pool *p, range *held, uint32_t *table, uint32_t first) {
    for (; held->first < held->end && held->first < first; held->first++) {
        give_page(p, table[held->first]);
        table[held->first] = UINT32_MAX;
    }
}

/* ---- Sequences ---- */

af_kv_seq *af_kv_seq_take(af_kv *kv) {
    for (uint32_t s = 0; s < kv->sequences; s++) {
        af_kv_seq *seq = &kv->seqs[s];
        if (seq->taken) continue;
        seq->taken = true;
        for (uint32_t g = 0; g < kv->group_count; g++) {
            seq->held[g] = (range){0, 0};
            for (uint32_t i = 0; i < kv->table_length; i++) seq->table[g][i] = UINT32_MAX;
        }
        return seq;
    }
    return NULL;
}

void af_kv_seq_release(af_kv *kv, af_kv_seq *seq) {
    if (!seq) return;
    assert(seq->taken);
    for (uint32_t g = 0; g < kv->group_count; g++) {
        drop_before(&kv->pools[g], &seq->held[g], seq->table[g], UINT32_MAX);
    }
    seq->taken = false;
}

/* The pages a group must hold so that positions from `begin` up to `end` see all they may. */
static range needed_pages(const pool *p, uint32_t begin, uint32_t end) {
    uint32_t seen_from = p->window > 0 && begin >= p->window ? begin - p->window + 1 : 0;
    return (range){seen_from / AF_KV_PAGE, pages_for(end)};
}

static bool has_room(const pool *p, range held, range needed) {
    uint32_t given_back = 0, taken = needed.end > held.end ? needed.end - held.end : 0;
    if (needed.first > held.first) given_back = (needed.first < held.end ? needed.first : held.end) - held.first;
    return taken <= p->free_count + given_back;
}

bool af_kv_reserve(af_kv *kv, af_kv_seq *seq, uint32_t begin, uint32_t end) {
    assert(seq->taken && begin <= end && pages_for(end) <= kv->table_length);
    for (uint32_t g = 0; g < kv->group_count; g++) {
        if (!has_room(&kv->pools[g], seq->held[g], needed_pages(&kv->pools[g], begin, end))) return false;
    }
    for (uint32_t g = 0; g < kv->group_count; g++) {
        pool *p = &kv->pools[g];
        range *held = &seq->held[g], needed = needed_pages(p, begin, end);
        assert(needed.first <= held->end); /* sequences grow without gaps */
        drop_before(p, held, seq->table[g], needed.first);
        for (; held->end < needed.end; held->end++) seq->table[g][held->end] = take_page(p);
    }
    return true;
}

void af_kv_view(const af_kv_seq *seq, af_batch_seq *out) {
    for (uint32_t g = 0; g < AF_PLAN_GROUPS; g++) out->pages[g] = seq->table[g];
    out->carry = seq->carry;
}

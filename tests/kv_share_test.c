/* kv_share_test.c - pages that are kept between sequences, beside a memory that a test writes as a backend would: what
 * a sequence sees is its own text whatever was taken over or taken back, a page is never lost, and every sequence
 * reaches its end.
 */
#include "engine/kv_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CTX = 640, SEQUENCES = 4, STEP = 100, PAGES_MOST = 1024 };

/* A sequence's text and the memory behind all pages: each position holds a number that all tokens up to it decide. */
typedef struct text {
    af_kv_seq *seq; /* NULL: not begun */
    uint32_t done, end;
    int32_t tokens[CTX];
    uint64_t past[CTX];
} text;

typedef struct world {
    af_plan plan;
    af_kv *kv;
    text texts[SEQUENCES];
    uint64_t memory[AF_PLAN_GROUPS][PAGES_MOST][AF_KV_PAGE];
    uint32_t seed, taken_over;
} world;

static uint32_t draw(world *w, uint32_t below) {
    w->seed = w->seed * 1664525 + 1013904223;
    return (w->seed >> 8) % below;
}

static world *world_open(const af_cache_group *groups, size_t group_count, uint32_t extra) {
    world *w = calloc(1, sizeof *w);
    uint32_t pages[AF_PLAN_GROUPS];
    memcpy(w->plan.groups, groups, group_count * sizeof *groups);
    w->plan.group_count = group_count;
    w->seed = (uint32_t)group_count * 77 + extra;
    af_kv_sizes(&w->plan, CTX, SEQUENCES, STEP, pages);
    for (size_t g = 0; g < group_count; g++) {
        pages[g] += extra;
        assert_true(pages[g] <= PAGES_MOST);
    }
    assert_int_equal(af_kv_open(&w->plan, pages, CTX, SEQUENCES, true, &w->kv, NULL), AF_OK);
    return w;
}

static void world_close(world *w) {
    af_kv_close(w->kv);
    free(w);
}

/* One of three tokens every 20, so that texts share beginnings of many lengths. */
static void begin(world *w, text *t) {
    uint64_t past = 0;
    t->seq = af_kv_seq_take(w->kv);
    assert_non_null(t->seq);
    t->done = 0;
    t->end = 1 + draw(w, CTX);
    for (uint32_t i = 0; i < t->end; i++) {
        t->tokens[i] = i % 20 ? t->tokens[i - 1] : (int32_t)draw(w, draw(w, 3) ? 1 : 3);
        t->past[i] = past = (past ^ (uint64_t)(t->tokens[i] + 1)) * UINT64_C(0x9E3779B97F4A7C15) + i;
    }
}

static uint64_t *cell(world *w, const text *t, uint32_t group, uint32_t position) {
    af_batch_seq view;
    af_kv_view(t->seq, &view);
    const uint32_t page = view.pages[group][position / AF_KV_PAGE];
    assert_true(page < w->kv->pools[group].pages);
    return &w->memory[group][page][position % AF_KV_PAGE];
}

/* What the position sees is all there. */
static void check_sight(world *w, const text *t, uint32_t position) {
    for (uint32_t g = 0; g < w->plan.group_count; g++) {
        const uint32_t window = w->plan.groups[g].window;
        const uint32_t first = window && position >= window ? position - window + 1 : 0;
        for (uint32_t p = first; p < position; p++) assert_true(*cell(w, t, g, p) == t->past[p]);
    }
}

static void grow(world *w, text *t) {
    const uint32_t left = t->end - t->done, step = 1 + draw(w, STEP), count = left < step ? left : step;
    assert_true(af_kv_reserve(w->kv, t->seq, t->done, t->done + count));
    for (uint32_t p = t->done; p < t->done + count; p++) {
        check_sight(w, t, p);
        for (uint32_t g = 0; g < w->plan.group_count; g++) *cell(w, t, g, p) = t->past[p];
    }
    t->done += count;
}

static void take_over(world *w, text *t) {
    af_kv_keep(w->kv, t->seq, t->tokens, t->done);
    const uint32_t now = af_kv_adopt(w->kv, t->seq, t->tokens, t->done, t->end - 1);
    assert_true(now >= t->done && now < t->end);
    w->taken_over += now - t->done;
    t->done = now;
    check_sight(w, t, now);
}

static void end(world *w, text *t) {
    if (draw(w, 4)) af_kv_keep(w->kv, t->seq, t->tokens, t->done);
    af_kv_seq_release(w->kv, t->seq);
    t->seq = NULL;
}

/* Each page is free, idle or held, as its pool counts them, and a kept page's node knows it. */
static void check_pools(const world *w) {
    for (uint32_t g = 0; g < w->kv->group_count; g++) {
        const af_kv_pool *pool = &w->kv->pools[g];
        uint32_t idle = 0, held = 0, counted = 0;
        for (uint32_t page = 0; page < pool->pages; page++) {
            const bool kept = pool->nodes[page] != AF_KV_NONE;
            idle += kept && pool->counts[page] == 0;
            held += pool->counts[page] > 0;
            counted += pool->counts[page];
            if (kept) assert_int_equal(w->kv->cache.nodes[pool->nodes[page]].pages[g], page);
        }
        assert_int_equal(idle, pool->idle_count);
        assert_int_equal(pool->free_count + idle + held, pool->pages);
        for (int i = 0; i < SEQUENCES; i++) {
            const af_kv_seq *seq = w->texts[i].seq;
            if (seq) counted -= seq->held[g].end - seq->held[g].first;
        }
        assert_int_equal(counted, 0);
    }
}

static void move(world *w) {
    text *t = &w->texts[draw(w, SEQUENCES)];
    if (!t->seq) {
        begin(w, t);
        take_over(w, t);
    } else if (t->done == t->end || draw(w, 12) == 0) {
        end(w, t);
    } else {
        if (draw(w, 2)) take_over(w, t);
        grow(w, t);
    }
}

static const struct {
    af_cache_group groups[3];
    size_t count;
} kinds[] = {
    {{{0}}, 1}, {{{0}, {64}}, 2}, {{{100}, {0}}, 2}, {{{70}}, 1}, {{{0}, {32}, {200}}, 3}, {{{40}, {90}}, 2},
};

static void texts_see_themselves_whatever_is_taken_over_or_back(void **state) {
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (uint32_t extra = 0; extra <= 60; extra += 20) {
            world *w = world_open(kinds[k].groups, kinds[k].count, extra);
            for (int i = 0; i < 4000; i++) {
                move(w);
                if (i % 16 == 0) check_pools(w);
            }
            assert_true(w->taken_over > 4000);
            for (int i = 0; i < SEQUENCES; i++)
                if (w->texts[i].seq) end(w, &w->texts[i]);
            check_pools(w);
            af_kv_forget(w->kv);
            for (uint32_t g = 0; g < w->kv->group_count; g++)
                assert_int_equal(w->kv->pools[g].free_count, w->kv->pools[g].pages);
            assert_int_equal(w->kv->cache.nodes[AF_PREFIX_ROOT].children, 0);
            world_close(w);
        }
    }
}

/* Runs a whole text; returns how much of it was taken over. */
static uint32_t run(world *w, uint32_t kind, uint32_t length) {
    text *t = &w->texts[0];
    begin(w, t);
    t->end = length;
    uint64_t past = 0;
    for (uint32_t i = 0; i < length; i++) {
        t->tokens[i] = (int32_t)kind;
        t->past[i] = past = past * 31 + kind;
    }
    const uint32_t before = w->taken_over;
    take_over(w, t);
    while (t->done < t->end) {
        grow(w, t);
        af_kv_keep(w->kv, t->seq, t->tokens, t->done);
    }
    af_kv_seq_release(w->kv, t->seq);
    t->seq = NULL;
    return w->taken_over - before;
}

static void the_text_used_longest_ago_goes_first_and_from_its_end(void **state) {
    world *w = world_open(kinds[0].groups, 1, 0); /* 80 pages */
    assert_int_equal(run(w, 1, 640), 0);
    assert_int_equal(run(w, 2, 640), 0);
    assert_int_equal(run(w, 3, 640), 0);
    assert_int_equal(run(w, 4, 640), 0);
    assert_int_equal(run(w, 1, 640), 608); /* its last page ran again, in the last one of the second text */
    assert_int_equal(run(w, 5, 320), 0);   /* ten pages: that one, and nine before it */
    assert_int_equal(run(w, 1, 640), 608); /* and one more */
    assert_int_equal(run(w, 3, 640), 608); /* which was free again */
    assert_int_equal(run(w, 2, 640), (20 - 11) * 32);
    world_close(w);
}

static void a_window_s_pages_are_needed_only_at_the_end(void **state) {
    world *w = world_open(kinds[3].groups, 1, 0);
    assert_int_equal(run(w, 1, 640), 0);
    assert_int_equal(run(w, 2, 640), 0); /* of 28 pages the first text has the last ones left */
    assert_int_equal(run(w, 1, 640), 608);
    world_close(w);
}

static void ids_are_compared_and_not_only_hashed(void **state) {
    af_prefix_cache cache;
    int32_t ids[AF_KV_PAGE] = {0};
    assert_true(af_prefix_open(&cache, 3));
    cache.bucket_mask = 0; /* all in one bucket */
    uint32_t nodes[3];
    for (int32_t i = 0; i < 3; i++) {
        ids[31] = i;
        assert_int_equal(af_prefix_find(&cache, i ? nodes[0] : AF_PREFIX_ROOT, ids), AF_KV_NONE);
        nodes[i] = af_prefix_add(&cache, i ? nodes[0] : AF_PREFIX_ROOT, ids);
    }
    assert_int_equal(af_prefix_add(&cache, AF_PREFIX_ROOT, ids), AF_KV_NONE); /* no room */
    assert_int_equal(af_prefix_find(&cache, nodes[0], ids), nodes[2]);
    assert_int_equal(af_prefix_find(&cache, nodes[1], ids), AF_KV_NONE);
    af_prefix_remove(&cache, nodes[1]);
    assert_int_equal(af_prefix_find(&cache, nodes[0], ids), nodes[2]);
    assert_false(af_prefix_is_bare(&cache, nodes[0]));
    af_prefix_remove(&cache, nodes[2]);
    assert_true(af_prefix_is_bare(&cache, nodes[0]));
    af_prefix_close(&cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_see_themselves_whatever_is_taken_over_or_back),
        cmocka_unit_test(the_text_used_longest_ago_goes_first_and_from_its_end),
        cmocka_unit_test(a_window_s_pages_are_needed_only_at_the_end),
        cmocka_unit_test(ids_are_compared_and_not_only_hashed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* merge_test.c - the heap joins what a plain search for the best pair joins, in the same order, for any ranks. */
#include "text/merge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ALPHABET 4
#define TOKENS   64
#define LONGEST  40

/* Random joins: rank 0 is none; else the rank and the token two tokens make. */
typedef struct rules {
    uint32_t rank[TOKENS][TOKENS];
    int32_t id[TOKENS][TOKENS];
    size_t asked;
} rules;

static uint32_t state = 1;

static uint32_t draw(uint32_t below) {
    state = state * 1664525 + 1013904223;
    return (state >> 8) % below;
}

static void draw_rules(rules *r) {
    for (size_t i = 0; i < TOKENS; i++) {
        for (size_t j = 0; j < TOKENS; j++) {
            r->rank[i][j] = draw(3) ? 1 + draw(20) : 0; /* few ranks: many ties */
            r->id[i][j] = (int32_t)draw(TOKENS);
        }
    }
}

static bool pair(const void *user, const af_symbol *symbols, uint32_t left, uint32_t *rank, int32_t *id) {
    rules *r = (rules *)user;
    const int32_t first = symbols[left].id, second = symbols[symbols[left].next].id;
    r->asked++;
    *rank = r->rank[first][second];
    *id = r->id[first][second];
    return *rank != 0;
}

/* What merging means, by searching all pairs each time. Returns the number of tokens left. */
static size_t merge_by_search(const rules *r, int32_t *ids, size_t n) {
    for (;;) {
        size_t best = n;
        for (size_t i = 0; i + 1 < n; i++) {
            const uint32_t rank = r->rank[ids[i]][ids[i + 1]];
            if (rank && (best == n || rank < r->rank[ids[best]][ids[best + 1]])) best = i;
        }
        if (best == n) return n;
        ids[best] = r->id[ids[best]][ids[best + 1]];
        memmove(ids + best + 1, ids + best + 2, (n - best - 2) * sizeof *ids);
        n--;
    }
}

static void link_all(af_merger *m, const int32_t *ids, size_t n) {
    assert_true(af_merger_reserve(m, n));
    for (size_t i = 0; i < n; i++) m->symbols[i] = (af_symbol){(uint32_t)i - 1, (uint32_t)i + 1, ids[i]};
}

static void the_heap_joins_what_a_plain_search_joins(void **unused) {
    static rules r;
    af_merger m = {0};
    for (int round = 0; round < 3000; round++) {
        if (round % 30 == 0) draw_rules(&r);
        int32_t ids[LONGEST];
        const size_t n = 1 + draw(LONGEST);
        for (size_t i = 0; i < n; i++) ids[i] = (int32_t)draw(ALPHABET);
        link_all(&m, ids, n);
        assert_true(af_merge(&m, n, pair, &r));
        const size_t left = merge_by_search(&r, ids, n);
        size_t at = 0;
        for (size_t i = 0; i < left; i++, at = m.symbols[at].next) assert_int_equal(m.symbols[at].id, ids[i]);
        assert_int_equal(at, n);
    }
    af_merger_clear(&m);
}

static void equal_ranks_join_from_the_left(void **unused) {
    static rules r;
    memset(&r, 0, sizeof r);
    r.rank[0][0] = 1;
    r.id[0][0] = 1;
    const int32_t ids[5] = {0};
    af_merger m = {0};
    link_all(&m, ids, 5);
    assert_true(af_merge(&m, 5, pair, &r));
    assert_int_equal(m.symbols[0].next, 2);
    assert_int_equal(m.symbols[2].next, 4);
    assert_int_equal(m.symbols[4].id, 0);
    af_merger_clear(&m);
}

/* Pairs looked up while n equal symbols join by twos, fours, ... */
static size_t questions(size_t n) {
    static rules r;
    memset(&r, 0, sizeof r);
    for (int32_t i = 0; i + 1 < TOKENS; i++) {
        r.rank[i][i] = (uint32_t)i + 1;
        r.id[i][i] = i + 1;
    }
    int32_t *ids = calloc(n, sizeof *ids);
    af_merger m = {0};
    link_all(&m, ids, n);
    assert_true(af_merge(&m, n, pair, &r));
    af_merger_clear(&m);
    free(ids);
    return r.asked;
}

static void work_grows_with_the_text_and_not_with_its_square(void **unused) {
    assert_true(questions(100000) <= 11 * questions(10000));
    assert_true(questions(100000) <= 3 * 100000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_heap_joins_what_a_plain_search_joins),
        cmocka_unit_test(equal_ranks_join_from_the_left),
        cmocka_unit_test(work_grows_with_the_text_and_not_with_its_square),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* kv_test.c - pages are held by one sequence at a time, given back behind a window, never lost, never allocated late.
 */
#include "engine/kv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { CTX = 1000, SEQUENCES = 3, STEP = 100, WINDOW = 64 };

static const af_plan plan = {.groups = {{0}, {WINDOW}}, .group_count = 2};

static af_kv *open_kv(void) {
    uint32_t pages[AF_PLAN_GROUPS];
    af_kv *kv = NULL;
    af_kv_sizes(&plan, CTX, SEQUENCES, STEP, pages);
    assert_int_equal(af_kv_open(&plan, pages, CTX, SEQUENCES, false, &kv, NULL), AF_OK);
    return kv;
}

static uint32_t page_at(const af_kv_seq *seq, size_t group, uint32_t position) {
    af_batch_seq view;
    af_kv_view(seq, &view);
    return view.pages[group][position / AF_KV_PAGE];
}

static void sizes_hold_every_sequence_to_the_end(void **state) {
    uint32_t pages[AF_PLAN_GROUPS];
    af_kv_sizes(&plan, CTX, SEQUENCES, STEP, pages);
    assert_int_equal(pages[0], 3 * 32); /* 1000 tokens fill 31.25 pages */
    assert_int_equal(pages[1], 3 * 7);  /* 164 tokens fill 5.1 pages and may begin inside one */
    assert_int_equal(pages[2], 0);
    af_kv_sizes(&plan, 32, 1, STEP, pages);
    assert_int_equal(pages[1], 1); /* a window never needs more than the context */
}

/* Walks all sequences to the context's end with steps of every size, and checks that no page has two owners. */
static void all_sequences_reach_the_end_with_pages_of_their_own(void **state) {
    for (uint32_t step = 1; step <= STEP; step++) {
        af_kv *kv = open_kv();
        af_kv_seq *seqs[SEQUENCES];
        for (int s = 0; s < SEQUENCES; s++) assert_non_null(seqs[s] = af_kv_seq_take(kv));
        assert_null(af_kv_seq_take(kv));
        for (uint32_t begin = 0; begin < CTX; begin += step) {
            uint32_t end = begin + step < CTX ? begin + step : CTX;
            uint8_t owners[2][256] = {{0}};
            for (int s = 0; s < SEQUENCES; s++) {
                assert_true(af_kv_reserve(kv, seqs[s], begin, end));
            }
            for (int s = 0; s < SEQUENCES; s++) {
                for (size_t g = 0; g < 2; g++) {
                    uint32_t first = g == 1 && begin >= WINDOW ? begin - WINDOW + 1 : 0;
                    for (uint32_t page = first / AF_KV_PAGE; page <= (end - 1) / AF_KV_PAGE; page++) {
                        uint32_t id = page_at(seqs[s], g, page * AF_KV_PAGE);
                        assert_true(id < 256);
                        assert_int_equal(owners[g][id]++, 0);
                    }
                }
            }
        }
        af_kv_close(kv);
    }
}

static void pages_behind_the_window_are_given_back(void **state) {
    af_kv *kv = open_kv();
    af_kv_seq *seq = af_kv_seq_take(kv);
    assert_true(af_kv_reserve(kv, seq, 0, 100));
    assert_true(af_kv_reserve(kv, seq, 95, 101)); /* position 32 is still seen from 95 */
    assert_int_not_equal(page_at(seq, 1, 32), UINT32_MAX);
    assert_int_equal(page_at(seq, 1, 31), UINT32_MAX);
    assert_true(af_kv_reserve(kv, seq, 127, 128)); /* from 127 only 64 and on */
    assert_int_equal(page_at(seq, 1, 63), UINT32_MAX);
    assert_int_not_equal(page_at(seq, 1, 64), UINT32_MAX);
    assert_int_not_equal(page_at(seq, 0, 0), UINT32_MAX); /* the full group forgets nothing */
    af_kv_close(kv);
}

static void an_empty_pool_changes_nothing(void **state) {
    uint32_t pages[AF_PLAN_GROUPS] = {4, 3};
    af_kv *kv = NULL;
    assert_int_equal(af_kv_open(&plan, pages, CTX, 2, false, &kv, NULL), AF_OK);
    af_kv_seq *a = af_kv_seq_take(kv), *b = af_kv_seq_take(kv);
    assert_true(af_kv_reserve(kv, a, 0, 64));
    assert_false(af_kv_reserve(kv, b, 0, 64)); /* the window's pool has one left */
    assert_int_equal(page_at(b, 0, 0), UINT32_MAX);
    assert_int_equal(page_at(b, 1, 0), UINT32_MAX);
    assert_true(af_kv_reserve(kv, b, 0, 32));
    af_kv_seq_release(kv, a);
    assert_true(af_kv_reserve(kv, b, 32, 96));
    af_kv_close(kv);
}

static void a_released_sequence_starts_empty_again(void **state) {
    af_kv *kv = open_kv();
    for (int round = 0; round < 50; round++) { /* pages would run out if some were lost */
        af_kv_seq *seq = af_kv_seq_take(kv);
        assert_non_null(seq);
        assert_int_equal(page_at(seq, 0, 0), UINT32_MAX);
        for (uint32_t begin = 0; begin < CTX; begin += STEP) {
            assert_true(af_kv_reserve(kv, seq, begin, begin + STEP));
        }
        af_kv_seq_release(kv, seq);
    }
    af_kv_close(kv);
}

static void sequences_have_slots_of_states_of_their_own_and_keep_them(void **state) {
    af_kv *kv = open_kv();
    af_kv_seq *seqs[SEQUENCES];
    af_batch_seq views[SEQUENCES], again;
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        seqs[s] = af_kv_seq_take(kv);
        af_kv_view(seqs[s], &views[s]);
        assert_true(views[s].carry < SEQUENCES);
        for (uint32_t other = 0; other < s; other++) assert_int_not_equal(views[s].carry, views[other].carry);
    }
    assert_true(af_kv_reserve(kv, seqs[1], 0, STEP));
    af_kv_view(seqs[1], &again);
    assert_int_equal(again.carry, views[1].carry);
    for (uint32_t s = 0; s < SEQUENCES; s++) af_kv_seq_release(kv, seqs[s]);
    af_kv_close(kv);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_hold_every_sequence_to_the_end),
        cmocka_unit_test(sequences_have_slots_of_states_of_their_own_and_keep_them),
        cmocka_unit_test(all_sequences_reach_the_end_with_pages_of_their_own),
        cmocka_unit_test(pages_behind_the_window_are_given_back),
        cmocka_unit_test(an_empty_pool_changes_nothing),
        cmocka_unit_test(a_released_sequence_starts_empty_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

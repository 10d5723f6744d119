/* engine_flight_test.c - answers on a device that chooses and draws tokens itself, with several steps in flight: the
 * same texts as one step after another gives, whatever the device draws wrong on the way. */
#define FAKE_IN_FLIGHT
#include "engine_talk.h"

enum { TOKENS = 300, TALKS = 4 };

/* Every token depends on all before it: one that was drawn wrong and stayed in the cache would change all that follow.
 */
static bench open_drawing(uint32_t strays, uint32_t forgets, bool draws) {
    bench b = bench_open(small_options());
    b.backend->recalls = true;
    b.backend->spread = 0.25f;
    b.backend->strays = strays;
    b.backend->forgets = forgets;
    b.backend->base.draws_top = b.backend->base.draws_whole = draws;
    return b;
}

/* Odd seeds draw from the whole row, others from its best. */
static af_request drawn_request(talk *t, uint64_t seed, int64_t max_tokens) {
    af_request r = word_request(t, max_tokens);
    r.sampling.temperature = 0.9f;
    r.sampling.top_k = seed % 2 ? 0 : 24;
    r.sampling.seed = seed;
    r.ignore_eos = true;
    return r;
}

/* Seeds 0 .. TALKS-1, one after another or together. */
static void answer(bench *b, bool together, talk *talks[TALKS]) {
    for (uint64_t i = 0; i < TALKS; i++) {
        talk *t = talks[i] = talk_new(b);
        af_request r = drawn_request(t, i, TOKENS);
        if (together && i == TALKS - 1)
            r.sampling.temperature = 0; /* one who takes the best flies with those who draw */
        submit(t, &r);
        if (!together) wait_for_end(t);
    }
    for (int i = 0; i < TALKS; i++) wait_for_end(talks[i]);
}

static void check_same(talk *talks[TALKS], talk *wanted[TALKS], int count) {
    for (int i = 0; i < count; i++) {
        assert_int_equal(talks[i]->completion_tokens, TOKENS);
        assert_int_equal(talks[i]->id_count, TOKENS);
        assert_memory_equal(talks[i]->ids, wanted[i]->ids, TOKENS * sizeof *wanted[i]->ids);
    }
}

static void free_all(talk *talks[TALKS]) {
    for (int i = 0; i < TALKS; i++) free(talks[i]);
}

static uint32_t flown_of(const bench *b) {
    return b->backend->flown; /* its engine is idle */
}

/* The texts of TALKS seeds on such a device, and how many tokens were chosen in flight. */
static uint32_t check_texts(uint32_t strays, uint32_t forgets, bool together) {
    bench plain = open_drawing(0, 0, false), b = open_drawing(strays, forgets, true);
    talk *wanted[TALKS], *talks[TALKS];
    answer(&plain, false, wanted);
    answer(&b, together, talks);
    assert_int_equal(flown_of(&plain), 0);
    check_same(talks, wanted, together ? TALKS - 1 : TALKS);
    const uint32_t flown = flown_of(&b), steps = b.backend->step_count;
    assert_true(flown <= (together ? TALKS : 1) * steps);
    if (strays + forgets == 0) assert_true(steps <= TALKS * (TOKENS + 8)); /* next to none is run twice */
    assert_true(steps <= TALKS * TOKENS * 3 / 2);                          /* or flights are given up */
    free_all(wanted);
    free_all(talks);
    bench_close(&plain);
    bench_close(&b);
    return flown;
}

static void drawn_tokens_are_in_flight_and_the_sampler_s_own(void **state) {
    assert_true(check_texts(0, 0, false) > TALKS * TOKENS * 9 / 10);
}

static void a_wrong_draw_changes_no_text(void **state) {
    assert_true(check_texts(20, 0, false) > TALKS * TOKENS / 4);
}

static void a_device_that_mostly_draws_wrong_is_left_to_wait_for_the_sampler(void **state) {
    assert_true(check_texts(1, 0, false) < TALKS * TOKENS / 4);
    check_texts(3, 0, false);
}

static void a_row_that_did_not_come_back_is_run_again(void **state) {
    assert_true(check_texts(0, 50, false) > TALKS * 10);
}

static void those_who_draw_fly_with_each_other_and_with_the_greedy(void **state) {
    assert_true(check_texts(20, 0, true) > TOKENS);
}

/* What was generated is what was heard, however much was dropped. */
static void dropped_steps_are_not_counted(void **state) {
    bench b = open_drawing(3, 0, true);
    talk *t = talk_new(&b);
    const af_request r = drawn_request(t, 9, 100);
    submit(t, &r);
    wait_for_end(t);
    af_engine_info info;
    af_engine_get_info(b.engine, &info);
    assert_int_equal(t->completion_tokens, 100);
    assert_int_equal(info.generated_tokens, 100);
    free(t);
    bench_close(&b);
}

static void recurrent_states_fly_greedily_or_not_at_all(void **state) {
    af_plan recurrent = plan;
    af_carry carry = {0};
    recurrent.carries = &carry;
    recurrent.carry_count = 1;
    bench b = bench_open_on(&recurrent, small_options());
    b.backend->spread = 0.25f;
    talk *t = talk_new(&b);
    af_request r = drawn_request(t, 1, 40);
    submit(t, &r);
    wait_for_end(t);
    assert_int_equal(flown_of(&b), 0);
    free(t);
    t = talk_new(&b);
    r = word_request(t, 40);
    submit(t, &r);
    wait_for_end(t);
    assert_true(flown_of(&b) > 20);
    free(t);
    bench_close(&b);
}

/* Cancelled, failed and closed in mid-flight. */
static void a_flight_that_fails_ends_its_requests(void **state) {
    bench b = open_drawing(5, 0, true);
    b.backend->fail_at = 40;
    talk *t = talk_new(&b), *next = talk_new(&b);
    af_request r = drawn_request(t, 1, TOKENS);
    submit(t, &r);
    wait_for_end(t);
    assert_int_equal(t->finish, AF_FINISH_ERROR);
    assert_true(t->id_count > 5);
    r = drawn_request(next, 1, TOKENS);
    submit(next, &r);
    wait_for_end(next);
    assert_int_equal(next->finish, AF_FINISH_LENGTH);
    assert_memory_equal(t->ids, next->ids, t->id_count * sizeof *t->ids);
    free(t);
    free(next);
    bench_close(&b);
}

static void a_cancelled_request_hears_no_more(void **state) {
    bench b = open_drawing(5, 0, true);
    b.backend->pause = 200;
    talk *t = talk_new(&b);
    const af_request r = drawn_request(t, 1, 4000);
    submit(t, &r);
    wait_for_tokens(t, 10);
    af_cancel(b.engine, t->id);
    wait_for_end(t);
    assert_int_equal(t->finish, AF_FINISH_CANCEL);
    free(t);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawn_tokens_are_in_flight_and_the_sampler_s_own),
        cmocka_unit_test(a_wrong_draw_changes_no_text),
        cmocka_unit_test(a_device_that_mostly_draws_wrong_is_left_to_wait_for_the_sampler),
        cmocka_unit_test(a_row_that_did_not_come_back_is_run_again),
        cmocka_unit_test(those_who_draw_fly_with_each_other_and_with_the_greedy),
        cmocka_unit_test(dropped_steps_are_not_counted),
        cmocka_unit_test(recurrent_states_fly_greedily_or_not_at_all),
        cmocka_unit_test(a_flight_that_fails_ends_its_requests),
        cmocka_unit_test(a_cancelled_request_hears_no_more),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}

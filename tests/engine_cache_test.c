/* engine_cache_test.c - what was run once need not run again, and nobody can tell from the text: exact counts of cached
 * tokens, requests that come together, and crowds that share beginnings while pages are short.
 *
 * The backend's answers are words that all tokens before decide, as its cache has them (engine_recall.h), so a page of
 * another text would show in the next word.
 */
#include "engine_recall.h"

/* ---- One after another ---- */

static void whole_pages_come_from_the_cache_and_the_last_token_always_runs(void **state) {
    static const struct {
        uint32_t prompt, cached;
    } cases[] = {{1, 0}, {32, 0}, {33, 32}, {64, 32}, {65, 64}, {100, 96}, {1000, 992}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int32_t ids[1008];
        bench b = recalling(&plan, small_options());
        fill(ids, cases[i].prompt, 7);
        words_by_history(ids, cases[i].prompt, 5);
        assert_int_equal(run(&b, ids, cases[i].prompt, 5), 0);
        const uint32_t cold = tokens_run(&b);
        assert_int_equal(run(&b, ids, cases[i].prompt, 5), cases[i].cached);
        assert_int_equal(tokens_run(&b), 2 * cold - cases[i].cached);
        bench_close(&b);
    }
}

static void a_conversation_goes_on_from_its_last_answer(void **state) {
    bench b = recalling(&plan, small_options());
    int32_t ids[2048];
    uint32_t count = 50, before = 0;
    fill(ids, count, 3);
    for (int turn = 0; turn < 8; turn++) {
        words_by_history(ids, count, 70);
        assert_int_equal(run(&b, ids, count, 70), before / 32 * 32);
        before = count + 70 - 1; /* the last token chosen never ran */
        fill(ids + count + 70, 45, (uint32_t)turn);
        count += 70 + 45;
    }
    bench_close(&b);
}

static void a_page_that_the_last_step_fills_is_kept(void **state) {
    bench b = recalling(&plan, small_options());
    int32_t ids[100];
    fill(ids, 60, 4);
    words_by_history(ids, 60, 5);
    assert_int_equal(run(&b, ids, 60, 5), 0); /* positions 0 to 63 ran */
    words_by_history(ids, 65, 1);
    assert_int_equal(run(&b, ids, 65, 1), 64);
    bench_close(&b);
}

static void a_prompt_that_parts_from_another_shares_what_is_before(void **state) {
    bench b = recalling(&plan, small_options());
    int32_t ids[400];
    fill(ids, 300, 1);
    words_by_history(ids, 300, 3);
    assert_int_equal(run(&b, ids, 300, 3), 0);
    for (uint32_t at = 40; at < 300; at += 37) {
        int32_t other[400];
        memcpy(other, ids, sizeof other);
        other[at] = other[at] == FAKE_WORD ? FAKE_WORD + 1 : FAKE_WORD;
        words_by_history(other, 300, 3);
        assert_int_equal(run(&b, other, 300, 3), at / 32 * 32);
    }
    bench_close(&b);
}

/* ---- What must run ---- */

static void hear_logprob(void *user, size_t position, const af_logprob *logprob) {
    talk *t = user;
    t->positions[t->rows++] = position;
}

static void positions_whose_logits_are_wanted_always_run(void **state) {
    bench b = recalling(&plan, small_options());
    int32_t ids[210];
    uint8_t want[200] = {0};
    fill(ids, 200, 9);
    words_by_history(ids, 200, 2);
    run(&b, ids, 200, 2);
    want[100] = want[150] = 1;
    talk *t = talk_new(&b);
    af_request r = request_for(t, ids, 200);
    r.want = want;
    r.on_logits = hear_row;
    r.max_tokens = 0;
    submit(t, &r);
    wait_for_end(t);
    assert_int_equal(t->cached_tokens, 96);
    assert_int_equal(t->rows, 2);
    int32_t likely[152];
    memcpy(likely, ids, sizeof likely);
    words_by_history(likely, 151, 1);
    assert_int_equal((int32_t)t->row_best[1], likely[151]);
    free(t);
    t = talk_new(&b);
    r = request_for(t, ids, 200);
    r.logprobs = 0;
    r.on_prompt_logprob = hear_logprob;
    r.max_tokens = 1;
    submit(t, &r);
    wait_for_end(t);
    assert_int_equal(t->cached_tokens, 0);
    assert_int_equal(t->rows, 199);
    free(t);
    bench_close(&b);
}

static void nothing_is_kept_where_it_is_not_asked_or_cannot_be(void **state) {
    af_engine_options options = small_options();
    af_carry carry = {.floats = 1};
    af_plan recurrent = plan;
    recurrent.carries = &carry;
    recurrent.carry_count = 1;
    int32_t ids[110];
    fill(ids, 100, 5);
    words_by_history(ids, 100, 4);
    bench b = recalling(&recurrent, options);
    for (int i = 0; i < 2; i++) assert_int_equal(run(&b, ids, 100, 4), 0);
    bench_close(&b);
    options.cache_ram = 0;
    b = recalling(&plan, options);
    for (int i = 0; i < 2; i++) assert_int_equal(run(&b, ids, 100, 4), 0);
    bench_close(&b);
}

static void what_a_lost_device_held_is_forgotten(void **state) {
    bench b = recalling(&plan, small_options());
    int32_t ids[110];
    fill(ids, 100, 5);
    words_by_history(ids, 100, 4);
    run(&b, ids, 100, 4);
    assert_int_equal(run(&b, ids, 100, 4), 96);
    assert_int_equal(lose_and_ask_again(&b, ids, 100), 0);
    bench_close(&b);
}

/* ---- Together ---- */

static void requests_that_come_together_run_their_beginning_once(void **state) {
    bench b = recalling(&plan, small_options());
    talk *talks[4];
    int32_t ids[1010];
    fill(ids, 1000, 2);
    words_by_history(ids, 1000, 10);
    fake_hold(b.backend);
    for (int i = 0; i < 4; i++) {
        talks[i] = talk_new(&b);
        af_request r = request_for(talks[i], ids, 1000);
        r.max_tokens = 10;
        submit(talks[i], &r);
    }
    fake_let_go(b.backend);
    for (int i = 0; i < 4; i++) {
        wait_for_end(talks[i]);
        assert_memory_equal(talks[i]->ids, ids + 1000, 10 * sizeof *ids);
        free(talks[i]);
    }
    /* Whoever was first in a step of its own, others take its pages: a thousand once, then at most a page each. */
    assert_true(tokens_run(&b) <= 1000 + 3 * 40 + 4 * 10);
    bench_close(&b);
}

static void who_waits_for_a_prompt_that_is_cancelled_runs_it(void **state) {
    af_engine_options options = small_options();
    options.prefill_chunk = 32;
    bench b = recalling(&plan, options);
    talk *first = talk_new(&b), *second = talk_new(&b);
    int32_t ids[1010];
    fill(ids, 1000, 2);
    words_by_history(ids, 1000, 10);
    fake_hold_at(b.backend, 5);
    af_request r = request_for(first, ids, 1000);
    r.max_tokens = 10;
    submit(first, &r);
    r.user = second;
    submit(second, &r);
    fake_wait_inside(b.backend);
    af_cancel(b.engine, first->id);
    fake_let_go(b.backend);
    wait_for_end(first);
    wait_for_end(second);
    assert_int_equal(first->finish, AF_FINISH_CANCEL);
    assert_memory_equal(second->ids, ids + 1000, 10 * sizeof *ids);
    assert_true(second->cached_tokens > 0 && second->cached_tokens <= 5 * 32);
    free(first);
    free(second);
    bench_close(&b);
}

/* Conversations of a few roots, each a random way down, in rounds of eight at once. Every word is checked. */
static void crowd(const af_plan *of, uint32_t ctx, uint32_t chunk) {
    af_engine_options options = small_options();
    options.ctx = ctx;
    options.prefill_chunk = chunk;
    bench b = recalling(of, options);
    uint32_t seed = ctx + chunk, cached = 0;
    for (int round = 0; round < 30; round++) {
        talk *talks[8];
        int32_t(*ids)[CTX] = malloc(8 * sizeof *ids);
        uint32_t counts[8], more[8];
        for (int i = 0; i < 8; i++) {
            seed = seed * 1664525 + 1013904223;
            counts[i] = 1 + (seed >> 8) % (ctx - 2);
            more[i] = 1 + (seed >> 16) % (ctx - counts[i] < 90 ? ctx - counts[i] : 90);
            for (uint32_t at = 0, part = 0; at < counts[i]; at += 50, part++) /* one of two ways every 50 tokens */
                fill(ids[i] + at, counts[i] - at < 50 ? counts[i] - at : 50, part * 2 + (seed >> (part % 32) & 1));
            words_by_history(ids[i], counts[i], more[i]);
            talks[i] = talk_new(&b);
            af_request r = request_for(talks[i], ids[i], counts[i]);
            r.max_tokens = more[i];
            submit(talks[i], &r);
        }
        for (int i = 0; i < 8; i++) {
            wait_for_end(talks[i]);
            assert_int_equal(talks[i]->finish, AF_FINISH_LENGTH);
            assert_int_equal(talks[i]->id_count, more[i]);
            assert_memory_equal(talks[i]->ids, ids[i] + counts[i], more[i] * sizeof(int32_t));
            cached += talks[i]->cached_tokens;
            free(talks[i]);
        }
        free(ids);
    }
    assert_true(cached > 0);
    bench_close(&b);
}

static void crowds_that_share_beginnings_say_what_each_says_alone(void **state) {
    static const struct {
        af_cache_group groups[3];
        size_t count;
    } kinds[] = {{{{0}}, 1},
                 {{{0}, {FAKE_WINDOW}}, 2},
                 {{{FAKE_WINDOW}, {0}}, 2},
                 {{{FAKE_WINDOW}}, 1},
                 {{{0}, {33}, {100}}, 3}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        af_plan of = plan;
        memcpy(of.groups, kinds[i].groups, sizeof kinds[i].groups);
        of.group_count = kinds[i].count;
        crowd(&of, 256, 512);
        crowd(&of, 700, 48);
        crowd(&of, 97, 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_pages_come_from_the_cache_and_the_last_token_always_runs),
        cmocka_unit_test(a_conversation_goes_on_from_its_last_answer),
        cmocka_unit_test(a_page_that_the_last_step_fills_is_kept),
        cmocka_unit_test(a_prompt_that_parts_from_another_shares_what_is_before),
        cmocka_unit_test(positions_whose_logits_are_wanted_always_run),
        cmocka_unit_test(nothing_is_kept_where_it_is_not_asked_or_cannot_be),
        cmocka_unit_test(what_a_lost_device_held_is_forgotten),
        cmocka_unit_test(requests_that_come_together_run_their_beginning_once),
        cmocka_unit_test(who_waits_for_a_prompt_that_is_cancelled_runs_it),
        cmocka_unit_test(crowds_that_share_beginnings_say_what_each_says_alone),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}

/* engine_shift_test.c - a full context shifts: the answer goes on as one to what is left of the text, and nothing that
 * a client counts jumps.
 *
 * The backend's answers are words that all tokens before decide, as its cache has them (engine_recall.h): a token that
 * was to be dropped and was not, or stands elsewhere, shows in the next word.
 */
#include "engine_recall.h"

enum { LONG = 4000 };

static af_engine_options shifting(uint32_t ctx) {
    af_engine_options options = small_options();
    options.ctx = ctx;
    options.context_shift = true;
    return options;
}

/* The answer of `more` tokens to `count` ids, with a context of `ctx` that shifts and keeps `keep`. */
static void answer_by_shifts(const int32_t *ids, size_t count, uint32_t ctx, uint32_t keep, int32_t *answer,
                             size_t more) {
    int32_t text[CTX + 1];
    memcpy(text, ids, count * sizeof *ids);
    for (size_t i = 0; i < more; i++) {
        if (count == ctx + 1u) {
            const size_t drop = (count - keep) / 2;
            memmove(text + keep, text + keep + drop, (count - keep - drop) * sizeof *text);
            count -= drop;
        }
        words_by_history(text, count, 1);
        answer[i] = text[count++];
    }
}

typedef struct asked {
    uint32_t prompt, ctx;
    int64_t keep; /* of the request */
    uint32_t more, kept;
} asked;

static talk *begin(bench *b, const int32_t *ids, const asked *a) {
    talk *t = talk_new(b);
    af_request r = request_for(t, ids, a->prompt);
    r.max_tokens = a->more;
    r.keep = a->keep;
    submit(t, &r);
    return t;
}

static void end(talk *t, const int32_t *ids, const asked *a) {
    static int32_t answer[LONG];
    answer_by_shifts(ids, a->prompt, a->ctx, a->kept, answer, a->more);
    wait_for_end(t);
    assert_int_equal(t->finish, AF_FINISH_LENGTH);
    assert_int_equal(t->id_count, a->more);
    assert_memory_equal(t->ids, answer, a->more * sizeof *answer);
    assert_int_equal(t->prompt_tokens, a->prompt);
    assert_int_equal(t->completion_tokens, a->more);
    assert_null(t->wrong);
    free(t);
}

static void the_answer_goes_on_as_one_to_what_is_left(void **state) {
    static const asked cases[] = {
        {50, 128, -1, 1000, 1}, {50, 128, 0, 1000, 1},  {50, 128, 20, 1000, 20},    {50, 128, 90, 1000, 50},
        {90, 128, 90, 500, 64}, {127, 128, -1, 300, 1}, {1, 64, -1, 700, 1},        {30, 33, 16, 400, 16},
        {1, 5, -1, 50, 1},      {1, 2, -1, 9, 1},       {100, 700, 100, 3000, 100},
    };
    af_carry carry = {.floats = 1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int kind = 0; kind < 3; kind++) {
            af_plan of = plan;
            if (kind == 1) of.group_count = 1;
            if (kind == 2) of.carries = &carry, of.carry_count = 1;
            int32_t ids[700];
            fill(ids, cases[i].prompt, 7);
            bench b = recalling(&of, shifting(cases[i].ctx));
            end(begin(&b, ids, &cases[i]), ids, &cases[i]);
            bench_close(&b);
        }
    }
}

static void the_engine_s_keep_counts_where_the_request_says_nothing(void **state) {
    af_engine_options options = shifting(128);
    options.keep = 40;
    int32_t ids[60];
    fill(ids, 60, 2);
    bench b = recalling(&plan, options);
    const asked silent = {60, 128, -1, 400, 40}, other = {60, 128, 3, 400, 3};
    end(begin(&b, ids, &silent), ids, &silent);
    end(begin(&b, ids, &other), ids, &other);
    bench_close(&b);
}

static void who_shifts_changes_nothing_for_others(void **state) {
    static const asked cases[] = {
        {50, 200, -1, 900, 1}, {50, 200, 33, 700, 33}, {90, 200, -1, 60, 1}, {10, 200, 5, 500, 5}};
    for (uint32_t chunk = 512; chunk > 0; chunk /= 23) {
        af_engine_options options = shifting(200);
        options.prefill_chunk = chunk;
        bench b = recalling(&plan, options);
        int32_t ids[4][100];
        talk *talks[4];
        for (uint32_t i = 0; i < 4; i++) {
            fill(ids[i], cases[i].prompt, i / 2); /* two begin alike */
            talks[i] = begin(&b, ids[i], &cases[i]);
        }
        for (uint32_t i = 0; i < 4; i++) end(talks[i], ids[i], &cases[i]);
        for (uint32_t i = 0; i < b.backend->step_count && i < FAKE_LOG; i++) /* what runs again is a prompt as any */
            assert_true(b.backend->steps[i].tokens <= 4 + chunk);
        bench_close(&b);
    }
}

static void what_was_dropped_does_not_count_as_cached(void **state) {
    af_plan of = plan;
    of.group_count = 1; /* a window's pages would be gone */
    int32_t ids[100];
    fill(ids, 100, 2);
    bench b = recalling(&of, shifting(256));
    const asked first = {100, 256, 64, 300, 64};
    end(begin(&b, ids, &first), ids, &first);
    talk *t = begin(&b, ids, &first);
    wait_for_end(t);
    assert_int_equal(t->cached_tokens, 96);
    free(t);
    bench_close(&b);
}

static void without_the_option_a_full_context_ends_the_request(void **state) {
    af_engine_options options = shifting(128);
    options.context_shift = false;
    int32_t ids[50];
    fill(ids, 50, 2);
    bench b = recalling(&plan, options);
    talk *t = talk_new(&b);
    af_request r = request_for(t, ids, 50);
    r.max_tokens = 1000;
    submit(t, &r);
    wait_for_end(t);
    assert_int_equal(t->finish, AF_FINISH_LENGTH);
    assert_int_equal(t->id_count, 128 - 50);
    free(t);
    bench_close(&b);
}

static void an_answer_without_end_is_over_after_sixteen_contexts(void **state) {
    int32_t ids[20];
    fill(ids, 20, 2);
    bench b = recalling(&plan, shifting(128));
    talk *t = talk_new(&b);
    af_request r = request_for(t, ids, 20);
    submit(t, &r);
    wait_for_end(t);
    assert_int_equal(t->finish, AF_FINISH_LENGTH);
    assert_int_equal(t->completion_tokens, 16 * 128);
    free(t);
    bench_close(&b);
}

static void guesses_and_drawing_go_on_over_a_shift(void **state) {
    af_engine_options options = shifting(200);
    bench b = bench_open(options); /* words that go round: guesses are right */
    b.backend->pause = 100;
    talk *t = talk_new(&b);
    af_request r = word_request(t, 2000);
    r.logprobs = 1;
    submit(t, &r);
    wait_for_end(t);
    assert_int_equal(t->id_count, 2000);
    for (size_t i = 0; i < 2000; i++) assert_int_equal(t->ids[i], FAKE_WORD + (int32_t)(i + 1) % WORDS);
    assert_true(b.backend->step_count < 1900);
    free(t);
    b.backend->spread = 0.5f;
    t = talk_new(&b);
    r = word_request(t, 1500);
    r.sampling = (af_sampling){.temperature = 1, .top_p = 1, .repeat_penalty = 1.2f, .repeat_last_n = 400, .seed = 5};
    r.sampling.dry_multiplier = 0.8f;
    submit(t, &r);
    wait_for_end(t);
    assert_int_equal(t->finish == AF_FINISH_LENGTH ? t->id_count : 1500, 1500);
    free(t);
    bench_close(&b);
}

static void who_shifts_can_be_cancelled(void **state) {
    int32_t ids[20];
    fill(ids, 20, 2);
    bench b = recalling(&plan, shifting(64));
    for (uint32_t tokens = 1; tokens < 200; tokens += 23) {
        talk *t = talk_new(&b);
        af_request r = request_for(t, ids, 20);
        submit(t, &r);
        wait_for_tokens(t, tokens);
        af_cancel(b.engine, t->id);
        wait_for_end(t);
        assert_int_equal(t->prompt_tokens, 20);
        free(t);
    }
    bench_close(&b);
}

static void keeping_less_than_nothing_is_refused(void **state) {
    bench b = recalling(&plan, shifting(64));
    talk *t = talk_new(&b);
    af_request r = word_request(t, 5);
    af_error error;
    const int64_t wrong[] = {-2, INT64_MIN, INT64_MAX};
    for (size_t i = 0; i < 3; i++) {
        r.keep = wrong[i];
        assert_int_equal(af_submit(b.engine, &r, NULL, &error), AF_EINVAL);
        assert_non_null(strstr(error.text, "keep"));
    }
    free(t);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_answer_goes_on_as_one_to_what_is_left),
        cmocka_unit_test(the_engine_s_keep_counts_where_the_request_says_nothing),
        cmocka_unit_test(who_shifts_changes_nothing_for_others),
        cmocka_unit_test(what_was_dropped_does_not_count_as_cached),
        cmocka_unit_test(without_the_option_a_full_context_ends_the_request),
        cmocka_unit_test(an_answer_without_end_is_over_after_sixteen_contexts),
        cmocka_unit_test(guesses_and_drawing_go_on_over_a_shift),
        cmocka_unit_test(who_shifts_can_be_cancelled),
        cmocka_unit_test(keeping_less_than_nothing_is_refused),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}

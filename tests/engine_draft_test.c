/* engine_draft_test.c - speculation: the same text in fewer steps, wrong guesses leave no trace, and drafts are made
 * only where they pay. With a backend that counts (fake_model.h).
 */
#include "engine_talk.h"

/* On a device whose steps take the same time whatever they hold, so that every good guess pays. */
static bench bench_open_guessing(af_speculate speculate) {
    af_engine_options options = small_options();
    options.speculate = speculate;
    bench b = bench_open(options);
    b.backend->pause = 300;
    return b;
}

static uint32_t steps_of(bench *b) {
    af_mutex_lock(b->backend->mutex);
    const uint32_t steps = b->backend->step_count;
    af_mutex_unlock(b->backend->mutex);
    return steps;
}

static void check_words(const talk *t, size_t count) {
    assert_int_equal(t->id_count, count);
    for (size_t i = 0; i < count; i++) assert_int_equal(t->ids[i], FAKE_WORD + (int32_t)(i + 1) % WORDS);
}

static void a_text_that_repeats_itself_takes_fewer_steps_than_tokens(void **state) {
    bench b = bench_open_guessing(AF_SPECULATE_NGRAM);
    talk *t = talk_new(&b);
    const af_request r = word_request(t, 1000);
    submit(t, &r);
    wait_for_end(t);
    assert_int_equal(t->finish, AF_FINISH_LENGTH);
    check_words(t, 1000);
    assert_true(steps_of(&b) < 400);
    af_engine_info info;
    af_engine_get_info(b.engine, &info);
    assert_int_equal(info.generated_tokens, 1000);
    assert_int_equal(info.accepted_tokens, 1000 - steps_of(&b)); /* a step chooses one itself, the prompt's too */
    assert_int_equal(info.rejected_tokens, 0);
    free(t);
    bench_close(&b);
}

static void without_speculation_each_token_takes_a_step(void **state) {
    bench b = bench_open_guessing(AF_SPECULATE_OFF);
    talk *t = talk_new(&b);
    const af_request r = word_request(t, 300);
    submit(t, &r);
    wait_for_end(t);
    check_words(t, 300);
    assert_int_equal(steps_of(&b), 300);
    free(t);
    bench_close(&b);
}

static void a_text_that_never_repeats_is_never_drafted(void **state) {
    bench b = bench_open_guessing(AF_SPECULATE_NGRAM);
    b.backend->recalls = true;
    talk *t = talk_new(&b);
    const af_request r = word_request(t, 1000);
    submit(t, &r);
    wait_for_end(t);
    af_engine_info info;
    af_engine_get_info(b.engine, &info);
    assert_int_equal(t->id_count, 1000);
    assert_int_equal(steps_of(&b), 1000);
    assert_int_equal(info.rejected_tokens, 0);
    free(t);
    bench_close(&b);
}

static void a_model_that_carries_state_does_not_guess(void **state) {
    af_carry carry = {.floats = 4};
    af_plan carrying = plan;
    carrying.carries = &carry;
    carrying.carry_count = 1;
    bench b = bench_open_on(&carrying, small_options());
    b.backend->pause = 300;
    talk *t = talk_new(&b);
    const af_request r = word_request(t, 300);
    submit(t, &r);
    wait_for_end(t);
    check_words(t, 300);
    assert_int_equal(steps_of(&b), 300);
    free(t);
    bench_close(&b);
}

/* The word that follows is one of about fifty times another than expected. */
static af_request drawn_request(talk *t) {
    af_request r = word_request(t, 1500);
    r.ignore_eos = true;
    r.sampling.temperature = 1;
    r.sampling.seed = 7;
    return r;
}

static void draw_text(af_speculate speculate, talk **out, af_engine_info *info) {
    bench b = bench_open_guessing(speculate);
    b.backend->spread = 4;
    talk *t = talk_new(&b);
    const af_request r = drawn_request(t);
    submit(t, &r);
    wait_for_end(t);
    af_engine_get_info(b.engine, info);
    bench_close(&b);
    *out = t;
}

static void a_text_that_is_drawn_is_the_same_with_wrong_guesses(void **state) {
    talk *with, *without;
    af_engine_info guessed, plain;
    draw_text(AF_SPECULATE_NGRAM, &with, &guessed);
    draw_text(AF_SPECULATE_OFF, &without, &plain);
    assert_int_equal(with->id_count, 1500);
    assert_memory_equal(with->ids, without->ids, 1500 * sizeof *with->ids);
    assert_string_equal(with->text, without->text);
    assert_true(guessed.accepted_tokens > 0 && guessed.rejected_tokens > 0);
    assert_int_equal(plain.accepted_tokens + plain.rejected_tokens, 0);
    free(with);
    free(without);
}

/* What was guessed wrongly once lay in the cache too. */
static void kept_pages_hold_what_was_said_and_nothing_that_was_guessed(void **state) {
    bench b = bench_open_guessing(AF_SPECULATE_NGRAM);
    b.backend->spread = 4;
    talk *t = talk_new(&b);
    af_request r = drawn_request(t);
    submit(t, &r);
    wait_for_end(t);
    af_engine_info info;
    af_engine_get_info(b.engine, &info);
    assert_true(info.rejected_tokens > 0);
    int32_t ids[2 + 1500 + 20] = {1, FAKE_WORD};
    memcpy(ids + 2, t->ids, 1500 * sizeof *ids);
    free(t);
    b.backend->spread = 0;
    b.backend->recalls = true;
    words_by_history(ids, 1502, 20);
    t = talk_new(&b);
    r = request_for(t, ids, 1502);
    r.max_tokens = 20;
    submit(t, &r);
    wait_for_end(t);
    assert_memory_equal(t->ids, ids + 1502, 20 * sizeof *ids);
    assert_true(t->cached_tokens >= 1501 / AF_KV_PAGE * AF_KV_PAGE);
    free(t);
    bench_close(&b);
}

static void a_stop_string_ends_a_request_amid_its_guesses(void **state) {
    char stop[512] = "";
    for (int32_t i = 0; i < WORDS + 5; i++) { /* what is said last in the third round */
        char room[16];
        uint32_t kind;
        strcat(stop, fake_token((uint32_t)(FAKE_WORD + (i + WORDS - 1) % WORDS), room, &kind));
    }
    const char *stops[] = {stop};
    bench b = bench_open_guessing(AF_SPECULATE_NGRAM);
    talk *t = talk_new(&b);
    af_request r = word_request(t, 1000);
    r.stops = stops;
    r.stop_count = 1;
    submit(t, &r);
    wait_for_end(t);
    assert_int_equal(t->finish, AF_FINISH_STOP);
    check_words(t, (size_t)(2 * WORDS + 3));
    assert_true(steps_of(&b) < (uint32_t)(2 * WORDS));
    free(t);
    bench_close(&b);
}

static void cancel_at_200(talk *t, const af_event *event) {
    if (event->completion_tokens == 200) af_cancel(t->engine, event->request);
}

static void a_request_that_is_cancelled_amid_its_guesses_says_no_more(void **state) {
    bench b = bench_open_guessing(AF_SPECULATE_NGRAM);
    talk *t = talk_new(&b), *next = talk_new(&b);
    af_request r = word_request(t, 1000);
    t->hook = cancel_at_200;
    submit(t, &r);
    wait_for_end(t);
    assert_int_equal(t->finish, AF_FINISH_CANCEL);
    check_words(t, 200);
    r = tea_request(next);
    submit(next, &r);
    check_talk(next, "green tea", AF_FINISH_STOP, 4, 4);
    free(t);
    bench_close(&b);
}

static void requests_that_guess_together_are_none_the_wiser(void **state) {
    bench b = bench_open_guessing(AF_SPECULATE_NGRAM);
    talk *talks[4];
    for (int i = 0; i < 4; i++) {
        talks[i] = talk_new(&b);
        const af_request r = word_request(talks[i], 500 + 100 * i);
        submit(talks[i], &r);
    }
    for (int i = 0; i < 4; i++) {
        wait_for_end(talks[i]);
        check_words(talks[i], (size_t)(500 + 100 * i));
        free(talks[i]);
    }
    assert_true(steps_of(&b) < 600);
    bench_close(&b);
}

/* ---- Guesses and costs ---- */

/* Hashes of a text's last words collide with each other now and then; a guess never starts at the text's own end. */
static void a_guess_begins_before_the_end_of_the_text(void **state) {
    enum { TEXTS = 400, TOKENS = 250 };
    uint32_t random = 1, matches = 0;
    int32_t tokens[TOKENS];
    for (uint32_t text = 0; text < TEXTS; text++) {
        af_draft draft;
        af_error error;
        assert_int_equal(af_draft_open(tokens, TOKENS, &draft, &error), AF_OK);
        for (uint32_t i = 0; i < TOKENS; i++) {
            random = random * 1664525u + 1013904223u;
            tokens[i] = (int32_t)(random >> 28);
            af_draft_advance(&draft, i + 1);
            assert_true(draft.count == i + 1 && draft.match < draft.count);
            matches += draft.match > 0;
        }
        af_draft_close(&draft);
    }
    assert_true(matches > 0);
}

/* A device on which each token beside a step's first takes `each` of the step's 1000 nanoseconds more. */
typedef struct simulation {
    af_draft_costs costs;
    float each;
    uint32_t drafts;
} simulation;

/* Runs so many steps of a request whose guesses are right with `chance`. Returns how much faster its tokens come than
 * without drafts. */
static float simulate(simulation *s, float chance, uint32_t steps) {
    const af_draft_offer offer = {chance, AF_DRAFT_MOST};
    float tokens = 0, ns = 0;
    s->drafts = 0;
    for (uint32_t i = 0; i < steps; i++) {
        const uint32_t size = af_draft_settle(&s->costs, &offer, 1, 64);
        const float took = 1000 * (1 + s->each * (float)size);
        float right = 1;
        for (uint32_t k = 0; k <= size; k++, right *= chance) tokens += right;
        af_draft_measure(&s->costs, 1 + size, (uint64_t)took);
        ns += took;
        s->drafts += size > 0;
    }
    return tokens * 1000 / ns;
}

static void drafts_are_made_where_they_pay(void **state) {
    simulation s = {.each = 0.05f};
    assert_true(simulate(&s, 0.9f, 1000) > 3);
    assert_true(simulate(&s, 0.5f, 1000) > 1.4f);
}

static void text_that_does_not_repeat_is_not_drafted(void **state) {
    simulation s = {.each = 0.05f};
    assert_true(simulate(&s, 0.2f, 1000) == 1);
    assert_int_equal(s.drafts, 0);
}

static void where_drafts_do_not_pay_trials_lose_a_hundredth(void **state) {
    const float each[] = {0.5f, 1, 2}, chances[] = {0.3f, 0.5f, 0.9f};
    for (size_t e = 0; e < 3; e++) {
        for (size_t c = 0; c < 3; c++) {
            simulation s = {.each = each[e]};
            simulate(&s, chances[c], 100); /* what is not known is tried first */
            const float gain = simulate(&s, chances[c], 10000);
            assert_true(gain > 0.985f);
            assert_true(s.drafts > 0); /* tried again, in case it pays now */
        }
    }
}

static void a_slow_spell_does_not_end_drafts_for_ever(void **state) {
    simulation s = {.each = 0.05f};
    simulate(&s, 0.9f, 1000);
    s.each = 3; /* the machine's other work, say */
    simulate(&s, 0.9f, 200);
    s.each = 0.05f;
    simulate(&s, 0.9f, 10000);
    assert_true(simulate(&s, 0.9f, 1000) > 3);
}

static void drafts_stay_within_the_room_of_a_step(void **state) {
    af_draft_costs costs = {0};
    const af_draft_offer offers[] = {{1, 20}, {1, 2}, {0, 20}};
    af_draft_measure(&costs, 3, 1000);
    assert_int_equal(af_draft_settle(&costs, offers, 3, 64), 15);
    assert_int_equal(af_draft_size(&offers[1], 15), 2);
    assert_int_equal(af_draft_size(&offers[2], 15), 0);
    assert_int_equal(af_draft_settle(&costs, offers, 3, 16), 7); /* 7 and 2 */
    assert_int_equal(af_draft_settle(&costs, offers, 3, 4), 1);
    assert_int_equal(af_draft_settle(&costs, offers, 3, 1), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_that_repeats_itself_takes_fewer_steps_than_tokens),
        cmocka_unit_test(without_speculation_each_token_takes_a_step),
        cmocka_unit_test(a_text_that_never_repeats_is_never_drafted),
        cmocka_unit_test(a_model_that_carries_state_does_not_guess),
        cmocka_unit_test(a_text_that_is_drawn_is_the_same_with_wrong_guesses),
        cmocka_unit_test(kept_pages_hold_what_was_said_and_nothing_that_was_guessed),
        cmocka_unit_test(a_stop_string_ends_a_request_amid_its_guesses),
        cmocka_unit_test(a_request_that_is_cancelled_amid_its_guesses_says_no_more),
        cmocka_unit_test(requests_that_guess_together_are_none_the_wiser),
        cmocka_unit_test(a_guess_begins_before_the_end_of_the_text),
        cmocka_unit_test(drafts_are_made_where_they_pay),
        cmocka_unit_test(text_that_does_not_repeat_is_not_drafted),
        cmocka_unit_test(where_drafts_do_not_pay_trials_lose_a_hundredth),
        cmocka_unit_test(a_slow_spell_does_not_end_drafts_for_ever),
        cmocka_unit_test(drafts_stay_within_the_room_of_a_step),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}

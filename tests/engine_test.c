/* engine_test.c - what the engine promises its callers, with a backend that counts (fake_model.h): exact texts, tokens
 * and reasons; requests that run together and are none the wiser; one last event for each, come what may.
 */
#include "engine_talk.h"

#include "base/utf8.h"

#include <math.h>
#include <sys/resource.h>

/* ---- Texts, counts and reasons ---- */

static void an_answer_ends_at_the_end_token_which_is_counted(void **state) {
    bench b = bench_open(small_options());
    talk *t = talk_new(&b);
    af_request r = tea_request(t);
    submit(t, &r);
    wait_for_end(t);
    assert_int_equal(t->ids[3], FAKE_EOS);
    check_talk(t, "green tea", AF_FINISH_STOP, 4, 4);
    bench_close(&b);
}

static void max_tokens_ends_an_answer(void **state) {
    bench b = bench_open(small_options());
    talk *t = talk_new(&b);
    af_request r = tea_request(t);
    r.max_tokens = 2;
    submit(t, &r);
    check_talk(t, "green", AF_FINISH_LENGTH, 4, 2);
    t = talk_new(&b);
    r = tea_request(t);
    r.max_tokens = 4; /* the end token is the fourth: a true stop */
    submit(t, &r);
    check_talk(t, "green tea", AF_FINISH_STOP, 4, 4);
    bench_close(&b);
}

static void a_stop_string_across_tokens_is_cut_off(void **state) {
    bench b = bench_open(small_options());
    const char *stops[] = {"never", "een tea"};
    talk *t = talk_new(&b);
    af_request r = tea_request(t);
    r.stops = stops;
    r.stop_count = 2;
    submit(t, &r);
    check_talk(t, "gr", AF_FINISH_STOP, 4, 3);
    bench_close(&b);
}

static void never_shows_a_stop_in_part(talk *t, const af_event *event) {
    if (event->finish != AF_FINISH_NONE || event->length == 0) return;
    if (event->text[event->length - 1] == 'n') t->wrong = "the beginning of a stop string was shown";
}

static void text_that_may_become_a_stop_is_held_back_and_given_out_when_it_does_not(void **state) {
    bench b = bench_open(small_options());
    const char *stops[] = {"n tea for two"};
    talk *t = talk_new(&b);
    t->hook = never_shows_a_stop_in_part;
    af_request r = tea_request(t);
    r.stops = stops;
    r.stop_count = 1;
    submit(t, &r);
    check_talk(t, "green tea", AF_FINISH_STOP, 4, 4);
    t = talk_new(&b);
    t->hook = never_shows_a_stop_in_part;
    r.user = t;
    r.max_tokens = 2;
    submit(t, &r);
    check_talk(t, "green", AF_FINISH_LENGTH, 4, 2);
    bench_close(&b);
}

static void ignore_eos_goes_on_past_the_end_token(void **state) {
    bench b = bench_open(small_options());
    talk *t = talk_new(&b);
    af_request r = tea_request(t);
    r.ignore_eos = true;
    r.max_tokens = 6;
    submit(t, &r);
    check_talk(t, "green teaa0b0", AF_FINISH_LENGTH, 4, 6);
    bench_close(&b);
}

static void max_tokens_0_runs_nothing_and_counts_the_prompt(void **state) {
    bench b = bench_open(small_options());
    talk *t = talk_new(&b);
    af_request r = tea_request(t);
    r.max_tokens = 0;
    submit(t, &r);
    check_talk(t, "", AF_FINISH_LENGTH, 4, 0);
    assert_int_equal(b.backend->step_count, 0);
    bench_close(&b);
}

static void whole_characters(talk *t, const af_event *event) {
    bool continues = event->length > 0 && (event->text[0] & 0xC0) == 0x80;
    if (continues || af_utf8_pending(event->text, event->length) > 0) t->wrong = "a part of a character was shown";
}

static void characters_split_over_tokens_come_whole(void **state) {
    bench b = bench_open(small_options());
    static const unsigned char bytes[] = {0xF0, 0x9F, 0x8D, 0xB5, 0xC3, 0xA9};
    b.backend->next[FAKE_GO] = FAKE_BYTE + bytes[0];
    for (int i = 0; i < 5; i++) b.backend->next[FAKE_BYTE + bytes[i]] = FAKE_BYTE + bytes[i + 1];
    b.backend->next[FAKE_BYTE + 0xA9] = FAKE_EOS;
    talk *t = talk_new(&b);
    t->hook = whole_characters;
    af_request r = tea_request(t);
    submit(t, &r);
    check_talk(t, "\xF0\x9F\x8D\xB5\xC3\xA9", AF_FINISH_STOP, 4, 7);
    t = talk_new(&b);
    r = tea_request(t);
    r.max_tokens = 5; /* ends inside the second character */
    submit(t, &r);
    check_talk(t, "\xF0\x9F\x8D\xB5\xEF\xBF\xBD", AF_FINISH_LENGTH, 4, 5);
    bench_close(&b);
}

static void a_stop_string_of_a_split_character_is_found(void **state) {
    bench b = bench_open(small_options());
    b.backend->next[FAKE_GR] = FAKE_BYTE + 0xC3;
    b.backend->next[FAKE_BYTE + 0xC3] = FAKE_BYTE + 0xA9;
    const char *stops[] = {"\xC3\xA9"};
    talk *t = talk_new(&b);
    af_request r = tea_request(t);
    r.stops = stops;
    r.stop_count = 1;
    submit(t, &r);
    check_talk(t, "gr", AF_FINISH_STOP, 4, 3);
    bench_close(&b);
}

/* ---- The context ---- */

static void an_answer_ends_where_the_context_does(void **state) {
    af_engine_options options = small_options();
    options.ctx = 64;
    bench b = bench_open(options);
    talk *t = talk_new(&b);
    af_request r = word_request(t, -1);
    submit(t, &r);
    wait_for_end(t);
    assert_int_equal(t->finish, AF_FINISH_LENGTH);
    assert_int_equal(t->prompt_tokens + t->completion_tokens, 64);
    free(t);
    bench_close(&b);
}

static void a_prompt_that_fills_the_context_is_refused_with_both_numbers(void **state) {
    af_engine_options options = small_options();
    options.ctx = 64;
    bench b = bench_open(options);
    int32_t prompt[65];
    for (int i = 0; i < 65; i++) prompt[i] = FAKE_WORD;
    static const struct {
        size_t count;
        int64_t max_tokens;
        int rc;
        const char *text;
    } cases[] = {
        {63, -1, AF_OK, NULL},
        {64, 0, AF_OK, NULL},
        {64, -1, AF_ECONTEXT, "the prompt has 64 tokens, the context holds 64, which leaves none for an answer"},
        {65, -1, AF_ECONTEXT, "the prompt has 65 tokens, the context holds 64"},
        {65, 0, AF_ECONTEXT, "the prompt has 65 tokens, the context holds 64"},
    };
    for (int i = 0; i < 5; i++) {
        talk *t = talk_new(&b);
        af_request r = request_for(t, prompt, cases[i].count);
        af_error error;
        r.max_tokens = cases[i].max_tokens;
        assert_int_equal(af_submit(b.engine, &r, &t->id, &error), cases[i].rc);
        if (cases[i].text) {
            assert_string_equal(error.text, cases[i].text);
            assert_int_equal(t->events, 0);
            free(t);
        } else {
            check_talk(t, cases[i].max_tokens ? "b0" : "", AF_FINISH_LENGTH, (uint32_t)cases[i].count,
                       cases[i].max_tokens != 0);
        }
    }
    bench_close(&b);
}

static void bad_requests_are_refused_by_name(void **state) {
    bench b = bench_open(small_options());
    int32_t prompt[] = {1, FAKE_VOCABULARY}, negative[] = {-1};
    uint8_t want[] = {1};
    talk *t = talk_new(&b);
    af_request requests[7];
    for (int i = 0; i < 7; i++) requests[i] = tea_request(t);
    requests[0].prompt_count = 0;
    requests[1].prompt = prompt;
    requests[1].prompt_count = 2;
    requests[2].prompt = negative;
    requests[2].prompt_count = 1;
    requests[3].max_tokens = -2;
    requests[4].sampling.top_p = 2;
    requests[5].on_event = NULL;
    requests[6].want = want;
    static const char *const names[] = {
        "prompt:",   "prompt[1]: token 320", "prompt[0]: token -1", "max_tokens: found -2", "top_p: ", "on_event:",
        "on_logits:"};
    for (int i = 0; i < 7; i++) {
        af_error error;
        assert_int_equal(af_submit(b.engine, &requests[i], &t->id, &error), AF_EINVAL);
        assert_memory_equal(error.text, names[i], strlen(names[i]));
    }
    assert_int_equal(t->events, 0);
    free(t);
    bench_close(&b);
}

/* ---- Logits of the prompt ---- */

static void check_rows(bench *b, size_t count, size_t stride, int64_t max_tokens) {
    int32_t *prompt = malloc(count * sizeof *prompt);
    uint8_t *want = calloc(count, 1);
    for (size_t i = 0; i < count; i++) prompt[i] = (int32_t)(FAKE_WORD + i % 50);
    for (size_t i = 0; i < count; i += stride) want[i] = 7;
    talk *t = talk_new(b);
    af_request r = request_for(t, prompt, count);
    r.want = want;
    r.on_logits = hear_row;
    r.max_tokens = max_tokens;
    submit(t, &r);
    wait_for_end(t);
    assert_int_equal(t->rows, (count + stride - 1) / stride);
    for (size_t i = 0; i < t->rows; i++) {
        assert_int_equal(t->positions[i], i * stride);
        assert_int_equal((int32_t)t->row_best[i], prompt[i * stride] + 1);
    }
    assert_int_equal(t->prompt_tokens, count);
    assert_int_equal(t->completion_tokens, max_tokens);
    assert_int_equal(t->finish, AF_FINISH_LENGTH);
    free(t);
    free(want);
    free(prompt);
}

static void wanted_rows_come_in_order_with_and_without_an_answer(void **state) {
    bench b = bench_open(small_options());
    static const size_t counts[] = {1, 2, 64, 65, 1000, 1500};
    for (int i = 0; i < 6; i++) {
        for (int64_t max_tokens = 0; max_tokens < 3; max_tokens++) {
            check_rows(&b, counts[i], 1, max_tokens);
            check_rows(&b, counts[i], 7, max_tokens);
        }
    }
    for (uint32_t i = 0; i < b.backend->step_count; i++) assert_true(b.backend->steps[i].rows <= 64);
    bench_close(&b);
}

/* ---- Running together ---- */

static void requests_run_together_and_say_what_they_say_alone(void **state) {
    bench b = bench_open(small_options());
    talk *alone = talk_new(&b), *talks[8];
    af_request r = word_request(alone, 300);
    submit(alone, &r);
    wait_for_end(alone);
    fake_hold(b.backend);
    for (int i = 0; i < 8; i++) {
        talks[i] = talk_new(&b);
        r.user = talks[i];
        submit(talks[i], &r);
        if (i == 0) fake_wait_inside(b.backend);
    }
    fake_let_go(b.backend);
    for (int i = 0; i < 8; i++) {
        wait_for_end(talks[i]);
        assert_string_equal(talks[i]->text, alone->text);
        assert_memory_equal(talks[i]->ids, alone->ids, 300 * sizeof(int32_t));
        free(talks[i]);
    }
    uint32_t most = 0;
    for (uint32_t i = 0; i < b.backend->step_count; i++) {
        if (b.backend->steps[i].seqs > most) most = b.backend->steps[i].seqs;
    }
    assert_int_equal(most, 4);
    assert_true(b.backend->step_count < 300 + 2 * 300 + 20); /* two rounds of four, not eight of one */
    free(alone);
    bench_close(&b);
}

static void a_seed_gives_the_same_text_alone_and_beside_others(void **state) {
    bench b = bench_open(small_options());
    b.backend->spread = 0.1f;
    char first[16384] = "";
    for (int round = 0; round < 2; round++) {
        talk *talks[4];
        int count = round == 0 ? 1 : 4;
        for (int i = 0; i < count; i++) {
            talks[i] = talk_new(&b);
            af_request r = word_request(talks[i], 200);
            r.ignore_eos = true;
            r.sampling.temperature = 0.8f;
            r.sampling.top_p = 0.95f;
            r.sampling.repeat_penalty = 1.1f;
            r.sampling.seed = i == count - 1 ? 42 : (uint64_t)i;
            submit(talks[i], &r);
        }
        for (int i = 0; i < count; i++) wait_for_end(talks[i]);
        if (round == 0) strcpy(first, talks[0]->text);
        assert_string_equal(talks[count - 1]->text, first);
        if (round == 1) assert_string_not_equal(talks[0]->text, first);
        for (int i = 0; i < count; i++) free(talks[i]);
    }
    bench_close(&b);
}

/* Whether the one that decodes does so in a prompt's step: 1, or 0 where the backend is not given both kinds at once;
 * then every other step is its own. */
static uint32_t decodes_beside_prompts(const bench *b) {
    return b->backend->base.ops->same_in_any_batch;
}

static void a_long_prompt_stalls_neither_decoding_nor_short_prompts(void **state) {
    bench b = bench_open(small_options());
    int32_t *prompt = malloc(2000 * sizeof *prompt), other[40];
    for (int i = 0; i < 2000; i++) prompt[i] = FAKE_WORD;
    for (int i = 0; i < 40; i++) other[i] = FAKE_WORD + 1;
    talk *decoding = talk_new(&b), *long_one = talk_new(&b), *short_one = talk_new(&b);
    af_request r = word_request(decoding, 1000);
    fake_hold_at(b.backend, 5);
    submit(decoding, &r);
    fake_wait_inside(b.backend);
    af_mutex_lock(b.backend->mutex);
    uint32_t begin = b.backend->step_count + 1;
    af_mutex_unlock(b.backend->mutex);
    r = request_for(long_one, prompt, 2000);
    r.max_tokens = 1;
    submit(long_one, &r);
    r = request_for(short_one, other, 40);
    r.max_tokens = 1;
    submit(short_one, &r);
    fake_let_go(b.backend);
    wait_for_end(long_one);
    wait_for_end(short_one);
    wait_for_end(decoding);
    assert_true(short_one->order < long_one->order);
    assert_true(long_one->order < decoding->order);
    /* The first step takes both prompts: the short one whole, since it leaves the long one more than half. */
    const uint32_t beside = decodes_beside_prompts(&b);
    assert_int_equal(b.backend->steps[begin].seqs, 2 + beside);
    assert_int_equal(b.backend->steps[begin].tokens, 128 + beside);
    uint32_t steps = 0;
    for (uint32_t i = begin; b.backend->steps[i].tokens > 1; i += 2 - beside, steps++) {
        assert_true(b.backend->steps[i].tokens <= 128 + beside);
        if (!beside) assert_int_equal(b.backend->steps[i + 1].tokens, 1);
    }
    assert_int_equal(steps, (2040 + 127) / 128);
    free(decoding);
    free(long_one);
    free(short_one);
    free(prompt);
    bench_close(&b);
}

static void a_prompt_alone_runs_in_chunks_of_the_size_asked(void **state) {
    static const uint32_t chunks[] = {1, 7, 512};
    int32_t prompt[1100];
    for (int i = 0; i < 1100; i++) prompt[i] = FAKE_WORD + i % 57;
    for (int c = 0; c < 3; c++) {
        af_engine_options options = small_options();
        options.prefill_chunk = chunks[c];
        bench b = bench_open(options);
        talk *t = talk_new(&b);
        af_request r = request_for(t, prompt, 1100);
        r.max_tokens = 1;
        submit(t, &r);
        wait_for_end(t);
        assert_int_equal(b.backend->step_count, (1100 + chunks[c] - 1) / chunks[c]);
        for (uint32_t i = 0; i + 1 < b.backend->step_count; i++) {
            assert_int_equal(b.backend->steps[i].tokens, chunks[c]);
            assert_int_equal(b.backend->steps[i].rows, 0); /* logits only where a token is chosen */
        }
        free(t);
        bench_close(&b);
    }
}

static void many_prompts_share_a_budget_of_one_token(void **state) {
    af_engine_options options = small_options();
    options.prefill_chunk = 1;
    bench b = bench_open(options);
    talk *talks[8];
    for (int i = 0; i < 8; i++) {
        talks[i] = talk_new(&b);
        af_request r = tea_request(talks[i]);
        submit(talks[i], &r);
    }
    for (int i = 0; i < 8; i++) check_talk(talks[i], "green tea", AF_FINISH_STOP, 4, 4);
    bench_close(&b);
}

/* ---- The queue ---- */

static void requests_wait_in_order_and_are_refused_past_the_queue(void **state) {
    af_engine_options options = small_options();
    options.parallel = 1;
    options.queue = 2;
    bench b = bench_open(options);
    talk *talks[3], *extra = talk_new(&b);
    fake_hold(b.backend);
    for (int i = 0; i < 3; i++) {
        talks[i] = talk_new(&b);
        af_request r = tea_request(talks[i]);
        submit(talks[i], &r);
        if (i == 0) fake_wait_inside(b.backend);
    }
    af_engine_info info;
    af_engine_get_info(b.engine, &info);
    assert_int_equal(info.running, 1);
    assert_int_equal(info.waiting, 2);
    af_request r = tea_request(extra);
    af_error error;
    assert_int_equal(af_submit(b.engine, &r, &extra->id, &error), AF_EFULL);
    assert_string_equal(error.text, "the queue is full: 1 requests run and 2 wait, at most 1 and 2 may");
    fake_let_go(b.backend);
    for (int i = 0; i < 3; i++) wait_for_end(talks[i]);
    assert_true(talks[0]->order < talks[1]->order && talks[1]->order < talks[2]->order);
    for (int i = 0; i < 3; i++) check_talk(talks[i], "green tea", AF_FINISH_STOP, 4, 4);
    submit(extra, &r); /* there is room again */
    check_talk(extra, "green tea", AF_FINISH_STOP, 4, 4);
    bench_close(&b);
}

static void the_info_tells_sizes_and_totals(void **state) {
    bench b = bench_open(small_options());
    talk *t = talk_new(&b);
    af_request r = tea_request(t);
    submit(t, &r);
    check_talk(t, "green tea", AF_FINISH_STOP, 4, 4);
    af_engine_info info;
    af_engine_get_info(b.engine, &info);
    assert_int_equal(info.ctx, CTX);
    assert_int_equal(info.parallel, 4);
    assert_int_equal(info.queue, 8);
    assert_int_equal(info.threads, 1);
    assert_int_equal(info.kv_bytes, 12345);
    assert_string_equal(info.device, "fake (counts)");
    assert_int_equal(info.running, 0);
    assert_int_equal(info.waiting, 0);
    assert_int_equal(info.prompt_tokens, 4);
    assert_int_equal(info.generated_tokens, 4);
    bench_close(&b);
}

/* ---- Cancelling ---- */

static void a_running_request_is_cancelled_within_a_step(void **state) {
    bench b = bench_open(small_options());
    talk *t = talk_new(&b), *next = talk_new(&b);
    af_request r = word_request(t, 1000);
    fake_hold_at(b.backend, 5);
    submit(t, &r);
    fake_wait_inside(b.backend);
    uint32_t before = t->completion_tokens;
    assert_int_equal(before, 4);
    af_cancel(b.engine, t->id);
    fake_let_go(b.backend);
    wait_for_end(t);
    assert_int_equal(t->finish, AF_FINISH_CANCEL);
    assert_int_equal(t->completion_tokens, before); /* the step it was in gave nothing more */
    af_cancel(b.engine, t->id);                     /* over: nothing happens */
    af_cancel(b.engine, 12345678);
    r = tea_request(next);
    submit(next, &r);
    check_talk(next, "green tea", AF_FINISH_STOP, 4, 4);
    free(t);
    bench_close(&b);
}

static void a_waiting_request_is_cancelled_without_running(void **state) {
    af_engine_options options = small_options();
    options.parallel = 1;
    bench b = bench_open(options);
    talk *running = talk_new(&b), *waiting = talk_new(&b);
    fake_hold(b.backend);
    af_request r = word_request(running, 100);
    submit(running, &r);
    fake_wait_inside(b.backend);
    r = tea_request(waiting);
    submit(waiting, &r);
    af_cancel(b.engine, waiting->id);
    fake_let_go(b.backend);
    check_talk(waiting, "", AF_FINISH_CANCEL, 0, 0);
    wait_for_end(running);
    assert_int_equal(running->finish, AF_FINISH_LENGTH);
    free(running);
    bench_close(&b);
}

static void cancelling_gives_out_text_that_was_held_back(void **state) {
    bench b = bench_open(small_options());
    const char *stops[] = {"green tea for two"};
    b.backend->next[FAKE_TEA] = FAKE_BYTE + '!';
    talk *t = talk_new(&b);
    af_request r = tea_request(t);
    r.stops = stops;
    r.stop_count = 1;
    fake_hold_at(b.backend, 3);
    submit(t, &r);
    fake_wait_inside(b.backend);
    assert_string_equal(t->text, "");
    af_cancel(b.engine, t->id);
    fake_let_go(b.backend);
    check_talk(t, "green", AF_FINISH_CANCEL, 4, 2);
    bench_close(&b);
}

/* ---- Calls from callbacks ---- */

static void submit_again(talk *t, const af_event *event) {
    if (event->finish == AF_FINISH_NONE || t->submitted) return;
    t->submitted = 1;
    af_request r = tea_request(t->other);
    af_error error;
    if (af_submit(t->engine, &r, &t->other->id, &error) < 0) t->wrong = "a last event could not submit";
}

static void a_last_event_may_submit_even_where_the_queue_was_full(void **state) {
    af_engine_options options = small_options();
    options.parallel = 1;
    options.queue = 0;
    bench b = bench_open(options);
    talk *t = talk_new(&b), *other = talk_new(&b);
    t->hook = submit_again;
    t->other = other;
    af_request r = tea_request(t);
    submit(t, &r);
    check_talk(t, "green tea", AF_FINISH_STOP, 4, 4);
    check_talk(other, "green tea", AF_FINISH_STOP, 4, 4);
    bench_close(&b);
}

static void cancel_at_three(talk *t, const af_event *event) {
    if (event->completion_tokens == 3) af_cancel(t->engine, event->request);
    if (event->completion_tokens == 3 && t->other) af_cancel(t->engine, t->other->id);
}

static void an_event_may_cancel_its_own_request_and_others(void **state) {
    bench b = bench_open(small_options());
    talk *t = talk_new(&b), *other = talk_new(&b);
    af_request r = word_request(other, -1);
    fake_hold(b.backend);
    submit(other, &r);
    t->hook = cancel_at_three;
    t->other = other;
    r.user = t;
    submit(t, &r);
    fake_let_go(b.backend);
    wait_for_end(t);
    wait_for_end(other);
    assert_int_equal(t->finish, AF_FINISH_CANCEL);
    assert_int_equal(t->completion_tokens, 3);
    assert_int_equal(other->finish, AF_FINISH_CANCEL);
    free(t);
    free(other);
    bench_close(&b);
}

/* ---- Errors and closing ---- */

static void a_failed_step_ends_its_requests_and_the_engine_lives_on(void **state) {
    bench b = bench_open(small_options());
    b.backend->fail_at = 10;
    talk *a = talk_new(&b), *c = talk_new(&b), *after = talk_new(&b);
    fake_hold(b.backend);
    af_request r = word_request(a, 100);
    submit(a, &r);
    r.user = c;
    submit(c, &r);
    fake_let_go(b.backend);
    wait_for_end(a);
    wait_for_end(c);
    assert_int_equal(a->finish, AF_FINISH_ERROR);
    assert_int_equal(c->finish, AF_FINISH_ERROR);
    assert_string_equal(a->error, "device: lost on purpose");
    r = tea_request(after);
    submit(after, &r);
    check_talk(after, "green tea", AF_FINISH_STOP, 4, 4);
    free(a);
    free(c);
    bench_close(&b);
}

static void a_lost_device_is_opened_again_by_the_next_request(void **state) {
    bench b = bench_open(small_options());
    attempts = 0;
    failures = 1;
    b.backend->lose_at = 10;
    talk *a = talk_new(&b), *refused = talk_new(&b), *after = talk_new(&b), *later = talk_new(&b);
    af_request r = word_request(a, 100);
    submit(a, &r);
    wait_for_end(a);
    assert_int_equal(a->finish, AF_FINISH_ERROR);
    assert_string_equal(a->error, "device: lost on purpose");
    r = tea_request(refused);
    submit(refused, &r);
    wait_for_end(refused);
    assert_int_equal(refused->finish, AF_FINISH_ERROR);
    assert_string_equal(refused->error, "device: not there yet");
    r = tea_request(after);
    submit(after, &r);
    check_talk(after, "green tea", AF_FINISH_STOP, 4, 4);
    r = tea_request(later);
    submit(later, &r);
    check_talk(later, "green tea", AF_FINISH_STOP, 4, 4);
    assert_int_equal(attempts, 2);
    b.backend = opened; /* the other one was closed */
    free(a);
    free(refused);
    bench_close(&b);
}

static void submit_while_closing(talk *t, const af_event *event) {
    if (event->finish == AF_FINISH_NONE) return;
    talk *nothing = t->other;
    af_request r = tea_request(nothing);
    af_error error;
    t->submitted = af_submit(t->engine, &r, &nothing->id, &error);
}

static void closing_ends_all_requests_each_with_one_event(void **state) {
    af_engine_options options = small_options();
    options.parallel = 2;
    bench b = bench_open(options);
    b.backend->pause = 1000;
    talk *talks[6], *nothing = talk_new(&b);
    for (int i = 0; i < 6; i++) {
        talks[i] = talk_new(&b);
        talks[i]->hook = submit_while_closing;
        talks[i]->other = nothing;
        af_request r = word_request(talks[i], -1);
        submit(talks[i], &r);
    }
    wait_for_tokens(talks[0], 3);
    bench_close(&b);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(talks[i]->finals, 1);
        assert_int_equal(talks[i]->finish, AF_FINISH_CANCEL);
        assert_int_equal(talks[i]->submitted, AF_ECANCELED);
        free(talks[i]);
    }
    assert_int_equal(nothing->events, 0);
    free(nothing);
}

static void an_idle_engine_uses_no_processor(void **state) {
    bench b = bench_open(small_options());
    talk *t = talk_new(&b);
    af_request r = tea_request(t);
    submit(t, &r);
    check_talk(t, "green tea", AF_FINISH_STOP, 4, 4);
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    usleep(300000);
    getrusage(RUSAGE_SELF, &after);
#ifndef __SANITIZE_THREAD__                             /* which has a thread of its own */
    assert_true(after.ru_nvcsw - before.ru_nvcsw <= 3); /* a polling thread would wake again and again */
#endif
    int64_t used =
        (after.ru_utime.tv_sec - before.ru_utime.tv_sec) * 1000000 + after.ru_utime.tv_usec - before.ru_utime.tv_usec;
    assert_true(used < 20000);
    bench_close(&b);
}

/* Many threads submit and cancel at random; every accepted request hears exactly one last event. A full queue refuses a
   thread as often as the others are quicker: that one of them is let in is all there is to say of how many. */
typedef struct crowd {
    bench *b;
    uint32_t seed, accepted;
    talk *talks[40];
} crowd;

static void crowd_run(void *user) {
    crowd *c = user;
    for (int i = 0; i < 40; i++) {
        talk *t = c->talks[i] = talk_new(c->b);
        c->seed = c->seed * 1664525 + 1013904223;
        af_request r = word_request(t, c->seed >> 26);
        if (af_submit(c->b->engine, &r, &t->id, NULL) < 0) {
            free(t);
            c->talks[i] = NULL;
            continue;
        }
        c->accepted++;
        if (c->seed >> 24 & 1) af_cancel(c->b->engine, t->id);
        if (c->seed >> 25 & 1) wait_for_end(t);
    }
}

static void a_crowd_hears_one_last_event_each(void **state) {
    bench b = bench_open(small_options());
    af_thread *threads[4];
    crowd crowds[4] = {{&b, 1, 0, {0}}, {&b, 2, 0, {0}}, {&b, 3, 0, {0}}, {&b, 4, 0, {0}}};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(af_thread_start(&threads[i], "crowd", crowd_run, &crowds[i], NULL), AF_OK);
    }
    for (int i = 0; i < 4; i++) af_thread_join(threads[i]);
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 40; k++) {
            if (crowds[i].talks[k]) wait_for_end(crowds[i].talks[k]);
        }
    }
    bench_close(&b);
    uint32_t accepted = 0;
    for (int i = 0; i < 4; i++) {
        accepted += crowds[i].accepted;
        for (int k = 0; k < 40; k++) {
            if (crowds[i].talks[k]) assert_int_equal(crowds[i].talks[k]->finals, 1);
            free(crowds[i].talks[k]);
        }
    }
    assert_true(accepted > 0);
}

/* ---- Embeddings ---- */

static void hear_embedding(void *user, const float *embedding, size_t count) {
    talk *t = user;
    if (count != FAKE_WIDTH) t->wrong = "an embedding of another width";
    if (t->finals > 0) t->wrong = "an embedding after the last event";
    memcpy(t->embedding, embedding, sizeof t->embedding);
    t->embeddings++;
}

static af_request embedding_request(talk *t, af_pooling pooling) {
    af_request r = tea_request(t);
    r.on_embedding = hear_embedding;
    r.pooling = pooling;
    return r;
}

/* The direction of (x, y), and one end without a token. */
static void check_embedding(talk *t, double x, double y) {
    wait_for_end(t);
    assert_int_equal(t->embeddings, 1);
    assert_float_equal(t->embedding[0], x / sqrt(x * x + y * y), 1e-7);
    assert_float_equal(t->embedding[1], y / sqrt(x * x + y * y), 1e-7);
    check_talk(t, "", AF_FINISH_STOP, 4, 0);
}

/* A state of the fake is (id, position from 1); the prompt is hi_go. */
static void an_embedding_is_pooled_as_asked_and_of_length_1(void **state) {
    const double sum = 1 + FAKE_BYTE + 'h' + FAKE_BYTE + 'i' + FAKE_GO;
    const struct {
        af_pooling how;
        double x, y;
    } cases[] = {{AF_POOLING_MODEL, FAKE_GO, 4},
                 {AF_POOLING_LAST, FAKE_GO, 4},
                 {AF_POOLING_CLS, 1, 1},
                 {AF_POOLING_MEAN, sum, 1 + 2 + 3 + 4}};
    for (uint32_t chunk = 1; chunk <= 4; chunk++) {
        af_engine_options options = small_options();
        options.prefill_chunk = chunk;
        bench b = bench_open(options);
        for (int i = 0; i < 4; i++) {
            talk *t = talk_new(&b);
            af_request r = embedding_request(t, cases[i].how);
            submit(t, &r);
            check_embedding(t, cases[i].x, cases[i].y);
        }
        bench_close(&b);
    }
}

static void embeddings_and_answers_share_steps(void **state) {
    bench b = bench_open(small_options());
    talk *embed = talk_new(&b), *say = talk_new(&b), *long_one = talk_new(&b);
    af_request r = word_request(long_one, 100);
    fake_hold(b.backend);
    submit(long_one, &r);
    fake_wait_inside(b.backend);
    r = tea_request(say);
    submit(say, &r);
    r = embedding_request(embed, AF_POOLING_MEAN);
    submit(embed, &r);
    fake_let_go(b.backend);
    check_talk(say, "green tea", AF_FINISH_STOP, 4, 4);
    check_embedding(embed, 1 + FAKE_BYTE + 'h' + FAKE_BYTE + 'i' + FAKE_GO, 10);
    wait_for_end(long_one);
    assert_int_equal(long_one->completion_tokens, 100);
    const uint32_t beside = decodes_beside_prompts(&b);
    assert_int_equal(b.backend->steps[2 - beside].tokens, beside + 4 + 4);
    free(long_one);
    bench_close(&b);
}

static void a_cancelled_embedding_is_not_given(void **state) {
    bench b = bench_open(small_options());
    talk *t = talk_new(&b);
    af_request r = embedding_request(t, AF_POOLING_MODEL);
    fake_hold(b.backend);
    submit(t, &r);
    fake_wait_inside(b.backend);
    af_cancel(b.engine, t->id);
    fake_let_go(b.backend);
    wait_for_end(t);
    assert_int_equal(t->embeddings, 0);
    assert_int_equal(t->finish, AF_FINISH_CANCEL);
    free(t);
    bench_close(&b);
}

static void check_refused(bench *b, const af_request *r, int code, const char *text) {
    af_error error;
    assert_int_equal(af_submit(b->engine, r, NULL, &error), code);
    assert_string_equal(error.text, text);
}

static void what_a_model_does_not_give_is_refused(void **state) {
    static af_plan other;
    other = plan;
    other.op_count = 1; /* states, and no head */
    bench b = bench_open_on(&other, small_options());
    af_request r = request_for(NULL, hi_go, 4);
    check_refused(&b, &r, AF_EUNSUPPORTED, "the model gives embeddings, not text");
    r.on_embedding = hear_embedding;
    r.pooling = AF_POOLING_NONE;
    check_refused(&b, &r, AF_EINVAL, "pooling: found 4, allowed 0 to 3");
    r.pooling = AF_POOLING_MODEL;
    r.want = (const uint8_t *)"1111";
    r.on_logits = hear_row;
    check_refused(&b, &r, AF_EINVAL, "want: rows of logits and an embedding are asked for together");
    bench_close(&b);
    other = plan;
    other.pooling = AF_POOLING_NONE;
    b = bench_open_on(&other, small_options());
    r.want = NULL;
    check_refused(&b, &r, AF_EUNSUPPORTED, "the model gives no embeddings");
    bench_close(&b);
}

/* In steps of 512 tokens: the second waits for the next one, and those behind it with it. */
static void a_plan_that_takes_prompts_whole_is_never_given_a_part(void **state) {
    static const uint32_t lengths[] = {300, 300, 100, 112, 400}, steps[] = {1, 300, 300 + 100 + 112, 400};
    static int32_t ids[400];
    static af_plan whole;
    whole = plan;
    whole.op_count = 1;
    whole.whole = true;
    for (int i = 0; i < 400; i++) ids[i] = FAKE_WORD;
    af_engine_options options = small_options();
    options.parallel = 8;
    bench b = bench_open_on(&whole, options);
    talk *first = talk_new(&b), *talks[5];
    af_request r = request_for(first, ids, 1);
    r.on_embedding = hear_embedding;
    fake_hold(b.backend);
    submit(first, &r);
    fake_wait_inside(b.backend);
    for (int i = 0; i < 5; i++) {
        talks[i] = talk_new(&b);
        r.user = talks[i];
        r.prompt_count = lengths[i];
        submit(talks[i], &r);
    }
    fake_let_go(b.backend);
    wait_for_end(first);
    for (int i = 0; i < 5; i++) {
        wait_for_end(talks[i]);
        assert_int_equal(talks[i]->embeddings, 1);
        free(talks[i]);
    }
    assert_int_equal(b.backend->step_count, 4);
    for (int i = 0; i < 4; i++) assert_int_equal(b.backend->steps[i].tokens, steps[i]);
    free(first);
    bench_close(&b);
}

/* ---- Options ---- */

static void a_plan_that_takes_prompts_whole_has_steps_that_hold_the_longest(void **state) {
    static const af_plan whole = {.whole = true, .context = 8192};
    af_engine_options options = af_engine_options_default();
    bool lowered;
    assert_int_equal(af_settle_options(&whole, &options, &lowered, NULL), AF_OK);
    assert_int_equal(options.prefill_chunk, 8192);
    assert_int_equal(options.parallel, 32);
    options = af_engine_options_default();
    assert_int_equal(af_settle_options(&plan, &options, &lowered, NULL), AF_OK);
    assert_int_equal(options.parallel, 4);
}

static void options_out_of_bounds_are_refused_by_name(void **state) {
    static const struct {
        const char *text;
        uint32_t ctx, parallel, queue, chunk;
    } cases[] = {
        {"ctx: 2049 tokens asked, the model's context holds 2048", 2049, 4, 64, 512},
        {"parallel: found 1025, must be at least 1 and at most 1024", 0, 1025, 64, 512},
        {"queue: found 70000, must be at least 0 and at most 65536", 0, 4, 70000, 512},
        {"prefill_chunk: found 0, must be at least 1 and at most 65536", 0, 4, 64, 0},
    };
    for (int i = 0; i < 4; i++) {
        af_engine_options options = af_engine_options_default();
        options.ctx = cases[i].ctx;
        options.parallel = cases[i].parallel;
        options.queue = cases[i].queue;
        options.prefill_chunk = cases[i].chunk;
        bool lowered;
        af_error error;
        assert_int_equal(af_settle_options(&plan, &options, &lowered, &error), AF_EINVAL);
        assert_string_equal(error.text, cases[i].text);
    }
}

static void the_context_is_native_unless_memory_would_not_hold_it(void **state) {
    af_cache cache = {.kv_heads = 8, .k_dim = 128, .v_dim = 128};
    af_plan sized = {.groups = {{0}}, .group_count = 1, .caches = &cache, .cache_count = 1, .context = 4096};
    af_engine_options options = af_engine_options_default();
    bool lowered = true;
    assert_int_equal(af_settle_options(&sized, &options, &lowered, NULL), AF_OK);
    assert_int_equal(options.ctx, 4096);
    assert_false(lowered);
    sized.context = 1u << 30; /* 16 TiB of cache */
    options.ctx = 0;
    assert_int_equal(af_settle_options(&sized, &options, &lowered, NULL), AF_OK);
    assert_true(options.ctx >= 512 && options.ctx < 1u << 30);
    assert_true(lowered);
    uint64_t bytes = af_plan_kv_bytes(&sized, options.ctx, af_kv_cost_of(AF_KV_F16)) * options.parallel;
    assert_true(options.ctx == 512 || bytes < af_os_memory_available());
}

static void defaults_are_openai_s_and_what_the_file_asks_within_bounds(void **state) {
    af_sampling s = af_sampling_default(NULL);
    assert_float_equal(s.temperature, 1, 0);
    assert_float_equal(s.top_p, 1, 0);
    assert_float_equal(s.min_p, 0, 0);
    assert_int_equal(s.top_k, 0);
    assert_float_equal(s.repeat_penalty, 1, 0);
    assert_true(s.seed == AF_SEED_RANDOM);
    s = af_sampling_default(model); /* the file asks for 0.6 and 64, and for a top_p of 5 */
    assert_float_equal(s.temperature, 0.6f, 0);
    assert_float_equal(s.top_p, 1, 0);
    assert_int_equal(s.top_k, 64);
    af_request r = af_request_default(model);
    assert_int_equal(r.max_tokens, -1);
}

/* ---- ---- */

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_ends_at_the_end_token_which_is_counted),
        cmocka_unit_test(max_tokens_ends_an_answer),
        cmocka_unit_test(a_stop_string_across_tokens_is_cut_off),
        cmocka_unit_test(text_that_may_become_a_stop_is_held_back_and_given_out_when_it_does_not),
        cmocka_unit_test(ignore_eos_goes_on_past_the_end_token),
        cmocka_unit_test(max_tokens_0_runs_nothing_and_counts_the_prompt),
        cmocka_unit_test(characters_split_over_tokens_come_whole),
        cmocka_unit_test(a_stop_string_of_a_split_character_is_found),
        cmocka_unit_test(an_answer_ends_where_the_context_does),
        cmocka_unit_test(a_prompt_that_fills_the_context_is_refused_with_both_numbers),
        cmocka_unit_test(bad_requests_are_refused_by_name),
        cmocka_unit_test(wanted_rows_come_in_order_with_and_without_an_answer),
        cmocka_unit_test(requests_run_together_and_say_what_they_say_alone),
        cmocka_unit_test(a_seed_gives_the_same_text_alone_and_beside_others),
        cmocka_unit_test(a_long_prompt_stalls_neither_decoding_nor_short_prompts),
        cmocka_unit_test(a_prompt_alone_runs_in_chunks_of_the_size_asked),
        cmocka_unit_test(many_prompts_share_a_budget_of_one_token),
        cmocka_unit_test(requests_wait_in_order_and_are_refused_past_the_queue),
        cmocka_unit_test(the_info_tells_sizes_and_totals),
        cmocka_unit_test(a_running_request_is_cancelled_within_a_step),
        cmocka_unit_test(a_waiting_request_is_cancelled_without_running),
        cmocka_unit_test(cancelling_gives_out_text_that_was_held_back),
        cmocka_unit_test(a_last_event_may_submit_even_where_the_queue_was_full),
        cmocka_unit_test(an_event_may_cancel_its_own_request_and_others),
        cmocka_unit_test(a_failed_step_ends_its_requests_and_the_engine_lives_on),
        cmocka_unit_test(a_lost_device_is_opened_again_by_the_next_request),
        cmocka_unit_test(closing_ends_all_requests_each_with_one_event),
        cmocka_unit_test(an_idle_engine_uses_no_processor),
        cmocka_unit_test(a_crowd_hears_one_last_event_each),
        cmocka_unit_test(an_embedding_is_pooled_as_asked_and_of_length_1),
        cmocka_unit_test(embeddings_and_answers_share_steps),
        cmocka_unit_test(a_cancelled_embedding_is_not_given),
        cmocka_unit_test(what_a_model_does_not_give_is_refused),
        cmocka_unit_test(a_plan_that_takes_prompts_whole_is_never_given_a_part),
        cmocka_unit_test(a_plan_that_takes_prompts_whole_has_steps_that_hold_the_longest),
        cmocka_unit_test(options_out_of_bounds_are_refused_by_name),
        cmocka_unit_test(the_context_is_native_unless_memory_would_not_hold_it),
        cmocka_unit_test(defaults_are_openai_s_and_what_the_file_asks_within_bounds),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}

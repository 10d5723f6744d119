/* gpu_draw_test.c - a GPU draws the token that the sampler draws of the same row with the same random number. On
 * lavapipe, or the adapter that SHIMMY_TEST_GPU names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend_test.h"
#include "engine/sampler.h"
#include "engine/weights.h"

#include <stdlib.h>

enum { SEQUENCES = 12, STEPS = 25, VOCABULARY = 20000 };

static const af_sampling chains[] = {
    {.temperature = 1, .top_p = 1, .top_k = 40},
    {.temperature = 0.3f, .top_p = 1, .top_k = 64},
    {.temperature = 2, .top_p = 1, .top_k = 1},
    {.temperature = 4, .top_p = 0.9f, .top_k = 50},
    {.temperature = 0.8f, .top_p = 0.5f, .top_k = 7},
    {.temperature = 1.5f, .top_p = 1, .top_k = 64, .min_p = 0.1f},
    {.temperature = 100, .top_p = 1, .top_k = 3},
    {.temperature = 100, .top_p = 0.99f, .top_k = 64, .min_p = 0.01f},
    {.temperature = 1e-6f, .top_p = 1, .top_k = 40},
    {.temperature = 0.01f, .top_p = 0.95f, .top_k = 20, .min_p = 0.5f},
};
enum { CHAINS = sizeof chains / sizeof *chains };

/* From whole rows, of which these make flat ones and steep ones. */
static const af_sampling whole_chains[] = {
    {.temperature = 1, .top_p = 1},
    {.temperature = 0.3f, .top_p = 1},
    {.temperature = 0.05f, .top_p = 1},
    {.temperature = 1, .top_p = 0.9f},
    {.temperature = 0.3f, .top_p = 0.5f},
    {.temperature = 1, .top_p = 1, .min_p = 0.1f},
    {.temperature = 0.7f, .top_p = 0.95f, .min_p = 0.05f},
    {.temperature = 2, .top_p = 1, .top_k = VOCABULARY},
    {.temperature = 100, .top_p = 1},
    {.temperature = 1e-6f, .top_p = 1},
    {.temperature = 0.01f, .top_p = 0.999f},
};
enum { WHOLE_CHAINS = sizeof whole_chains / sizeof *whole_chains };

static af_plan *plan;
static af_backend *backend;
static af_sampler *samplers[SEQUENCES];
static af_choose choose; /* what they want of a row */

static void close_samplers(void) {
    for (int i = 0; i < SEQUENCES; i++) {
        af_sampler_close(samplers[i]);
        samplers[i] = NULL;
    }
}

static void open_samplers(bool whole) {
    close_samplers();
    choose = whole ? AF_CHOOSE_LOGITS : AF_CHOOSE_TOP;
    for (uint64_t i = 0; i < SEQUENCES; i++) {
        af_error error;
        af_sampling sampling = whole ? whole_chains[i % WHOLE_CHAINS] : chains[i % CHAINS];
        sampling.repeat_penalty = 1;
        sampling.seed = i;
        if (af_sampler_open(&sampling, VOCABULARY, &samplers[i], &error) < 0) fail_msg("%s", error.text);
        assert_int_equal(af_sampler_draws_whole(samplers[i]), whole);
        assert_int_equal(af_sampler_takes_top(samplers[i], AF_TOP_MOST), !whole);
    }
}

static int open_device(void **state) {
    shape s = llama_like;
    s.vocabulary = VOCABULARY;
    plan = make_plan(&s);
    const af_backend_options options = {
        .exact = true, .pages = {2 * SEQUENCES, 2 * SEQUENCES}, .max_tokens = SEQUENCES, .max_rows = SEQUENCES};
    const char *named = getenv("SHIMMY_TEST_GPU");
    af_error error;
    if (af_backend_open(named ? named : "llvm", plan, &options, &backend, &error) != AF_OK) {
        print_message("no such device here: %s\n", error.text);
        backend = NULL;
    }
    return 0;
}

static int close_device(void **state) {
    close_samplers();
    if (backend) backend->ops->close(backend);
    af_plan_close(plan);
    return 0;
}

typedef struct step {
    af_batch_token tokens[SEQUENCES];
    af_batch_seq seqs[SEQUENCES];
    af_draw draws[SEQUENCES];
    uint32_t pages[SEQUENCES][2];
} step;

static void fill(step *s, uint32_t count, uint32_t position, const int32_t *ids) {
    for (uint32_t i = 0; i < count; i++) {
        s->draws[i] = af_sampler_draw(samplers[i], 0);
        s->pages[i][0] = 2 * i, s->pages[i][1] = 2 * i + 1;
        s->seqs[i] = (af_batch_seq){.pages = {s->pages[i], s->pages[i], s->pages[i], s->pages[i]}};
        s->tokens[i] =
            (af_batch_token){.id = ids[i], .seq = i, .position = position, .choose = choose, .draw = &s->draws[i]};
    }
}

static af_result run(const step *s, uint32_t count) {
    const af_batch batch = {.tokens = s->tokens, .token_count = count, .seqs = s->seqs, .seq_count = count};
    af_result result;
    af_ticket ticket;
    af_error error;
    if (backend->ops->submit(backend, &batch, &ticket, &error) < 0) fail_msg("%s", error.text);
    if (backend->ops->collect(backend, ticket, &result, &error) < 0) fail_msg("%s", error.text);
    return result;
}

/* Rounding may turn a draw at the very edge between two tokens: a few in a thousand where all 20,000 weigh the same. */
static void check(uint32_t count, bool whole) {
    if (!backend) skip();
    open_samplers(whole);
    int32_t ids[SEQUENCES] = {0};
    uint32_t different = 0, best = 0;
    step s;
    for (uint32_t position = 0; position < STEPS; position++) {
        fill(&s, count, position, ids);
        const af_result result = run(&s, count);
        for (uint32_t i = 0; i < count; i++) {
            const int32_t drawn = result.ids[i];
            ids[i] = af_sampler_choose(samplers[i], result.logits[i]);
            different += drawn != ids[i];
            best += drawn == af_best_token(result.logits[i], VOCABULARY);
        }
    }
    assert_true(different <= (whole ? count * STEPS / 50 : 1));
    assert_true(best < count * STEPS * 3 / 4); /* a device that took the best would be seen */
}

static void each_of_a_few_sequences_is_drawn_as_its_sampler_draws(void **state) {
    check(4, false); /* the list of steps for decoding */
    check(4, true);
}

static void each_of_many_sequences_is_drawn_as_its_sampler_draws(void **state) {
    check(SEQUENCES, false); /* the general one */
    check(SEQUENCES, true);
}

static void a_row_without_a_draw_is_not_drawn(void **state) {
    if (!backend) skip();
    const int32_t ids[SEQUENCES] = {0};
    step s;
    open_samplers(false);
    fill(&s, 2, 0, ids);
    s.tokens[0].choose = AF_CHOOSE_GREEDY;
    s.tokens[0].draw = NULL;
    const af_result result = run(&s, 2);
    assert_null(result.logits[0]);
    assert_int_equal(result.ids[1], af_sampler_choose(samplers[1], result.logits[1]));
    assert_int_equal(result.ids[0], af_best_token(result.logits[1], VOCABULARY)); /* both read the same token */
}

/* In one batch: from its list, from all, the best, and a row that nothing is drawn from. */
static void rows_of_every_kind_stand_side_by_side(void **state) {
    if (!backend) skip();
    const int32_t ids[SEQUENCES] = {0};
    af_sampler *whole;
    step s;
    open_samplers(true);
    whole = samplers[3];
    samplers[3] = NULL;
    open_samplers(false);
    fill(&s, 4, 0, ids);
    s.draws[1] = af_sampler_draw(whole, 0);
    s.tokens[1].choose = s.tokens[2].choose = AF_CHOOSE_LOGITS;
    s.tokens[2].draw = NULL;
    s.tokens[3].choose = AF_CHOOSE_GREEDY;
    s.tokens[3].draw = NULL;
    const af_result result = run(&s, 4);
    assert_int_equal(result.ids[0], af_sampler_choose(samplers[0], result.logits[0]));
    assert_int_equal(result.ids[1], af_sampler_choose(whole, result.logits[1]));
    assert_memory_equal(result.logits[1], result.logits[2], VOCABULARY * sizeof(float)); /* all read the same token */
    assert_int_equal(result.ids[3], af_best_token(result.logits[1], VOCABULARY));
    af_sampler_close(whole);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_every_kind_stand_side_by_side),
        cmocka_unit_test(each_of_a_few_sequences_is_drawn_as_its_sampler_draws),
        cmocka_unit_test(each_of_many_sequences_is_drawn_as_its_sampler_draws),
        cmocka_unit_test(a_row_without_a_draw_is_not_drawn),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}

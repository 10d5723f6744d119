/* chain_test.c - the cuts that need sorted candidates, DRY, biases and forbidden ends, and log-probabilities: each
 * beside what its definition says of a row small enough to see.
 */
#include "engine/chain.h"
#include "engine/logprobs.h"
#include "engine/sampler.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static af_sampling plain(void) {
    return (af_sampling){.temperature = 1, .top_p = 1, .repeat_penalty = 1, .repeat_last_n = 64, .seed = 1};
}

static af_sampler *sampler_of(af_sampling params, uint32_t vocabulary) {
    af_sampler *s = NULL;
    af_error error;
    if (af_sampler_open(&params, vocabulary, &s, &error) < 0) fail_msg("%s", error.text);
    return s;
}

/* A bit for each token that a thousand draws give; `row` (vocabulary, at most 64). */
static uint64_t drawn(af_sampling params, const float *row, uint32_t vocabulary) {
    af_sampler *s = sampler_of(params, vocabulary);
    uint64_t seen = 0;
    for (int i = 0; i < 1000; i++) seen |= 1ull << af_sampler_choose(s, row);
    af_sampler_close(s);
    return seen;
}

/* Probabilities 0.4, 0.3, 0.15, 0.1, 0.05, out of order. */
static const double chances[] = {0.1, 0.4, 0.05, 0.3, 0.15};
enum { FIVE = 5, T10 = 1 << 0, T40 = 1 << 1, T5 = 1 << 2, T30 = 1 << 3, T15 = 1 << 4, ALL = 31 };

static const float *five(void) {
    static float row[FIVE];
    for (int i = 0; i < FIVE; i++) row[i] = (float)log(chances[i]);
    return row;
}

static void candidates_stand_in_falling_order_the_lower_id_first(void **state) {
    const float row[] = {1, -INFINITY, 3, NAN, 3, -2, 0.0f, -0.0f};
    const int32_t expected[] = {2, 4, 0, 6, 7, 5};
    af_candidates c;
    assert_int_equal(af_candidates_open(8, &c, NULL), AF_OK);
    assert_true(af_candidates_fill(&c, row));
    assert_int_equal(c.count, 6);
    assert_memory_equal(c.ids, expected, sizeof expected);
    af_candidates_close(&c);
}

static void random_rows_are_sorted(void **state) {
    enum { N = 5000 };
    static float row[N];
    af_candidates c;
    af_rng rng;
    af_rng_seed(&rng, 3);
    for (int i = 0; i < N; i++) row[i] = (float)((af_rng_unit(&rng) - 0.5) * pow(10, af_rng_unit(&rng) * 60 - 30));
    assert_int_equal(af_candidates_open(N, &c, NULL), AF_OK);
    assert_true(af_candidates_fill(&c, row));
    assert_int_equal(c.count, N);
    for (int i = 1; i < N; i++) assert_true(c.logits[i - 1] >= c.logits[i]);
    af_candidates_close(&c);
}

static void each_cut_keeps_what_its_definition_says(void **state) {
    static const struct {
        const char *what;
        af_sampling params;
        uint64_t kept;
    } cases[] = {
        {"typical 0.5: entropy 1.39, nearest are 0.3 (1.20) and 0.15 (1.90) and 0.4 (0.92)",
         {.typical_p = 0.5f},
         T30 | T40},
        {"typical 0.29: 0.3 alone", {.typical_p = 0.29f}, T30},
        {"typical 1: off", {.typical_p = 1}, ALL},
        {"n-sigma 1: deviation 0.75 from -0.92", {.top_n_sigma = 1}, T40 | T30},
        {"n-sigma 100 cuts nothing", {.top_n_sigma = 100}, ALL},
        {"xtc 0.15 keeps the least likely of three", {.xtc_probability = 1, .xtc_threshold = 0.149f}, T15 | T10 | T5},
        {"xtc with one token above keeps it", {.xtc_probability = 1, .xtc_threshold = 0.35f}, ALL},
        {"xtc never", {.xtc_probability = 0, .xtc_threshold = 0.1f}, ALL},
        {"xtc over a half is off", {.xtc_probability = 1, .xtc_threshold = 0.51f}, ALL},
        {"mirostat 2, tau 0.9: first mu 1.8 bits",
         {.mirostat = 2, .mirostat_tau = 0.9f, .mirostat_eta = 1e-9f},
         T40 | T30},
        {"an order alone", {.top_k = 2, .order = {AF_STAGE_TOP_K}}, T40 | T30},
        {"an order leaves out what it does not name", {.top_k = 2, .order = {AF_STAGE_TEMPERATURE}}, ALL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        af_sampling p = cases[i].params;
        p.temperature = p.top_p = p.repeat_penalty = 1;
        p.seed = i;
        const uint64_t kept = drawn(p, five(), FIVE);
        if (kept != cases[i].kept) fail_msg("%s: kept %x, expected %x", cases[i].what, (int)kept, (int)cases[i].kept);
    }
}

static void the_order_of_the_cuts_is_the_requests(void **state) {
    /* top_p 0.65 of all keeps 0.4 and 0.3; of the best three (0.47, 0.35, 0.18) too; at temperature 0.1 only 0.4. */
    af_sampling p = plain();
    p.top_p = 0.65f;
    p.temperature = 0.1f;
    const uint8_t late[] = {AF_STAGE_TOP_P, AF_STAGE_TEMPERATURE}, early[] = {AF_STAGE_TEMPERATURE, AF_STAGE_TOP_P};
    memcpy(p.order, late, sizeof late);
    assert_int_equal(drawn(p, five(), FIVE), T40 | T30);
    memcpy(p.order, early, sizeof early);
    assert_int_equal(drawn(p, five(), FIVE), T40);
}

static void xtc_drops_as_often_as_its_probability(void **state) {
    af_sampling p = plain();
    p.xtc_probability = 0.25f;
    p.xtc_threshold = 0.3f - 1e-4f;
    af_sampler *s = sampler_of(p, FIVE);
    int best = 0;
    for (int i = 0; i < 20000; i++) best += af_sampler_choose(s, five()) == 1;
    af_sampler_close(s);
    assert_in_range(best, 20000 * 0.75 * 0.4 - 250, 20000 * 0.75 * 0.4 + 250);
}

static void a_sorted_chain_draws_as_the_plain_one(void **state) {
    af_sampling p = plain();
    const uint8_t order[] = {AF_STAGE_TEMPERATURE, AF_STAGE_TOP_K, AF_STAGE_TOP_P, AF_STAGE_MIN_P};
    p.temperature = 1.3f;
    p.top_k = 4;
    p.top_p = 0.9f;
    int counts[2][FIVE] = {{0}};
    for (int k = 0; k < 2; k++) {
        if (k) memcpy(p.order, order, sizeof order);
        af_sampler *s = sampler_of(p, FIVE);
        for (int i = 0; i < 20000; i++) counts[k][af_sampler_choose(s, five())]++;
        af_sampler_close(s);
    }
    for (int i = 0; i < FIVE; i++) assert_in_range(counts[1][i] + 500, counts[0][i], counts[0][i] + 1000);
}

static void a_temperature_by_entropy_lies_within_its_range(void **state) {
    const float flat[] = {1, 1, 1, 1};
    af_candidates c;
    assert_int_equal(af_candidates_open(4, &c, NULL), AF_OK);
    const float peaked[] = {50, 0, -1, -2};
    assert_true(af_candidates_fill(&c, peaked)); /* no entropy: the least temperature, 0.5 */
    af_candidates_temper_by_entropy(&c, 1, 0.5f, 1);
    assert_true(fabsf(c.logits[1] - -100) < 0.01f);
    const float two[] = {3, 2.999f, 3, 3};
    assert_true(af_candidates_fill(&c, two)); /* nearly all of it: the highest, 1.5 */
    af_candidates_temper_by_entropy(&c, 1, 0.5f, 1);
    assert_true(fabsf(c.logits[3] - -0.001f / 1.5f) < 1e-5f);
    assert_true(af_candidates_fill(&c, flat));
    af_candidates_temper_by_entropy(&c, 1, 1, 2);
    assert_int_equal(c.count, 4);
    af_candidates_close(&c);
}

static void mirostat_holds_the_surprise_it_is_given(void **state) {
    enum { N = 200, DRAWS = 4000 };
    float row[N];
    for (int i = 0; i < N; i++) row[i] = -1.1f * logf((float)i + 1); /* Zipf's law */
    for (int version = 1; version <= 2; version++) {
        af_sampling p = plain();
        p.mirostat = version;
        p.mirostat_tau = 3;
        p.mirostat_eta = 0.05f;
        double norm = 0, surprise = 0;
        for (int i = 0; i < N; i++) norm += exp((double)row[i]);
        af_sampler *s = sampler_of(p, N);
        for (int i = 0; i < DRAWS; i++) surprise += -log2(exp((double)row[af_sampler_choose(s, row)]) / norm);
        af_sampler_close(s);
        /* Measured on the whole row the surprise is above that of the cut one, which mirostat holds. */
        if (surprise / DRAWS < 2.9 || surprise / DRAWS > 4.5)
            fail_msg("version %d: %g bits", version, surprise / DRAWS);
    }
}

static void the_stages_have_the_names_that_servers_use(void **state) {
    for (int i = AF_STAGE_END + 1; i < AF_STAGES; i++) assert_int_equal(af_stage_named(af_stage_name((af_stage)i)), i);
    assert_int_equal(af_stage_named("typ_p"), AF_STAGE_TYPICAL_P);
    assert_int_equal(af_stage_named("grammar"), AF_STAGE_END);
    assert_string_equal(af_stage_name(AF_STAGES), "");
}

/* ---- DRY ---- */

/* What the token `id` loses after `text`. */
static float dry_loss(const af_sampling *params, const int32_t *text, size_t n, int32_t id, int32_t breaker) {
    float row[16] = {0};
    af_sampler *s = sampler_of(*params, 16);
    uint8_t *breaks = calloc(16, 1);
    if (breaker >= 0) breaks[breaker] = 1;
    const af_sampler_extras extras = {.breaks = breaks};
    assert_int_equal(af_sampler_extend(s, &extras, NULL), AF_OK);
    for (size_t i = 0; i < n; i++) af_sampler_accept(s, text[i]);
    /* Greedy takes the best token: the loss is found by raising `id` until it wins against a fixed rival. */
    float low = -1, high = 1000;
    for (int i = 0; i < 40; i++) {
        const float middle = (low + high) / 2;
        memset(row, 0, sizeof row);
        for (int k = 0; k < 16; k++) row[k] = -1e9f;
        row[15] = 0;
        row[id] = middle;
        if (af_sampler_choose(s, row) == id)
            high = middle;
        else
            low = middle;
    }
    af_sampler_close(s);
    return high;
}

static void a_repetition_costs_more_the_longer_it_is(void **state) {
    af_sampling p = plain();
    p.temperature = 0;
    p.dry_multiplier = 0.8f;
    p.dry_base = 2;
    const int32_t text[] = {1, 2, 3, 4, 5, 1, 2, 3}; /* 4 would go on with "1 2 3" */
    assert_true(fabsf(dry_loss(&p, text, 8, 4, -1) - 0.8f * 2) < 1e-3f);
    assert_true(fabsf(dry_loss(&p, text, 8, 5, -1)) < 1e-3f);        /* breaks it off */
    assert_true(fabsf(dry_loss(&p, text, 7, 3, -1) - 0.8f) < 1e-3f); /* "1 2": just allowed_length */
    assert_true(fabsf(dry_loss(&p, text, 6, 2, -1)) < 1e-3f);        /* "1" is too short */
    assert_true(fabsf(dry_loss(&p, text, 8, 4, 1) - 0.8f) < 1e-3f);  /* does not reach across 1 */
    assert_true(fabsf(dry_loss(&p, text, 8, 4, 2)) < 1e-3f);         /* nor across 2: "3" is too short */
    p.dry_last_n = 5;                                                /* sees 4 5 1 2 3: no repetition */
    assert_true(fabsf(dry_loss(&p, text, 8, 4, -1)) < 1e-3f);
}

static void the_longest_of_overlapping_repetitions_counts(void **state) {
    af_sampling p = plain();
    p.temperature = 0;
    p.dry_multiplier = 1;
    p.dry_base = 1.5f;
    int32_t text[40];
    for (int i = 0; i < 40; i++) text[i] = 7; /* 39 long, overlapping itself */
    assert_true(fabsf(dry_loss(&p, text, 12, 7, -1) - powf(1.5f, 9)) < 0.1f);
    for (int i = 0; i < 40; i++) text[i] = i % 3; /* 0 1 2 0 1 2 ... ends in 0; 37 tokens stand three earlier too */
    assert_true(fabsf(dry_loss(&p, text, 16, 1, -1) - powf(1.5f, 11)) < 0.1f);
    assert_true(fabsf(dry_loss(&p, text, 16, 2, -1)) < 1e-2f);
}

/* ---- Biases and ends ---- */

static void biases_move_and_forbid_tokens(void **state) {
    const af_logit_bias bias[] = {{2, 100}, {1, -INFINITY}};
    af_sampler *s = sampler_of(plain(), FIVE);
    const af_sampler_extras extras = {.bias = bias, .bias_count = 2};
    assert_int_equal(af_sampler_extend(s, &extras, NULL), AF_OK);
    for (int i = 0; i < 200; i++) assert_int_equal(af_sampler_choose(s, five()), 2);
    af_sampler_close(s);
    s = sampler_of(plain(), FIVE);
    const af_sampler_extras forbid = {.bias = bias + 1, .bias_count = 1};
    assert_int_equal(af_sampler_extend(s, &forbid, NULL), AF_OK);
    assert_false(af_sampler_is_greedy(s));
    for (int i = 0; i < 1000; i++) assert_int_not_equal(af_sampler_choose(s, five()), 1);
    af_sampler_close(s);
}

static void ends_are_forbidden_until_enough_was_said(void **state) {
    af_sampling p = plain();
    p.temperature = 0;
    const int32_t ends[] = {1};
    af_sampler *s = sampler_of(p, FIVE);
    const af_sampler_extras extras = {.ends = ends, .end_count = 1, .min_tokens = 2};
    assert_int_equal(af_sampler_extend(s, &extras, NULL), AF_OK);
    for (int i = 0; i < 2; i++) {
        assert_false(af_sampler_is_greedy(s));
        assert_int_equal(af_sampler_choose(s, five()), 3);
        af_sampler_answered(s, 3);
    }
    assert_true(af_sampler_is_greedy(s)); /* the device may choose again */
    assert_int_equal(af_sampler_choose(s, five()), 1);
    af_sampler_close(s);
}

/* ---- Log-probabilities ---- */

static void log_probabilities_are_those_of_the_whole_row(void **state) {
    af_logprob l;
    float row[FIVE];
    for (int i = 0; i < FIVE; i++) row[i] = five()[i] + 40; /* a shift changes nothing */
    af_logprob_of(row, FIVE, 2, 3, &l);
    assert_int_equal(l.id, 2);
    assert_true(fabs((double)l.logprob - log(0.05)) < 1e-5);
    assert_int_equal(l.top_count, 3);
    const int32_t ids[] = {1, 3, 4};
    assert_memory_equal(l.top_ids, ids, sizeof ids);
    for (int i = 0; i < 3; i++) assert_true(fabs((double)l.top[i] - log(chances[ids[i]])) < 1e-5);
    af_logprob_of(row, FIVE, 0, 0, &l);
    assert_int_equal(l.top_count, 0);
    af_logprob_of(row, FIVE, 0, 20, &l);
    assert_int_equal(l.top_count, FIVE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(candidates_stand_in_falling_order_the_lower_id_first),
        cmocka_unit_test(random_rows_are_sorted),
        cmocka_unit_test(each_cut_keeps_what_its_definition_says),
        cmocka_unit_test(the_order_of_the_cuts_is_the_requests),
        cmocka_unit_test(xtc_drops_as_often_as_its_probability),
        cmocka_unit_test(a_sorted_chain_draws_as_the_plain_one),
        cmocka_unit_test(a_temperature_by_entropy_lies_within_its_range),
        cmocka_unit_test(mirostat_holds_the_surprise_it_is_given),
        cmocka_unit_test(the_stages_have_the_names_that_servers_use),
        cmocka_unit_test(a_repetition_costs_more_the_longer_it_is),
        cmocka_unit_test(the_longest_of_overlapping_repetitions_counts),
        cmocka_unit_test(biases_move_and_forbid_tokens),
        cmocka_unit_test(ends_are_forbidden_until_enough_was_said),
        cmocka_unit_test(log_probabilities_are_those_of_the_whole_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

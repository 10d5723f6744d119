/* sampler_test.c - what the sampler promises: its chain and order, its bounds, repeatable draws, no surprise from odd
 * rows. Distributions are checked against a plain reference that sorts. The last test prints the time of one choice.
 */
#include "base/os.h"
#include "engine/rng.h"
#include "engine/sampler.h"
#include "engine/weights.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static af_sampling plain(void) {
    return (af_sampling){.temperature = 1, .top_p = 1, .repeat_penalty = 1, .repeat_last_n = 64, .seed = 1};
}

static af_sampler *sampler_of(af_sampling params, uint32_t vocabulary) {
    af_sampler *s = NULL;
    af_error error;
    int rc = af_sampler_open(&params, vocabulary, &s, &error);
    if (rc < 0) fail_msg("%s", error.text);
    return s;
}

static int32_t choose_once(af_sampling params, const float *logits, uint32_t vocabulary) {
    af_sampler *s = sampler_of(params, vocabulary);
    int32_t id = af_sampler_choose(s, logits);
    af_sampler_close(s);
    return id;
}

/* A row that looks like a model's: most logits in a bulk, a few well above. */
static float *random_row(uint32_t vocabulary, uint64_t seed, float spread) {
    af_rng rng;
    af_rng_seed(&rng, seed);
    float *row = malloc(vocabulary * sizeof *row);
    for (uint32_t i = 0; i < vocabulary; i++) {
        double sum = 0;
        for (int k = 0; k < 6; k++) sum += af_rng_unit(&rng) - 0.5;
        row[i] = (float)sum * spread;
    }
    return row;
}

/* ---- The reference: sort everything ---- */

typedef struct entry {
    int32_t id;
    double p;
} entry;

static int by_rank(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->p != y->p) return x->p > y->p ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

/* out (vocabulary): the probability of each token under the documented chain, without penalties. */
static void reference(const af_sampling *p, const float *logits, uint32_t vocabulary, double *out) {
    entry *e = malloc(vocabulary * sizeof *e);
    double best = -INFINITY, total = 0, mass = 0, kept = 0;
    for (uint32_t i = 0; i < vocabulary; i++) best = fmax(best, (double)logits[i]);
    for (uint32_t i = 0; i < vocabulary; i++) {
        e[i] = (entry){(int32_t)i, exp(((double)logits[i] - best) / (double)p->temperature)};
    }
    qsort(e, vocabulary, sizeof *e, by_rank);
    uint32_t n = p->top_k > 0 && (uint32_t)p->top_k < vocabulary ? (uint32_t)p->top_k : vocabulary;
    for (uint32_t i = 0; i < n; i++) total += e[i].p;
    memset(out, 0, vocabulary * sizeof *out);
    for (uint32_t i = 0; i < n && (i == 0 || mass < (double)p->top_p * total); i++) {
        mass += e[i].p;
        if (e[i].p >= (double)p->min_p) out[e[i].id] = e[i].p;
    }
    for (uint32_t i = 0; i < vocabulary; i++) kept += out[i];
    for (uint32_t i = 0; i < vocabulary; i++) out[i] /= kept;
    free(e);
}

/* Draws many times; every draw must be possible, and the counts must lie near the probabilities. */
static void check_distribution(af_sampling params, const float *logits, uint32_t vocabulary) {
    enum { DRAWS = 20000 };
    double *expected = malloc(vocabulary * sizeof *expected);
    uint32_t *counts = calloc(vocabulary, sizeof *counts);
    reference(&params, logits, vocabulary, expected);
    af_sampler *s = sampler_of(params, vocabulary);
    for (int i = 0; i < DRAWS; i++) counts[af_sampler_choose(s, logits)]++;
    for (uint32_t i = 0; i < vocabulary; i++) {
        double want = expected[i] * DRAWS;
        double deviation = sqrt(want * (1 - expected[i])) + 1;
        if (expected[i] == 0 && counts[i] > 0) fail_msg("token %u was cut off, yet chosen %u times", i, counts[i]);
        if (fabs((double)counts[i] - want) > 5 * deviation) {
            fail_msg("token %u: chosen %u times, expected %.1f", i, counts[i], want);
        }
    }
    af_sampler_close(s);
    free(counts);
    free(expected);
}

/* ---- The chain ---- */

static void temperature_0_takes_the_best_token_and_the_lowest_of_equals(void **state) {
    af_sampling p = plain();
    p.temperature = 0;
    float row[130];
    for (int i = 0; i < 130; i++) row[i] = (float)(i % 7);
    assert_int_equal(choose_once(p, row, 130), 6);
    row[129] = 9;
    assert_int_equal(choose_once(p, row, 130), 129);
    row[65] = 9;
    assert_int_equal(choose_once(p, row, 130), 65);
}

static void draws_follow_the_distribution(void **state) {
    float *row = random_row(1000, 7, 6);
    static const float temperatures[] = {0.3f, 1, 3};
    static const int32_t top_ks[] = {0, 5, 40, 2000};
    static const float top_ps[] = {1, 0.9f, 0.3f};
    for (int t = 0; t < 3; t++) {
        for (int k = 0; k < 4; k++) {
            for (int n = 0; n < 3; n++) {
                af_sampling p = plain();
                p.temperature = temperatures[t];
                p.top_k = top_ks[k];
                p.top_p = top_ps[n];
                check_distribution(p, row, 1000);
                p.min_p = 0.2f;
                check_distribution(p, row, 1000);
            }
        }
    }
    free(row);
}

/* How many of the weights, all positive, belong to the shortest prefix that measures the target. */
static size_t prefix_by_sorting(const float *weights, size_t count, double target, bool by_mass, bool *kept) {
    entry *e = malloc(count * sizeof *e);
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < count; i++) e[i] = (entry){(int32_t)i, (double)weights[i]};
    qsort(e, count, sizeof *e, by_rank);
    while (n < count && sum < target && e[n].p > 0) sum += by_mass ? e[n].p : 1, kept[e[n++].id] = true;
    free(e);
    return n;
}

/* Rows with few different values have many ties; wide ones have weights of 0. */
static void cuts_keep_what_sorting_would_keep(void **state) {
    enum { N = 6400 };
    static const float spreads[] = {0.001f, 1, 20, 200}, grains[] = {0, 0.5f, 3};
    static const double parts[] = {0.01, 0.5, 0.9, 0.999};
    for (int c = 0; c < 4 * 3 * 4 * 2; c++) {
        float grain = grains[c / 4 % 3];
        float *row = random_row(N, (uint64_t)c, spreads[c % 4]);
        bool by_mass = c / 48, kept[N] = {false};
        for (int i = 0; i < N && grain > 0; i++) row[i] = roundf(row[i] / grain) * grain;
        af_weights w;
        assert_int_equal(af_weights_open(N, &w, NULL), AF_OK);
        assert_true(af_weights_scan(&w, row));
        af_weights_compute(&w, row, 1, 0, 0);
        double total = 0, part = parts[c / 12 % 4];
        size_t count = (size_t)w.live_count * AF_BLOCK, left = 0;
        int32_t ids[N];
        for (size_t i = 0; i < count; i++) {
            ids[i] = (int32_t)(w.live[i / AF_BLOCK] * AF_BLOCK + i % AF_BLOCK);
            total += (double)w.weights[i];
        }
        double target = by_mass ? (double)(float)part * total : round(part * N);
        size_t expected = prefix_by_sorting(w.weights, count, target, by_mass, kept);
        bool by_id[N] = {false};
        for (size_t i = 0; i < count; i++) by_id[ids[i]] = kept[i];
        if (by_mass) {
            af_weights_keep_top_p(&w, (float)part);
        } else {
            af_weights_keep_top_k(&w, (uint32_t)target);
        }
        for (size_t i = 0; i < (size_t)w.live_count * AF_BLOCK; i++) {
            if (w.weights[i] == 0) continue;
            left++;
            assert_true(by_id[w.live[i / AF_BLOCK] * AF_BLOCK + i % AF_BLOCK]);
        }
        assert_int_equal(left, expected);
        af_weights_close(&w);
        free(row);
    }
}

static void top_p_is_measured_at_the_temperature(void **state) {
    /* At temperature 1 the first token alone holds 0.9 of the mass; at 100 all are nearly equal and three are kept. */
    float row[4] = {4, 1, 1, 1};
    af_sampling p = plain();
    p.top_p = 0.7f;
    p.temperature = 100;
    check_distribution(p, row, 4);
    p.temperature = 1;
    for (uint64_t seed = 0; seed < 50; seed++) {
        p.seed = seed;
        assert_int_equal(choose_once(p, row, 4), 0);
    }
}

static void equal_logits_are_cut_in_order_of_ids(void **state) {
    float row[256];
    for (int i = 0; i < 256; i++) row[i] = 2;
    af_sampling p = plain();
    p.top_k = 3;
    check_distribution(p, row, 256);
    p.top_k = 0;
    p.top_p = 0.5f; /* exactly 128 of 256 */
    check_distribution(p, row, 256);
}

static void a_huge_temperature_is_nearly_uniform(void **state) {
    af_sampling p = plain();
    p.temperature = 1e6f;
    float *row = random_row(50, 3, 10);
    check_distribution(p, row, 50);
    double expected[50];
    reference(&p, row, 50, expected);
    for (int i = 0; i < 50; i++) assert_true(fabs(expected[i] - 0.02) < 1e-5);
    free(row);
}

static void a_tiny_temperature_is_the_best_token(void **state) {
    float *row = random_row(500, 11, 5);
    af_sampling p = plain();
    p.temperature = 0;
    int32_t best = choose_once(p, row, 500);
    static const float tiny[] = {1e-6f, 1e-30f, 1e-44f};
    for (int i = 0; i < 3; i++) {
        p.temperature = tiny[i];
        assert_int_equal(choose_once(p, row, 500), best);
        p.top_k = 40;
        p.top_p = 0.9f;
        assert_int_equal(choose_once(p, row, 500), best);
    }
    free(row);
}

static void a_tiny_top_p_keeps_the_best_token(void **state) {
    float *row = random_row(500, 12, 5);
    af_sampling p = plain();
    p.temperature = 0;
    int32_t best = choose_once(p, row, 500);
    p.temperature = 1;
    p.top_p = 1e-30f;
    for (p.seed = 0; p.seed < 50; p.seed++) assert_int_equal(choose_once(p, row, 500), best);
    free(row);
}

/* ---- Penalties ---- */

static void repeat_penalty_divides_positive_and_multiplies_negative_logits_once(void **state) {
    af_sampling p = plain();
    p.temperature = 0;
    p.repeat_penalty = 2;
    af_sampler *s = sampler_of(p, 4);
    float row[4] = {5, 3, -1, -1.5f};
    assert_int_equal(af_sampler_choose(s, row), 0);
    for (int i = 0; i < 10; i++) af_sampler_accept(s, 0); /* 5 -> 2.5, however often */
    assert_int_equal(af_sampler_choose(s, row), 1);
    float nearer[4] = {5, 2.4f, -1, -1.5f};
    assert_int_equal(af_sampler_choose(s, nearer), 0);
    float negative[4] = {-9, -9, -1, -1.5f};
    af_sampler_accept(s, 2); /* -1 -> -2 */
    assert_int_equal(af_sampler_choose(s, negative), 3);
    assert_float_equal(negative[2], -1, 0); /* the caller's row is as it was */
    af_sampler_close(s);
}

static void presence_counts_once_and_frequency_each_time(void **state) {
    af_sampling p = plain();
    p.temperature = 0;
    p.presence_penalty = 1;
    af_sampler *s = sampler_of(p, 2);
    float row[2] = {3, 1.9f};
    for (int i = 0; i < 5; i++) af_sampler_accept(s, 0);
    assert_int_equal(af_sampler_choose(s, row), 0); /* 3 - 1 */
    af_sampler_close(s);

    p.presence_penalty = 0;
    p.frequency_penalty = 0.5f;
    s = sampler_of(p, 2);
    af_sampler_accept(s, 0);
    af_sampler_accept(s, 0);
    assert_int_equal(af_sampler_choose(s, row), 0); /* 3 - 2 * 0.5 */
    af_sampler_accept(s, 0);
    assert_int_equal(af_sampler_choose(s, row), 1); /* 3 - 3 * 0.5 */
    af_sampler_close(s);
}

static void negative_penalties_raise(void **state) {
    af_sampling p = plain();
    p.temperature = 0;
    p.frequency_penalty = -2;
    af_sampler *s = sampler_of(p, 2);
    af_sampler_accept(s, 1);
    float row[2] = {1, 0};
    assert_int_equal(af_sampler_choose(s, row), 1);
    af_sampler_close(s);
}

static void the_window_forgets(void **state) {
    static const struct {
        int32_t window;
        int32_t expected;
    } cases[] = {{2, 0}, {3, 1}, {-1, 1}, {0, 0}};
    for (int i = 0; i < 4; i++) {
        af_sampling p = plain();
        p.temperature = 0;
        p.repeat_penalty = 10;
        p.repeat_last_n = cases[i].window;
        af_sampler *s = sampler_of(p, 4);
        af_sampler_accept(s, 0);
        af_sampler_accept(s, 2);
        af_sampler_accept(s, 3); /* a window of two no longer holds token 0 */
        float row[4] = {5, 4, 0, 0};
        assert_int_equal(af_sampler_choose(s, row), cases[i].expected);
        af_sampler_close(s);
    }
}

/* ---- Odd rows ---- */

static void nan_never_wins(void **state) {
    af_sampling p = plain();
    float row[200];
    for (int greedy = 0; greedy < 2; greedy++) {
        p.temperature = greedy ? 0 : 1;
        for (p.seed = 0; p.seed < 100; p.seed++) {
            for (int i = 0; i < 200; i++) row[i] = NAN;
            row[150] = -3;
            row[199] = -4;
            int32_t id = choose_once(p, row, 200);
            assert_true(id == 150 || (id == 199 && !greedy));
        }
    }
}

static void a_row_without_a_choice_gives_the_lowest_id(void **state) {
    float row[100];
    static const float values[] = {NAN, -INFINITY};
    for (int v = 0; v < 2; v++) {
        for (int i = 0; i < 100; i++) row[i] = values[v];
        af_sampling p = plain();
        p.top_k = 40;
        p.top_p = 0.9f;
        p.min_p = 0.1f;
        assert_int_equal(choose_once(p, row, 100), 0);
        p.temperature = 0;
        assert_int_equal(choose_once(p, row, 100), 0);
    }
}

static void infinite_logits_win(void **state) {
    float row[100] = {0};
    row[70] = row[80] = INFINITY;
    assert_int_equal(choose_once(plain(), row, 100), 70);
}

static void masked_tokens_are_never_drawn(void **state) {
    float row[300];
    for (int i = 0; i < 300; i++) row[i] = i % 3 == 0 ? 0.0f : -INFINITY;
    af_sampling p = plain();
    p.temperature = 1e6f;
    for (p.seed = 0; p.seed < 300; p.seed++) assert_int_equal(choose_once(p, row, 300) % 3, 0);
}

static void a_vocabulary_of_any_size_works(void **state) {
    for (uint32_t n = 1; n < 200; n++) {
        float *row = random_row(n, n, 4);
        af_sampling p = plain();
        p.top_k = 10;
        p.top_p = 0.95f;
        int32_t id = choose_once(p, row, n);
        assert_true(id >= 0 && (uint32_t)id < n);
        row[n - 1] = 100;
        assert_int_equal(choose_once(p, row, n), n - 1);
        free(row);
    }
}

/* ---- Determinism and bounds ---- */

static void the_same_seed_gives_the_same_choices(void **state) {
    float *row = random_row(5000, 9, 6);
    af_sampling p = plain();
    p.top_p = 0.95f;
    p.seed = 42;
    af_sampler *a = sampler_of(p, 5000), *b = sampler_of(p, 5000);
    p.seed = 43;
    af_sampler *other = sampler_of(p, 5000);
    int differ = 0;
    for (int i = 0; i < 100; i++) {
        int32_t id = af_sampler_choose(a, row);
        assert_int_equal(id, af_sampler_choose(b, row));
        differ += id != af_sampler_choose(other, row);
    }
    assert_true(differ > 50);
    af_sampler_close(a);
    af_sampler_close(b);
    af_sampler_close(other);
    free(row);
}

static void a_random_seed_differs_each_time(void **state) {
    float *row = random_row(5000, 9, 1);
    af_sampling p = plain();
    p.seed = AF_SEED_RANDOM;
    af_sampler *a = sampler_of(p, 5000), *b = sampler_of(p, 5000);
    int differ = 0;
    for (int i = 0; i < 50; i++) differ += af_sampler_choose(a, row) != af_sampler_choose(b, row);
    assert_true(differ > 25);
    af_sampler_close(a);
    af_sampler_close(b);
    free(row);
}

static void the_generator_is_xoshiro256_starstar_after_splitmix64(void **state) {
    /* splitmix64(0) begins with this value (Vigna's test vector). */
    af_rng rng;
    af_rng_seed(&rng, 0);
    assert_true(rng.s[0] == UINT64_C(0xE220A8397B1DCDAF));
    assert_true(rng.s[1] == UINT64_C(0x6E789E6AA1B965F4));
    /* The first output is rotl(s1 * 5, 7) * 9 of that state. */
    uint64_t x = rng.s[1] * 5;
    x = (x << 7 | x >> 57) * 9;
    assert_true(af_rng_next(&rng) == x);
}

static void greedy_is_left_to_the_device_only_without_penalties(void **state) {
    static const struct {
        float temperature;
        int32_t top_k;
        float repeat;
        int32_t window;
        bool greedy;
    } cases[] = {
        {0, 0, 1, 64, true}, {1, 1, 1, 64, true}, {1, 0, 1, 64, false}, {0, 0, 1.1f, 64, false}, {0, 0, 1.1f, 0, true}};
    for (int i = 0; i < 5; i++) {
        af_sampling p = plain();
        p.temperature = cases[i].temperature;
        p.top_k = cases[i].top_k;
        p.repeat_penalty = cases[i].repeat;
        p.repeat_last_n = cases[i].window;
        af_sampler *s = sampler_of(p, 10);
        assert_int_equal(af_sampler_is_greedy(s), cases[i].greedy);
        af_sampler_close(s);
    }
}

static int by_size(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* A copy of a row without the logits below the `most` largest; equals stay. */
static float *top_of(const float *row, uint32_t vocabulary, uint32_t most) {
    float *sorted = malloc(vocabulary * sizeof *sorted), *top = malloc(vocabulary * sizeof *top);
    memcpy(sorted, row, vocabulary * sizeof *row);
    qsort(sorted, vocabulary, sizeof *sorted, by_size);
    for (uint32_t i = 0; i < vocabulary; i++) top[i] = row[i] >= sorted[most - 1] ? row[i] : -INFINITY;
    free(sorted);
    return top;
}

static void check_top(const af_sampling *params, const float *row, uint32_t vocabulary) {
    float *top = top_of(row, vocabulary, 64);
    af_sampler *whole = sampler_of(*params, vocabulary), *part = sampler_of(*params, vocabulary);
    assert_true(af_sampler_takes_top(whole, 64));
    for (int i = 0; i < 50; i++) assert_int_equal(af_sampler_choose(whole, row), af_sampler_choose(part, top));
    af_sampler_close(whole);
    af_sampler_close(part);
    free(top);
}

static void what_top_k_drops_may_be_missing(void **state) {
    (void)state;
    const uint32_t vocabulary = 20011;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        af_sampling params = plain();
        params.seed = seed;
        params.top_k = (int32_t)(2 + seed % 63);
        params.temperature = 0.3f + 0.1f * (float)(seed % 20);
        params.top_p = seed % 3 ? 1 : 0.9f;
        params.min_p = seed % 4 ? 0 : 0.02f;
        float *row = random_row(vocabulary, seed, 6);
        for (uint32_t i = 0; seed % 2 && i < vocabulary; i++) row[i] = roundf(row[i] * 4) / 4; /* equals */
        check_top(&params, row, vocabulary);
        free(row);
    }
}

static bool takes_top(af_sampling params) {
    af_sampler *s = sampler_of(params, 100);
    const bool takes = af_sampler_takes_top(s, 64);
    af_sampler_close(s);
    return takes;
}

static void the_best_alone_are_enough_only_for_a_plain_chain_with_a_small_top_k(void **state) {
    (void)state;
    af_sampling params = plain();
    assert_false(takes_top(params));
    params.top_k = 65;
    assert_false(takes_top(params));
    params.top_k = 64;
    assert_true(takes_top(params));
    af_sampling other = params;
    other.repeat_penalty = 1.1f;
    assert_false(takes_top(other));
    other = params;
    other.typical_p = 0.5f;
    assert_false(takes_top(other));
    other = params;
    other.mirostat = 2;
    assert_false(takes_top(other));
}

static void values_out_of_bounds_are_refused_by_name(void **state) {
    static const struct {
        const char *field;
        af_sampling value;
    } cases[] = {
        {"temperature", {.temperature = -0.1f, .top_p = 1, .repeat_penalty = 1, .repeat_last_n = 64, .seed = 1}},
        {"temperature", {.temperature = NAN, .top_p = 1, .repeat_penalty = 1, .repeat_last_n = 64, .seed = 1}},
        {"temperature", {.temperature = INFINITY, .top_p = 1, .repeat_penalty = 1, .repeat_last_n = 64, .seed = 1}},
        {"top_k", {.temperature = 1, .top_k = -1, .top_p = 1, .repeat_penalty = 1, .repeat_last_n = 64, .seed = 1}},
        {"top_p", {.temperature = 1, .repeat_penalty = 1, .repeat_last_n = 64, .seed = 1}},
        {"top_p", {.temperature = 1, .top_p = 1.5f, .repeat_penalty = 1, .repeat_last_n = 64, .seed = 1}},
        {"min_p", {.temperature = 1, .top_p = 1, .min_p = -1, .repeat_penalty = 1, .repeat_last_n = 64, .seed = 1}},
        {"min_p", {.temperature = 1, .top_p = 1, .min_p = 1.1f, .repeat_penalty = 1, .repeat_last_n = 64, .seed = 1}},
        {"repeat_penalty", {.temperature = 1, .top_p = 1, .repeat_last_n = 64, .seed = 1}},
        {"repeat_last_n", {.temperature = 1, .top_p = 1, .repeat_penalty = 1, .repeat_last_n = -2, .seed = 1}},
        {"presence_penalty",
         {.temperature = 1, .top_p = 1, .repeat_penalty = 1, .repeat_last_n = 64, .presence_penalty = 2.1f, .seed = 1}},
        {"frequency_penalty",
         {.temperature = 1, .top_p = 1, .repeat_penalty = 1, .repeat_last_n = 64, .frequency_penalty = -3, .seed = 1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        af_error error = {0};
        af_sampler *s = NULL;
        assert_int_equal(af_sampler_open(&cases[i].value, 10, &s, &error), AF_EINVAL);
        assert_null(s);
        assert_int_equal(error.code, AF_EINVAL);
        assert_memory_equal(error.text, cases[i].field, strlen(cases[i].field));
    }
}

/* ---- Time ---- */

static void time_case(const char *name, af_sampling params, const float *row, uint32_t vocabulary) {
    enum { RUNS = 40 };
    af_sampler *s = sampler_of(params, vocabulary);
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < RUNS; i++) {
        uint64_t start = af_os_nanoseconds();
        int32_t id = af_sampler_choose(s, row);
        uint64_t took = af_os_nanoseconds() - start;
        af_sampler_accept(s, id);
        if (took < least) least = took;
    }
    print_message("  %-28s %7.3f ms\n", name, (double)least / 1e6);
    af_sampler_close(s);
}

static void prints_the_time_of_a_choice_at_256k(void **state) {
    enum { N = 262144 };
    static const struct {
        const char *name;
        af_sampling params;
    } cases[] = {
        {"greedy", {.top_p = 1, .repeat_penalty = 1, .repeat_last_n = 64, .seed = 1}},
        {"temperature", {.temperature = 1, .top_p = 1, .repeat_penalty = 1, .repeat_last_n = 64, .seed = 1}},
        {"top_k 40",
         {.temperature = 0.8f, .top_k = 40, .top_p = 1, .repeat_penalty = 1, .repeat_last_n = 64, .seed = 1}},
        {"top_p 0.95", {.temperature = 0.8f, .top_p = 0.95f, .repeat_penalty = 1, .repeat_last_n = 64, .seed = 1}},
        {"top_k 64 top_p 0.95",
         {.temperature = 1, .top_k = 64, .top_p = 0.95f, .repeat_penalty = 1, .repeat_last_n = 64, .seed = 1}},
        {"min_p 0.05",
         {.temperature = 1, .top_p = 1, .min_p = 0.05f, .repeat_penalty = 1, .repeat_last_n = 64, .seed = 1}},
        {"top_p 0.95, penalties",
         {.temperature = 1,
          .top_p = 0.95f,
          .repeat_penalty = 1.1f,
          .repeat_last_n = 64,
          .presence_penalty = 0.5f,
          .frequency_penalty = 0.5f,
          .seed = 1}},
        {"top_k 100000",
         {.temperature = 1, .top_k = 100000, .top_p = 1, .repeat_penalty = 1, .repeat_last_n = 64, .seed = 1}},
        {"typical_p 0.5 (sorts)",
         {.temperature = 1, .top_p = 1, .repeat_penalty = 1, .repeat_last_n = 64, .typical_p = 0.5f, .seed = 1}},
        {"temperature 1e6, top_p 0.9",
         {.temperature = 1e6f, .top_p = 0.9f, .repeat_penalty = 1, .repeat_last_n = 64, .seed = 1}},
    };
    float *flat = random_row(N, 5, 3), *peaked = random_row(N, 6, 8);
    for (int i = 0; i < 20; i++) peaked[i * 1000] = 30 - (float)i;
    for (int i = 0; i < 2; i++) {
        print_message("%s row of %d logits:\n", i ? "peaked" : "flat", N);
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
            time_case(cases[k].name, cases[k].params, i ? peaked : flat, N);
        }
    }
    free(flat);
    free(peaked);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(temperature_0_takes_the_best_token_and_the_lowest_of_equals),
        cmocka_unit_test(draws_follow_the_distribution),
        cmocka_unit_test(cuts_keep_what_sorting_would_keep),
        cmocka_unit_test(top_p_is_measured_at_the_temperature),
        cmocka_unit_test(equal_logits_are_cut_in_order_of_ids),
        cmocka_unit_test(a_huge_temperature_is_nearly_uniform),
        cmocka_unit_test(a_tiny_temperature_is_the_best_token),
        cmocka_unit_test(a_tiny_top_p_keeps_the_best_token),
        cmocka_unit_test(repeat_penalty_divides_positive_and_multiplies_negative_logits_once),
        cmocka_unit_test(presence_counts_once_and_frequency_each_time),
        cmocka_unit_test(negative_penalties_raise),
        cmocka_unit_test(the_window_forgets),
        cmocka_unit_test(nan_never_wins),
        cmocka_unit_test(a_row_without_a_choice_gives_the_lowest_id),
        cmocka_unit_test(infinite_logits_win),
        cmocka_unit_test(masked_tokens_are_never_drawn),
        cmocka_unit_test(a_vocabulary_of_any_size_works),
        cmocka_unit_test(the_same_seed_gives_the_same_choices),
        cmocka_unit_test(a_random_seed_differs_each_time),
        cmocka_unit_test(the_generator_is_xoshiro256_starstar_after_splitmix64),
        cmocka_unit_test(greedy_is_left_to_the_device_only_without_penalties),
        cmocka_unit_test(what_top_k_drops_may_be_missing),
        cmocka_unit_test(the_best_alone_are_enough_only_for_a_plain_chain_with_a_small_top_k),
        cmocka_unit_test(values_out_of_bounds_are_refused_by_name),
        cmocka_unit_test(prints_the_time_of_a_choice_at_256k),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

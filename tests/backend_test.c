/* backend_test.c - the CPU backend over small plans made by hand: it computes what plan.h says (against a forward pass
 * in double), and a row's logits depend on nothing but the sequence's tokens up to it, bit for bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/cpu/cpu.h"
#include "backend_test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Running a backend ---- */

#define TOKENS    330 /* over two splits of 256, ten pages, several windows */
#define SEQUENCES 3
#define PAGES     ((TOKENS + AF_KV_PAGE - 1) / AF_KV_PAGE)

typedef struct setup {
    uint32_t threads;
    const char *isa; /* NULL: the best */
    af_kv_type kv;
    bool exact;  /* always for matrices in f32, which lie in memory that packing must not let go of */
    bool poison; /* memory of the cache starts as NaN */
} setup;

/* Page p of sequence s: scattered over the pool, never in order. */
static uint32_t page_of(uint32_t s, uint32_t p) {
    return (p * SEQUENCES + (s + p) % SEQUENCES) * 7 % (PAGES * SEQUENCES);
}

static af_backend *open_backend(const af_plan *plan, const setup *with) {
    const bool in_memory = plan->ops[0].u.embed.table.format->type == AF_TYPE_F32;
    af_backend_options options = {.threads = with->threads,
                                  .exact = with->exact || in_memory,
                                  .kv = with->kv,
                                  .carries = SEQUENCES,
                                  .max_tokens = TOKENS * 2,
                                  .max_rows = TOKENS};
    for (size_t g = 0; g < plan->group_count; g++) options.pages[g] = PAGES * SEQUENCES;
    if (with->isa) setenv("AF_CPU_ISA", with->isa, 1);
    af_backend *backend = NULL;
    af_error error;
    if (af_backend_open("cpu", plan, &options, &backend, &error)) fail_msg("%s", error.text);
    unsetenv("AF_CPU_ISA");
    af_cpu *cpu = (af_cpu *)backend;
    if (with->poison) memset(cpu->kv.memory, 0xFF, cpu->kv.bytes);
    if (with->poison && cpu->carries.memory) memset(cpu->carries.memory, 0xFF, cpu->carries.bytes);
    return backend;
}

static void fill_ids(const af_plan *plan, uint32_t seed, int32_t *ids, uint32_t count) {
    random_seed(seed);
    for (uint32_t i = 0; i < count; i++) ids[i] = (int32_t)((random_float() + 1) / 2.001f * (float)plan->vocabulary);
}

/* Pages of sequence s as the engine would give them for positions begin .. end - 1: those behind a window are gone. */
static void fill_pages(const af_plan *plan, uint32_t s, uint32_t begin, uint32_t pages[AF_PLAN_GROUPS][PAGES],
                       af_batch_seq *seq) {
    seq->carry = SEQUENCES - 1 - s;
    for (size_t g = 0; g < plan->group_count; g++) {
        const uint32_t window = plan->groups[g].window;
        const uint32_t first = window && begin + 1 > window ? (begin + 1 - window) / AF_KV_PAGE : 0;
        for (uint32_t p = 0; p < PAGES; p++) pages[g][p] = p < first ? UINT32_MAX : page_of(s, p);
        seq->pages[g] = pages[g];
    }
}

/* Adds positions begin .. end - 1 of sequence s to a batch. */
static void add_tokens(af_batch *batch, af_batch_token *tokens, uint32_t s, const int32_t *ids, uint32_t begin,
                       uint32_t end, af_choose choose) {
    for (uint32_t i = begin; i < end; i++)
        tokens[batch->token_count++] = (af_batch_token){.id = ids[i], .seq = s, .position = i, .choose = choose};
    batch->tokens = tokens;
}

typedef struct plan_of_run {
    uint32_t chunk;
    bool neighbours; /* two other sequences in every batch, at other positions, before and after */
} plan_of_run;

/* Logits of all positions of sequence 0, (TOKENS, vocabulary). */
static float *logits_of(const af_plan *plan, const setup *with, plan_of_run how) {
    af_backend *backend = open_backend(plan, with);
    int32_t ids[SEQUENCES][TOKENS];
    for (uint32_t s = 0; s < SEQUENCES; s++) fill_ids(plan, s + 1, ids[s], TOKENS);
    float *all = malloc(sizeof *all * TOKENS * plan->vocabulary);
    assert_non_null(all);
    static af_batch_token tokens[TOKENS * 2];
    uint32_t pages[SEQUENCES][AF_PLAN_GROUPS][PAGES], other = 0;
    for (uint32_t begin = 0, end; begin < TOKENS; begin = end) {
        end = begin + how.chunk < TOKENS ? begin + how.chunk : TOKENS;
        af_batch_seq seqs[SEQUENCES];
        af_batch batch = {.seqs = seqs, .seq_count = SEQUENCES};
        for (uint32_t s = 0; s < SEQUENCES; s++) fill_pages(plan, s, s == 0 ? begin : other, pages[s], &seqs[s]);
        const uint32_t other_end = how.neighbours ? (other + 5 < TOKENS ? other + 5 : TOKENS) : other;
        add_tokens(&batch, tokens, 1, ids[1], other, other_end, AF_CHOOSE_NONE);
        add_tokens(&batch, tokens, 0, ids[0], begin, end, AF_CHOOSE_LOGITS);
        add_tokens(&batch, tokens, 2, ids[2], other, other_end, AF_CHOOSE_NONE);
        other = other_end;
        af_ticket ticket;
        af_result result;
        assert_int_equal(backend->ops->submit(backend, &batch, &ticket, NULL), 0);
        assert_int_equal(backend->ops->collect(backend, ticket, &result, NULL), 0);
        assert_int_equal(result.row_count, end - begin);
        for (uint32_t i = begin; i < end; i++) {
            assert_int_equal(result.ids[i - begin], -1);
            memcpy(all + (size_t)i * plan->vocabulary, result.logits[i - begin], sizeof *all * plan->vocabulary);
        }
    }
    backend->ops->close(backend);
    return all;
}

/* ---- Tests ---- */

static double largest_difference(const double *a, const float *b, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = fabs(a[i] - (double)b[i]);
        if (!(d <= most)) most = d; /* a NaN is the largest */
    }
    return most;
}

/* Largest difference of the logits of a shape from those of the formulas. */
static double drift(const shape *s, const setup *with) {
    af_plan *plan = make_plan(s);
    int32_t ids[TOKENS];
    fill_ids(plan, 1, ids, TOKENS);
    double *want = reference_logits(plan, ids, TOKENS, with->kv);
    float *got = logits_of(plan, with, (plan_of_run){.chunk = 64});
    const double most = largest_difference(want, got, (size_t)TOKENS * plan->vocabulary);
    free(want);
    free(got);
    af_plan_close(plan);
    return most;
}

static void check_against_reference(af_kv_type kv, double allowed) {
    for (size_t i = 0; i < SHAPES; i++) {
        const double most = drift(shapes[i], &(setup){.threads = 2, .kv = kv, .exact = true});
        if (!(most <= allowed)) fail_msg("%s: logits differ by %g, allowed %g", shapes[i]->name, most, allowed);
    }
}

static void logits_are_those_of_the_formulas(void **state) {
    check_against_reference(AF_KV_F32, 2e-5);
}

static void logits_with_an_f16_cache_are_those_of_rounded_keys_and_values(void **state) {
    check_against_reference(AF_KV_F16, 4e-3);
}

static void logits_with_a_q8_0_cache_are_those_of_keys_and_values_in_127_steps(void **state) {
    check_against_reference(AF_KV_Q8_0, 2e-2);
}

static void activations_are_rounded_only_in_the_fast_mode(void **state) {
    const shape *rounded = shapes[SHAPES - 1];
    assert_true(rounded->quantized);
    const double fast = drift(rounded, &(setup){.threads = 2, .kv = AF_KV_F32});
    if (!(fast > 1e-3 && fast < 0.2)) fail_msg("logits differ by %g, allowed 0.001 to 0.2", fast);
}

/* All runs give the bits of the first run of the first setup, for every shape. */
static void check_same_bits(const setup *setups, size_t setup_count, const plan_of_run *runs, size_t run_count) {
    for (size_t i = 0; i < SHAPES; i++) {
        af_plan *plan = make_plan(shapes[i]);
        const size_t bytes = sizeof(float) * TOKENS * plan->vocabulary;
        float *first = logits_of(plan, &setups[0], runs[0]);
        for (size_t s = 0; s < setup_count; s++)
            for (size_t r = s == 0; r < run_count; r++) {
                float *again = logits_of(plan, &setups[s], runs[r]);
                for (size_t at = 0; at < bytes / sizeof *again; at++)
                    if (memcmp(&first[at], &again[at], sizeof *again) != 0)
                        fail_msg("%s, setup %zu, run %zu: position %zu differs: %.9g, %.9g", shapes[i]->name, s, r,
                                 at / plan->vocabulary, (double)first[at], (double)again[at]);
                free(again);
            }
        free(first);
        af_plan_close(plan);
    }
}

static const plan_of_run whole = {.chunk = TOKENS};

static void chunks_and_neighbours_change_no_bit(void **state) {
    const plan_of_run runs[] = {whole, {1, false}, {7, false}, {32, false}, {7, true}, {1, true}, {TOKENS - 10, true}};
    check_same_bits(&(setup){.threads = 1, .kv = AF_KV_F16}, 1, runs, sizeof runs / sizeof *runs);
    check_same_bits(&(setup){.threads = 1, .kv = AF_KV_F32}, 1, runs, 3);
    check_same_bits(&(setup){.threads = 1, .kv = AF_KV_Q8_0}, 1, runs, sizeof runs / sizeof *runs);
}

static void threads_change_no_bit(void **state) {
    const setup setups[] = {{.threads = 1}, {.threads = 2}, {.threads = 5}};
    const plan_of_run runs[] = {whole, {1, false}, {50, true}};
    check_same_bits(setups, 3, runs, 3);
    const setup q8_0[] = {{.threads = 1, .kv = AF_KV_Q8_0}, {.threads = 5, .kv = AF_KV_Q8_0}};
    check_same_bits(q8_0, 2, runs, 2);
}

static void instruction_sets_change_no_bit(void **state) {
    const char *first = af_isa_name(af_cpu_isa() > AF_ISA_SCALAR ? AF_ISA_SCALAR + 1 : AF_ISA_SCALAR);
    setup setups[] = {{.threads = 1, .isa = "scalar"}, {.threads = 1, .isa = first}, {.threads = 1}};
    check_same_bits(setups, 3, &whole, 1);
    for (size_t i = 0; i < 3; i++) setups[i].kv = AF_KV_F32, setups[i].exact = true;
    check_same_bits(setups, 3, &whole, 1);
    for (size_t i = 0; i < 3; i++) setups[i].kv = AF_KV_Q8_0;
    check_same_bits(setups, 3, &whole, 1);
}

static void garbage_in_slots_never_written_has_no_effect(void **state) {
    const setup setups[] = {{.threads = 1}, {.threads = 1, .poison = true}};
    const plan_of_run runs[] = {whole, {1, false}, {7, true}};
    check_same_bits(setups, 2, runs, 3);
    const setup f32[] = {{.threads = 1, .kv = AF_KV_F32}, {.threads = 1, .kv = AF_KV_F32, .poison = true}};
    check_same_bits(f32, 2, runs, 2);
    const setup q8_0[] = {{.threads = 1, .kv = AF_KV_Q8_0}, {.threads = 1, .kv = AF_KV_Q8_0, .poison = true}};
    check_same_bits(q8_0, 2, runs, 2);
}

/* A batch of one token of sequence 0 at `position`; returns its result. */
static af_result step(af_backend *backend, const af_plan *plan, af_batch_token token, af_ticket *ticket) {
    uint32_t pages[AF_PLAN_GROUPS][PAGES];
    af_batch_seq seq;
    fill_pages(plan, 0, token.position, pages, &seq);
    const af_batch batch = {.tokens = &token, .token_count = 1, .seqs = &seq, .seq_count = 1};
    af_result result;
    assert_int_equal(backend->ops->submit(backend, &batch, ticket, NULL), 0);
    assert_int_equal(backend->ops->collect(backend, *ticket, &result, NULL), 0);
    return result;
}

static int32_t best_of(const float *logits, uint32_t n) {
    int32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = (int32_t)i;
    return best;
}

static void greedy_rows_choose_the_best_and_later_batches_can_name_the_choice(void **state) {
    af_plan *plan = make_plan(&llama_like);
    af_backend *by_logits = open_backend(plan, &(setup){.threads = 1});
    af_backend *by_choice = open_backend(plan, &(setup){.threads = 2});
    int32_t id = 3;
    af_batch_token chained = {.id = 3, .choose = AF_CHOOSE_GREEDY};
    for (uint32_t position = 0; position < 40; position++) {
        af_ticket ticket;
        const af_batch_token token = {.id = id, .position = position, .choose = AF_CHOOSE_LOGITS};
        id = best_of(step(by_logits, plan, token, &ticket).logits[0], plan->vocabulary);
        chained.position = position;
        const af_result result = step(by_choice, plan, chained, &ticket);
        assert_int_equal(result.row_count, 1);
        assert_int_equal(result.ids[0], id);
        assert_null(result.logits[0]);
        chained.id = -1;
        chained.from = ticket;
    }
    by_logits->ops->close(by_logits);
    by_choice->ops->close(by_choice);
    af_plan_close(plan);
}

static void a_batch_that_wants_nothing_gives_no_rows(void **state) {
    af_plan *plan = make_plan(&llama_like);
    af_backend *backend = open_backend(plan, &(setup){.threads = 1});
    af_ticket ticket;
    assert_int_equal(step(backend, plan, (af_batch_token){.id = 1}, &ticket).row_count, 0);
    backend->ops->close(backend);
    af_plan_close(plan);
}

static void a_matrix_used_twice_is_packed_once(void **state) {
    af_plan *plan = make_plan(&llama_like);
    plan->ops[1].u.linear.parts[1].w = plan->ops[1].u.linear.parts[2].w;
    af_backend *backend = open_backend(plan, &(setup){.threads = 1});
    const af_cpu *cpu = (const af_cpu *)backend;
    assert_ptr_equal(cpu->ops[1].packed[1], cpu->ops[1].packed[2]);
    assert_ptr_not_equal(cpu->ops[1].packed[0], cpu->ops[1].packed[1]);
    backend->ops->close(backend);
    af_plan_close(plan);
}

static void expect_refusal(const char *device, const af_plan *plan, const af_backend_options *options, int code,
                           const char *names) {
    af_backend *backend = NULL;
    af_error error;
    assert_int_equal(af_backend_open(device, plan, options, &backend, &error), code);
    assert_null(backend);
    if (!strstr(error.text, names)) fail_msg("\"%s\" does not name \"%s\"", error.text, names);
}

static void options_out_of_bounds_are_refused_by_name(void **state) {
    af_plan *plan = make_plan(&llama_like);
    const af_backend_options good = {.threads = 1, .pages = {4}, .max_tokens = 8, .max_rows = 8};
    af_backend_options bad = good;
    bad.max_tokens = 0;
    expect_refusal("cpu", plan, &bad, AF_EINVAL, "tokens in a batch: 0");
    bad = good;
    bad.max_rows = 0;
    expect_refusal("cpu", plan, &bad, AF_EINVAL, "rows in a batch: 0");
    bad = good;
    bad.pages[0] = 0;
    expect_refusal("cpu", plan, &bad, AF_EINVAL, "pages of the KV cache: 0");
    bad = good;
    bad.threads = 100000;
    expect_refusal("cpu", plan, &bad, AF_EINVAL, "threads: 100000");
    bad = good;
    bad.kv = (af_kv_type)7;
    expect_refusal("auto", plan, &bad, AF_EINVAL, "KV cache type: 7");
    expect_refusal("tpu", plan, &good, AF_EUNSUPPORTED, "\"tpu\"");
    af_plan_close(plan);
}

static double last_fraction;

static void note_fraction(void *user, double fraction) {
    assert_true(fraction >= last_fraction);
    last_fraction = fraction;
    ++*(int *)user;
}

static void it_says_what_it_is_and_how_far_loading_is(void **state) {
    af_plan *plan = make_plan(&llama_like);
    int calls = 0;
    last_fraction = 0;
    const af_backend_options options = {.threads = 2,
                                        .pages = {4},
                                        .max_tokens = 8,
                                        .max_rows = 8,
                                        .kv = AF_KV_F16,
                                        .progress = note_fraction,
                                        .progress_user = &calls};
    af_backend *backend = NULL;
    assert_int_equal(af_backend_open("auto", plan, &options, &backend, NULL), 0);
    assert_true(calls > 1 && last_fraction == 1.0);
    char text[100], expected[100];
    backend->ops->describe(backend, text, sizeof text);
    snprintf(expected, sizeof expected, "cpu (%s, 2 threads)", af_isa_name(af_cpu_isa()));
    assert_string_equal(text, expected);
    assert_int_equal(backend->ops->threads(backend), 2);
    /* 2 layers, 4 pages of 32 tokens, 2 kv heads, keys and values of 16 halves */
    assert_int_equal(backend->ops->kv_bytes(backend), 2 * 4 * 32 * 2 * (16 + 16) * 2);
    backend->ops->close(backend);
    af_plan_close(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_those_of_the_formulas),
        cmocka_unit_test(logits_with_an_f16_cache_are_those_of_rounded_keys_and_values),
        cmocka_unit_test(logits_with_a_q8_0_cache_are_those_of_keys_and_values_in_127_steps),
        cmocka_unit_test(activations_are_rounded_only_in_the_fast_mode),
        cmocka_unit_test(chunks_and_neighbours_change_no_bit),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(instruction_sets_change_no_bit),
        cmocka_unit_test(garbage_in_slots_never_written_has_no_effect),
        cmocka_unit_test(greedy_rows_choose_the_best_and_later_batches_can_name_the_choice),
        cmocka_unit_test(a_batch_that_wants_nothing_gives_no_rows),
        cmocka_unit_test(a_matrix_used_twice_is_packed_once),
        cmocka_unit_test(options_out_of_bounds_are_refused_by_name),
        cmocka_unit_test(it_says_what_it_is_and_how_far_loading_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

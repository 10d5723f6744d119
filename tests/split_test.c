/* split_test.c - a plan on two backends gives what it gives on one, wherever it is cut: what crosses a border is all
 * that the other side needs. With the CPU on both sides the bits are the same; with lavapipe on one, the numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/split.h"
#include "backend_test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GPU       "llvm" /* lavapipe calls itself llvmpipe */
#define TOKENS    70     /* over two pages and a window */
#define SEQUENCES 3
#define PAGES     ((TOKENS + AF_KV_PAGE - 1) / AF_KV_PAGE)
#define MOST_OPS  64

static bool have_gpu(void) {
    af_device_info devices[8];
    size_t count = 0;
    if (af_device_list(devices, 8, &count, NULL, NULL) != AF_OK) return false;
    for (size_t i = 0; i < count && i < 8; i++)
        if (strstr(devices[i].name, GPU)) return true;
    return false;
}

/* ---- Running ---- */

static af_backend_options options_for(const af_plan *plan, bool exact) {
    af_backend_options o = {
        .exact = exact, .kv = AF_KV_F32, .carries = SEQUENCES, .max_tokens = SEQUENCES * TOKENS, .max_rows = TOKENS};
    for (size_t g = 0; g < plan->group_count; g++) o.pages[g] = PAGES * SEQUENCES;
    return o;
}

/* Sequence s is behind the others by 3 s tokens, so that no two stand at the same position. */
static void add_tokens(af_batch *batch, af_batch_token *tokens, const int32_t *ids, uint32_t begin, uint32_t end) {
    for (uint32_t s = 0; s < SEQUENCES; s++)
        for (uint32_t i = begin > 3 * s ? begin - 3 * s : 0; i + 3 * s < end; i++)
            tokens[batch->token_count++] = (af_batch_token){.id = ids[(i + 7 * s) % TOKENS],
                                                            .seq = s,
                                                            .position = i,
                                                            .choose = s == 1 ? AF_CHOOSE_LOGITS : AF_CHOOSE_NONE};
    batch->tokens = tokens;
}

static void fill_seqs(uint32_t pages[SEQUENCES][PAGES], af_batch_seq seqs[SEQUENCES]) {
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        for (uint32_t p = 0; p < PAGES; p++) pages[s][p] = p * SEQUENCES + (s + p) % SEQUENCES;
        for (uint32_t g = 0; g < AF_PLAN_GROUPS; g++) seqs[s].pages[g] = pages[s];
        seqs[s].carry = SEQUENCES - 1 - s;
    }
}

/* Logits of the middle sequence, (rows, vocabulary), beside two others, in chunks. Closes the backend. */
static float *logits_of(const af_plan *plan, af_backend *backend, uint32_t chunk, uint32_t *rows) {
    int32_t ids[TOKENS];
    random_seed(5);
    for (uint32_t i = 0; i < TOKENS; i++) ids[i] = (int32_t)((random_float() + 1) / 2.001f * (float)plan->vocabulary);
    float *all = calloc((size_t)TOKENS * plan->vocabulary, sizeof *all);
    assert_non_null(all);
    static af_batch_token tokens[SEQUENCES * TOKENS];
    uint32_t pages[SEQUENCES][PAGES];
    af_batch_seq seqs[SEQUENCES];
    fill_seqs(pages, seqs);
    *rows = 0;
    for (uint32_t begin = 0; begin < TOKENS; begin += chunk) {
        af_batch batch = {.seqs = seqs, .seq_count = SEQUENCES};
        add_tokens(&batch, tokens, ids, begin, begin + chunk < TOKENS ? begin + chunk : TOKENS);
        af_ticket ticket;
        af_result result;
        af_error error;
        if (backend->ops->submit(backend, &batch, &ticket, &error) ||
            backend->ops->collect(backend, ticket, &result, &error))
            fail_msg("%s", error.text);
        for (uint32_t r = 0; r < result.row_count; r++)
            memcpy(all + (size_t)(*rows)++ * plan->vocabulary, result.logits[r], plan->vocabulary * sizeof *all);
    }
    backend->ops->close(backend);
    return all;
}

static af_backend *open_whole(const af_plan *plan) {
    const af_backend_options options = options_for(plan, true);
    af_backend *backend = NULL;
    af_error error;
    if (af_backend_open("cpu", plan, &options, &backend, &error)) fail_msg("%s", error.text);
    return backend;
}

static af_backend *open_split(const af_plan *plan, const char *device, const uint8_t *sides, bool exact) {
    const af_backend_options options = options_for(plan, exact);
    af_backend *backend = NULL;
    af_error error;
    if (af_split_open(device, plan, sides, &options, &backend, &error)) fail_msg("%s", error.text);
    return backend;
}

/* The feed-forward halves of layers on the CPU: what comes back is the value that the GPU wrote before. */
static void place_feed_forward(const af_plan *plan, uint8_t *sides) {
    for (size_t i = 0; i < plan->op_count; i++) {
        const bool there = strcmp(plan->ops[i].name, "hidden") == 0;
        const bool behind = i > 0 && strcmp(plan->ops[i - 1].name, "hidden") == 0;
        sides[i] = there || behind ? AF_SIDE_CPU : AF_SIDE_GPU;
    }
}

/* Every operation at random, but what stores a layer's cache and what reads it together. */
static void place_at_random(const af_plan *plan, uint8_t *sides) {
    for (size_t i = 0; i < plan->op_count; i++) {
        const bool with_last = plan->ops[i].kind == AF_OP_ATTEND;
        sides[i] = with_last ? sides[i - 1] : random_float() < 0 ? AF_SIDE_GPU : AF_SIDE_CPU;
    }
}

static double largest_difference(const float *a, const float *b, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= most)) most = d; /* a NaN is the largest */
    }
    return most;
}

/* The largest difference of one shape's logits over several placements, in chunks and token by token. The first two
 * placements are the same. */
static double drift_of(const shape *s, const char *device, uint32_t placements, bool exact) {
    af_plan *plan = make_plan(s);
    uint32_t rows, split_rows;
    double most = 0;
    float *whole = logits_of(plan, open_whole(plan), 17, &rows);
    assert_true(plan->op_count <= MOST_OPS);
    for (uint32_t k = 0; k < placements; k++) {
        uint8_t sides[MOST_OPS];
        random_seed(k + 1);
        (k < 2 ? place_feed_forward : place_at_random)(plan, sides);
        float *split = logits_of(plan, open_split(plan, device, sides, exact), k % 2 ? 1 : 17, &split_rows);
        assert_int_equal(rows, split_rows);
        const double d = largest_difference(whole, split, (size_t)rows * plan->vocabulary);
        if (!(d <= most)) most = d;
        free(split);
    }
    free(whole);
    af_plan_close(plan);
    return most;
}

static double drift(const char *device, uint32_t placements) {
    double most = 0;
    for (size_t i = 0; i < SHAPES; i++) {
        shape s = *shapes[i];
        if (s.k_dim % 8) s.k_dim = 24; /* what the GPU's kernels want */
        if (s.v_dim % 8) s.v_dim = 8;
        const double d = drift_of(&s, device, placements, true);
        if (!(d <= most)) most = d;
    }
    return most;
}

/* ---- Tests ---- */

static void wherever_a_plan_is_cut_its_bits_are_the_same(void **state) {
    assert_true(drift("cpu", 8) == 0);
}

static void a_gpu_and_the_cpu_together_give_what_the_cpu_gives(void **state) {
    if (!have_gpu()) skip();
    assert_true(drift(GPU, 4) < 1e-3);
}

/* Where activations are rounded, operations leave packets to each other, but never over a border. */
static void a_fast_gpu_leaves_nothing_behind_at_a_border(void **state) {
    if (!have_gpu()) skip();
    for (size_t i = 0; i < SHAPES; i++) {
        if (!shapes[i]->quantized) continue;
        const double d = drift_of(shapes[i], GPU, 8, false);
        assert_true(d < 0.1);
    }
}

/* Where the last `n` layers are the GPU's, the first of its operations is the first of theirs, and the head is its. */
static void layers_are_counted_from_the_end(void **state) {
    af_plan *plan = make_plan(shapes[1]);
    uint8_t sides[MOST_OPS];
    assert_int_equal(plan->layers, 3);
    for (uint32_t n = 0; n <= 4; n++) {
        const af_placement placement = {.layers_given = true, .gpu_layers = n};
        assert_int_equal(af_place(plan, &placement, sides), n < 3);
        for (size_t i = 0; i < plan->op_count; i++) {
            const int32_t layer = plan->ops[i].layer;
            const bool embed = plan->ops[i].kind == AF_OP_EMBED, head = plan->ops[i].kind == AF_OP_HEAD;
            const bool gpu = n >= 3 || (head && n > 0) || (!embed && !head && layer >= 3 - (int32_t)n);
            assert_int_equal(sides[i], gpu ? AF_SIDE_GPU : AF_SIDE_CPU);
        }
    }
    assert_false(af_place(plan, &(af_placement){0}, sides));
    af_plan_close(plan);
}

static void a_later_batch_can_name_what_was_chosen(void **state) {
    af_plan *plan = make_plan(shapes[0]);
    uint8_t sides[MOST_OPS];
    af_place(plan, &(af_placement){.layers_given = true, .gpu_layers = 1}, sides);
    af_backend *backend = open_split(plan, "cpu", sides, true);
    uint32_t pages[SEQUENCES][PAGES];
    af_batch_seq seqs[SEQUENCES];
    fill_seqs(pages, seqs);
    af_ticket ticket = 0;
    int32_t chosen[2][2];
    for (uint32_t named = 0; named < 2; named++)
        for (uint32_t i = 0; i < 2; i++) {
            const bool by_ticket = i == 1 && named;
            const af_batch_token token = {.id = i == 0      ? 3
                                                : by_ticket ? -1
                                                            : chosen[0][0],
                                          .from = by_ticket ? ticket : 0,
                                          .position = i,
                                          .choose = AF_CHOOSE_GREEDY};
            const af_batch batch = {.tokens = &token, .token_count = 1, .seqs = seqs, .seq_count = 1};
            af_result result;
            assert_int_equal(backend->ops->submit(backend, &batch, &ticket, NULL), 0);
            assert_int_equal(backend->ops->collect(backend, ticket, &result, NULL), 0);
            chosen[named][i] = result.ids[0];
        }
    assert_memory_equal(chosen[0], chosen[1], sizeof chosen[0]);
    af_result unheard;
    af_error error;
    assert_int_equal(backend->ops->collect(backend, ticket - 1, &unheard, &error), AF_EINVAL);
    backend->ops->close(backend);
    af_plan_close(plan);
}

static void it_says_which_layers_run_where(void **state) {
    af_plan *plan = make_plan(shapes[1]);
    uint8_t sides[MOST_OPS];
    af_place(plan, &(af_placement){.layers_given = true, .gpu_layers = 2}, sides);
    af_backend *backend = open_split(plan, "cpu", sides, true);
    char text[256];
    backend->ops->describe(backend, text, sizeof text);
    assert_non_null(strstr(text, "with 2 of 3 layers, cpu ("));
    const uint64_t both = backend->ops->kv_bytes(backend);
    backend->ops->close(backend);
    af_backend *whole = open_whole(plan);
    assert_true(both == whole->ops->kv_bytes(whole)); /* no layer's cache is held twice */
    whole->ops->close(whole);
    af_plan_close(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wherever_a_plan_is_cut_its_bits_are_the_same),
        cmocka_unit_test(a_gpu_and_the_cpu_together_give_what_the_cpu_gives),
        cmocka_unit_test(a_fast_gpu_leaves_nothing_behind_at_a_border),
        cmocka_unit_test(layers_are_counted_from_the_end),
        cmocka_unit_test(a_later_batch_can_name_what_was_chosen),
        cmocka_unit_test(it_says_which_layers_run_where),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

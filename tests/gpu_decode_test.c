/* gpu_decode_test.c - on a GPU, too, what a decode step makes of a token does not depend on its neighbours: bit for
 * bit, however many there are and however long their contexts. On lavapipe, or the adapter that SHIMMY_TEST_GPU names.
 *
 * Each sequence has a context of its own length, all of them the first so many positions of one that is random numbers
 * in the cache, and a last page of its own, which its token is stored in.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/backend.h"
#include "backend_test.h"

#include <stdlib.h>
#include <string.h>

enum { SEQUENCES = 26, LONGEST = 9000, PAGES = LONGEST / AF_KV_PAGE + 1, VOCABULARY = 256 };

/* Folded throughout; the second layer sees a part of what a long context has. */
static const shape folded = {.name = "folded",
                             .width = 128,
                             .heads = 8,
                             .kv_heads = 2,
                             .k_dim = 32,
                             .v_dim = 32,
                             .hidden = 256,
                             .vocabulary = VOCABULARY,
                             .layers = 2,
                             .window = 3000,
                             .rotated = 32,
                             .quantized = true,
                             .act = AF_ACT_SILU,
                             .embed_scale = 1,
                             .residual_scale = 1,
                             .head_scale = 1,
                             .magnitude = 1};

static shape changed(void (*change)(shape *)) {
    shape s = folded;
    change(&s);
    return s;
}

/* Norms after products, of each key head: the general form of nearly every operation. */
static void unfold(shape *s) {
    s->name = "not folded";
    s->post_norms = s->head_norms = s->sinks = true;
}

/* Few columns, an odd number of blocks in one product, a plain activation with biases. */
static void narrow(shape *s) {
    s->name = "narrow";
    s->width = 32;
    s->hidden = 96;
    s->biases = s->plain_act = true;
}

static void plain_numbers(shape *s) {
    s->name = "plain numbers";
    s->quantized = false;
}

typedef struct device {
    af_plan *plan;
    af_backend *backend;
} device;

/* Half floats between 1/2 and 1 of either sign, whatever the layout. */
static void fill_page(af_backend *b, uint32_t group, uint32_t page) {
    const uint64_t bytes = b->ops->page_bytes(b, group);
    uint16_t *halves = malloc(bytes);
    assert_non_null(halves);
    for (uint64_t i = 0; i < bytes / 2; i++) {
        const float x = random_float();
        halves[i] = (uint16_t)((x < 0 ? 0xb800 : 0x3800) + (uint32_t)(1e6f * (x < 0 ? -x : x)) % 1024);
    }
    af_error error;
    if (b->ops->write_page(b, group, page, halves, &error) < 0) fail_msg("%s", error.text);
    free(halves);
}

static bool open_device(device *d, const shape *s) {
    d->plan = make_plan(s);
    af_backend_options options = {.max_tokens = SEQUENCES, .max_rows = SEQUENCES};
    for (size_t g = 0; g < d->plan->group_count; g++) options.pages[g] = PAGES + SEQUENCES;
    const char *named = getenv("SHIMMY_TEST_GPU");
    af_error error;
    if (af_backend_open(named ? named : "llvm", d->plan, &options, &d->backend, &error) != AF_OK) {
        print_message("no such device here: %s\n", error.text);
        af_plan_close(d->plan);
        return false;
    }
    for (uint32_t g = 0; g < d->plan->group_count; g++)
        for (uint32_t page = 0; page < PAGES + SEQUENCES; page++) fill_page(d->backend, g, page);
    return true;
}

/* Around the borders of blocks, of stretches and of how long these are; then any. */
static uint32_t position_of(uint32_t seq) {
    static const uint32_t chosen[] = {4095, 70, LONGEST - 1, 4096, 0, 63, 64, 8192, 31};
    return seq < sizeof chosen / sizeof *chosen ? chosen[seq] : seq * 1397 % LONGEST;
}

/* Runs the sequences first .. first + count - 1 in one batch and keeps their logits. */
static void run(const device *d, uint32_t first, uint32_t count, float (*out)[VOCABULARY]) {
    static uint32_t pages[SEQUENCES][PAGES];
    af_batch_token tokens[SEQUENCES];
    af_batch_seq seqs[SEQUENCES];
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t seq = first + i, position = position_of(seq);
        for (uint32_t p = 0; p < PAGES; p++) pages[i][p] = p;
        pages[i][position / AF_KV_PAGE] = PAGES + seq;
        seqs[i] = (af_batch_seq){.pages = {pages[i], pages[i], pages[i], pages[i]}};
        tokens[i] = (af_batch_token){
            .id = (int32_t)(7 * seq % VOCABULARY), .seq = i, .position = position, .choose = AF_CHOOSE_LOGITS};
    }
    const af_batch batch = {.tokens = tokens, .token_count = count, .seqs = seqs, .seq_count = count};
    af_backend *b = d->backend;
    af_result result;
    af_ticket ticket;
    af_error error;
    if (b->ops->submit(b, &batch, &ticket, &error) < 0) fail_msg("%s", error.text);
    if (b->ops->collect(b, ticket, &result, &error) < 0) fail_msg("%s", error.text);
    for (uint32_t i = 0; i < count; i++) memcpy(out[i], result.logits[i], sizeof out[i]);
}

static void check_neighbours(const shape *s) {
    static float alone[SEQUENCES][VOCABULARY], beside[SEQUENCES][VOCABULARY];
    static const uint32_t counts[] = {2, 3, 8, 9, 17, SEQUENCES};
    device d;
    if (!open_device(&d, s)) skip();
    for (uint32_t i = 0; i < SEQUENCES; i++) run(&d, i, 1, &alone[i]);
    for (uint32_t i = 1; i < SEQUENCES; i++) assert_memory_not_equal(alone[i], alone[i - 1], sizeof alone[i]);
    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
        run(&d, 0, counts[n], beside);
        for (uint32_t i = 0; i < counts[n]; i++)
            if (memcmp(alone[i], beside[i], sizeof alone[i]) != 0)
                fail_msg("%s: token %u at %u is another in a batch of %u", s->name, i, position_of(i), counts[n]);
    }
    d.backend->ops->close(d.backend);
    af_plan_close(d.plan);
}

static void a_token_has_the_same_logits_beside_any_number_of_others(void **state) {
    check_neighbours(&folded);
}

static void so_it_has_where_operations_are_not_folded(void **state) {
    const shape s = changed(unfold);
    check_neighbours(&s);
}

static void so_it_has_in_a_narrow_model(void **state) {
    const shape s = changed(narrow);
    check_neighbours(&s);
}

static void so_it_has_with_weights_that_are_plain_numbers(void **state) {
    const shape s = changed(plain_numbers);
    check_neighbours(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_has_the_same_logits_beside_any_number_of_others),
        cmocka_unit_test(so_it_has_where_operations_are_not_folded),
        cmocka_unit_test(so_it_has_in_a_narrow_model),
        cmocka_unit_test(so_it_has_with_weights_that_are_plain_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* route_test.c - ROUTE chooses and weighs as plan.h says: groups, a bias of the choice alone, equals, and no numbers.
 * The router is an identity matrix, so that a token's embedding is its experts' r. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/backend.h"

#include <math.h>
#include <string.h>

#define EXPERTS 8
#define USED    3

typedef struct routed {
    float ids[USED], weights[USED];
    af_value ids_value;
} routed;

static bool keep(void *user, const af_op *op, af_value value, float *rows, size_t stride, uint32_t count,
                 uint32_t width) {
    (void)stride, (void)count;
    routed *out = user;
    if (op->kind == AF_OP_ROUTE) memcpy(value == out->ids_value ? out->ids : out->weights, rows, width * sizeof *rows);
    return false;
}

static void append(af_plan *plan, af_op op) {
    af_error error;
    op.name = "test";
    if (af_plan_append(plan, &op, &error)) fail_msg("%s", error.text);
}

static routed route(const float r[EXPERTS], af_op_route how) {
    static float identity[EXPERTS * EXPERTS];
    for (int i = 0; i < EXPERTS; i++) identity[i * EXPERTS + i] = 1;
    af_matrix table = {.data = r, .format = af_format_of(AF_TYPE_F32), .rows = 1, .cols = EXPERTS}, square = table;
    square.data = identity;
    square.rows = EXPERTS;
    af_plan *plan;
    assert_int_equal(af_plan_open(&plan, NULL), 0);
    plan->vocabulary = 1;
    plan->width = EXPERTS;
    assert_int_equal(af_plan_value(plan, EXPERTS, &how.in, NULL), 0);
    assert_int_equal(af_plan_value(plan, USED, &how.ids, NULL), 0);
    assert_int_equal(af_plan_value(plan, USED, &how.weights, NULL), 0);
    how.w = square;
    append(plan, (af_op){.kind = AF_OP_EMBED, .u.embed = {.table = table, .scale = 1, .out = how.in}});
    append(plan, (af_op){.kind = AF_OP_ROUTE, .u.route = how});
    append(plan, (af_op){.kind = AF_OP_HEAD, .u.head = {.in = how.in, .w = table, .scale = 1}});

    routed out = {.ids_value = how.ids};
    const af_backend_hook hook = {.wrote = keep, .user = &out};
    const af_backend_options options = {.threads = 1, .exact = true, .max_tokens = 1, .max_rows = 1, .hook = &hook};
    af_backend *backend;
    af_ticket ticket;
    assert_int_equal(af_backend_open("cpu", plan, &options, &backend, NULL), 0);
    static const af_batch_seq seq;
    const af_batch_token token = {.choose = AF_CHOOSE_GREEDY};
    const af_batch batch = {.tokens = &token, .token_count = 1, .seqs = &seq, .seq_count = 1};
    assert_int_equal(backend->ops->submit(backend, &batch, &ticket, NULL), 0);
    backend->ops->close(backend);
    af_plan_close(plan);
    return out;
}

static void expect(const routed *found, const float ids[USED], const float weights[USED]) {
    for (int k = 0; k < USED; k++) {
        assert_true(found->ids[k] == ids[k]);
        assert_true(fabsf(found->weights[k] - weights[k]) < 1e-6f);
    }
}

static const float R[EXPERTS] = {1, 6, 2, 5, 3, 3, 4, 0};

static void the_largest_are_chosen_in_rising_order_and_may_share_the_whole(void **state) {
    (void)state;
    const routed found = route(R, (af_op_route){.score = AF_SCORE_RAW, .weigh = AF_WEIGH_SHARE, .scale = 2});
    expect(&found, (float[]){1, 3, 6}, (float[]){2 * 6.0f / 15, 2 * 5.0f / 15, 2 * 4.0f / 15});
}

static void of_equals_the_lower_is_chosen_and_what_is_no_number_last(void **state) {
    (void)state;
    const float r[EXPERTS] = {9, 1, 7, 1, 1, 1, 1, -5}, bias[EXPERTS] = {NAN};
    const routed found =
        route(r, (af_op_route){.bias = bias, .score = AF_SCORE_RAW, .weigh = AF_WEIGH_PLAIN, .scale = 1});
    expect(&found, (float[]){1, 2, 3}, (float[]){1, 7, 1});
}

static void a_bias_of_the_choice_changes_no_weight(void **state) {
    (void)state;
    const float bias[EXPERTS] = {0, -9, 0, 0, 0, 0, 0, 9};
    const routed found =
        route(R, (af_op_route){.choice_bias = bias, .score = AF_SCORE_RAW, .weigh = AF_WEIGH_PLAIN, .scale = 1});
    expect(&found, (float[]){3, 6, 7}, (float[]){5, 4, 0});
}

/* Groups of two are worth 7, 7, 6 and 4: the first two stay. */
static void only_the_best_groups_may_be_chosen_from(void **state) {
    (void)state;
    const routed found = route(
        R, (af_op_route){.score = AF_SCORE_RAW, .weigh = AF_WEIGH_PLAIN, .scale = 1, .groups = 4, .groups_used = 2});
    expect(&found, (float[]){1, 2, 3}, (float[]){6, 2, 5});
}

static void scores_are_sigmoids_or_softmaxes_over_all_or_over_the_chosen(void **state) {
    (void)state;
    const routed gate = route(R, (af_op_route){.score = AF_SCORE_SIGMOID, .weigh = AF_WEIGH_PLAIN, .scale = 1});
    expect(&gate, (float[]){1, 3, 6}, (float[]){1 / (1 + expf(-6)), 1 / (1 + expf(-5)), 1 / (1 + expf(-4))});
    float all = 0;
    for (int i = 0; i < EXPERTS; i++) all += expf(R[i]);
    const routed soft = route(R, (af_op_route){.score = AF_SCORE_SOFTMAX, .weigh = AF_WEIGH_PLAIN, .scale = 1});
    expect(&soft, (float[]){1, 3, 6}, (float[]){expf(6) / all, expf(5) / all, expf(4) / all});
    const float few = expf(6) + expf(5) + expf(4);
    const routed chosen = route(R, (af_op_route){.score = AF_SCORE_RAW, .weigh = AF_WEIGH_CHOSEN, .scale = 1});
    expect(&chosen, (float[]){1, 3, 6}, (float[]){expf(6) / few, expf(5) / few, expf(4) / few});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_are_chosen_in_rising_order_and_may_share_the_whole),
        cmocka_unit_test(of_equals_the_lower_is_chosen_and_what_is_no_number_last),
        cmocka_unit_test(a_bias_of_the_choice_changes_no_weight),
        cmocka_unit_test(only_the_best_groups_may_be_chosen_from),
        cmocka_unit_test(scores_are_sigmoids_or_softmaxes_over_all_or_over_the_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

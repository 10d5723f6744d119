/* verify_test.c - `shimmy verify` finds an operation that is wrong, names it, and blames no other.
 *
 * The device is the CPU backend under another name, whose hook alters a value before verify's own sees it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend_test.h"
#include "engine/verify.h"
#include "engine/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- A device that is wrong on purpose ---- */

typedef enum damage { NONE, ONE_ELEMENT, A_LITTLE_EVERYWHERE, NOT_A_NUMBER } damage;

typedef struct device {
    const char *broken; /* name of the operation, or NULL */
    damage damage;
    const af_backend_hook *inner;
    af_backend_hook hook;
    af_backend_ops ops;
    int refuse_exact; /* a status, or 0 */
    bool loses_best;  /* of the rows that it gives */
    uint32_t vocabulary;
    int (*collect)(af_backend *, af_ticket, af_result *, af_error *);
} device;

static const device *losing;

static void alter(damage damage, float *row, uint32_t width) {
    double sum = 0;
    for (uint32_t i = 0; i < width; i++) sum += (double)row[i] * (double)row[i];
    const float rms = (float)sqrt(sum / width);
    if (damage == ONE_ELEMENT) row[width - 1] += 0.5f * rms;
    if (damage == NOT_A_NUMBER) row[0] = NAN;
    for (uint32_t i = 0; i < width && damage == A_LITTLE_EVERYWHERE; i++) row[i] += i % 2 ? 0.05f * rms : -0.05f * rms;
}

static bool break_value(void *user, const af_op *op, af_value value, float *rows, size_t stride, uint32_t count,
                        uint32_t width) {
    device *d = user;
    if (d->broken && strcmp(op->name, d->broken) == 0) alter(d->damage, rows + (count - 1) * stride, width);
    return d->inner && d->inner->wrote && d->inner->wrote(d->inner->user, op, value, rows, stride, count, width);
}

static int collect_without_best(af_backend *backend, af_ticket ticket, af_result *result, af_error *error) {
    const int status = losing->collect(backend, ticket, result, error);
    for (uint32_t r = 0; status == 0 && r < result->row_count; r++) {
        float *row = (float *)(uintptr_t)result->logits[r];
        if (row) row[af_best_token(row, losing->vocabulary)] = -INFINITY;
    }
    return status;
}

static int open_device(void *user, const char *name, const af_plan *plan, const af_backend_options *options,
                       af_backend **out, af_error *error) {
    device *d = user;
    assert_string_equal(name, "test");
    if (options->exact && d->refuse_exact) return af_fail(error, d->refuse_exact, "no room for this");
    d->inner = options->hook;
    d->hook = (af_backend_hook){break_value, d};
    af_backend_options with = *options;
    with.hook = &d->hook;
    const int status = af_cpu_open(plan, &with, out, error);
    if (status) return status;
    d->ops = *(*out)->ops;
    d->ops.name = "test";
    d->collect = d->ops.collect;
    d->vocabulary = plan->vocabulary;
    losing = d;
    if (d->loses_best) d->ops.collect = collect_without_best;
    (*out)->ops = &d->ops;
    return 0;
}

typedef struct seen {
    af_verify_row rows[AF_VERIFY_ROWS];
    char where[AF_VERIFY_ROWS][96];
    size_t count;
} seen;

static void keep(void *user, const af_verify_row *row) {
    seen *s = user;
    memcpy(s->where[s->count], row->where, strlen(row->where) + 1);
    s->rows[s->count++] = *row;
}

static af_verify_result verify(device *d, seen *s) {
    const shape *const quantized = shapes[SHAPES - 1];
    assert_true(quantized->quantized);
    af_plan *plan = make_plan(quantized);
    af_verify_options options = af_verify_options_default();
    options.device = "test";
    options.threads = 1;
    options.kv = AF_KV_F32;
    af_verify_result result;
    af_error error;
    *s = (seen){0};
    if (af_verify_plan(plan, &options, &(af_verify_opener){open_device, d}, keep, s, &result, &error))
        fail_msg("%s", error.text);
    af_plan_close(plan);
    return result;
}

static size_t count_excesses(const seen *s, const char *what, const char *where) {
    size_t count = 0;
    for (size_t i = 0; i < s->count; i++)
        count +=
            s->rows[i].excess && strcmp(s->rows[i].what, what) == 0 && strncmp(s->where[i], where, strlen(where)) == 0;
    return count;
}

/* ---- The run ---- */

static void a_device_that_computes_as_the_reference_passes(void **state) {
    device d = {0};
    seen s;
    const af_verify_result result = verify(&d, &s);
    assert_int_equal(result.excesses, 0);
    assert_string_equal(result.passed, "");
    for (size_t i = 0; i < s.count; i++) {
        if (s.rows[i].excess) fail_msg("%s %s", s.rows[i].what, s.where[i]);
        assert_true(s.rows[i].compared > 0);
    }
}

static void both_modes_and_every_operation_are_compared(void **state) {
    static const char *const wanted[] = {"embed", "linear", "rope_store", "attend", "head", "choice", "logits"};
    device d = {0};
    seen s;
    verify(&d, &s);
    for (size_t w = 0; w < sizeof wanted / sizeof *wanted; w++) {
        size_t exact = 0, fast = 0;
        for (size_t i = 0; i < s.count; i++) {
            if (strcmp(s.rows[i].what, wanted[w]) != 0) continue;
            exact += strcmp(s.rows[i].mode, "exact") == 0;
            fast += strcmp(s.rows[i].mode, "fast") == 0;
        }
        if (exact != 1 || fast != 1) fail_msg("%s: %zu and %zu rows", wanted[w], exact, fast);
    }
}

static void a_broken_operation_is_found_and_no_other_is_blamed(void **state) {
    static const struct {
        const char *name, *what;
    } broken[] = {{"embed", "embed"}, {"qkv", "linear"},    {"rope", "rope_store"}, {"attend", "attend"},
                  {"to x", "linear"}, {"hidden", "linear"}, {"head", "head"}};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        for (damage how = ONE_ELEMENT; how <= NOT_A_NUMBER; how++) {
            device d = {.broken = broken[i].name, .damage = how};
            seen s;
            const af_verify_result result = verify(&d, &s);
            const size_t found = count_excesses(&s, broken[i].what, broken[i].name);
            size_t operations = 0;
            for (size_t k = 0; k < s.count; k++)
                operations +=
                    s.rows[k].excess && strcmp(s.rows[k].what, "logits") != 0 && strcmp(s.rows[k].what, "choice") != 0;
            if (found != 2 || operations != 2)
                fail_msg("%s, damage %d: found %zu times, %zu excesses", broken[i].name, (int)how, found, operations);
            assert_true(result.excesses >= 2);
        }
    }
}

static void a_list_that_lacks_the_best_is_found(void **state) {
    device d = {.loses_best = true};
    seen s;
    verify(&d, &s);
    assert_int_equal(count_excesses(&s, "choice", "the best logits"), 2);
    assert_int_equal(count_excesses(&s, "head", ""), 0);
}

static void exact_mode_that_does_not_fit_is_passed_over_and_said_to_be(void **state) {
    device d = {.refuse_exact = AF_ENOMEM};
    seen s;
    const af_verify_result result = verify(&d, &s);
    assert_int_equal(result.excesses, 0);
    assert_string_equal(result.passed, "no room for this");
    for (size_t i = 0; i < s.count; i++) assert_string_equal(s.rows[i].mode, "fast");
}

static void any_other_failure_to_open_fails(void **state) {
    af_plan *plan = make_plan(shapes[SHAPES - 1]);
    af_verify_options options = af_verify_options_default();
    options.device = "test";
    device d = {.refuse_exact = AF_EUNSUPPORTED};
    af_verify_result result;
    af_error error;
    assert_int_equal(af_verify_plan(plan, &options, &(af_verify_opener){open_device, &d}, NULL, NULL, &result, &error),
                     AF_EUNSUPPORTED);
    assert_string_equal(error.text, "no room for this");
    af_plan_close(plan);
}

/* ---- Comparing rows ---- */

#define WIDTH 4096

typedef struct numbers {
    float found[WIDTH], expected[WIDTH], before[WIDTH];
} numbers;

static const af_verify_subject product = {.what = "linear", .name = "a product", .tokens = 3};

static void fill(numbers *n) {
    random_seed(7);
    for (size_t i = 0; i < WIDTH; i++) {
        n->before[i] = 1000 * random_float();
        n->found[i] = n->expected[i] = random_float();
    }
}

static af_verify_row compare(const numbers *n, const float *before) {
    af_verify_table table = {.exact = true};
    af_verify_compare(&table, &product, &(af_verify_numbers){n->found, n->expected, .before = before, .width = WIDTH});
    assert_int_equal(table.count, 1);
    assert_string_equal(table.entries[0].row.where, "a product, 3 tokens");
    return table.entries[0].row;
}

static void equal_rows_have_no_error(void **state) {
    numbers n;
    fill(&n);
    const af_verify_row row = compare(&n, NULL);
    assert_true(row.rms == 0 && row.largest == 0 && !row.excess);
    assert_int_equal(row.compared, WIDTH);
}

static void one_wrong_element_of_a_wide_row_is_an_excess(void **state) {
    numbers n;
    fill(&n);
    n.found[17] += 0.003f;
    const af_verify_row row = compare(&n, NULL);
    assert_true(row.rms < row.rms_allowed && row.largest > row.largest_allowed && row.excess);
}

static void a_little_wrong_everywhere_is_an_excess(void **state) {
    numbers n;
    fill(&n);
    for (size_t i = 0; i < WIDTH; i++) n.found[i] += 2e-4f * (i % 2 ? 1 : -1);
    const af_verify_row row = compare(&n, NULL);
    assert_true(row.largest < row.largest_allowed && row.rms > row.rms_allowed && row.excess);
}

static void a_residual_hides_no_error(void **state) {
    numbers n;
    fill(&n);
    for (size_t i = 0; i < WIDTH; i++) n.found[i] = n.expected[i] = n.before[i] + n.expected[i];
    n.found[5] += 0.1f;
    assert_false(compare(&n, NULL).excess);
    assert_true(compare(&n, n.before).excess);
}

static void rounding_of_a_number_itself_is_no_error(void **state) {
    numbers n;
    fill(&n);
    for (size_t i = 0; i < WIDTH; i++) n.found[i] = nextafterf(n.expected[i], 2);
    assert_true(compare(&n, NULL).largest == 0);
}

static void what_is_no_number_is_an_excess_unless_expected(void **state) {
    numbers n;
    fill(&n);
    n.found[3] = NAN;
    assert_true(compare(&n, NULL).excess);
    n.found[3] = INFINITY;
    assert_true(compare(&n, NULL).excess);
    n.expected[3] = INFINITY;
    assert_false(compare(&n, NULL).excess);
    n.expected[3] = -INFINITY;
    assert_true(compare(&n, NULL).excess);
}

/* ---- Lists of a row's best ---- */

static void a_list_holds_the_best_and_their_equals_and_nothing_that_is_not_the_rows(void **state) {
    float row[WIDTH], found[WIDTH];
    for (uint32_t i = 0; i < WIDTH; i++) row[i] = (float)(i % 1024); /* four of each: the least of the best is 1008 */
    for (uint32_t i = 0; i < WIDTH; i++) found[i] = row[i] >= 1008 ? row[i] : -INFINITY;
    assert_true(af_verify_holds_top(row, row, WIDTH));
    assert_true(af_verify_holds_top(found, row, WIDTH));
    found[7] = row[7]; /* more than must be */
    assert_true(af_verify_holds_top(found, row, WIDTH));
    found[7] = nextafterf(row[7], 0);
    assert_false(af_verify_holds_top(found, row, WIDTH));
    found[7] = -INFINITY;
    found[1008] = -INFINITY; /* one of four equals */
    assert_false(af_verify_holds_top(found, row, WIDTH));
}

static void of_a_short_row_all_must_be_there(void **state) {
    const float row[3] = {1, -INFINITY, 3};
    assert_true(af_verify_holds_top(row, row, 3));
    assert_false(af_verify_holds_top((const float[]){1, -INFINITY, -INFINITY}, row, 3));
}

static void nothing_may_differ_from_a_row_of_zeros(void **state) {
    numbers n = {0};
    assert_false(compare(&n, NULL).excess);
    n.found[0] = 1e-20f;
    assert_true(compare(&n, NULL).excess);
}

static void a_row_near_the_rounded_product_is_right_in_fast_mode(void **state) {
    numbers n;
    float rounded[WIDTH];
    fill(&n);
    for (size_t i = 0; i < WIDTH; i++) rounded[i] = n.found[i] = n.expected[i] + 0.2f * random_float();
    const af_verify_subject q4 = {.what = "linear", .format = af_format_of(AF_TYPE_Q4_0), .name = "q", .tokens = 1};
    af_verify_table table = {0};
    const af_verify_numbers row = {n.found, n.expected, .rounded = rounded, .width = WIDTH};
    af_verify_compare(&table, &q4, &row);
    assert_false(table.entries[0].row.excess);
    n.found[9] += 0.5f;
    af_verify_compare(&table, &q4, &row);
    assert_true(table.entries[0].row.excess);
}

static void a_wrong_choice_is_an_excess(void **state) {
    af_verify_table table = {0};
    af_verify_choice(&table, &(af_verify_subject){.what = "choice", .name = "best"}, true);
    assert_false(table.entries[0].row.excess);
    af_verify_choice(&table, &(af_verify_subject){.what = "choice", .name = "best"}, false);
    assert_true(table.entries[0].row.excess);
    assert_int_equal(table.entries[0].row.compared, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_that_computes_as_the_reference_passes),
        cmocka_unit_test(both_modes_and_every_operation_are_compared),
        cmocka_unit_test(a_broken_operation_is_found_and_no_other_is_blamed),
        cmocka_unit_test(a_list_that_lacks_the_best_is_found),
        cmocka_unit_test(a_list_holds_the_best_and_their_equals_and_nothing_that_is_not_the_rows),
        cmocka_unit_test(of_a_short_row_all_must_be_there),
        cmocka_unit_test(exact_mode_that_does_not_fit_is_passed_over_and_said_to_be),
        cmocka_unit_test(any_other_failure_to_open_fails),
        cmocka_unit_test(equal_rows_have_no_error),
        cmocka_unit_test(one_wrong_element_of_a_wide_row_is_an_excess),
        cmocka_unit_test(a_little_wrong_everywhere_is_an_excess),
        cmocka_unit_test(a_residual_hides_no_error),
        cmocka_unit_test(rounding_of_a_number_itself_is_no_error),
        cmocka_unit_test(what_is_no_number_is_an_excess_unless_expected),
        cmocka_unit_test(nothing_may_differ_from_a_row_of_zeros),
        cmocka_unit_test(a_row_near_the_rounded_product_is_right_in_fast_mode),
        cmocka_unit_test(a_wrong_choice_is_an_excess),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

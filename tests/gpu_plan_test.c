/* gpu_plan_test.c - the GPU backend computes what plan.h says, for small plans that use every field of every operation:
 * biases, layer and head norms, windows, sinks, soft caps, both rotations, odd widths. On lavapipe, by `shimmy
 * verify`'s own comparison. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend_test.h"
#include "engine/verify.h"

#include <stdio.h>
#include <string.h>

#define DEVICE "llvm" /* lavapipe calls itself llvmpipe */

static void need_device(void) {
    af_device_info devices[8];
    size_t count = 0;
    af_error error;
    if (af_device_list(devices, 8, &count, NULL, &error) == AF_OK)
        for (size_t i = 0; i < count && i < 8; i++)
            if (strstr(devices[i].name, DEVICE)) return;
    print_message("no lavapipe here: %s\n", count ? "another GPU is" : error.text);
    skip();
}

static int open_device(void *user, const char *device, const af_plan *plan, const af_backend_options *options,
                       af_backend **out, af_error *error) {
    return af_backend_open(device, plan, options, out, error);
}

static void print_excess(void *user, const af_verify_row *row) {
    if (row->excess)
        print_error("%s: %s %s %s: rms %g, allowed %g; largest %g, allowed %g; %s\n", (const char *)user, row->mode,
                    row->what, row->format, row->rms, row->rms_allowed, row->largest, row->largest_allowed, row->where);
}

static void check_shape(const shape *s, af_kv_type kv) {
    af_plan *plan = make_plan(s);
    af_verify_options options = af_verify_options_default();
    options.device = DEVICE;
    options.kv = kv;
    af_verify_result result;
    af_error error;
    if (af_verify_plan(plan, &options, &(af_verify_opener){open_device, NULL}, print_excess, (void *)s->name, &result,
                       &error))
        fail_msg("%s: %s", s->name, error.text);
    af_plan_close(plan);
    assert_int_equal(result.excesses, 0);
    assert_non_null(strstr(result.device, DEVICE));
}

/* The backend's kernels want heads of whole eights; what is odd about a shape otherwise stays. */
static shape with_whole_heads(const shape *s) {
    shape whole = *s;
    if (whole.k_dim % 8) whole.k_dim = 24;
    if (whole.v_dim % 8) whole.v_dim = 8;
    return whole;
}

static void check_shapes(af_kv_type kv) {
    need_device();
    for (size_t i = 0; i < SHAPES; i++) {
        const shape s = with_whole_heads(shapes[i]);
        check_shape(&s, kv);
    }
}

static void every_small_plan_with_an_exact_cache(void **state) {
    check_shapes(AF_KV_F32);
}

static void every_small_plan_with_a_cache_of_half_floats(void **state) {
    check_shapes(AF_KV_F16);
}

static void every_small_plan_with_a_cache_of_q8_0(void **state) {
    check_shapes(AF_KV_Q8_0);
}

static void heads_that_no_kernel_takes_are_refused_by_their_size(void **state) {
    need_device();
    shape s = *shapes[0];
    s.k_dim = s.v_dim = 1032;
    af_plan *plan = make_plan(&s);
    const af_backend_options options = {.exact = true, .pages = {4}, .max_tokens = 8, .max_rows = 1};
    af_backend *backend;
    af_error error;
    assert_int_equal(af_backend_open(DEVICE, plan, &options, &backend, &error), AF_EUNSUPPORTED);
    assert_non_null(strstr(error.text, "1032"));
    af_plan_close(plan);
}

static void more_sequences_than_a_gpu_takes_are_refused(void **state) {
    need_device();
    af_plan *plan = make_plan(shapes[0]);
    const af_backend_options options = {
        .exact = true, .pages = {400}, .carries = 257, .max_tokens = 300, .max_rows = 300};
    af_backend *backend;
    af_error error;
    assert_int_equal(af_backend_open(DEVICE, plan, &options, &backend, &error), AF_EINVAL);
    assert_non_null(strstr(error.text, "parallel: 257"));
    af_plan_close(plan);
}

static int run_one(af_backend *backend, af_batch_token token, af_ticket *ticket, af_error *error) {
    const uint32_t page[] = {0};
    const af_batch_seq seq = {.pages = {page, page, page, page}};
    const af_batch batch = {.tokens = &token, .token_count = 1, .seqs = &seq, .seq_count = 1};
    af_result result;
    const int status = backend->ops->submit(backend, &batch, ticket, error);
    return status == AF_OK ? backend->ops->collect(backend, *ticket, &result, error) : status;
}

static void a_choice_of_a_ticket_long_gone_is_refused(void **state) {
    need_device();
    af_plan *plan = make_plan(shapes[0]);
    const af_backend_options options = {.exact = true, .pages = {1, 1}, .max_tokens = 4, .max_rows = 4};
    af_backend *backend;
    af_error error;
    if (af_backend_open(DEVICE, plan, &options, &backend, &error)) fail_msg("%s", error.text);
    af_ticket first, ticket;
    const af_batch_token token = {.id = 1, .choose = AF_CHOOSE_GREEDY};
    assert_int_equal(run_one(backend, token, &first, &error), AF_OK);
    af_batch_token named = {.id = -1, .from = first, .position = 1, .choose = AF_CHOOSE_GREEDY};
    for (int i = 0; i < 3; i++) assert_int_equal(run_one(backend, named, &ticket, &error), AF_OK);
    assert_int_equal(run_one(backend, named, &ticket, &error), AF_EINVAL);
    named.from = ticket + 1;
    assert_int_equal(run_one(backend, named, &ticket, &error), AF_EINVAL);
    backend->ops->close(backend);
    af_plan_close(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_small_plan_with_an_exact_cache),
        cmocka_unit_test(every_small_plan_with_a_cache_of_half_floats),
        cmocka_unit_test(every_small_plan_with_a_cache_of_q8_0),
        cmocka_unit_test(more_sequences_than_a_gpu_takes_are_refused),
        cmocka_unit_test(a_choice_of_a_ticket_long_gone_is_refused),
        cmocka_unit_test(heads_that_no_kernel_takes_are_refused_by_their_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

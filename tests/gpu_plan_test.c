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

static void every_small_plan_with_an_exact_cache(void **state) {
    need_device();
    for (size_t i = 0; i < SHAPES; i++) check_shape(shapes[i], AF_KV_F32);
}

static void plans_of_even_heads_with_a_cache_of_half_floats(void **state) {
    need_device();
    for (size_t i = 0; i < SHAPES; i++)
        if (shapes[i]->k_dim % 2 == 0 && shapes[i]->v_dim % 2 == 0) check_shape(shapes[i], AF_KV_F16);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_small_plan_with_an_exact_cache),
        cmocka_unit_test(plans_of_even_heads_with_a_cache_of_half_floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* weigh_test.c - the sampler's exponential is exp to a unit or two in the last place, and every width of registers
 * gives the same bits, so that a seed gives the same text on every machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/weigh.h"

#include <math.h>
#include <string.h>

enum { COUNT = 64 * 1024 };

static float logits[COUNT], wanted[COUNT], found[COUNT];

/* From 0 down to where weights vanish, and what is no number of such a row. */
static int fill(void **state) {
    static const float odd[] = {0, -0.0f, -86.9999f, -87, -87.0001f, -1e30f, -INFINITY, NAN, -1e-30f, -1e-45f};
    for (size_t i = 0; i < COUNT; i++) logits[i] = -88.0f * (float)i / COUNT;
    memcpy(logits + 100, odd, sizeof odd);
    return 0;
}

static void weights_are_exponentials(void **state) {
    af_weigher_of(16)->weigh(logits, COUNT, 0, 1, wanted);
    for (size_t i = 0; i < COUNT; i++) {
        const double exact = logits[i] > -87 ? exp((double)logits[i]) : 0; /* NaN is not */
        if (fabs((double)wanted[i] - exact) > 4e-7 * exact)
            fail_msg("%g: %g for %g", (double)logits[i], (double)wanted[i], exact);
    }
}

static void every_width_gives_the_same_bits(void **state) {
    static const struct { float best, scale; } rows[] = {{0, 1}, {0, 0.01f}, {0, 30}, {3.5f, 0.7f}, {0, 0x1p120f}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        af_weigher_of(16)->weigh(logits, COUNT, rows[r].best, rows[r].scale, wanted);
        const double sum = af_weigher_of(16)->sum(wanted, COUNT);
        for (uint32_t bytes = 32; bytes <= 64; bytes *= 2) {
            const af_weigher *wider = af_weigher_of(bytes);
            if (!wider) continue;
            wider->weigh(logits, COUNT, rows[r].best, rows[r].scale, found);
            assert_memory_equal(found, wanted, sizeof wanted);
            assert_true(wider->sum(found, COUNT) == sum);
        }
    }
}

static void the_best_is_one_of_them(void **state) {
    const af_weigher *best = af_weigher_best();
    assert_true(best && (best == af_weigher_of(16) || best == af_weigher_of(32) || best == af_weigher_of(64)));
    assert_null(af_weigher_of(128));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_exponentials),
        cmocka_unit_test(every_width_gives_the_same_bits),
        cmocka_unit_test(the_best_is_one_of_them),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}

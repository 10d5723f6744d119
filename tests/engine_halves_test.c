/* All that engine_test.c states, on a backend that takes steps in two halves, as a GPU does. */
#define FAKE_IN_HALVES
#define main engine_tests
#include "engine_test.c"
#undef main

int main(void) {
    const int failures = engine_tests();
    if (failures == 0 && atomic_load(&fake_starts) < 100) {
        fprintf(stderr, "steps were not prepared: %u\n", atomic_load(&fake_starts));
        return 1;
    }
    return failures;
}

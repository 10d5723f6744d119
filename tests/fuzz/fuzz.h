/* fuzz.h - what every fuzz target defines, under libFuzzer's name for it, and what they share.
 *
 * A target is tests/fuzz/<name>_fuzz.c with seeds in tests/fuzz/corpus/<name>. It is built twice: with replay.c for
 * `make check`, and with libFuzzer where SHIMMY_FUZZ is on (the preset "fuzz"). It aborts where an invariant does not
 * hold.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* Also where NDEBUG turns assert() off. */
#define HOLDS(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);                             \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

#endif

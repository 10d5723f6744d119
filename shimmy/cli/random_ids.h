/* random_ids.h - token ids drawn from a seed (splitmix64), for measurements and tests: the same on every machine. */
#ifndef SHIMMY_RANDOM_IDS_H
#define SHIMMY_RANDOM_IDS_H

#include <stddef.h>
#include <stdint.h>

static inline void shimmy_random_ids(int32_t *ids, size_t count, uint32_t vocabulary, uint64_t seed) {
    uint64_t state = seed * UINT64_C(0xD1342543DE82EF95) + 1;
    for (size_t i = 0; i < count; i++) {
        uint64_t z = state += UINT64_C(0x9E3779B97F4A7C15);
        z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
        ids[i] = (int32_t)((z ^ (z >> 31)) % (vocabulary ? vocabulary : 1));
    }
}

#endif

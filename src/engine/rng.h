/* rng.h - the random generator of one request: xoshiro256**, seeded through splitmix64 (Blackman and Vigna, 2018).
 *
 * Each request has its own, so that a seed gives the same draws whatever else runs. Not for secrets.
 */
#ifndef AF_RNG_H
#define AF_RNG_H

#include <stdint.h>

typedef struct af_rng {
    uint64_t s[4];
} af_rng;

void af_rng_seed(af_rng *rng, uint64_t seed);
uint64_t af_rng_next(af_rng *rng);
/* In [0, 1), from 53 bits. */
double af_rng_unit(af_rng *rng);

#endif

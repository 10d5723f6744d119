/* prefix.h - where a prefix of the sampler's order ends: the heaviest weights, so many of them or of so much mass. */
#ifndef AF_PREFIX_H
#define AF_PREFIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Vectors as gcc and clang have them for every machine. */
#define LANES 4
typedef float lanes __attribute__((vector_size(16)));
typedef int32_t int_lanes __attribute__((vector_size(16)));
typedef double double_lanes __attribute__((vector_size(32)));

typedef struct af_prefix_end {
    float weight; /* larger weights are in the prefix */
    double ties;  /* and the first so many of those equal */
    double equal; /* how many there are */
} af_prefix_end;

/* The shortest prefix that measures `target` (tokens, or mass) or more, of the positive weights no smaller than
 * `least`. All of these, if they do not. x is (count) weights between 0 and 1, count a multiple of 16; spare has room
 * for as many. */
af_prefix_end af_find_prefix(float *spare, const float *x, size_t count, float least, double target, bool by_mass);

#endif

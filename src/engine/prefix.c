/* prefix.c - selection by radix over the bits of the weights.
 *
 * The bits of floats between 0 and 1 order as the floats do. The end of a prefix is found by adding up counts or masses
 * in 1024 buckets that divide the range of these bits, then again within the one bucket where the prefix ends, until a
 * bucket is a single float: three passes at the most, linear whatever the row is.
 *
 * The loops are written for a row of 256K weights, most of which are visited: no branch depends on a weight.
 */
#include "engine/prefix.h"

#include <math.h>
#include <string.h>

#define DIGITS     1024 /* buckets of one pass */
#define DIGIT_BITS 10
#define ONE_BITS   0x3F800000u /* of 1.0f */

/* Rises from 0 for the weight 1 as weights fall, one for each float between. Weights of 0 are in no prefix. */
static uint32_t key_of(float weight) {
    uint32_t bits;
    memcpy(&bits, &weight, sizeof bits);
    return bits == 0 ? UINT32_MAX : ONE_BITS - bits;
}

static float weight_of(uint32_t key) {
    uint32_t bits = ONE_BITS - key;
    float weight;
    memcpy(&weight, &bits, sizeof weight);
    return weight;
}

static inline lanes smaller_positive(lanes v, lanes least) {
    int_lanes smaller = (v < least) & (v > 0);
    return (lanes)(((int_lanes)v & smaller) | ((int_lanes)least & ~smaller));
}

static float smallest_positive(const float *x, size_t count) {
    lanes least[4];
    for (int i = 0; i < 4; i++) least[i] = (lanes){1, 1, 1, 1};
    for (size_t i = 0; i < count; i += 16) {
        lanes v[4];
        memcpy(v, x + i, sizeof v);
        for (int k = 0; k < 4; k++) least[k] = smaller_positive(v[k], least[k]);
    }
    for (int k = 1; k < 4; k++) least[0] = smaller_positive(least[k], least[0]);
    return fminf(fminf(least[0][0], least[0][1]), fminf(least[0][2], least[0][3]));
}

/* buckets[digit] = what the weights with key `base` + (digit << shift) and on measure: 1 each, or their weight. Each
 * lane adds to buckets of its own, since neighbours often fall in the same one and an addition would wait for the one
 * before. Weights out of range add 0, anywhere: that is cheaper than a branch. */
static void fill_buckets(const float *x, size_t count, uint32_t base, int shift, bool by_mass, double *buckets) {
    double sets[LANES][DIGITS] = {{0}};
    const int_lanes ones = (int_lanes)(lanes){1, 1, 1, 1};
    for (size_t i = 0; i < count; i += LANES) {
        lanes v;
        memcpy(&v, x + i, sizeof v);
        int_lanes digit = ((int32_t)ONE_BITS - (int32_t)base - (int_lanes)v) >> shift;
        int_lanes counts = (v > 0) & (digit >= 0) & (digit < DIGITS);
        lanes amount = (lanes)(counts & (by_mass ? (int_lanes)v : ones));
        digit &= DIGITS - 1;
        for (int k = 0; k < LANES; k++) sets[k][digit[k]] += (double)amount[k];
    }
    for (uint32_t digit = 0; digit < DIGITS; digit++) {
        buckets[digit] = (sets[0][digit] + sets[1][digit]) + (sets[2][digit] + sets[3][digit]);
    }
}

/* Where the running sum of the buckets reaches *target, which is left as what that bucket must still give. The last
 * bucket that holds anything, if none. */
static uint32_t crossing_bucket(const double *buckets, double *target) {
    uint32_t digit = 0, last = DIGITS - 1u;
    while (last > 0 && buckets[last] == 0) last--;
    while (digit < last && buckets[digit] < *target) *target -= buckets[digit++];
    return digit;
}

/* Copies the weights of one bucket to `out` (which may be `x`, and has room for count), without a branch to mispredict,
 * and fills up with zeros to a multiple of LANES. Returns how many these are together. */
static size_t gather_bucket(const float *x, size_t count, uint32_t base, int shift, float *out) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        float weight = x[i];
        out[kept] = weight;
        kept += (key_of(weight) - base) >> shift == 0;
    }
    while (kept % LANES != 0) out[kept++] = 0;
    return kept;
}

static int first_shift(uint32_t largest_key) {
    int shift = 0;
    while (largest_key >> shift >= DIGITS) shift++;
    return shift;
}

af_prefix_end af_find_prefix(float *spare, const float *x, size_t count, float least, double target, bool by_mass) {
    double buckets[DIGITS];
    uint32_t base = 0, digit;
    int shift = first_shift(key_of(fmaxf(least, smallest_positive(x, count))));
    for (;;) {
        fill_buckets(x, count, base, shift, by_mass, buckets);
        digit = crossing_bucket(buckets, &target);
        base += digit << shift;
        if (shift == 0) break;
        count = gather_bucket(x, count, base, shift, spare);
        x = spare;
        shift = shift > DIGIT_BITS ? shift - DIGIT_BITS : 0;
    }
    float weight = weight_of(base);
    double unit = by_mass ? (double)weight : 1.0;
    double ties = ceil(target / unit);
    return (af_prefix_end){.weight = weight, .ties = ties < 1 ? 1 : ties, .equal = buckets[digit] / unit};
}

/* weights.c - selection by radix over the bits of the weights.
 *
 * The bits of floats between 0 and 1 order as the floats do. The end of a prefix (of so many tokens, or of so much
 * mass) is found by adding up counts or masses in 1024 buckets that divide the range of these bits, then again within
 * the one bucket where the prefix ends, until a bucket is a single float: three passes at the most, linear whatever the
 * row is.
 *
 * exponential() is the only exponential of the sampler. It is a polynomial, not the C library's, so that the same seed
 * gives the same text with another C library, and so that it runs on four lanes at once (vectors as gcc and clang have
 * them for every machine).
 */
#include "engine/weights.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS     1024u /* buckets of one pass */
#define DIGIT_BITS 10
#define ONE_BITS   0x3F800000u /* of 1.0f */
#define SETS       4           /* of buckets */

/* Where a prefix of the order ends: larger weights are in it, and the first `ties` of those equal. */
typedef struct prefix_end {
    float weight;
    double ties;
} prefix_end;

int af_weights_open(uint32_t vocabulary, af_weights *out, af_error *error) {
    uint32_t blocks = vocabulary / AF_BLOCK + (vocabulary % AF_BLOCK != 0);
    *out = (af_weights){.vocabulary = vocabulary, .blocks = blocks, .padded_blocks = (blocks + 3) / 4 * 4};
    out->maxima = malloc(out->padded_blocks * sizeof *out->maxima);
    out->live = malloc(blocks * sizeof *out->live);
    out->weights = malloc((size_t)blocks * AF_BLOCK * sizeof *out->weights);
    out->spare = malloc((size_t)blocks * AF_BLOCK * sizeof *out->spare);
    if (out->maxima && out->live && out->weights && out->spare) return AF_OK;
    af_weights_close(out);
    return af_fail_memory(error, (size_t)blocks * 2 * (AF_BLOCK + 1) * sizeof(float), "the sampler's weights");
}

void af_weights_close(af_weights *w) {
    free(w->maxima);
    free(w->live);
    free(w->weights);
    free(w->spare);
    *w = (af_weights){0};
}

/* ---- Blocks ---- */

static uint32_t block_length(const af_weights *w, uint32_t block) {
    uint32_t left = w->vocabulary - block * AF_BLOCK;
    return left < AF_BLOCK ? left : AF_BLOCK;
}

/* Eight running maxima, so that no comparison waits for the one before. NaN compares false and is passed over. */
static float block_maximum(const float *x) {
    float m[8];
    for (int lane = 0; lane < 8; lane++) m[lane] = -INFINITY;
    for (int i = 0; i < AF_BLOCK; i += 8) {
        for (int lane = 0; lane < 8; lane++) m[lane] = x[i + lane] > m[lane] ? x[i + lane] : m[lane];
    }
    for (int width = 4; width > 0; width /= 2) {
        for (int lane = 0; lane < width; lane++) m[lane] = m[lane + width] > m[lane] ? m[lane + width] : m[lane];
    }
    return m[0];
}

typedef float lanes __attribute__((vector_size(16)));
typedef int32_t int_lanes __attribute__((vector_size(16)));
typedef double double_lanes __attribute__((vector_size(32)));

/* exp(x) for x <= 0 to about one unit in the last place; 0 below -87, where the result would leave the normal floats,
 * and for NaN. x = n ln2 + r with |r| <= ln2 / 2; exp(r) by its Taylor series to r^6. ln2 is subtracted in two parts,
 * so that r keeps its bits. */
static inline lanes exponential(lanes x) {
    const float log2e = 1.44269504f, ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
    const float shift = 0x1.8p23f; /* adding it rounds to an integer, which then stands in the low bits */
    int_lanes normal = x > -87.0f;
    x = (lanes)((int_lanes)x & normal);
    lanes shifted = x * log2e + shift;
    lanes n = shifted - shift;
    lanes r = (x - n * ln2_high) - n * ln2_low;
    lanes p = r * (1.0f / 720) + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    int_lanes power = ((int_lanes)shifted << 23) + 0x3F800000; /* 2^n: the shift's own bits leave at the top */
    return (lanes)((int_lanes)(p * (lanes)power) & normal);
}

/* out = weights of `count` logits, a multiple of 4; in place is allowed. */
static void weigh(const float *logits, size_t count, float best, float scale, float *out) {
    for (size_t i = 0; i < count; i += 4) {
        lanes x;
        memcpy(&x, logits + i, sizeof x);
        x = exponential((x - best) * scale);
        memcpy(out + i, &x, sizeof x);
    }
}

static double block_sum(const float *x) {
    double_lanes sum = {0, 0, 0, 0};
    for (int i = 0; i < AF_BLOCK; i += 4) {
        lanes v;
        memcpy(&v, x + i, sizeof v);
        sum += __builtin_convertvector(v, double_lanes);
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* The logits of a block, padded with -inf in `spare` where the vocabulary ends inside it. */
static const float *block_logits(const af_weights *w, const float *logits, uint32_t block, float *spare) {
    const float *x = logits + (size_t)block * AF_BLOCK;
    uint32_t length = block_length(w, block);
    if (length == AF_BLOCK) return x;
    for (uint32_t i = 0; i < AF_BLOCK; i++) spare[i] = i < length ? x[i] : -INFINITY;
    return spare;
}

/* ---- The end of a prefix ---- */

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

static float smallest_positive(const float *x, size_t count) {
    lanes least = {1, 1, 1, 1};
    for (size_t i = 0; i < count; i += 4) {
        lanes v;
        memcpy(&v, x + i, sizeof v);
        int_lanes smaller = (v < least) & (v > 0);
        least = (lanes)(((int_lanes)v & smaller) | ((int_lanes)least & ~smaller));
    }
    return fminf(fminf(least[0], least[1]), fminf(least[2], least[3]));
}

/* buckets[digit] = what the weights with key `base` + (digit << shift) and on measure: 1 each, or their weight.
 * Neighbours add to different sets of buckets, since many fall in the same one and an addition would wait for the one
 * before. */
static void fill_buckets(const float *x, size_t count, uint32_t base, int shift, bool by_mass, double *buckets) {
    double sets[SETS][DIGITS] = {{0}};
    for (size_t i = 0; i < count; i++) {
        uint32_t digit = (key_of(x[i]) - base) >> shift;
        if (digit < DIGITS) sets[i % SETS][digit] += by_mass ? (double)x[i] : 1.0;
    }
    for (uint32_t digit = 0; digit < DIGITS; digit++) {
        buckets[digit] = (sets[0][digit] + sets[1][digit]) + (sets[2][digit] + sets[3][digit]);
    }
}

/* Where the running sum of the buckets reaches *target, which is left as what that bucket must still give. The last
 * bucket that holds anything, if none. */
static uint32_t crossing_bucket(const double *buckets, double *target) {
    uint32_t digit = 0, last = DIGITS - 1;
    while (last > 0 && buckets[last] == 0) last--;
    while (digit < last && buckets[digit] < *target) *target -= buckets[digit++];
    return digit;
}

/* Copies the weights of one bucket to `out` (which may be `x`), without a branch to mispredict. Room for count. */
static size_t gather_bucket(const float *x, size_t count, uint32_t base, int shift, float *out) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        float weight = x[i];
        out[kept] = weight;
        kept += (key_of(weight) - base) >> shift == 0;
    }
    return kept;
}

static int first_shift(uint32_t largest_key) {
    int shift = 0;
    while (largest_key >> shift >= DIGITS) shift++;
    return shift;
}

/* The shortest prefix that measures `target` (tokens, or mass) or more. All positive weights, if they do not. `count`
 * is a multiple of 4. */
static prefix_end find_prefix(af_weights *w, const float *x, size_t count, double target, bool by_mass) {
    double buckets[DIGITS];
    uint32_t base = 0;
    int shift = first_shift(key_of(smallest_positive(x, count)));
    for (;;) {
        fill_buckets(x, count, base, shift, by_mass, buckets);
        base += crossing_bucket(buckets, &target) << shift;
        if (shift == 0) break;
        count = gather_bucket(x, count, base, shift, w->spare);
        x = w->spare;
        shift = shift > DIGIT_BITS ? shift - DIGIT_BITS : 0;
    }
    float weight = weight_of(base);
    double ties = by_mass ? ceil(target / (double)weight) : target;
    return (prefix_end){.weight = weight, .ties = ties < 1 ? 1 : ties};
}

static void drop_below(af_weights *w, float cut) {
    size_t count = (size_t)w->live_count * AF_BLOCK;
    for (size_t i = 0; i < count; i += 4) {
        lanes x;
        memcpy(&x, w->weights + i, sizeof x);
        x = (lanes)((int_lanes)x & (x >= cut));
        memcpy(w->weights + i, &x, sizeof x);
    }
}

static void cut_after(af_weights *w, prefix_end end) {
    size_t count = (size_t)w->live_count * AF_BLOCK;
    double ties = 0;
    drop_below(w, end.weight);
    for (size_t i = 0; i < count; i++) {
        if (w->weights[i] == end.weight && ++ties > end.ties) w->weights[i] = 0;
    }
}

/* Leaves out the blocks whose largest weight is below `cut`. */
static void keep_blocks(af_weights *w, float cut) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < w->live_count; i++) {
        uint32_t block = w->live[i];
        if (w->maxima[block] < cut) continue;
        if (kept != i) {
            memcpy(w->weights + (size_t)kept * AF_BLOCK, w->weights + (size_t)i * AF_BLOCK, AF_BLOCK * sizeof(float));
        }
        w->live[kept++] = block;
    }
    w->live_count = kept;
}

static double total_weight(const af_weights *w) {
    double sum = 0;
    for (uint32_t i = 0; i < w->live_count; i++) sum += block_sum(w->weights + (size_t)i * AF_BLOCK);
    return sum;
}

/* ---- The chain's parts ---- */

int32_t af_best_token(const float *logits, uint32_t vocabulary) {
    uint32_t best = 0, i = 0;
    float largest = -INFINITY;
    for (; i + AF_BLOCK <= vocabulary; i += AF_BLOCK) {
        float maximum = block_maximum(logits + i);
        if (maximum <= largest) continue;
        largest = maximum;
        for (best = i; logits[best] != maximum; best++) {
        }
    }
    for (; i < vocabulary; i++) {
        if (!(logits[i] > largest)) continue;
        largest = logits[i];
        best = i;
    }
    return (int32_t)best;
}

bool af_weights_scan(af_weights *w, const float *logits) {
    float spare[AF_BLOCK];
    w->best = -INFINITY;
    for (uint32_t block = w->blocks; block < w->padded_blocks; block++) w->maxima[block] = -INFINITY;
    for (uint32_t block = 0; block < w->blocks; block++) {
        w->maxima[block] = block_maximum(block_logits(w, logits, block, spare));
        if (w->maxima[block] > w->best) w->best = w->maxima[block];
    }
    return isfinite(w->best);
}

/* The smallest weight that a block's best must have for the block to hold a token that is kept. */
static float block_cut(af_weights *w, uint32_t top_k, float min_p) {
    float cut = min_p;
    if (top_k > 0 && top_k < w->blocks) {
        float kth = find_prefix(w, w->maxima, w->padded_blocks, (double)top_k, false).weight;
        if (kth > cut) cut = kth;
    }
    return cut;
}

void af_weights_compute(af_weights *w, const float *logits, float temperature, uint32_t top_k, float min_p) {
    float spare[AF_BLOCK];
    /* A temperature so small that its inverse is no float still multiplies the best logit's 0 to 0. */
    float scale = fminf(1.0f / temperature, 0x1p120f);
    assert(temperature > 0);
    weigh(w->maxima, w->padded_blocks, w->best, scale, w->maxima);
    float cut = block_cut(w, top_k, min_p);
    w->live_count = 0;
    for (uint32_t block = 0; block < w->blocks; block++) {
        if (w->maxima[block] < cut || w->maxima[block] == 0) continue;
        float *out = w->weights + (size_t)w->live_count * AF_BLOCK;
        weigh(block_logits(w, logits, block, spare), AF_BLOCK, w->best, scale, out);
        w->live[w->live_count++] = block;
    }
}

void af_weights_keep_top_k(af_weights *w, uint32_t k) {
    cut_after(w, find_prefix(w, w->weights, (size_t)w->live_count * AF_BLOCK, (double)k, false));
}

/* Tokens below a fair share of the mass to be dropped, (1 - p) * total / tokens, cannot all together make up that mass:
 * none of them is needed. Blocks without a token above it are left out first, which is most of them as a rule. */
void af_weights_keep_top_p(af_weights *w, float p) {
    double total = total_weight(w);
    keep_blocks(w, (float)((1.0 - (double)p) * total / (double)w->vocabulary * 0.999));
    cut_after(w, find_prefix(w, w->weights, (size_t)w->live_count * AF_BLOCK, (double)p * total, true));
}

void af_weights_keep_min_p(af_weights *w, float p) {
    drop_below(w, p);
}

static uint32_t draw_in_block(const float *x, double left) {
    uint32_t chosen = 0;
    for (uint32_t i = 0; i < AF_BLOCK; i++) {
        if (x[i] == 0) continue;
        chosen = i;
        left -= (double)x[i];
        if (left < 0) break;
    }
    return chosen;
}

int32_t af_weights_draw(const af_weights *w, double unit) {
    double left = unit * total_weight(w);
    uint32_t chosen = 0;
    double inside = 0;
    for (uint32_t i = 0; i < w->live_count; i++) {
        double sum = block_sum(w->weights + (size_t)i * AF_BLOCK);
        if (sum == 0) continue;
        chosen = i;
        inside = left;
        left -= sum;
        if (left < 0) break;
    }
    uint32_t at = draw_in_block(w->weights + (size_t)chosen * AF_BLOCK, inside);
    return (int32_t)(w->live[chosen] * AF_BLOCK + at);
}

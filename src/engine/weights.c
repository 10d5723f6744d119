/* weights.c - blocks, cutting and drawing. Where to cut is found in prefix.c, the exponential is in weigh.c.
 */
#include "engine/weights.h"
#include "engine/prefix.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int af_weights_open(uint32_t vocabulary, af_weights *out, af_error *error) {
    uint32_t blocks = vocabulary / AF_BLOCK + (vocabulary % AF_BLOCK != 0);
    *out = (af_weights){.vocabulary = vocabulary, .blocks = blocks, .padded_blocks = (blocks + 15) / 16 * 16};
    out->maxima = malloc(out->padded_blocks * sizeof *out->maxima);
    out->live = malloc(blocks * sizeof *out->live);
    out->weights = malloc((size_t)blocks * AF_BLOCK * sizeof *out->weights);
    out->spare = malloc((size_t)blocks * AF_BLOCK * sizeof *out->spare);
    out->sums = malloc(blocks * sizeof *out->sums);
    out->loops = af_weigher_best();
    if (out->maxima && out->live && out->weights && out->spare && out->sums) return AF_OK;
    af_weights_close(out);
    return af_fail_memory(error, (size_t)blocks * 2 * (AF_BLOCK + 1) * sizeof(float), "the sampler's weights");
}

void af_weights_close(af_weights *w) {
    free(w->maxima);
    free(w->live);
    free(w->weights);
    free(w->spare);
    free(w->sums);
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

/* The logits of a block, padded with -inf in `spare` where the vocabulary ends inside it. */
static const float *block_logits(const af_weights *w, const float *logits, uint32_t block, float *spare) {
    const float *x = logits + (size_t)block * AF_BLOCK;
    uint32_t length = block_length(w, block);
    if (length == AF_BLOCK) return x;
    for (uint32_t i = 0; i < AF_BLOCK; i++) spare[i] = i < length ? x[i] : -INFINITY;
    return spare;
}

/* ---- Cutting ---- */

static void drop_below(af_weights *w, float cut) {
    size_t count = (size_t)w->live_count * AF_BLOCK;
    for (size_t i = 0; i < count; i += 4) {
        lanes x;
        memcpy(&x, w->weights + i, sizeof x);
        x = (lanes)((int_lanes)x & (x >= cut));
        memcpy(w->weights + i, &x, sizeof x);
    }
}

static void cut_after(af_weights *w, af_prefix_end end) {
    size_t count = (size_t)w->live_count * AF_BLOCK;
    double ties = 0;
    drop_below(w, end.weight);
    if (end.equal <= end.ties) return;
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

/* Notes each block's. */
static double total_weight(af_weights *w) {
    double sum = 0;
    for (uint32_t i = 0; i < w->live_count; i++)
        sum += w->sums[i] = w->loops->sum(w->weights + (size_t)i * AF_BLOCK, AF_BLOCK);
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
static float block_cut(const af_weights *w, uint32_t top_k, float min_p) {
    float cut = min_p;
    if (top_k > 0 && top_k < w->blocks) {
        float kth = af_find_prefix(w->spare, w->maxima, w->padded_blocks, 0, (double)top_k, false).weight;
        if (kth > cut) cut = kth;
    }
    return cut;
}

/* A temperature so small that its inverse is no float still multiplies the best logit's 0 to 0. */
float af_weights_scale(float temperature) {
    assert(temperature > 0);
    return fminf(1.0f / temperature, 0x1p120f);
}

void af_weights_compute(af_weights *w, const float *logits, float temperature, uint32_t top_k, float min_p) {
    float spare[AF_BLOCK];
    const float scale = af_weights_scale(temperature);
    w->loops->weigh(w->maxima, w->padded_blocks, w->best, scale, w->maxima);
    float cut = block_cut(w, top_k, min_p);
    w->live_count = 0;
    for (uint32_t block = 0; block < w->blocks; block++) {
        if (w->maxima[block] < cut || w->maxima[block] == 0) continue;
        float *out = w->weights + (size_t)w->live_count * AF_BLOCK;
        w->loops->weigh(block_logits(w, logits, block, spare), AF_BLOCK, w->best, scale, out);
        w->live[w->live_count++] = block;
    }
}

void af_weights_keep_top_k(af_weights *w, uint32_t k) {
    size_t count = (size_t)w->live_count * AF_BLOCK;
    cut_after(w, af_find_prefix(w->spare, w->weights, count, 0, (double)k, false));
}

/* No less than all tokens lighter than `cut` weigh together: whole blocks of them, and in a block with a heavier one at
 * most all others. total_weight has been called. */
static double most_below(const af_weights *w, float cut) {
    double sum = 0;
    for (uint32_t i = 0; i < w->live_count; i++) {
        const double heaviest = (double)w->maxima[w->live[i]], others = fmax(w->sums[i] - heaviest, 0);
        sum += heaviest < (double)cut ? w->sums[i] : fmin(others, (AF_BLOCK - 1) * (double)cut);
    }
    return sum;
}

/* A weight such that lighter tokens are not needed, because all together they weigh less than is to be dropped: found
 * by coarse steps down from 1, and at the latest a fair share of that. */
static float lightest_needed(const af_weights *w, double dropped) {
    const float share = (float)(dropped / (double)w->vocabulary);
    float cut = 0.5f;
    while (cut > share && most_below(w, cut) > dropped) cut /= 16;
    return fmaxf(cut, share);
}

/* Blocks without a token that may be needed are left out first, which is most of them as a rule. */
void af_weights_keep_top_p(af_weights *w, float p) {
    const double total = total_weight(w);
    const float least = lightest_needed(w, (1.0 - (double)p) * total * 0.999);
    keep_blocks(w, least);
    cut_after(w,
              af_find_prefix(w->spare, w->weights, (size_t)w->live_count * AF_BLOCK, least, (double)p * total, true));
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

int32_t af_weights_draw(af_weights *w, double unit) {
    double left = unit * total_weight(w);
    uint32_t chosen = 0;
    double inside = 0;
    for (uint32_t i = 0; i < w->live_count; i++) {
        if (w->sums[i] == 0) continue;
        chosen = i;
        inside = left;
        left -= w->sums[i];
        if (left < 0) break;
    }
    uint32_t at = draw_in_block(w->weights + (size_t)chosen * AF_BLOCK, inside);
    return (int32_t)(w->live[chosen] * AF_BLOCK + at);
}

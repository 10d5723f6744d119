/* acts.h - a batch of activations as the kernels read it.
 *
 * Rounded a block of 32 columns at a time: d = the largest magnitude / 127, q = x / d to the nearest integer. With it
 * go the sums that formats with an offset or a minimum need, so that no kernel adds up activations.
 *
 * A fine token takes eight times the steps, d = the largest magnitude / (127 * 8), and two bytes for each: 8 * q + q2
 * with q in -127 .. 127 and q2 in -4 .. 3. Kernels make an integer of both dots before anything is a float.
 *
 * Up to AF_LANES (16) tokens lie side by side, block after block, so that a tile of tokens reads one stream and no two
 * compete for the same cache set; smaller batches lie closer (`lanes`). Every array below has an entry for each (token,
 * block), at af_acts_at().
 */
#ifndef AF_CPU_ACTS_H
#define AF_CPU_ACTS_H

#include "backend/cpu/layout.h"

#define AF_FINE_BITS 3
#define AF_FINE      (1 << AF_FINE_BITS) /* steps of a fine token in one of another */

/* A block with no magnitude above this is taken as zero: its scale's reciprocal could overflow. */
#define AF_ACTS_SMALLEST 1e-30f

/* Where a block's integer sum starts: minus the format's offset times the sum of integers, over the whole block or its
 * first and second 16 columns. */
typedef enum af_start {
    AF_START_8,
    AF_START_16,
    AF_START_128,
    AF_START_4_FIRST,
    AF_START_4_SECOND,
    AF_START_32_FIRST,
    AF_START_32_SECOND,
    AF_STARTS
} af_start;

struct af_acts {
    const float
        *x; /* the caller's: token t's row is x + (t - first) * stride; it has blocks block_begin .. block_end - 1 */
    size_t stride;
    uint32_t first, block_begin, block_end; /* all of them, but while a part is quantized */
    uint32_t tokens, width;
    bool fine;
    uint32_t needs;  /* af_needs: what is not needed is not stored, for it would be mostly misses */
    uint32_t blocks; /* of 32 columns; a width that is no multiple of 32 is never quantized */
    uint32_t lanes;  /* 1, 2, 4, 8 or 16 tokens side by side */

    int8_t *q; /* 32 an entry; of a fine token 32 q and then 32 q2 */
    float *d;
    float *sum, *sum_first, *sum_second; /* d * the sum of integers: of all 32, the first and the second 16 columns */
    int32_t *start[AF_STARTS];

    uint32_t max_tokens, max_width; /* a fine token counts as two */
    unsigned char *memory;
    size_t bytes;
};

static inline const float *af_acts_row(const af_acts *a, uint32_t token) {
    return a->x + (token - a->first) * a->stride;
}

static inline size_t af_acts_at(const af_acts *a, uint32_t token, uint32_t block) {
    return ((size_t)(token / a->lanes) * a->blocks + block) * a->lanes + token % a->lanes;
}

static inline int8_t *af_acts_q(const af_acts *a, size_t at) {
    return a->q + (at * AF_BLOCK << a->fine);
}

/* Stores what goes with the quantized block at `at`: its scale and, given the integer sums of its halves, the rest. */
AF_LAYOUT_INLINE void af_acts_finish_block(af_acts *a, size_t at, float d, int32_t first, int32_t second) {
    int32_t both = first + second;
    a->d[at] = d;
    a->sum[at] = d * (float)both;
    if (a->needs & AF_NEEDS_STARTS) {
        a->start[AF_START_8][at] = -8 * both;
        a->start[AF_START_16][at] = -16 * both;
        a->start[AF_START_128][at] = -128 * both;
    }
    if (!(a->needs & AF_NEEDS_HALVES)) return;
    a->sum_first[at] = d * (float)first;
    a->sum_second[at] = d * (float)second;
    a->start[AF_START_4_FIRST][at] = -4 * first;
    a->start[AF_START_4_SECOND][at] = -4 * second;
    a->start[AF_START_32_FIRST][at] = -32 * first;
    a->start[AF_START_32_SECOND][at] = -32 * second;
}

/* Where the integer sum of the block at `at` starts; of half of it, where 16 columns share a scale. For layouts with an
 * offset. Halves are kept for the offsets of the older formats; the others are four times one of those. */
AF_LAYOUT_INLINE int32_t af_start_at(af_layout l, bool second_half, const af_acts *a, size_t at) {
    if (l.columns == 32) return a->start[l.offset == 8 ? AF_START_8 : l.offset == 16 ? AF_START_16 : AF_START_128][at];
    const bool small = l.offset <= 16; /* 4 and 16; else 32 and 128 */
    const int32_t start = small ? a->start[second_half ? AF_START_4_SECOND : AF_START_4_FIRST][at]
                                : a->start[second_half ? AF_START_32_SECOND : AF_START_32_FIRST][at];
    return l.offset == 16 || l.offset == 128 ? 4 * start : start;
}

#endif

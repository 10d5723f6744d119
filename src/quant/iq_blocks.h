/* iq_blocks.h - the blocks of the IQ and TQ formats as they lie in a file, and one way to read them: eight elements at
 * a time. Each format's own file draws its block. For the decoders here and for backends, which repack.
 *
 * All have 256 elements; what blocks.h says of alignment holds here too.
 */
#ifndef AF_QUANT_IQ_BLOCKS_H
#define AF_QUANT_IQ_BLOCKS_H

#include "quant/blocks.h"
#include "quant/iq_grids.h"

#include <string.h>

#define AF_EIGHTS (AF_SUPERBLOCK / 8)

typedef struct af_block_iq2_xxs {
    uint16_t d;
    uint16_t qs[32];
} af_block_iq2_xxs;

typedef struct af_block_iq2_xs {
    uint16_t d;
    uint16_t qs[32];
    uint8_t scales[8];
} af_block_iq2_xs;

typedef struct af_block_iq2_s {
    uint16_t d;
    uint8_t qs[32], signs[32], qh[8], scales[8];
} af_block_iq2_s;

typedef struct af_block_iq3_xxs {
    uint16_t d;
    uint8_t qs[64];
    uint16_t scales_and_signs[16];
} af_block_iq3_xxs;

typedef struct af_block_iq3_s {
    uint16_t d;
    uint8_t qs[64], qh[8], signs[32], scales[4];
} af_block_iq3_s;

typedef struct af_block_iq1_s {
    uint16_t d;
    uint8_t qs[32];
    uint16_t qh[8];
} af_block_iq1_s;

typedef struct af_block_iq1_m {
    uint8_t qs[32], qh[16];
    uint16_t scales[4];
} af_block_iq1_m;

typedef struct af_block_tq1_0 {
    uint8_t qs[48], qh[4];
    uint16_t d;
} af_block_tq1_0;

typedef struct af_block_tq2_0 {
    uint8_t qs[64];
    uint16_t d;
} af_block_tq2_0;

/* Elements 8 g .. 8 g + 7 of a block of an IQ format. */
typedef struct af_iq_eight {
    uint32_t places; /* of the magnitudes, 2 bits an element, 4 of iq3 */
    uint8_t signs;   /* bit i: element i is negative. Of iq1: all or none, eighths are taken off or added */
    uint8_t scale;   /* an odd number, 1 .. 31 */
} af_iq_eight;

/* The signs of eight elements from the seven bits that formats keep where there is an even number of negative ones. */
static inline uint8_t af_even_signs(uint32_t seven) {
    seven &= 127;
    uint32_t odd = seven ^ seven >> 4;
    odd ^= odd >> 2;
    odd ^= odd >> 1;
    return (uint8_t)(seven | (odd & 1) << 7);
}

/* Four bits s to a scale of s + 1/2, doubled. */
static inline uint8_t af_iq_scale(uint32_t four) {
    return (uint8_t)(2 * (four & 15) + 1);
}

static inline uint32_t af_two_words(const uint16_t w[2]) {
    return w[0] | (uint32_t)w[1] << 16;
}

static inline af_iq_eight af_iq2_xxs_eight(const af_block_iq2_xxs *b, uint32_t g) {
    const uint16_t *group = b->qs + g / 4 * 4;
    const uint32_t index = group[g % 4 / 2] >> (g % 2 * 8) & 255, rest = af_two_words(group + 2);
    return (af_iq_eight){af_iq2_xxs_grid[index], af_even_signs(rest >> g % 4 * 7), af_iq_scale(rest >> 28)};
}

static inline af_iq_eight af_iq2_xs_eight(const af_block_iq2_xs *b, uint32_t g) {
    return (af_iq_eight){af_iq2_xs_grid[b->qs[g] & 511], af_even_signs(b->qs[g] >> 9),
                         af_iq_scale(b->scales[g / 4] >> g % 4 / 2 * 4)};
}

static inline af_iq_eight af_iq2_s_eight(const af_block_iq2_s *b, uint32_t g) {
    const uint32_t index = b->qs[g] | (uint32_t)(b->qh[g / 4] >> g % 4 * 2 & 3) << 8;
    return (af_iq_eight){af_iq2_s_grid[index], b->signs[g], af_iq_scale(b->scales[g / 4] >> g % 4 / 2 * 4)};
}

static inline af_iq_eight af_iq3_xxs_eight(const af_block_iq3_xxs *b, uint32_t g) {
    const uint32_t rest = af_two_words(b->scales_and_signs + g / 4 * 2);
    return (af_iq_eight){af_iq3_xxs_grid[b->qs[2 * g]] | (uint32_t)af_iq3_xxs_grid[b->qs[2 * g + 1]] << 16,
                         af_even_signs(rest >> g % 4 * 7), af_iq_scale(rest >> 28)};
}

static inline af_iq_eight af_iq3_s_eight(const af_block_iq3_s *b, uint32_t g) {
    const uint32_t high = b->qh[g / 4] >> g % 4 * 2; /* ninth bits of the two indices */
    return (af_iq_eight){af_iq3_s_grid[b->qs[2 * g] | (high & 1) << 8] |
                             (uint32_t)af_iq3_s_grid[b->qs[2 * g + 1] | (high & 2) << 7] << 16,
                         b->signs[g], af_iq_scale(b->scales[g / 8] >> g % 8 / 4 * 4)};
}

static inline af_iq_eight af_iq1_s_eight(const af_block_iq1_s *b, uint32_t g) {
    const uint32_t rest = b->qh[g / 4];
    return (af_iq_eight){af_iq1_grid[b->qs[g] | (rest >> g % 4 * 3 & 7) << 8], rest >> 15 ? 0xff : 0,
                         af_iq_scale(rest >> 12 & 7)};
}

static inline af_iq_eight af_iq1_m_eight(const af_block_iq1_m *b, uint32_t g) {
    const uint32_t rest = b->qh[g / 2] >> g % 2 * 4;
    return (af_iq_eight){af_iq1_grid[b->qs[g] | (rest & 7) << 8], rest & 8 ? 0xff : 0,
                         af_iq_scale(b->scales[g / 8] >> g % 8 / 2 * 3 & 7)};
}

/* An iq1_m block's half float, in the top four bits of its four words, lowest first. */
static inline uint16_t af_iq1_m_d(const af_block_iq1_m *b) {
    return (uint16_t)(b->scales[0] >> 12 | b->scales[1] >> 12 << 4 | b->scales[2] >> 12 << 8 |
                      b->scales[3] >> 12 << 12);
}

/* Element e of a tq1_0 block, 0 .. 3: a byte holds five digits to base 3 as a fraction of 256, so that the next digit
 * is what its product with 3 carries. */
static inline uint32_t af_tq1_0_value(const af_block_tq1_0 *b, uint32_t e) {
    static const uint8_t POWERS[5] = {1, 3, 9, 27, 81};
    uint32_t byte, digit;
    if (e < 160)
        byte = b->qs[e % 32], digit = e / 32;
    else if (e < 240)
        byte = b->qs[32 + e % 16], digit = (e - 160) / 16;
    else
        byte = b->qh[e % 4], digit = (e - 240) / 4;
    return (byte * POWERS[digit] & 255) * 3 >> 8;
}

/* ---- Decoding, shared by the formats' files ---- */

/* Eight elements of an iq2 or iq3 format, whose places have `bits` bits. */
static inline void af_iq_decode(const af_iq_eight *eight, uint32_t bits, const uint8_t *magnitudes, float d,
                                float out[8]) {
    const float step = d * (float)eight->scale;
    for (uint32_t i = 0; i < 8; i++) {
        const float magnitude = magnitudes[eight->places >> bits * i & ((1u << bits) - 1)];
        out[i] = step * (eight->signs >> i & 1 ? -magnitude : magnitude);
    }
}

/* Eight elements of an iq1 format: -1, 0 or 1 and an eighth. */
static inline void af_iq1_decode(const af_iq_eight *eight, float d, float out[8]) {
    const float step = d * (float)eight->scale, eighth = eight->signs ? -0.125f : 0.125f;
    for (uint32_t i = 0; i < 8; i++) out[i] = step * ((float)(int)(eight->places >> 2 * i & 3) - 1 + eighth);
}

#endif

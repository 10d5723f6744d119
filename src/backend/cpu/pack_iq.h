/* pack_iq.h - codes and scales of the IQ and TQ formats, in the words of pack.c, which includes this once.
 *
 * A point of a grid is taken apart here, at load: what kernels get is an index of a magnitude and its sign, the place
 * of the value in a book (books.c). That is up to twice the file's size, and lets one body multiply every format.
 */
#include "quant/iq_blocks.h"

/* ---- Codes ---- */

/* Places of magnitudes, 2 bits or 4 an element, to four bytes; with the sign as the next bit: its place in the book. */
AF_LAYOUT_INLINE uint32_t two_bits(uint32_t x) {
    x = (x | x << 12) & 0x000f000f;
    return (x | x << 6) & BYTES(3);
}

AF_LAYOUT_INLINE uint32_t four_bits(uint32_t x) {
    x = (x | x << 8) & 0x00ff00ff;
    return (x | x << 4) & BYTES(15);
}

/* Of an iq2, iq3 or iq1 format: eight elements to words c[0] and c[1]. */
AF_LAYOUT_INLINE void eight_by_two(af_iq_eight eight, uint32_t c[2]) {
    c[0] = two_bits(eight.places & 255) | spread(eight.signs) << 2;
    c[1] = two_bits(eight.places >> 8) | spread(eight.signs >> 4) << 2;
}

AF_LAYOUT_INLINE void eight_by_four(af_iq_eight eight, uint32_t c[2]) {
    c[0] = four_bits(eight.places & 0xffff) | spread(eight.signs) << 3;
    c[1] = four_bits(eight.places >> 16) | spread(eight.signs >> 4) << 3;
}

/* iq1_s has one direction for 32 columns: where it is down, places and scale change signs (head_iq1_s). */
AF_LAYOUT_INLINE void eight_upwards(af_iq_eight eight, uint32_t c[2]) {
    c[0] = two_bits(eight.places & 255);
    c[1] = two_bits(eight.places >> 8);
    if (eight.signs) c[0] = BYTES(2) - c[0], c[1] = BYTES(2) - c[1];
}

#define IQ_CODES(name, put_eight)                                                                                      \
    AF_LAYOUT_INLINE void codes_##name(const void *row, uint32_t b, uint32_t c[8]) {                                   \
        const af_block_##name *block = (const af_block_##name *)row + b / 8;                                           \
        for (uint32_t g = 0; g < 4; g++) put_eight(af_##name##_eight(block, b % 8 * 4 + g), c + 2 * g);                \
    }
IQ_CODES(iq2_xxs, eight_by_two)
IQ_CODES(iq2_xs, eight_by_two)
IQ_CODES(iq2_s, eight_by_two)
IQ_CODES(iq3_xxs, eight_by_four)
IQ_CODES(iq3_s, eight_by_four)
IQ_CODES(iq1_s, eight_upwards)
IQ_CODES(iq1_m, eight_by_two)
#undef IQ_CODES

AF_LAYOUT_INLINE void codes_tq1_0(const void *row, uint32_t b, uint32_t c[8]) {
    const af_block_tq1_0 *block = (const af_block_tq1_0 *)row + b / 8;
    for (uint32_t g = 0; g < 8; g++) {
        c[g] = 0;
        for (uint32_t i = 0; i < 4; i++) c[g] |= af_tq1_0_value(block, b % 8 * 32 + 4 * g + i) << 8 * i;
    }
}

AF_LAYOUT_INLINE void codes_tq2_0(const void *row, uint32_t b, uint32_t c[8]) {
    quarter_bytes(((const af_block_tq2_0 *)row)[b / 8].qs, b % 8, c);
}

/* ---- Scales ---- */

/* A scale of `columns` columns in `count` of the formats that are read by eights: odd numbers, negative where iq1_s was
 * turned round. */
#define IQ_HEAD(name, half, count, direction)                                                                          \
    AF_LAYOUT_INLINE void head_##name(const void *row, uint32_t b, uint32_t blocks, unsigned char *head, uint32_t r) { \
        (void)blocks;                                                                                                  \
        const af_block_##name *block = (const af_block_##name *)row + b / 8;                                           \
        uint8_t scales[16];                                                                                            \
        for (uint32_t j = 0; j < (count); j++) {                                                                       \
            const af_iq_eight eight = af_##name##_eight(block, j * (AF_EIGHTS / (count)));                             \
            scales[j] = (uint8_t)(eight.scale * (direction));                                                          \
        }                                                                                                              \
        put_half(head, 0, r, half);                                                                                    \
        sub_scales(scales, count, head, r);                                                                            \
    }
IQ_HEAD(iq2_xxs, block->d, 8, 1)
IQ_HEAD(iq2_xs, block->d, 16, 1)
IQ_HEAD(iq2_s, block->d, 16, 1)
IQ_HEAD(iq3_xxs, block->d, 8, 1)
IQ_HEAD(iq3_s, block->d, 8, 1)
IQ_HEAD(iq1_s, block->d, 8, eight.signs ? -1 : 1)
IQ_HEAD(iq1_m, af_iq1_m_d(block), 16, 1)
#undef IQ_HEAD

#define TERNARY_HEAD(name)                                                                                             \
    AF_LAYOUT_INLINE void head_##name(const void *row, uint32_t b, uint32_t blocks, unsigned char *head, uint32_t r) { \
        static const uint8_t ONES[8] = {1, 1, 1, 1, 1, 1, 1, 1};                                                       \
        (void)blocks;                                                                                                  \
        put_half(head, 0, r, ((const af_block_##name *)row)[b / 8].d);                                                 \
        sub_scales(ONES, 8, head, r);                                                                                  \
    }
TERNARY_HEAD(tq1_0)
TERNARY_HEAD(tq2_0)
#undef TERNARY_HEAD

/* books.c - what codes stand for, as kernels look it up: values of the formats (blocks.h, iq_grids.h) raised by the
 * layouts' offsets, in the order that pack.c numbers them.
 */
#include "backend/cpu/layout.h"
#include "quant/iq_grids.h"

#define RAISED_16(value)    16 + (value),
#define RAISED_128(value)   128 + (value),
#define BELOW_16(value)     16 - (value),
#define BELOW_128(value)    128 - (value),
#define EIGHTH_ABOVE(value) 16 + 8 * (value) + 1,
#define EIGHTH_BELOW(value) 16 + 8 * (value)-1,
#define NOTHING             0, /* a place that no code takes */

const uint8_t af_books[AF_BOOKS][16] = {
    [AF_BOOK_IQ4] = {AF_IQ4_VALUES(RAISED_128)},
    [AF_BOOK_E2M1] = {AF_E2M1_VALUES(RAISED_16)},
    [AF_BOOK_IQ2] = {AF_IQ2_VALUES(RAISED_128) NOTHING AF_IQ2_VALUES(BELOW_128)},
    [AF_BOOK_IQ3_XXS] = {AF_IQ3_XXS_VALUES(RAISED_128) AF_IQ3_XXS_VALUES(BELOW_128)},
    [AF_BOOK_IQ3_S] = {AF_IQ3_S_VALUES(RAISED_16) AF_IQ3_S_VALUES(BELOW_16)},
    [AF_BOOK_IQ1_S] = {AF_IQ1_VALUES(EIGHTH_ABOVE)},
    [AF_BOOK_IQ1_M] = {AF_IQ1_VALUES(EIGHTH_ABOVE) NOTHING AF_IQ1_VALUES(EIGHTH_BELOW)},
    [AF_BOOK_TERNARY] = {7, 8, 9, 10},
};

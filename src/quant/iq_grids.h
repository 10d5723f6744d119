/* iq_grids.h - the points that the IQ formats quantize to, several elements at once: an index of 8 to 11 bits stands
 * for the magnitudes of 4 or 8 elements, and signs are kept apart. A point is packed: element i's place among the
 * magnitudes is bits 2 i and 2 i + 1 or, of the two iq3 grids, bits 4 i to 4 i + 2.
 *
 *                 points    elements    magnitudes
 *     iq1         2048      8           -1 0 1               of iq1_s and iq1_m
 *     iq2_xxs     256       8           8 25 43
 *     iq2_xs      512       8           8 25 43
 *     iq2_s       1024      8           8 25 43
 *     iq3_xxs     256       4           4 12 20 28 36 44 52 62
 *     iq3_s       512       4           1 3 5 7 9 11 13 15
 */
#ifndef AF_QUANT_IQ_GRIDS_H
#define AF_QUANT_IQ_GRIDS_H

#include <stdint.h>

extern const uint16_t af_iq1_grid[2048];
extern const uint16_t af_iq2_xxs_grid[256], af_iq2_xs_grid[512], af_iq2_s_grid[1024];
extern const uint16_t af_iq3_xxs_grid[256], af_iq3_s_grid[512];

/* The magnitudes in order: X(value) for each place. */
#define AF_IQ1_VALUES(X)     X(-1) X(0) X(1)
#define AF_IQ2_VALUES(X)     X(8) X(25) X(43)
#define AF_IQ3_XXS_VALUES(X) X(4) X(12) X(20) X(28) X(36) X(44) X(52) X(62)
#define AF_IQ3_S_VALUES(X)   X(1) X(3) X(5) X(7) X(9) X(11) X(13) X(15)

#endif

/* books.c - what codes stand for, as kernels look it up: values of blocks.h raised by the layouts' offsets. */
#include "backend/cpu/layout.h"

#define RAISED_16(value)  (value) + 16,
#define RAISED_128(value) (value) + 128,

const uint8_t af_books[AF_BOOKS][16] = {
    [AF_BOOK_IQ4] = {AF_IQ4_VALUES(RAISED_128)},
    [AF_BOOK_E2M1] = {AF_E2M1_VALUES(RAISED_16)},
};

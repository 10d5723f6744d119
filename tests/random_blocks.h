/* random_blocks.h - matrices of random blocks of any format, as a file would hold them. */
#ifndef RANDOM_BLOCKS_H
#define RANDOM_BLOCKS_H

#include "quant/blocks.h"

#include <math.h>
#include <stdlib.h>

static inline uint32_t next_random(void) {
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}

static inline bool is_sane(const af_format *format, const unsigned char *block) {
    float values[AF_SUPERBLOCK];
    format->decode(block, values, format->block_elems);
    for (uint32_t i = 0; i < format->block_elems; i++)
        if (!(fabsf(values[i]) < 100)) return false;
    return true;
}

/* Random bytes, drawn again where a scale came out absurd. */
static inline af_matrix random_matrix(af_type type, uint32_t rows, uint32_t cols) {
    const af_format *format = af_format_of(type);
    const size_t blocks = (size_t)rows * cols / format->block_elems;
    unsigned char *data = malloc(blocks * format->block_bytes);
    assert_non_null(data);
    for (size_t i = 0; i < blocks; i++) {
        unsigned char *block = data + i * format->block_bytes;
        do
            for (uint32_t j = 0; j < format->block_bytes; j++) block[j] = (unsigned char)next_random();
        while (!is_sane(format, block));
    }
    return (af_matrix){.data = data, .format = format, .rows = rows, .cols = cols, .name = format->name};
}

#endif

/* f32.c - plain 32-bit floats, little-endian: 4 bytes an element, blocks of one. */
#include "quant/formats.h"

#include <string.h>

static void decode(const void *blocks, float *out, size_t n) {
    memcpy(out, blocks, n * sizeof *out);
}

const af_format af_format_f32 = {AF_TYPE_F32, "F32", 1, 4, decode};

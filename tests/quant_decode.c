/* quant_decode.c - a filter for quant_decode_test.py: reads a GGUF type id and an element count as decimal words, then
 * the blocks, from standard input; writes the decoded f32. */
#include "quant/quant.h"

#include <stdio.h>
#include <stdlib.h>

int main(void) {
    unsigned type;
    size_t n;
    if (scanf("%u %zu", &type, &n) != 2 || getchar() != '\n') return 2;
    const af_format *format = af_format_of(type);
    if (!format || n % format->block_elems) return 3;
    size_t bytes = af_row_bytes(format, n);
    void *blocks = malloc(bytes);
    float *out = malloc(n * sizeof *out);
    if (!blocks || !out || fread(blocks, 1, bytes, stdin) != bytes) return 4;
    format->decode(blocks, out, n);
    size_t written = fwrite(out, sizeof *out, n, stdout);
    free(blocks);
    free(out);
    return written == n ? 0 : 5;
}

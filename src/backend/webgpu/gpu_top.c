/* gpu_top.c - a row's best logits in place of the row: top.wgsl lists a few hundred of them, and the host puts them
 * into a row of -inf, which the sampler takes as it takes any other. So one code chooses from both, and the text is the
 * same. Rows with too many equals for the list are read whole after all.
 */
#include "backend/webgpu/gpu_backend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(AF_TOP_MOST <= AF_GPU_ARGMAX_PARTS, "the bound is a best of each part");

uint32_t af_gpu_top_room(void) {
    const char *asked = getenv("AIRFRAME_GPU_TOP");
    const unsigned long room = asked && *asked ? strtoul(asked, NULL, 10) : AF_GPU_TOP_ROOM;
    return room < AF_GPU_TOP_ROOM ? (uint32_t)room : AF_GPU_TOP_ROOM;
}

uint64_t af_gpu_tops_bytes(const af_gpu_backend *b, uint32_t rows) {
    return 4ull * b->options.max_rows + 8ull * AF_GPU_TOP_ROOM * rows;
}

void af_gpu_clear_tops(af_gpu_backend *b, uint32_t rows) {
    static const uint32_t zeros[64];
    for (uint32_t first = 0; first < rows; first += 64)
        af_gpu_write(b->gpu, b->tops, first * 4ull, zeros, (rows - first < 64 ? rows - first : 64) * sizeof *zeros);
}

int af_gpu_take_top(af_gpu_backend *b, const uint32_t *tops, uint32_t row, float *out, af_error *error) {
    const uint32_t vocabulary = b->plan->vocabulary, count = tops[row];
    const uint32_t *entry = tops + b->options.max_rows + 2 * (size_t)AF_GPU_TOP_ROOM * row;
    if (count > b->top_room)
        return af_gpu_read(b->gpu, b->logits, (uint64_t)row * vocabulary * sizeof *out, out, vocabulary * sizeof *out,
                           error);
    for (uint32_t i = 0; i < vocabulary; i++) out[i] = -INFINITY;
    for (uint32_t i = 0; i < count; i++) memcpy(&out[entry[2 * i]], &entry[2 * i + 1], sizeof *out);
    return AF_OK;
}

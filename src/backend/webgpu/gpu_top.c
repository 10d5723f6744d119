/* gpu_top.c - a row's best logits in place of the row: top.wgsl lists a few hundred of them, and the host puts them
 * into a row of -inf, which the sampler takes as it takes any other. So one code chooses from both, and the text is the
 * same. Rows with too many equals for the list are read whole after all. draw.wgsl draws from the list, and pick.wgsl
 * from a whole row, so that the next step can begin; what they need of each row is here too.
 */
#include "backend/webgpu/gpu_backend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(AF_TOP_MOST <= AF_GPU_ARGMAX_PARTS, "the bound is a best of each part");
_Static_assert(AF_GPU_TOP_ROOM == 1024 && AF_TOP_MOST == 64, "draw.wgsl has these numbers");

#define WHOLE UINT32_MAX /* draw.wgsl, pick.wgsl: top_k of a row that is drawn from all of it */

uint32_t af_gpu_top_room(void) {
    const char *asked = getenv("AIRFRAME_GPU_TOP");
    const unsigned long room = asked && *asked ? strtoul(asked, NULL, 10) : AF_GPU_TOP_ROOM;
    return room < AF_GPU_TOP_ROOM ? (uint32_t)room : AF_GPU_TOP_ROOM;
}

/* Some part of a small row would have no best to bound the others by (top.wgsl). */
bool af_gpu_lists_top(const af_gpu_backend *b) {
    return b->plan->vocabulary >= 256 * AF_GPU_ARGMAX_PARTS;
}

uint64_t af_gpu_tops_bytes(const af_gpu_backend *b, uint32_t rows) {
    return 4ull * b->options.max_rows + 8ull * AF_GPU_TOP_ROOM * rows;
}

void af_gpu_clear_tops(af_gpu_backend *b, uint32_t rows) {
    static const uint32_t zeros[64];
    for (uint32_t first = 0; first < rows; first += 64)
        af_gpu_write(b->gpu, b->tops, first * 4ull, zeros, (rows - first < 64 ? rows - first : 64) * sizeof *zeros);
}

bool af_gpu_tops_hold(const af_gpu_backend *b, const uint32_t *tops, uint32_t row) {
    return tops[row] <= b->top_room;
}

void af_gpu_take_top(const af_gpu_backend *b, const uint32_t *tops, uint32_t row, float *out) {
    const uint32_t *entry = tops + b->options.max_rows + 2 * (size_t)AF_GPU_TOP_ROOM * row;
    for (uint32_t i = 0; i < b->plan->vocabulary; i++) out[i] = -INFINITY;
    for (uint32_t i = 0; i < tops[row]; i++) memcpy(&out[entry[2 * i]], &entry[2 * i + 1], sizeof *out);
}

void af_gpu_note_draw(af_gpu_backend *b, uint32_t row, const af_draw *draw) {
    uint32_t *words = b->host_draws + (size_t)AF_GPU_DRAW_WORDS * row;
    words[0] = !draw ? 0 : draw->top_k ? draw->top_k : WHOLE;
    if (!draw) return;
    memcpy(words + 1, &draw->scale, sizeof *words);
    memcpy(words + 2, &draw->top_p, sizeof *words);
    memcpy(words + 3, &draw->min_p, sizeof *words);
    memcpy(words + 4, &draw->unit, sizeof *words);
}

void af_gpu_write_draws(af_gpu_backend *b, uint32_t rows) {
    af_gpu_write(b->gpu, b->draws, 0, b->host_draws, (size_t)rows * AF_GPU_DRAW_WORDS * sizeof *b->host_draws);
}

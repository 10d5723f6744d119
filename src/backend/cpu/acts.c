/* acts.c - a batch of activations: its memory and its quantization (acts.h says how it lies). */
#include "backend/cpu/acts.h"

#include "backend/cpu/kernels.h"
#include "base/os.h"

#include <assert.h>
#include <stdlib.h>

int af_acts_open(uint32_t max_tokens, uint32_t max_width, af_acts **out, af_error *error) {
    af_acts *a = calloc(1, sizeof *a);
    if (!a) return af_fail_memory(error, sizeof *a, "activations");
    a->max_tokens = max_tokens;
    a->max_width = max_width;
    const size_t group = 2 * AF_LANES; /* of fine tokens */
    size_t tokens = ((size_t)max_tokens + group - 1) / group * group;
    size_t entries = tokens * (((size_t)max_width + AF_BLOCK - 1) / AF_BLOCK);
    size_t plane = (entries * sizeof(float) + AF_VECTOR - 1) / AF_VECTOR * AF_VECTOR;
    a->bytes = entries * AF_BLOCK + (4 + AF_STARTS) * plane;
    a->memory = af_os_pages(a->bytes, a->bytes >= AF_HUGE_BYTES);
    if (!a->memory) {
        size_t bytes = a->bytes;
        free(a);
        return af_fail_memory(error, bytes, "activations");
    }
    float **planes[] = {&a->d, &a->sum, &a->sum_first, &a->sum_second};
    unsigned char *p = a->memory;
    for (size_t i = 0; i < sizeof planes / sizeof *planes; i++, p += plane) *planes[i] = (float *)p;
    for (size_t i = 0; i < AF_STARTS; i++, p += plane) a->start[i] = (int32_t *)p;
    a->q = (int8_t *)p;
    *out = a;
    return 0;
}

void af_acts_close(af_acts *acts) {
    if (!acts) return;
    af_os_pages_free(acts->memory, acts->bytes);
    free(acts);
}

void af_acts_set(af_acts *acts, const float *x, size_t stride, uint32_t tokens, uint32_t width, bool fine) {
    acts->x = x;
    acts->stride = stride;
    acts->first = acts->block_begin = 0;
    acts->tokens = tokens;
    acts->width = width;
    acts->fine = fine;
    acts->needs = AF_NEEDS_ALL;
    acts->blocks = acts->block_end = (width + AF_BLOCK - 1) / AF_BLOCK;
    acts->lanes = 1;
    while (acts->lanes < tokens && acts->lanes < AF_LANES) acts->lanes *= 2;
    assert(tokens <= (fine ? acts->max_tokens / 2 : acts->max_tokens) && width <= acts->max_width);
}

void af_acts_need(af_acts *acts, uint32_t needs) {
    acts->needs = needs;
}

void af_acts_quantize(af_acts *acts, af_isa isa, uint32_t token_begin, uint32_t token_end) {
    assert(token_end <= acts->tokens && acts->width % AF_BLOCK == 0);
    af_kernels_of(isa)->quantize(acts, token_begin, token_end);
}

void af_acts_quantize_part(const af_acts *acts, af_isa isa, const af_acts_part *part) {
    assert(part->column_begin % AF_BLOCK == 0 && part->column_end % AF_BLOCK == 0);
    assert(part->column_end <= acts->width && part->token_end <= acts->tokens);
    af_acts view = *acts; /* the arrays are the same */
    view.x = part->x;
    view.stride = part->stride;
    view.first = part->token_begin;
    view.block_begin = part->column_begin / AF_BLOCK;
    view.block_end = part->column_end / AF_BLOCK;
    af_kernels_of(isa)->quantize(&view, part->token_begin, part->token_end);
}

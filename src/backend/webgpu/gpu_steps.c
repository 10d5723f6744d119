/* gpu_steps.c - what every operation's compiler is built from: a step, its pipelines, its buffers, its small tensors
 * and the place of its matrix.
 */
#include "backend/webgpu/gpu_compiler.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN 256 /* of storage binding offsets, what every adapter accepts */

/* ---- Building steps ---- */

af_gpu_step *af_gpu_add_step(af_gpu_compiler *c, const char *name, af_gpu_grid grid) {
    af_gpu_steps *list = c->steps;
    if (c->status == AF_OK && list->count == list->capacity) {
        const size_t capacity = list->capacity ? list->capacity * 2 : 256;
        af_gpu_step *grown = realloc(list->p, capacity * sizeof *grown);
        if (!grown) {
            c->status = af_fail_memory(c->error, capacity * sizeof *grown, "the GPU's steps");
        } else {
            list->p = grown;
            list->capacity = capacity;
        }
    }
    static af_gpu_step discarded; /* after a failure, so that callers need not ask */
    af_gpu_step *s = c->status == AF_OK ? &list->p[list->count++] : &discarded;
    *s = (af_gpu_step){.name = name,
                       .grid = grid,
                       .op = c->op,
                       .count_at = -1,
                       .portion_at = -1,
                       .scaled_at = -1,
                       .stretches_at = -1,
                       .choice_at = -1};
    return s;
}

const af_gpu_pipeline *af_gpu_pipeline_of(af_gpu_compiler *c, const char *kernel, const af_gpu_constant *constants,
                                          size_t count) {
    const af_gpu_pipeline *found = NULL;
    if (c->status == AF_OK) c->status = af_gpu_kernel(c->b->kernels, kernel, constants, count, &found, c->error);
    return found;
}

void af_gpu_bind_step(af_gpu_compiler *c, af_gpu_step *s, const af_gpu_binding *bindings, size_t count) {
    if (c->status != AF_OK) return;
    s->bind = af_gpu_bind(c->b->gpu, s->pipelines[0], bindings, count);
    s->kernel = s->pipelines[0]->kernel;
}

void af_gpu_set_params(af_gpu_step *s, const uint32_t *params, uint32_t count) {
    assert(count <= AF_GPU_PARAMS);
    memcpy(s->params, params, count * sizeof *params);
    s->param_count = count;
}

uint32_t af_gpu_bits(float v) {
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

af_gpu_binding af_gpu_whole(WGPUBuffer buffer) {
    return (af_gpu_binding){.buffer = buffer};
}

/* ---- Small tensors ---- */

af_gpu_binding af_gpu_small(af_gpu_compiler *c, const float *const *vectors, const uint32_t *lengths, size_t count) {
    af_gpu_backend *b = c->b;
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) bytes += (uint64_t)lengths[i] * sizeof(float);
    const af_gpu_binding at = {.buffer = b->small, .offset = b->small_used, .size = (bytes + 15) / 16 * 16 + 16};
    b->small_used += (at.size + ALIGN - 1) / ALIGN * ALIGN;
    assert(b->small_used <= b->small_size);
    uint64_t offset = at.offset;
    for (size_t i = 0; i < count && c->status == AF_OK; offset += (uint64_t)lengths[i++] * sizeof(float))
        if (vectors[i]) af_gpu_write(b->gpu, b->small, offset, vectors[i], (size_t)lengths[i] * sizeof(float));
    return at;
}

af_gpu_binding af_gpu_small_norm(af_gpu_compiler *c, const af_norm *n) {
    const float *const vectors[] = {n->weight, n->bias};
    const uint32_t lengths[] = {n->weight ? n->width : 0, n->bias ? n->width : 0};
    return af_gpu_small(c, vectors, lengths, 2);
}

uint64_t af_gpu_small_room(uint64_t floats) {
    return (floats * sizeof(float) + 32 + ALIGN - 1) / ALIGN * ALIGN;
}

/* ---- Matrices ---- */

const af_gpu_matrix *af_gpu_upload(af_gpu_compiler *c, const af_matrix *const *parts, size_t count) {
    const af_gpu_matrix *m = NULL;
    if (c->status == AF_OK) c->status = af_gpu_weights_add(c->b->weights, parts, count, &m, c->error);
    return m;
}

const af_gpu_matrix *af_gpu_upload_stacks(af_gpu_compiler *c, const af_stack *const *stacks, uint32_t count,
                                          uint32_t each) {
    const size_t all = (size_t)count * each;
    af_matrix *w = malloc(all * sizeof *w);
    const af_matrix **parts = malloc(all * sizeof(const af_matrix *));
    const af_gpu_matrix *m = NULL;
    if ((!w || !parts) && c->status == AF_OK)
        c->status = af_fail_memory(c->error, all * sizeof *w, "stacks of matrices");
    for (uint32_t k = 0; c->status == AF_OK && k < all; k++) {
        w[k] = af_stack_at(stacks[k % count], k / count);
        parts[k] = &w[k];
    }
    if (c->status == AF_OK) m = af_gpu_upload(c, parts, all);
    free(parts);
    free(w);
    return m;
}

bool af_gpu_is_quantized(const af_gpu_matrix *m) {
    return m->layout->kind == AF_GPU_QUANTIZED;
}

uint32_t af_gpu_row_words(const af_gpu_matrix *m) {
    if (af_gpu_is_quantized(m)) return m->cols / 32;
    return m->layout->kind == AF_GPU_F32 ? m->cols : (m->cols + 1) / 2;
}

void af_gpu_place(const af_gpu_matrix *m, const af_gpu_segment *s, uint32_t place[3]) {
    const af_gpu_streams streams = af_gpu_streams_of(m->layout, s->rows, m->cols);
    place[0] = (uint32_t)(s->offset / (af_gpu_is_quantized(m) ? 16 : 4));
    place[1] = (uint32_t)((s->offset + streams.high) / 4);
    place[2] = (uint32_t)((s->offset + streams.scale) / 4);
}

double af_gpu_lanes(const af_gpu_backend *b) {
    return b->gpu->use_subgroups ? (double)b->gpu->subgroup_size : 32.0;
}

/* gpu_product.c - matrices times activations: the norm that makes a product's input, and the product's steps. */
#include "backend/webgpu/gpu_compiler.h"

#include <assert.h>
#include <string.h>

/* The biases of parts that are stacked, as one; a part without one has zeros. In the plan's arena. */
static const float *joined_bias(af_gpu_compiler *c, const af_part *parts, uint32_t count) {
    size_t rows = 0, first = 0;
    bool any = false;
    for (uint32_t i = 0; i < count; i++) {
        rows += parts[i].w.rows;
        any |= parts[i].bias != NULL;
    }
    if (count == 1 || !any) return parts[0].bias;
    float *joined = af_arena_array(c->b->plan->arena, rows, sizeof *joined);
    if (!joined) {
        c->status = af_fail_memory(c->error, rows * sizeof *joined, "biases");
        return NULL;
    }
    for (uint32_t i = 0; i < count; first += parts[i++].w.rows)
        if (parts[i].bias)
            memcpy(joined + first, parts[i].bias, parts[i].w.rows * sizeof *joined);
        else
            memset(joined + first, 0, parts[i].w.rows * sizeof *joined);
    return joined;
}

uint32_t af_gpu_products(af_gpu_compiler *c, const af_op_linear *l, af_gpu_product out[AF_PLAN_PARTS]) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < l->part_count; i += out[count++].part_count) {
        const af_matrix *stack[AF_PLAN_PARTS];
        uint32_t n = 0;
        do {
            stack[n] = &l->parts[i + n].w;
            n++;
        } while (i + n < l->part_count && l->parts[i + n].w.format == l->parts[i].w.format &&
                 (l->combine == AF_COMBINE_GLU ||
                  c->b->values[l->parts[i + n].out].buffer == c->b->values[l->parts[i].out].buffer));
        out[count] = (af_gpu_product){
            .m = af_gpu_upload(c, stack, n), .bias = joined_bias(c, &l->parts[i], n), .first_part = i, .part_count = n};
        if (c->status != AF_OK) return 0;
    }
    return count;
}

static const uint32_t portions[AF_GPU_PORTIONS] = {1, 2, 4, 8};

static void quantized_pipelines(af_gpu_compiler *c, af_gpu_step *s, const af_gpu_layout *layout) {
    af_gpu_constant constants[] = {AF_GPU_BLOCK_CONSTANTS(layout), {"LANES", af_gpu_lanes(c->b)}, {"TOKENS", 0}};
    for (size_t i = 0; i < AF_GPU_PORTIONS; i++) {
        constants[4].value = portions[i];
        s->pipelines[i] = af_gpu_pipeline_of(c, "linear_vec", constants, 5);
    }
    s->pipelines[AF_GPU_TILED] = af_gpu_pipeline_of(c, "linear_mat", constants, 3);
    s->pipelines[AF_GPU_FEW] = af_gpu_pipeline_of(c, "linear_few", constants, 3);
}

static void float_pipelines(af_gpu_compiler *c, af_gpu_step *s, const af_gpu_layout *layout) {
    af_gpu_constant constants[] = {{"KIND", layout->kind}, {"LANES", af_gpu_lanes(c->b)}, {"TOKENS", 0}};
    for (size_t i = 0; i < AF_GPU_PORTIONS; i++) {
        constants[2].value = portions[i];
        s->pipelines[i] = af_gpu_pipeline_of(c, "linear_float", constants, 3);
    }
}

/* y[token * stride + first + row] = W x for one segment of a matrix, x being what the norm step left. */
static void product_step(af_gpu_compiler *c, const char *name, const af_gpu_matrix *m, const af_gpu_segment *seg,
                         af_gpu_value y, bool per_row) {
    af_gpu_backend *b = c->b;
    const bool quantized = af_gpu_is_quantized(m);
    af_gpu_step *s = af_gpu_add_step(c, name, quantized ? AF_GPU_GRID_LINEAR : AF_GPU_GRID_FLOAT);
    uint32_t place[3];
    af_gpu_place(m, seg, place);
    s->which = per_row ? AF_GPU_ROWS : AF_GPU_ALL;
    s->x = seg->rows;
    s->bytes = af_gpu_streams_of(m->layout, seg->rows, m->cols).bytes;
    const uint32_t column = y.first + seg->row_begin;
    const af_gpu_binding chunk = af_gpu_whole(seg->chunk), out = af_gpu_whole(y.buffer);
    if (quantized) {
        const uint32_t params[] = {place[0], place[1], place[2], seg->rows, m->cols / 32,
                                   column,   y.stride, 0,        0,         af_gpu_packet(m->cols)};
        af_gpu_set_params(s, params, 10);
        s->count_at = 7;
        s->portion_at = 8;
        quantized_pipelines(c, s, m->layout);
        af_gpu_bind_step(c, s, (af_gpu_binding[]){chunk, chunk, af_gpu_whole(b->packets), out}, 4);
        return;
    }
    const uint32_t params[] = {place[0], seg->rows, m->cols, column, y.stride, 0, 0, af_gpu_row_words(m)};
    af_gpu_set_params(s, params, 8);
    s->count_at = 5;
    s->portion_at = 6;
    float_pipelines(c, s, m->layout);
    af_gpu_bind_step(c, s, (af_gpu_binding[]){chunk, af_gpu_whole(b->normed), out}, 3);
}

void af_gpu_product_steps(af_gpu_compiler *c, const char *name, const af_gpu_matrix *m, af_gpu_value y, bool per_row) {
    for (size_t i = 0; i < m->segment_count && c->status == AF_OK; i++)
        product_step(c, name, m, &m->segments[i], y, per_row);
}

void af_gpu_norm_step(af_gpu_compiler *c, const char *name, af_gpu_value in, uint32_t width, const af_norm *norm,
                      bool quantize, af_gpu_value out, af_gpu_which which) {
    af_gpu_backend *b = c->b;
    af_gpu_step *s = af_gpu_add_step(c, name, AF_GPU_GRID_ROWS);
    const af_gpu_constant kind = {"KIND", norm->kind};
    s->pipelines[0] = af_gpu_pipeline_of(c, "norm", &kind, 1);
    s->which = which;
    s->count_at = 1;
    assert(in.first == 0 && in.stride == width && (!quantize || (out.first == 0 && out.stride == width)));
    const uint32_t params[] = {width,
                               0,
                               which != AF_GPU_ALL,
                               norm->bias != NULL,
                               quantize,
                               af_gpu_bits(norm->eps),
                               af_gpu_packet(width),
                               which == AF_GPU_STATES ? b->states_at : b->rows_at,
                               out.stride,
                               out.first};
    af_gpu_set_params(s, params, 10);
    af_gpu_bind_step(c, s,
                     (af_gpu_binding[]){af_gpu_whole(in.buffer), af_gpu_small_norm(c, norm),
                                        af_gpu_whole(b->batch_info), af_gpu_whole(out.buffer),
                                        af_gpu_whole(b->packets)},
                     5);
}

af_gpu_value af_gpu_normed(const af_gpu_backend *b, uint32_t width) {
    return (af_gpu_value){.buffer = b->normed, .stride = width};
}

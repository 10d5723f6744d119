/* gpu_per_head.c - a matrix for each head (plan.h, af_op_per_head) as steps: all heads' matrices are one on the device,
 * and a segment of it is a step.
 */
#include "backend/webgpu/gpu_compiler.h"

#define THREADS 128u /* of its workgroups */

static void pipeline_of(af_gpu_compiler *c, af_gpu_step *s, const af_gpu_layout *layout) {
    const af_gpu_constant block[] = {AF_GPU_BLOCK_CONSTANTS(layout), {"LANES", af_gpu_lanes(c->b)}};
    const af_gpu_constant plain[] = {{"KIND", layout->kind}, {"LANES", af_gpu_lanes(c->b)}};
    if (layout->kind == AF_GPU_QUANTIZED)
        s->pipelines[0] = af_gpu_pipeline_of(c, "per_head_block", block, 4);
    else
        s->pipelines[0] = af_gpu_pipeline_of(c, "per_head_float", plain, 2);
}

static void segment_step(af_gpu_compiler *c, const af_op *op, const af_gpu_matrix *m, size_t i) {
    const af_op_per_head *p = &op->u.per_head;
    const af_gpu_segment *seg = &m->segments[i];
    const af_gpu_value in = c->b->values[p->in], out = c->b->values[p->out];
    const uint32_t teams = THREADS / (uint32_t)af_gpu_lanes(c->b), rows = p->w.w.rows;
    const uint32_t groups = (rows + p->kept + teams - 1) / teams;
    const bool quantized = af_gpu_is_quantized(m);
    uint32_t place[3];
    af_gpu_place(m, seg, place);
    af_gpu_step *s = af_gpu_add_step(c, op->name, AF_GPU_GRID_HEADS);
    s->x = groups * p->heads;
    pipeline_of(c, s, m->layout);
    const uint32_t params[] = {place[0],    place[1], place[2], seg->row_begin, seg->rows,  rows,  af_gpu_row_words(m),
                               p->w.w.cols, p->kept,  groups,   in.stride,      out.stride, i == 0};
    af_gpu_set_params(s, params, 13);
    const af_gpu_binding weights = af_gpu_whole(seg->chunk);
    const af_gpu_binding bindings[] = {af_gpu_whole(in.buffer), af_gpu_whole(out.buffer), weights, weights};
    af_gpu_bind_step(c, s, bindings, quantized ? 4 : 3);
}

void af_gpu_compile_per_head(af_gpu_compiler *c, const af_op *op) {
    const af_stack *const heads = &op->u.per_head.w;
    const af_gpu_matrix *m = af_gpu_upload_stacks(c, &heads, 1, op->u.per_head.heads);
    for (size_t i = 0; c->status == AF_OK && i < m->segment_count; i++) segment_step(c, op, m, i);
}

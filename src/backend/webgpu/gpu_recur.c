/* gpu_recur.c - recurrent layers: CONV, DELTA, GATE, and the states they keep.
 *
 * A state is one buffer of as many slots as sequences; a sequence's tokens pass through it in the order of the queue,
 * so steps may be in flight. A step beyond a request's end changes a slot that nobody reads: the next sequence to have
 * it begins at position 0, where the shaders take zeros for what is there.
 */
#include "backend/webgpu/gpu_compiler.h"

#define COLUMNS   16   /* of a matrix that a workgroup of delta.wgsl takes */
#define PARTS     8    /* ... cut into so many of its rows */
#define MOST_ROWS 256u /* of a matrix that it holds */

/* ---- States ---- */

void af_gpu_close_carries(af_gpu_backend *b) {
    for (size_t i = 0; b->carries && i < b->plan->carry_count; i++) af_gpu_buffer_free(b->gpu, b->carries[i]);
}

uint32_t af_gpu_runs_of(const af_gpu_backend *b, const af_batch *batch, uint32_t *out) {
    uint32_t count = 0;
    for (uint32_t t = 0, n; b->plan->carry_count > 0 && t < batch->token_count; t += n) {
        n = 1;
        while (t + n < batch->token_count && batch->tokens[t + n].seq == batch->tokens[t].seq) n++;
        out[3 * count] = t;
        out[3 * count + 1] = n;
        out[3 * count++ + 2] = batch->seqs[batch->tokens[t].seq].carry;
    }
    return count;
}

/* ---- Operations ---- */

/* Rows of weights of a norm of heads. */
static uint32_t weight_rows(const af_norm *norm, uint32_t heads) {
    if (norm->kind == AF_NORM_NONE) return 0;
    return norm->per_head_weight ? heads : 1;
}

uint64_t af_gpu_recur_small(const af_plan *plan, const af_op *op) {
    if (op->kind == AF_OP_CONV) return af_gpu_small_room((op->u.conv.taps + 1ull) * plan->widths[op->u.conv.in]);
    if (op->kind == AF_OP_DELTA) return af_gpu_small_room(2ull * op->u.delta.value_heads);
    return af_gpu_small_room(2ull * weight_rows(&op->u.gate.norm, op->u.gate.heads) * op->u.gate.dim);
}

void af_gpu_compile_conv(af_gpu_compiler *c, const af_op *op) {
    const af_op_conv *v = &op->u.conv;
    const af_gpu_backend *b = c->b;
    const uint32_t width = b->plan->widths[v->in];
    const af_gpu_value in = b->values[v->in], out = b->values[v->out];
    af_gpu_step *s = af_gpu_add_step(c, op->name, AF_GPU_GRID_RUNS);
    const af_gpu_constant constants[] = {{"ACT", v->act}, {"TAPS", v->taps}};
    s->pipelines[0] = af_gpu_pipeline_of(c, "conv", constants, 2);
    s->x = (width + 63) / 64;
    const uint32_t params[] = {width, in.stride, in.first, out.stride, out.first, v->bias != NULL, b->runs_at};
    af_gpu_set_params(s, params, 7);
    const float *const vectors[] = {v->weight, v->bias};
    const uint32_t lengths[] = {v->taps * width, v->bias ? width : 0};
    const af_gpu_binding bindings[] = {af_gpu_whole(b->batch_info), af_gpu_small(c, vectors, lengths, 2),
                                       af_gpu_whole(in.buffer), af_gpu_whole(b->carries[v->carry]),
                                       af_gpu_whole(out.buffer)};
    af_gpu_bind_step(c, s, bindings, 5);
}

static void prepare_step(af_gpu_compiler *c, const char *name, const af_op_delta *d) {
    const af_gpu_backend *b = c->b;
    const af_gpu_value in = b->values[d->in], step = b->values[d->step], strength = b->values[d->strength];
    af_gpu_step *s = af_gpu_add_step(c, name, AF_GPU_GRID_HEADS);
    s->pipelines[0] = af_gpu_pipeline_of(c, "delta_prepare", NULL, 0);
    s->x = 2u * d->key_heads + 1;
    const uint32_t params[] = {d->key_heads, d->value_heads, d->k_dim,        in.stride,      in.first,
                               step.stride,  step.first,     strength.stride, strength.first, af_gpu_bits(d->eps)};
    af_gpu_set_params(s, params, 10);
    const float *const vectors[] = {d->rate, d->step_bias};
    const uint32_t lengths[] = {d->value_heads, d->value_heads};
    const af_gpu_binding bindings[] = {af_gpu_small(c, vectors, lengths, 2), af_gpu_whole(in.buffer),
                                       af_gpu_whole(step.buffer), af_gpu_whole(strength.buffer)};
    af_gpu_bind_step(c, s, bindings, 4);
}

static void recurrence_step(af_gpu_compiler *c, const char *name, const af_op_delta *d) {
    const af_gpu_backend *b = c->b;
    const af_gpu_value in = b->values[d->in], step = b->values[d->step], strength = b->values[d->strength],
                       out = b->values[d->out];
    af_gpu_step *s = af_gpu_add_step(c, name, AF_GPU_GRID_RUNS);
    const af_gpu_constant constants[] = {
        {"K_DIM", d->k_dim}, {"V_DIM", d->v_dim}, {"ROWS", (d->k_dim + PARTS - 1u) / PARTS}};
    s->pipelines[0] = af_gpu_pipeline_of(c, "delta", constants, 3);
    s->x = d->value_heads * ((d->v_dim + COLUMNS - 1u) / COLUMNS);
    const uint32_t params[] = {d->key_heads,
                               in.stride,
                               in.first,
                               step.stride,
                               step.first,
                               strength.stride,
                               strength.first,
                               out.stride,
                               out.first,
                               b->runs_at,
                               b->plan->carries[d->carry].floats};
    af_gpu_set_params(s, params, 11);
    const af_gpu_binding bindings[] = {af_gpu_whole(b->batch_info),        af_gpu_whole(in.buffer),
                                       af_gpu_whole(step.buffer),          af_gpu_whole(strength.buffer),
                                       af_gpu_whole(b->carries[d->carry]), af_gpu_whole(out.buffer)};
    af_gpu_bind_step(c, s, bindings, 6);
}

void af_gpu_compile_delta(af_gpu_compiler *c, const af_op *op) {
    const af_op_delta *d = &op->u.delta;
    if (d->k_dim > MOST_ROWS) {
        c->status = af_fail(c->error, AF_EUNSUPPORTED, "gpu: %s: key heads of %u elements, allowed are up to %u",
                            op->name, d->k_dim, MOST_ROWS);
        return;
    }
    prepare_step(c, op->name, d);
    recurrence_step(c, op->name, d);
}

void af_gpu_compile_gate(af_gpu_compiler *c, const af_op *op) {
    const af_op_gate *g = &op->u.gate;
    const af_gpu_backend *b = c->b;
    const af_gpu_value v = b->values[g->v], gate = b->values[g->gate];
    const uint32_t rows = weight_rows(&g->norm, g->heads), weights = rows * g->dim;
    af_gpu_step *s = af_gpu_add_step(c, op->name, AF_GPU_GRID_HEADS);
    const af_gpu_constant constants[] = {{"ACT", g->act}, {"KIND", g->norm.kind}};
    s->pipelines[0] = af_gpu_pipeline_of(c, "gate", constants, 2);
    s->x = g->heads;
    const uint32_t params[] = {g->dim,
                               v.stride,
                               v.first,
                               gate.stride,
                               gate.first + g->gate_first,
                               g->gate_pitch,
                               rows,
                               g->norm.bias != NULL,
                               af_gpu_bits(g->norm.eps)};
    af_gpu_set_params(s, params, 9);
    const float *const vectors[] = {g->norm.weight, g->norm.bias};
    const uint32_t lengths[] = {weights, g->norm.bias ? weights : 0};
    const af_gpu_binding bindings[] = {af_gpu_small(c, vectors, lengths, 2), af_gpu_whole(gate.buffer),
                                       af_gpu_whole(v.buffer)};
    af_gpu_bind_step(c, s, bindings, 3);
}

/* gpu_experts.c - mixtures of experts as steps.
 *
 * All experts' matrices of a stack are one matrix on the device, gate and up of an expert one after the other where
 * their formats are the same; a step finds an expert's rows by its number, which the router's step left in a value. So
 * the same few steps serve every batch, and read what is routed to and nothing else:
 *
 *     (packets of the input), gate and up of every pair of a token and an expert, GLU, down and each token's sum
 *
 * A stack over the binding limit is cut by rows, and has a step for each piece. A token's experts are not shared with
 * other tokens' in a batch: a prompt reads an expert once for each of its tokens, mostly from the device's cache.
 */
#include "backend/webgpu/gpu_compiler.h"

#include <assert.h>
#include <string.h>

enum { BIASED = 1, ADDS = 2 }; /* experts.wgsl */

#define THREADS 128u /* of its workgroups */

static const af_norm no_norm = {.kind = AF_NORM_NONE};

uint64_t af_gpu_experts_small(const af_op *op) {
    if (op->kind == AF_OP_ROUTE) return af_gpu_small_room(2ull * op->u.route.w.rows) + 2 * af_gpu_small_room(0);
    const af_op_experts *e = &op->u.experts;
    const uint64_t up = (e->gate.bias || e->up.bias ? 2ull * e->up.w.rows : 0) * e->experts;
    const uint64_t down = (e->down.bias ? (uint64_t)e->down.w.rows : 0) * e->experts;
    return 2 * af_gpu_small_room(up) + af_gpu_small_room(down) + 2 * af_gpu_small_room(0);
}

/* ---- The router ---- */

static void choose_step(af_gpu_compiler *c, const af_op *op) {
    const af_op_route *r = &op->u.route;
    const af_gpu_backend *b = c->b;
    af_gpu_step *s = af_gpu_add_step(c, op->name, AF_GPU_GRID_ROWS);
    const af_gpu_constant constants[] = {{"SCORE", r->score}, {"WEIGH", r->weigh}};
    s->pipelines[0] = af_gpu_pipeline_of(c, "route", constants, 2);
    const uint32_t biased = (r->bias ? 1u : 0u) | (r->choice_bias ? 2u : 0u);
    const uint32_t params[] = {r->w.rows, b->plan->widths[r->ids], r->groups, r->groups_used,
                               biased,    af_gpu_bits(r->scale)};
    af_gpu_set_params(s, params, 6);
    const float *const vectors[] = {r->bias, r->choice_bias};
    const uint32_t lengths[] = {r->bias ? r->w.rows : 0, r->choice_bias ? r->w.rows : 0};
    const af_gpu_binding bindings[] = {af_gpu_whole(b->raw), af_gpu_small(c, vectors, lengths, 2),
                                       af_gpu_whole(b->values[r->ids].buffer),
                                       af_gpu_whole(b->values[r->weights].buffer)};
    af_gpu_bind_step(c, s, bindings, 4);
}

void af_gpu_compile_route(af_gpu_compiler *c, const af_op *op) {
    const af_op_route *r = &op->u.route;
    const af_gpu_backend *b = c->b;
    const af_matrix *w = &r->w;
    const af_gpu_matrix *m = af_gpu_upload(c, &w, 1);
    if (c->status != AF_OK) return;
    af_gpu_norm_step(c, op->name, b->values[r->in], w->cols, &no_norm, af_gpu_is_quantized(m),
                     af_gpu_normed(b, w->cols), AF_GPU_ALL);
    af_gpu_product_steps(c, op->name, m, (af_gpu_value){.buffer = b->raw, .stride = w->rows}, false);
    choose_step(c, op);
}

/* ---- Experts' matrices ---- */

/* One or two stacks as a matrix: expert 0's rows of each, expert 1's, ... */
typedef struct stacked {
    const af_gpu_matrix *m;
    const float *bias; /* (experts, rows), or NULL */
    uint32_t rows;     /* of an expert */
    uint32_t column;   /* of y that the first goes to */
} stacked;

/* Biases in the order of the rows; a stack without any has zeros. In the plan's arena. */
static const float *join_biases(af_gpu_compiler *c, const af_stack *const *stacks, uint32_t count, uint32_t experts,
                                uint32_t rows) {
    if (count == 1 || (!stacks[0]->bias && !stacks[1]->bias)) return stacks[0]->bias;
    float *joined = af_arena_array(c->b->plan->arena, (size_t)experts * rows, sizeof *joined); /* zeros */
    if (!joined) {
        c->status = af_fail_memory(c->error, (size_t)experts * rows * sizeof *joined, "biases");
        return NULL;
    }
    for (uint32_t e = 0; e < experts; e++)
        for (uint32_t i = 0, first = 0; i < count; first += stacks[i++]->w.rows) {
            const float *bias = af_stack_bias(stacks[i], e);
            if (bias) memcpy(joined + (size_t)e * rows + first, bias, stacks[i]->w.rows * sizeof *joined);
        }
    return joined;
}

static stacked stack_up(af_gpu_compiler *c, const af_stack *const *stacks, uint32_t count, uint32_t experts) {
    stacked out = {0};
    for (uint32_t i = 0; i < count; i++) out.rows += stacks[i]->w.rows;
    if (c->status == AF_OK) out.m = af_gpu_upload_stacks(c, stacks, count, experts);
    out.bias = join_biases(c, stacks, count, experts, out.rows);
    return out;
}

/* ---- Experts' products ---- */

/* Where a product reads and writes. */
typedef struct route {
    const char *name;
    const af_op_experts *e;
    uint32_t used;
    bool sum; /* the way down */
    WGPUBuffer packets;
    af_gpu_value y;
    float factor;
    bool adds; /* to what y holds */
} route;

static void pipeline_of(af_gpu_compiler *c, af_gpu_step *s, const af_gpu_layout *layout, bool sum) {
    const af_gpu_constant block[] = {AF_GPU_BLOCK_CONSTANTS(layout), {"LANES", af_gpu_lanes(c->b)}, {"SUM", sum}};
    const af_gpu_constant plain[] = {{"KIND", layout->kind}, {"LANES", af_gpu_lanes(c->b)}, {"SUM", sum}};
    if (layout->kind == AF_GPU_QUANTIZED)
        s->pipelines[0] = af_gpu_pipeline_of(c, "experts_block", block, 5);
    else
        s->pipelines[0] = af_gpu_pipeline_of(c, "experts_float", plain, 3);
}

static void bind_product(af_gpu_compiler *c, af_gpu_step *s, const route *r, const stacked *w, WGPUBuffer chunk) {
    const af_gpu_backend *b = c->b;
    const uint32_t length = w->bias ? w->rows * r->e->experts : 0;
    const af_gpu_binding weights = af_gpu_whole(chunk);
    af_gpu_binding bindings[7] = {af_gpu_whole(b->values[r->e->ids].buffer),
                                  af_gpu_whole(b->values[r->e->weights].buffer), af_gpu_small(c, &w->bias, &length, 1),
                                  af_gpu_whole(r->y.buffer), weights};
    const bool quantized = af_gpu_is_quantized(w->m);
    if (quantized) bindings[5] = weights;
    bindings[quantized ? 6 : 5] = af_gpu_whole(quantized ? r->packets : b->normed);
    af_gpu_bind_step(c, s, bindings, quantized ? 7 : 6);
}

static void segment_step(af_gpu_compiler *c, const route *r, const stacked *w, const af_gpu_segment *seg, bool adds) {
    const bool quantized = af_gpu_is_quantized(w->m);
    const uint32_t teams = THREADS / (uint32_t)af_gpu_lanes(c->b), groups = (w->rows + teams - 1) / teams;
    uint32_t place[3];
    af_gpu_place(w->m, seg, place);
    af_gpu_step *s = af_gpu_add_step(c, r->name, AF_GPU_GRID_HEADS);
    s->x = r->sum ? groups : groups * r->used;
    pipeline_of(c, s, w->m->layout, r->sum);
    const uint32_t params[] = {place[0],
                               place[1],
                               place[2],
                               seg->row_begin,
                               seg->rows,
                               w->rows,
                               af_gpu_row_words(w->m),
                               quantized ? af_gpu_packet(w->m->cols) : w->m->cols,
                               r->used,
                               groups,
                               r->y.stride,
                               r->y.first + w->column,
                               af_gpu_bits(r->factor),
                               (w->bias ? BIASED : 0u) | (adds ? ADDS : 0u)};
    af_gpu_set_params(s, params, 14);
    bind_product(c, s, r, w, seg->chunk);
}

static void product_steps(af_gpu_compiler *c, const route *r, const stacked *w) {
    for (size_t i = 0; c->status == AF_OK && i < w->m->segment_count; i++)
        segment_step(c, r, w, &w->m->segments[i], r->adds || (r->sum && i > 0));
}

static void glu_step(af_gpu_compiler *c, const char *name, const af_op_experts *e, uint32_t used, bool quantize) {
    const af_gpu_backend *b = c->b;
    const uint32_t hidden = e->up.w.rows;
    af_gpu_step *s = af_gpu_add_step(c, name, AF_GPU_GRID_HEADS);
    const af_gpu_constant act = {"ACT", e->act};
    s->pipelines[0] = af_gpu_pipeline_of(c, "experts_glu", &act, 1);
    s->x = used;
    const uint32_t params[] = {hidden, 2 * hidden, af_gpu_packet(hidden), quantize, !quantize};
    af_gpu_set_params(s, params, 5);
    const af_gpu_binding bindings[] = {af_gpu_whole(b->raw), af_gpu_whole(b->normed), af_gpu_whole(b->hidden_packets)};
    af_gpu_bind_step(c, s, bindings, 3);
}

void af_gpu_compile_experts(af_gpu_compiler *c, const af_op *op) {
    const af_op_experts *e = &op->u.experts;
    const af_gpu_backend *b = c->b;
    const uint32_t used = b->plan->widths[e->ids], hidden = e->up.w.rows, cols = e->up.w.cols;
    const af_stack *const up[] = {&e->gate, &e->up}, *const down[] = {&e->down};
    const bool joined = e->gate.w.format == e->up.w.format;
    stacked ways_up[2] = {stack_up(c, up, joined ? 2 : 1, e->experts)};
    if (!joined) ways_up[1] = stack_up(c, up + 1, 1, e->experts);
    ways_up[1].column = hidden;
    const stacked way_down = stack_up(c, down, 1, e->experts);
    if (c->status != AF_OK) return;
    assert(e->residual == AF_NO_VALUE || e->residual == e->out);
    const bool packets = af_gpu_is_quantized(ways_up[0].m) || (!joined && af_gpu_is_quantized(ways_up[1].m));
    af_gpu_norm_step(c, op->name, b->values[e->in], cols, &no_norm, packets, af_gpu_normed(b, cols), AF_GPU_ALL);
    const route to_hidden = {.name = op->name,
                             .e = e,
                             .used = used,
                             .packets = b->packets,
                             .y = {.buffer = b->raw, .stride = 2 * hidden},
                             .factor = 1.0f};
    for (uint32_t i = 0; i < (joined ? 1u : 2u); i++) product_steps(c, &to_hidden, &ways_up[i]);
    glu_step(c, op->name, e, used, af_gpu_is_quantized(way_down.m));
    const route to_out = {.name = op->name,
                          .e = e,
                          .used = used,
                          .sum = true,
                          .packets = b->hidden_packets,
                          .y = b->values[e->out],
                          .factor = e->scale,
                          .adds = e->residual != AF_NO_VALUE};
    product_steps(c, &to_out, &way_down);
}

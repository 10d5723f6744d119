/* gpu_compile.c - a plan to steps: the operations in turn, their small tensors counted beforehand; EMBED, NORM and
 * STATE. The other operations are in gpu_linear.c and gpu_attend.c, the decode list in gpu_decode.c.
 */
#include "backend/webgpu/gpu_compiler.h"
#include "backend/webgpu/gpu_profile.h"

/* ---- Embed and norm ---- */

typedef struct embedding {
    const char *name;
    float scale;
    WGPUBuffer batch_info, out;
    af_gpu_binding positions; /* no buffer: nothing is added */
    bool one_position;        /* its row is every position's */
} embedding;

static void embed_step(af_gpu_compiler *c, const embedding *e, const af_gpu_matrix *m, const af_gpu_segment *seg) {
    const af_gpu_backend *b = c->b;
    const af_gpu_binding chunk = af_gpu_whole(seg->chunk), info = af_gpu_whole(e->batch_info),
                         choices = af_gpu_whole(b->choices), out = af_gpu_whole(e->out);
    const uint32_t placed = e->positions.buffer == NULL ? 0 : e->one_position ? 2 : 1;
    const af_gpu_binding positions = placed ? e->positions : af_gpu_whole(b->small);
    af_gpu_step *s = af_gpu_add_step(c, e->name, AF_GPU_GRID_HEADS);
    uint32_t place[3];
    af_gpu_place(m, seg, place);
    if (af_gpu_is_quantized(m)) {
        const af_gpu_constant format[] = {AF_GPU_BLOCK_CONSTANTS(m->layout)};
        s->pipelines[0] = af_gpu_pipeline_of(c, "embed", format, 3);
        s->x = (m->cols / 32 + 63) / 64;
        const uint32_t params[] = {
            place[0], place[1], place[2], seg->row_begin, seg->rows, m->cols / 32, 0, af_gpu_bits(e->scale), placed};
        af_gpu_set_params(s, params, 9);
        af_gpu_bind_step(c, s, (af_gpu_binding[]){chunk, chunk, info, choices, positions, out}, 6);
        return;
    }
    const af_gpu_constant kind = {"KIND", m->layout->kind};
    s->pipelines[0] = af_gpu_pipeline_of(c, "embed_float", &kind, 1);
    s->x = (m->cols + 63) / 64;
    const uint32_t params[] = {place[0], af_gpu_row_words(m),   seg->row_begin, seg->rows, m->cols,
                               0,        af_gpu_bits(e->scale), placed};
    af_gpu_set_params(s, params, 8);
    af_gpu_bind_step(c, s, (af_gpu_binding[]){chunk, info, choices, positions, out}, 5);
}

static void embed_steps(af_gpu_compiler *c, const embedding *e, const af_matrix *table) {
    const af_gpu_matrix *m = af_gpu_upload(c, &table, 1);
    for (size_t i = 0; c->status == AF_OK && i < m->segment_count; i++) embed_step(c, e, m, &m->segments[i]);
}

static void compile_embed(af_gpu_compiler *c, const af_op *op) {
    const af_op_embed *o = &op->u.embed;
    embedding e = {
        .name = op->name, .scale = o->scale, .batch_info = c->b->batch_info, .out = c->b->values[o->out].buffer};
    const uint32_t length = o->position_count * o->table.cols;
    if (o->positions) e.positions = af_gpu_small(c, &o->positions, &length, 1);
    e.one_position = o->position_count == 1;
    embed_steps(c, &e, &o->table);
}

int af_gpu_compile_decode(af_gpu_backend *b, const af_matrix *w, WGPUBuffer batch, WGPUBuffer out, af_error *error) {
    af_gpu_compiler c = {.b = b, .steps = &b->general, .status = AF_OK, .error = error};
    embed_steps(&c, &(embedding){.name = w->name, .scale = 1.0f, .batch_info = batch, .out = out}, w);
    return c.status == AF_OK ? af_gpu_kernels_make(b->kernels, error) : c.status;
}

static void compile_norm(af_gpu_compiler *c, const af_op *op) {
    const af_op_norm *n = &op->u.norm;
    af_gpu_norm_step(c, op->name, c->b->values[n->in], n->norm.width, &n->norm, false, c->b->values[n->out],
                     AF_GPU_ALL);
}

static void compile_state(af_gpu_compiler *c, const af_op *op) {
    const af_op_state *s = &op->u.state;
    const uint32_t width = c->b->plan->width;
    const af_gpu_value states = {.buffer = c->b->states, .stride = width};
    af_gpu_norm_step(c, op->name, c->b->values[s->in], width, &s->norm, false, states, AF_GPU_STATES);
}

/* ---- The plan ---- */

/* An upper bound on what an operation's small tensors take, in all lists together. */
static uint64_t small_bytes_of(const af_plan *plan, const af_op *op) {
    uint64_t bytes = 0;
    switch (op->kind) {
    case AF_OP_EMBED:
        if (op->u.embed.positions)
            bytes = af_gpu_small_room((uint64_t)op->u.embed.position_count * op->u.embed.table.cols);
        break;
    case AF_OP_NORM:
        bytes = af_gpu_small_room(2ull * op->u.norm.norm.width);
        break;
    case AF_OP_LINEAR:
        bytes = af_gpu_small_room(2ull * op->u.linear.pre.width) + af_gpu_small_room(2ull * op->u.linear.post.width);
        for (uint32_t k = 0; k < op->u.linear.part_count; k++)
            bytes += af_gpu_small_room(2ull * op->u.linear.parts[k].w.rows) + af_gpu_small_room(0) +
                     af_gpu_small_room(2ull * op->u.linear.parts[k].w.rows + plan->width);
        break;
    case AF_OP_ROPE_STORE: {
        const uint64_t heads = op->u.rope_store.heads, k_dim = plan->caches[op->u.rope_store.cache].k_dim;
        bytes = af_gpu_small_room(4 * heads * k_dim);
        break;
    }
    case AF_OP_ATTEND:
        bytes = af_gpu_small_room(op->u.attend.heads);
        break;
    case AF_OP_HEAD:
        bytes = af_gpu_small_room(2ull * op->u.head.norm.width) + af_gpu_small_room(op->u.head.w.rows) +
                af_gpu_small_room(0);
        break;
    case AF_OP_STATE:
        bytes = af_gpu_small_room(2ull * op->u.state.norm.width);
        break;
    case AF_OP_CONV:
    case AF_OP_DELTA:
    case AF_OP_GATE:
        bytes = af_gpu_recur_small(plan, op);
        break;
    case AF_OP_ROUTE:
    case AF_OP_EXPERTS:
        bytes = af_gpu_experts_small(op);
        break;
    case AF_OP_PER_HEAD: /* none */
        break;
    }
    return 3 * bytes;
}

void af_gpu_compile_op(af_gpu_compiler *c, const af_op *op) {
    static void (*const compilers[])(af_gpu_compiler *, const af_op *) = {
        [AF_OP_EMBED] = compile_embed,
        [AF_OP_NORM] = compile_norm,
        [AF_OP_LINEAR] = af_gpu_compile_linear,
        [AF_OP_ROPE_STORE] = af_gpu_compile_rope_store,
        [AF_OP_ATTEND] = af_gpu_compile_attend,
        [AF_OP_HEAD] = af_gpu_compile_head,
        [AF_OP_STATE] = compile_state,
        [AF_OP_CONV] = af_gpu_compile_conv,
        [AF_OP_DELTA] = af_gpu_compile_delta,
        [AF_OP_GATE] = af_gpu_compile_gate,
        [AF_OP_ROUTE] = af_gpu_compile_route,
        [AF_OP_EXPERTS] = af_gpu_compile_experts,
        [AF_OP_PER_HEAD] = af_gpu_compile_per_head,
    };
    if (c->status == AF_OK) compilers[op->kind](c, op);
}

int af_gpu_compile(af_gpu_backend *b, af_error *error) {
    const af_plan *plan = b->plan;
    af_gpu_compiler c = {.b = b, .steps = &b->general, .status = AF_OK, .error = error};
    b->small_size = af_gpu_small_room(0);
    for (size_t i = 0; i < plan->op_count; i++) b->small_size += small_bytes_of(plan, &plan->ops[i]);
    b->small = af_gpu_buffer(b->gpu, b->small_size, AF_GPU_STORAGE, "norms and biases", error);
    if (!b->small) return AF_ENOMEM;
    for (size_t i = 0; i < plan->op_count; i++) {
        c.op = i;
        af_gpu_compile_op(&c, &plan->ops[i]);
        if (b->options.progress)
            b->options.progress(b->options.progress_user, (double)(i + 1) / (double)plan->op_count);
    }
    c.steps = &b->decode;
    af_gpu_compile_decode_list(&c);
    c.steps = &b->prompt;
    if (b->gpu->matrices && !b->options.exact) af_gpu_compile_prompt_list(&c);
    af_gpu_weights_done(b->weights);
    if (c.status == AF_OK) c.status = af_gpu_check(b->gpu, error);
    if (c.status == AF_OK) c.status = af_gpu_kernels_make(b->kernels, error);
    size_t most = b->general.count > b->decode.count ? b->general.count : b->decode.count;
    if (b->prompt.count > most) most = b->prompt.count;
    return c.status == AF_OK ? af_gpu_profile_open(b->gpu, most, &b->profile, error) : c.status;
}

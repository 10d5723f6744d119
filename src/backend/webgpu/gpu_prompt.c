/* gpu_prompt.c - the prompt list: products and attention of many tokens by matrices that subgroups multiply.
 *
 * As in gpu_decode.c, an operation takes its prompt form or, where a field of it is in the way, the general one; both
 * write the same values. A product is two dispatches: activations normed to f16 with a factor a token, and the
 * product with all that follows it.
 */
#include "backend/webgpu/gpu_compiler.h"

enum { BIAS = 1, RESIDUAL = 2 }; /* prompt_block.wgsl */

/* ---- Linear ---- */

static bool takes_linear(const af_op_linear *l) {
    if (l->post.kind != AF_NORM_NONE || l->parts[0].w.cols % 32) return false;
    for (uint32_t i = 0; i < l->part_count; i++) {
        const af_gpu_layout *layout = af_gpu_layout_of(l->parts[i].w.format->type);
        if (!layout || layout->kind != AF_GPU_QUANTIZED || layout->pairing > AF_GPU_PAIR_BOTH) return false;
        if (l->residual != AF_NO_VALUE && l->residual != l->parts[i].out) return false;
    }
    return l->combine != AF_COMBINE_GLU || l->parts[0].w.format == l->parts[1].w.format;
}

static void norm_step(af_gpu_compiler *c, const char *name, af_gpu_value in, uint32_t width, const af_norm *norm) {
    const af_gpu_backend *b = c->b;
    af_gpu_step *s = af_gpu_add_step(c, name, AF_GPU_GRID_ROWS);
    const af_gpu_constant kind = {"KIND", norm->kind};
    s->pipelines[0] = af_gpu_pipeline_of(c, "prompt_norm", &kind, 1);
    s->count_at = 1;
    af_gpu_set_params(s, (uint32_t[]){width, 0, norm->bias != NULL, af_gpu_bits(norm->eps)}, 4);
    af_gpu_bind_step(c, s,
                     (af_gpu_binding[]){af_gpu_whole(in.buffer), af_gpu_small_norm(c, norm), af_gpu_whole(b->halves),
                                        af_gpu_whole(b->factors)},
                     4);
}

static void product_pipelines(af_gpu_compiler *c, af_gpu_step *s, const af_op_linear *l, const af_gpu_layout *layout) {
    af_gpu_constant constants[] = {
        AF_GPU_BLOCK_CONSTANTS(layout), {"COMBINE", l->combine}, {"ACT", l->act}, {"STRIPS", 4}};
    s->pipelines[0] = af_gpu_pipeline_of(c, "prompt_linear", constants, 6);
    constants[5].value = 2;
    s->pipelines[1] = af_gpu_pipeline_of(c, "prompt_linear", constants, 6);
    s->pipelines[2] = af_gpu_pipeline_of(c, "prompt_few", constants, 5);
}

static void product_step(af_gpu_compiler *c, const af_op *op, const af_gpu_product *product,
                         const af_gpu_segment *seg) {
    const af_op_linear *l = &op->u.linear;
    const af_gpu_backend *b = c->b;
    const af_gpu_matrix *m = product->m;
    const af_gpu_value y = b->values[l->parts[product->first_part].out];
    const float *bias = product->bias ? product->bias + seg->row_begin : NULL;
    const uint32_t length = bias ? seg->rows : 0;
    uint32_t place[3];
    af_gpu_place(m, seg, place);
    af_gpu_step *s = af_gpu_add_step(c, op->name, AF_GPU_GRID_PROMPT);
    s->x = seg->rows;
    s->bytes = af_gpu_streams_of(m->layout, seg->rows, m->cols).bytes;
    s->count_at = 7;
    const uint32_t params[] = {place[0],
                               place[1],
                               place[2],
                               l->combine == AF_COMBINE_GLU ? seg->rows / 2 : seg->rows,
                               m->cols / 32,
                               y.first + seg->row_begin,
                               y.stride,
                               0,
                               (bias ? BIAS : 0u) | (l->residual != AF_NO_VALUE ? RESIDUAL : 0u),
                               af_gpu_bits(l->scale)};
    af_gpu_set_params(s, params, 10);
    product_pipelines(c, s, l, m->layout);
    const af_gpu_binding bindings[] = {
        af_gpu_whole(seg->chunk), af_gpu_whole(seg->chunk),           af_gpu_whole(b->halves),
        af_gpu_whole(b->factors), af_gpu_small(c, &bias, &length, 1), af_gpu_whole(y.buffer)};
    af_gpu_bind_step(c, s, bindings, 6);
}

static bool prompt_linear(af_gpu_compiler *c, const af_op *op) {
    const af_op_linear *l = &op->u.linear;
    if (op->kind != AF_OP_LINEAR || !takes_linear(l)) return false;
    af_gpu_product products[AF_PLAN_PARTS];
    const uint32_t count = af_gpu_products(c, l, products);
    if (l->combine == AF_COMBINE_GLU && (count != 1 || products[0].m->segment_count != 1)) return false;
    if (count > 0) norm_step(c, op->name, c->b->values[l->in], l->parts[0].w.cols, &l->pre);
    for (uint32_t k = 0; k < count; k++)
        for (size_t i = 0; i < products[k].m->segment_count; i++)
            product_step(c, op, &products[k], &products[k].m->segments[i]);
    return true;
}

/* ---- Attention ---- */

/* The kernel with the least workgroup memory that holds the heads; NULL: none does. */
static const char *attend_kernel(const af_gpu_backend *b, const af_op_attend *a) {
    static const struct {
        const char *name;
        uint32_t widest;
    } kernels[] = {{"prompt_attend_32", 32}, {"prompt_attend_64", 64}, {"prompt_attend_128", 128}};
    const af_cache *cache = &b->plan->caches[a->cache];
    if (b->options.kv != AF_KV_F16 || cache->shared || cache->k_dim % 16 || cache->v_dim % 16) return NULL;
    if (a->q_pitch && a->q_pitch != cache->k_dim) return NULL;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        const uint32_t widest = kernels[i].widest;
        const uint32_t bytes = AF_GPU_PROMPT_TILE * ((widest + 8) * 2 + 72 * 2 + 68 * 4) + 512;
        if (cache->k_dim <= widest && cache->v_dim <= widest)
            return bytes <= b->gpu->info.workgroup_bytes ? kernels[i].name : NULL;
    }
    return NULL;
}

static bool prompt_attend(af_gpu_compiler *c, const af_op *op) {
    const af_gpu_backend *b = c->b;
    const af_op_attend *a = &op->u.attend;
    const char *kernel = op->kind == AF_OP_ATTEND ? attend_kernel(b, a) : NULL;
    if (!kernel) return false;
    const af_cache *cache = &b->plan->caches[a->cache];
    af_gpu_step *s = af_gpu_add_step(c, op->name, AF_GPU_GRID_WIDE);
    const af_gpu_constant constants[] = {
        {"HEADS", a->heads}, {"KV_HEADS", cache->kv_heads}, {"K_DIM", cache->k_dim}, {"V_DIM", cache->v_dim}};
    s->pipelines[0] = af_gpu_pipeline_of(c, kernel, constants, 4);
    s->x = a->heads;
    af_gpu_bind_attend(c, s, a, b->wide_tiles_at);
    return true;
}

void af_gpu_compile_prompt_list(af_gpu_compiler *c) {
    const af_plan *plan = c->b->plan;
    for (size_t i = 0; i < plan->op_count && c->status == AF_OK; i++) {
        c->op = i;
        if (!prompt_linear(c, &plan->ops[i]) && !prompt_attend(c, &plan->ops[i])) af_gpu_compile_op(c, &plan->ops[i]);
    }
}

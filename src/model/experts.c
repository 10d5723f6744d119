/* experts.c - a layer's feed-forward of experts, as operations: the stream is normed once, for the router, the experts
 * and the one that all tokens share.
 *
 * Stacks are one tensor for all experts of a layer, gate and up apart or, in some files, one after the other in one
 * (ffn_gate_up_exps). Sources: Mixtral of Experts (arXiv 2401.04088) for the layer as it is; DeepSeekMoE (arXiv
 * 2401.06066) for many small experts and shared ones.
 */
#include "model/decoder.h"

#define MOST_FF (1u << 22)

af_mixture af_bind_mixture(af_binder *b, const af_hparams *h) {
    af_mixture m = {.experts = af_bind_u32(b, "expert_count", 1, AF_PLAN_EXPERTS), .score = AF_SCORE_SOFTMAX};
    const uint32_t most = m.experts < AF_PLAN_USED ? m.experts : AF_PLAN_USED;
    m.used = af_bind_u32(b, "expert_used_count", 1, most);
    m.ff = af_bind_u32_or(b, "expert_feed_forward_length", h->ff, 1, MOST_FF);
    m.scale = af_bind_f32_or(b, "expert_weights_scale", 1.0f);
    if (m.scale == 0.0f) m.scale = 1.0f; /* some writers put 0 where a model has none */
    m.groups = af_bind_u32_or(b, "expert_group_count", 1, 0, m.experts);
    m.groups_used = af_bind_u32_or(b, "expert_group_used_count", m.groups, 0, m.groups);
    m.shared_ff = af_bind_u32_or(b, "expert_shared_feed_forward_length", 0, 0, MOST_FF);
    return m;
}

/* ---- Stacks ---- */

static af_stack bind_stack(af_binder *b, uint32_t layer, const char *name, uint32_t experts, uint32_t rows,
                           uint32_t cols) {
    af_stack s = af_bind_stack(b, experts, rows, cols, "blk.%u.%s.weight", layer, name);
    s.bias = af_bind_vector_if(b, experts * rows, "blk.%u.%s.bias", layer, name);
    return s;
}

/* Rows first .. first + rows - 1 of each expert of a stack, which has `all`. */
static af_stack rows_of(af_binder *b, const af_stack *whole, uint32_t experts, uint32_t all, uint32_t first,
                        uint32_t rows) {
    af_stack s = *whole;
    s.w.rows = rows;
    s.w.data = (const unsigned char *)s.w.data + first * af_row_bytes(s.w.format, s.w.cols);
    if (!whole->bias) return s;
    float *bias = af_arena_array(b->plan->arena, (size_t)experts * rows, sizeof *bias);
    if (!bias) {
        b->status = b->status ? b->status : af_fail_memory(b->error, (size_t)experts * rows * sizeof *bias, "biases");
        return s;
    }
    for (uint32_t e = 0; e < experts; e++)
        for (uint32_t r = 0; r < rows; r++) bias[(size_t)e * rows + r] = whole->bias[(size_t)e * all + first + r];
    s.bias = bias;
    return s;
}

static void bind_gate_up(af_binder *b, uint32_t layer, const af_mixture *mix, uint32_t width, af_op_experts *e) {
    const uint32_t n = mix->experts, ff = mix->ff;
    af_stack whole = af_bind_stack_if(b, n, 2 * ff, width, "blk.%u.ffn_gate_up_exps.weight", layer);
    if (!whole.w.data) {
        e->gate = bind_stack(b, layer, "ffn_gate_exps", n, ff, width);
        e->up = bind_stack(b, layer, "ffn_up_exps", n, ff, width);
        return;
    }
    whole.bias = af_bind_vector_if(b, n * 2 * ff, "blk.%u.ffn_gate_up_exps.bias", layer);
    e->gate = rows_of(b, &whole, n, 2 * ff, 0, ff);
    e->up = rows_of(b, &whole, n, 2 * ff, ff, ff);
}

/* ---- The layer ---- */

static void add_route(af_binder *b, const af_decoder *m, uint32_t i, const af_mixture *mix) {
    const uint32_t n = mix->experts;
    af_op_route r = {.in = m->shared,
                     .ids = m->ids,
                     .weights = m->weights,
                     .w = af_bind_matrix(b, n, m->h.width, "blk.%u.ffn_gate_inp.weight", i),
                     .bias = af_bind_vector_if(b, n, "blk.%u.ffn_gate_inp.bias", i),
                     .choice_bias = af_bind_vector_if(b, n, "blk.%u.exp_probs_b.bias", i),
                     .score = mix->score,
                     .weigh = mix->weigh,
                     .scale = mix->scale,
                     .groups = mix->groups,
                     .groups_used = mix->groups_used};
    af_bind_op(b, (int32_t)i, "ffn_gate_inp", (af_op){.kind = AF_OP_ROUTE, .u.route = r});
}

static af_op_experts experts_op(const af_decoder *m, const af_ffn *f, uint32_t experts, af_value ids,
                                af_value weights) {
    return (af_op_experts){.in = m->shared,
                           .ids = ids,
                           .weights = weights,
                           .experts = experts,
                           .act = f->act,
                           .residual = m->x,
                           .scale = f->share,
                           .out = m->x};
}

static void add_experts(af_binder *b, const af_decoder *m, uint32_t i, const af_ffn *f) {
    const af_mixture *mix = &f->mix;
    af_op_experts e = experts_op(m, f, mix->experts, m->ids, m->weights);
    bind_gate_up(b, i, mix, m->h.width, &e);
    e.down = bind_stack(b, i, "ffn_down_exps", mix->experts, m->h.width, mix->ff);
    af_bind_op(b, (int32_t)i, "ffn_exps", (af_op){.kind = AF_OP_EXPERTS, .u.experts = e});
}

/* A matrix as a stack of one. */
static af_stack stack_of_one(af_binder *b, uint32_t layer, const char *name, uint32_t rows, uint32_t cols) {
    return (af_stack){.w = af_bind_matrix(b, rows, cols, "blk.%u.%s.weight", layer, name)};
}

/* A shared expert times sigmoid(w x): a mixture of one. */
static void add_gated_shared(af_binder *b, const af_decoder *m, uint32_t i, const af_ffn *f, af_value id,
                             af_value weight) {
    const uint32_t width = m->h.width, ff = f->mix.shared_ff;
    af_op_route r = {.in = m->shared,
                     .ids = id,
                     .weights = weight,
                     .w = af_bind_matrix(b, 1, width, "blk.%u.ffn_gate_inp_shexp.weight", i),
                     .score = AF_SCORE_SIGMOID,
                     .weigh = AF_WEIGH_PLAIN,
                     .scale = 1.0f};
    af_bind_op(b, (int32_t)i, "ffn_gate_inp_shexp", (af_op){.kind = AF_OP_ROUTE, .u.route = r});
    af_op_experts e = experts_op(m, f, 1, id, weight);
    e.gate = stack_of_one(b, i, "ffn_gate_shexp", ff, width);
    e.up = stack_of_one(b, i, "ffn_up_shexp", ff, width);
    e.down = stack_of_one(b, i, "ffn_down_shexp", width, ff);
    af_bind_op(b, (int32_t)i, "ffn_shexp", (af_op){.kind = AF_OP_EXPERTS, .u.experts = e});
}

static void add_shared(af_binder *b, af_decoder *m, uint32_t i, const af_ffn *f) {
    const uint32_t ff = f->mix.shared_ff;
    const af_norm none = {.kind = AF_NORM_NONE};
    af_decoder_need(b, &m->shared_hidden, ff);
    af_ffn normed = *f;
    normed.in = m->shared;
    normed.pre = none;
    af_decoder_gated(b, m, i, "ffn_gate_shexp", "ffn_up_shexp", &normed, ff, m->shared_hidden);
    af_decoder_add_to_stream(b, m, i, "ffn_down_shexp", m->shared_hidden, ff, &none, f->share);
}

void af_decoder_experts(af_binder *b, af_decoder *m, uint32_t i, const af_ffn *f) {
    af_decoder_need(b, &m->shared, m->h.width);
    af_decoder_need(b, &m->ids, f->mix.used);
    af_decoder_need(b, &m->weights, f->mix.used);
    af_decoder_norm(b, (int32_t)i, "ffn_norm", &f->pre, m->x, m->shared);
    add_route(b, m, i, &f->mix);
    add_experts(b, m, i, f);
    if (!f->mix.shared_ff) return;
    if (!f->mix.shared_gate) {
        add_shared(b, m, i, f);
        return;
    }
    af_decoder_need(b, &m->shared_id, 1);
    af_decoder_need(b, &m->shared_weight, 1);
    add_gated_shared(b, m, i, f, m->shared_id, m->shared_weight);
}

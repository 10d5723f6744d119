/* qwen35.c - Qwen 3.5, dense: three layers of linear attention, then one of full attention, and so on.
 *
 * A full layer is Qwen 3's with a gate: attn_q gives each head a gate of its own width, and what the head attended is
 * multiplied by the gate's sigmoid. Only the first quarter of a head turns. The sections that `rope.dimension_sections`
 * cuts the rotation into are for pictures: a text has the same position in all of them.
 *
 * A linear layer keeps no keys and values but, for each value head, one matrix that every token changes (a gated delta
 * net): q, k and v pass a short convolution over the last tokens and SiLU; plan.h's DELTA reads and writes the matrix;
 * the result is normed head by head and multiplied by SiLU of a gate that the layer's input gives. Value heads may
 * outnumber key heads: value head j goes with key head j mod key heads.
 *
 * There is no ffn_norm: post_attention_norm is what the feed-forward's input is normed with.
 *
 * Sources: Gated Delta Networks (arXiv 2412.06464); Gated Attention (arXiv 2505.06708); the Qwen3-Next and Qwen3.5
 * model cards and modeling_qwen3_next.py of Hugging Face Transformers for the order of operations.
 */
#include "model/decoder.h"
#include "model/families.h"

#define FULL_EVERY 4 /* where the file does not say */

typedef struct linear_attention {
    uint32_t every; /* such a layer is a full one */
    uint32_t key_heads, value_heads, k_dim, v_dim, taps;
    uint32_t mixed_width, value_width;
    af_value raw, mixed; /* q, k and v of all heads, before and after the convolution */
    af_value gate, step, strength, out;
} linear_attention;

typedef struct qwen35 {
    af_decoder decoder; /* the frame's functions are given this */
    linear_attention linear;
} qwen35;

static void open_linear(af_binder *b, linear_attention *a) {
    a->every = af_bind_u32_or(b, "full_attention_interval", FULL_EVERY, 1, 4096);
    a->taps = af_bind_u32(b, "ssm.conv_kernel", 2, AF_CONV_TAPS);
    a->k_dim = af_bind_u32(b, "ssm.state_size", 1, 1024);
    a->key_heads = af_bind_u32(b, "ssm.group_count", 1, 1024);
    a->value_heads = af_bind_u32(b, "ssm.time_step_rank", 1, 1024);
    const uint32_t inner = af_bind_u32(b, "ssm.inner_size", 1, 1u << 20);
    if (inner % a->value_heads || inner / a->value_heads > 1024)
        af_bind_fail(b, AF_EFORMAT,
                     "qwen35.ssm.inner_size: found %u, expected %u heads (ssm.time_step_rank) of 1 to 1024 elements",
                     inner, a->value_heads);
    a->v_dim = inner / a->value_heads;
    a->value_width = a->value_heads * a->v_dim;
    a->mixed_width = 2 * a->key_heads * a->k_dim + a->value_width;
    a->raw = af_bind_value(b, a->mixed_width);
    a->mixed = af_bind_value(b, a->mixed_width);
    a->gate = af_bind_value(b, a->value_width);
    a->step = af_bind_value(b, a->value_heads);
    a->strength = af_bind_value(b, a->value_heads);
    a->out = af_bind_value(b, a->value_width);
}

static af_part part(af_binder *b, uint32_t i, const char *name, uint32_t rows, uint32_t cols, af_value out) {
    return (af_part){.w = af_bind_matrix(b, rows, cols, "blk.%u.%s.weight", i, name), .out = out};
}

/* Two products of the layer's normed input. The small ones have types of their own in many files. */
static void add_pair(af_binder *b, const af_decoder *m, uint32_t i, const char *name, const af_norm *pre, af_part first,
                     af_part second) {
    af_bind_op(b, (int32_t)i, name,
               (af_op){.kind = AF_OP_LINEAR,
                       .u.linear = {.in = m->x,
                                    .pre = *pre,
                                    .part_count = 2,
                                    .parts = {first, second},
                                    .residual = AF_NO_VALUE,
                                    .scale = 1.0f}});
}

static void add_conv(af_binder *b, const linear_attention *a, uint32_t i) {
    af_bind_op(b, (int32_t)i, "ssm_conv1d",
               (af_op){.kind = AF_OP_CONV,
                       .u.conv = {.in = a->raw,
                                  .out = a->mixed,
                                  .weight = af_bind_taps(b, a->taps, a->mixed_width, "blk.%u.ssm_conv1d.weight", i),
                                  .taps = a->taps,
                                  .carry = af_bind_carry(b, (uint64_t)(a->taps - 1) * a->mixed_width),
                                  .act = AF_ACT_SILU}});
}

static void add_delta(af_binder *b, const linear_attention *a, float eps, uint32_t i) {
    af_bind_op(b, (int32_t)i, "ssm_delta",
               (af_op){.kind = AF_OP_DELTA,
                       .u.delta = {.in = a->mixed,
                                   .step = a->step,
                                   .strength = a->strength,
                                   .out = a->out,
                                   .key_heads = (uint16_t)a->key_heads,
                                   .value_heads = (uint16_t)a->value_heads,
                                   .k_dim = (uint16_t)a->k_dim,
                                   .v_dim = (uint16_t)a->v_dim,
                                   .rate = af_bind_vector(b, a->value_heads, "blk.%u.ssm_a", i),
                                   .step_bias = af_bind_vector(b, a->value_heads, "blk.%u.ssm_dt.bias", i),
                                   .eps = eps,
                                   .carry = af_bind_carry(b, (uint64_t)a->k_dim * a->value_width)}});
}

static void add_gate(af_binder *b, const linear_attention *a, float eps, uint32_t i) {
    af_bind_op(b, (int32_t)i, "ssm_norm",
               (af_op){.kind = AF_OP_GATE,
                       .u.gate = {.v = a->out,
                                  .gate = a->gate,
                                  .heads = (uint16_t)a->value_heads,
                                  .dim = (uint16_t)a->v_dim,
                                  .gate_pitch = a->v_dim,
                                  .norm = af_bind_rms(b, a->v_dim, eps, "blk.%u.ssm_norm.weight", i),
                                  .act = AF_ACT_SILU}});
}

static void add_linear_attention(af_binder *b, const af_decoder *m, const linear_attention *a, uint32_t i,
                                 const af_norm *pre) {
    const uint32_t width = m->h.width;
    add_pair(b, m, i, "attn_qkv", pre, part(b, i, "attn_qkv", a->mixed_width, width, a->raw),
             part(b, i, "attn_gate", a->value_width, width, a->gate));
    add_pair(b, m, i, "ssm_alpha", pre, part(b, i, "ssm_alpha", a->value_heads, width, a->step),
             part(b, i, "ssm_beta", a->value_heads, width, a->strength));
    add_conv(b, a, i);
    add_delta(b, a, m->h.eps, i);
    add_gate(b, a, m->h.eps, i);
    af_op op = {.kind = AF_OP_LINEAR, .u.linear = {.in = a->out, .part_count = 1, .residual = m->x, .scale = 1.0f}};
    op.u.linear.parts[0] = part(b, i, "ssm_out", width, a->value_width, m->x);
    af_bind_op(b, (int32_t)i, "ssm_out", op);
}

static void layer(af_binder *b, af_decoder *m, uint32_t i) {
    const linear_attention *a = &((const qwen35 *)m)->linear;
    af_layer l = m->layer;
    l.attn.pre = af_bind_norm(b, &m->h, "blk.%u.attn_norm", i);
    l.ffn.pre = af_bind_norm(b, &m->h, "blk.%u.post_attention_norm", i);
    if ((i + 1) % a->every == 0) {
        l.attn.q_norm = af_bind_rms(b, m->h.k_dim, m->h.eps, "blk.%u.attn_q_norm.weight", i);
        l.attn.k_norm = af_bind_rms(b, m->h.k_dim, m->h.eps, "blk.%u.attn_k_norm.weight", i);
        af_decoder_add_attention(b, m, i, &l.attn);
    } else {
        add_linear_attention(b, m, a, i, &l.attn.pre);
    }
    af_decoder_add_ffn(b, m, i, &l.ffn);
}

int af_qwen35_build(af_binder *b) {
    qwen35 q = {0};
    af_decoder *m = &q.decoder;
    af_decoder_open(b, AF_NORM_RMS, m);
    open_linear(b, &q.linear);
    if (m->h.v_dim != m->h.k_dim)
        af_bind_fail(b, AF_EFORMAT, "qwen35.attention.value_length: found %u, expected the key length, %u", m->h.v_dim,
                     m->h.k_dim);
    m->layer.attn.gated = true;
    m->layer.attn.rope = af_bind_rope(b, &m->h, m->h.rope_base, false, true);
    return af_decoder_build(b, m, layer);
}

/* deepseek2.c - DeepSeek V2, V3 and R1: multi-head latent attention.
 *
 * What it does differently: keys and values of all heads come from one latent c of `kv_lora_rank` numbers a token,
 * normed, beside a few elements that turn and that all heads' keys share. With k_b and v_b the matrices that make a
 * head's key and value of c,
 *     q_plain . (k_b c) = (k_b^T q_plain) . c        and        sum_j w_j (v_b c_j) = v_b (sum_j w_j c_j)
 * so k_b is folded into the query and v_b applied after attention: one key head for all, (c, turning elements), whose
 * first part is its value too, and that is all the cache keeps. Queries may come through a latent of their own.
 *
 * Files hold k_b transposed and v_b apart (attn_k_b, attn_v_b); older ones have both in attn_kv_b, a head's key rows
 * before its value rows. There k_b is decoded and transposed here, to f32 so that nothing is rounded.
 *
 * YaRN does not scale sine and cosine but all scores, by (1 + yarn_log_multiplier ln factor)^2. The first layers are
 * dense; the others have experts, in V3 chosen by sigmoid scores plus a bias within the best groups.
 *
 * Sources: DeepSeek-V2 (arXiv 2405.04434, section 2.1 and appendix C), DeepSeek-V3 (arXiv 2412.19437).
 */
#include "model/decoder.h"
#include "model/families.h"

#include <math.h>

#define GATING_SIGMOID 2 /* expert_gating_func; 0 and 1 are softmax */

typedef struct latent {
    af_decoder decoder; /* first: the layer function is given it */
    uint32_t rank, turning, q_rank;
    uint32_t q_dim, v_dim; /* of a head, before folding and after */
    af_value low, heads, values;
    uint32_t dense; /* layers without experts, the first ones */
} latent;

/* ---- Opening ---- */

/* The decoder's sizes become those of the folded attention: one key of rank + turning elements. */
static void read_sizes(af_binder *b, latent *m) {
    af_hparams *h = &m->decoder.h;
    m->rank = af_bind_u32(b, "attention.kv_lora_rank", 1, 4096);
    m->turning = af_bind_u32(b, "rope.dimension_count", 2, 4096);
    m->q_rank = af_bind_u32_or(b, "attention.q_lora_rank", 0, 0, 1u << 16);
    m->q_dim = af_bind_u32_or(b, "attention.key_length_mla", h->k_dim, 1, 4096);
    m->v_dim = af_bind_u32_or(b, "attention.value_length_mla", h->v_dim, 1, 4096);
    if (m->turning >= m->q_dim) {
        af_bind_fail(b, AF_EFORMAT, "deepseek2.rope.dimension_count: found %u, allowed less than the %u of a head",
                     m->turning, m->q_dim);
        m->q_dim = m->turning + 1; /* harmless: nothing is built */
    }
    h->kv_heads = 1;
    h->k_dim = m->rank + m->turning;
    h->v_dim = m->rank;
}

/* What scores are multiplied with: YaRN's share of it is in rope.magnitude where the context was extended past the
 * file's, and in the file's multiplier where the file extends it. */
static float score_scale(af_binder *b, const latent *m, uint16_t rope) {
    const float factor = af_bind_f32_or(b, "rope.scaling.factor", 1.0f);
    const float multiplier = af_bind_f32_or(b, "rope.scaling.yarn_log_multiplier", 0.0f);
    float s = 1.0f;
    if (af_bind_is(b, "rope.scaling.type", "yarn"))
        s = 1.0f + multiplier * logf(factor);
    else if (b->status == AF_OK)
        s = b->plan->ropes[rope].magnitude;
    if (b->status == AF_OK) b->plan->ropes[rope].magnitude = 1.0f;
    return s * s / sqrtf((float)m->q_dim);
}

static void read_experts(af_binder *b, latent *m) {
    af_decoder *d = &m->decoder;
    m->dense = af_bind_u32_or(b, "leading_dense_block_count", 0, 0, d->h.layers);
    if (m->dense == d->h.layers) return;
    af_mixture mix = af_bind_mixture(b, &d->h);
    const uint32_t gating = af_bind_u32_or(b, "expert_gating_func", 0, 0, GATING_SIGMOID);
    const uint32_t shared = af_bind_u32_or(b, "expert_shared_count", 0, 0, 64);
    mix.score = gating == GATING_SIGMOID ? AF_SCORE_SIGMOID : AF_SCORE_SOFTMAX;
    mix.weigh = af_bind_bool_or(b, "expert_weights_norm", false) ? AF_WEIGH_SHARE : AF_WEIGH_PLAIN;
    mix.shared_ff = shared * mix.ff;
    d->layer.ffn.mix = mix;
}

/* ---- Matrices of heads ---- */

/* attn_kv_b's key rows, head by head, as k_b transposed. */
static af_stack transposed_keys(af_binder *b, const latent *m, const af_matrix *kv_b) {
    const uint32_t plain = m->q_dim - m->turning, rank = m->rank, heads = m->decoder.h.heads;
    const size_t of_head = (size_t)rank * plain, row_bytes = af_row_bytes(kv_b->format, rank);
    float *out = af_arena_array(b->plan->arena, of_head * heads, sizeof *out);
    float *row = af_arena_array(b->plan->arena, rank, sizeof *row);
    if (!out || !row) {
        b->status = b->status ? b->status : af_fail_memory(b->error, of_head * heads * sizeof *out, kv_b->name);
        return (af_stack){0};
    }
    const unsigned char *from = kv_b->data;
    for (uint32_t head = 0; head < heads; head++, from += (plain + m->v_dim) * row_bytes)
        for (uint32_t j = 0; j < plain; j++) {
            kv_b->format->decode(from + j * row_bytes, row, rank);
            for (uint32_t i = 0; i < rank; i++) out[head * of_head + (size_t)i * plain + j] = row[i];
        }
    const af_matrix w = {.data = out,
                         .format = af_format_of(AF_TYPE_F32),
                         .rows = rank,
                         .cols = plain,
                         .name = kv_b->name,
                         .held = true};
    return (af_stack){.w = w, .stride = of_head * sizeof *out};
}

/* attn_kv_b's value rows, where they are. */
static af_stack value_rows(const latent *m, const af_matrix *kv_b) {
    const size_t plain = m->q_dim - m->turning, row_bytes = af_row_bytes(kv_b->format, m->rank);
    af_stack values = {.w = *kv_b, .stride = (plain + m->v_dim) * row_bytes};
    values.w.data = (const unsigned char *)kv_b->data + plain * row_bytes;
    values.w.rows = m->v_dim;
    return values;
}

static void bind_heads(af_binder *b, const latent *m, uint32_t i, af_stack *keys, af_stack *values) {
    const uint32_t heads = m->decoder.h.heads, plain = m->q_dim - m->turning;
    *keys = af_bind_stack_if(b, heads, m->rank, plain, "blk.%u.attn_k_b.weight", i);
    if (keys->w.data) {
        *values = af_bind_stack(b, heads, m->v_dim, m->rank, "blk.%u.attn_v_b.weight", i);
        return;
    }
    const af_matrix kv_b = af_bind_matrix(b, heads * (plain + m->v_dim), m->rank, "blk.%u.attn_kv_b.weight", i);
    if (!kv_b.data) return;
    *keys = transposed_keys(b, m, &kv_b);
    *values = value_rows(m, &kv_b);
}

/* ---- Attention ---- */

/* The latent and the turning elements, which the cache takes; and queries, or the latent they come through. */
static void add_projections(af_binder *b, latent *m, uint32_t i, const af_norm *pre) {
    const af_decoder *d = &m->decoder;
    const uint32_t q_rows = d->h.heads * m->q_dim;
    const bool low = m->q_rank > 0;
    af_op_linear l = {.in = d->x, .pre = *pre, .part_count = 2, .residual = AF_NO_VALUE, .scale = 1.0f};
    l.parts[0] = af_decoder_part(b, i, "attn_kv_a_mqa", m->rank + m->turning, d->h.width, d->k);
    l.parts[1] = af_decoder_part(b, i, low ? "attn_q_a" : "attn_q", low ? m->q_rank : q_rows, d->h.width,
                                 low ? m->low : m->heads);
    af_bind_op(b, (int32_t)i, "attn_kv_a", (af_op){.kind = AF_OP_LINEAR, .u.linear = l});
    if (!low) return;
    af_op_linear up = {.in = m->low,
                       .pre = af_bind_rms(b, m->q_rank, d->h.eps, "blk.%u.attn_q_a_norm.weight", i),
                       .part_count = 1,
                       .residual = AF_NO_VALUE,
                       .scale = 1.0f};
    up.parts[0] = af_decoder_part(b, i, "attn_q_b", q_rows, m->q_rank, m->heads);
    af_bind_op(b, (int32_t)i, "attn_q_b", (af_op){.kind = AF_OP_LINEAR, .u.linear = up});
}

static void add_per_head(af_binder *b, const latent *m, uint32_t i, const char *name, af_op_per_head p) {
    p.heads = (uint16_t)m->decoder.h.heads;
    if (b->status == AF_OK) af_bind_op(b, (int32_t)i, name, (af_op){.kind = AF_OP_PER_HEAD, .u.per_head = p});
}

static void add_attention(af_binder *b, latent *m, uint32_t i, const af_attention *a) {
    const af_decoder *d = &m->decoder;
    const uint16_t heads = (uint16_t)d->h.heads,
                   cache = af_bind_shared_cache(b, a->window, m->rank + m->turning, m->rank);
    af_stack keys = {0}, values = {0};
    bind_heads(b, m, i, &keys, &values);
    add_projections(b, m, i, &a->pre);
    add_per_head(b, m, i, "attn_k_b", (af_op_per_head){.in = m->heads, .out = d->q, .kept = m->turning, .w = keys});
    af_bind_op(
        b, (int32_t)i, "attn_rope",
        (af_op){.kind = AF_OP_ROPE_STORE,
                .u.rope_store = {.q = d->q,
                                 .k = d->k,
                                 .v = AF_NO_VALUE,
                                 .heads = heads,
                                 .cache = cache,
                                 .rope = a->rope,
                                 .rope_first = (uint16_t)m->rank,
                                 .k_norm = af_bind_rms(b, m->rank, d->h.eps, "blk.%u.attn_kv_a_norm.weight", i)}});
    af_bind_op(b, (int32_t)i, "attn",
               (af_op){.kind = AF_OP_ATTEND,
                       .u.attend = {.q = d->q, .out = d->attended, .heads = heads, .cache = cache, .scale = a->scale}});
    add_per_head(b, m, i, "attn_v_b", (af_op_per_head){.in = d->attended, .out = m->values, .w = values});
    af_decoder_add_to_stream(b, d, i, "attn_output", m->values, heads * m->v_dim, &a->post, a->share);
}

static void layer(af_binder *b, af_decoder *decoder, uint32_t i) {
    latent *m = (latent *)decoder;
    af_layer l = af_layer_pre_norm(b, decoder, i);
    if (i >= m->dense) l.ffn.shape = AF_FFN_EXPERTS;
    add_attention(b, m, i, &l.attn);
    af_decoder_add_ffn(b, decoder, i, &l.ffn);
}

int af_deepseek2_build(af_binder *b) {
    latent m;
    af_decoder *d = &m.decoder;
    af_decoder_begin(b, AF_NORM_RMS, d);
    read_sizes(b, &m);
    af_decoder_open_values(b, d);
    d->q = af_bind_value(b, d->h.heads * d->h.k_dim);
    m.low = m.q_rank ? af_bind_value(b, m.q_rank) : AF_NO_VALUE;
    m.heads = af_bind_value(b, d->h.heads * m.q_dim);
    m.values = af_bind_value(b, d->h.heads * m.v_dim);
    d->layer.attn.rope = af_bind_rope(b, &d->h, d->h.rope_base, true, true);
    d->layer.attn.scale = score_scale(b, &m, d->layer.attn.rope);
    read_experts(b, &m);
    return af_decoder_build(b, d, layer);
}

/* plan.h - a model's forward pass as data, and the exact meaning of each operation.
 *
 * A family (src/model) reads hyperparameters, binds tensors and appends operations, layer by layer. A backend compiles
 * the plan once and runs it for every batch. What is written here as math is what the CPU backend implements and what
 * every other backend is compared with. There is no second copy of a forward pass anywhere.
 *
 * Values. An operation reads and writes values: f32 arrays of shape (tokens, width), one row for each token of the
 * batch. A plan names a handful of them and reuses them layer after layer: `x` is the residual stream. A value is
 * whatever was last written to it; an operation may write a value it reads only where noted (residual).
 *
 * Operations are fused at the grain both backends want, so that a layer of a dense model is five of them:
 *     linear  { norm, q k v }
 *     rope_store { head norms, rotation, cache }
 *     attend
 *     linear  { o, (norm), + residual }
 *     linear  { norm, gate up, GLU }
 *     linear  { down, (norm), + residual }
 * and in a model of experts the last two are
 *     norm
 *     route   { router, choice, weights }
 *     experts { gate up, GLU, down, + residual }
 *     linear, linear: the shared expert's, where there is one
 *
 * What varies between families is a parameter of an operation here, never a branch on a name in a kernel. A new
 * operation is one enum entry, one struct, one builder, and one function in each backend.
 *
 * Ownership: a plan owns its arena, in which all small arrays (norm weights, biases, frequencies) live; matrices point
 * into the mapped file, which must outlive the plan.
 */
#ifndef AF_PLAN_H
#define AF_PLAN_H

#include "base/arena.h"
#include "base/status.h"
#include "quant/quant.h"

#define AF_PLAN_PARTS  3  /* matrices one linear operation may hold */
#define AF_PLAN_GROUPS 4  /* kinds of cache one plan may hold */
#define AF_KV_PAGE     32 /* tokens in a page of the KV cache */
#define AF_CONV_TAPS   16 /* of a convolution, at the most */

#define AF_PLAN_EXPERTS 1024 /* the most that one may choose from */
#define AF_PLAN_USED    64   /* ... and the most it may choose */

typedef uint16_t af_value;
#define AF_NO_VALUE UINT16_MAX

/* y = norm(v) over the last `width` elements of each row.
 *   RMS:   v / sqrt(mean(v^2) + eps) * weight
 *   LAYER: (v - mean(v)) / sqrt(var(v) + eps) * weight + bias       (var over width, not width - 1)
 * weight or bias NULL: left out. A head norm runs over each head of head_dim elements; `per_head_weight` says that
 * weight has a row for each head instead of one for all. */
typedef enum af_norm_kind { AF_NORM_NONE, AF_NORM_RMS, AF_NORM_LAYER } af_norm_kind;
typedef struct af_norm {
    af_norm_kind kind;
    float eps;
    const float *weight, *bias;
    uint32_t width;
    bool per_head_weight;
} af_norm;

/* Elementwise: SILU v / (1 + exp(-v)); GELU the tanh form 0.5 v (1 + tanh(sqrt(2/pi) (v + 0.044715 v^3)));
 * SIGMOID 1 / (1 + exp(-v)).
 * CLAMPED is defined of both sides of a GLU together, act(a) * b being g / (1 + exp(-1.702 g)) * (u + 1) for
 * g = min(a, 7) and u = b within -7 .. 7. */
typedef enum af_act { AF_ACT_SILU, AF_ACT_GELU, AF_ACT_SIGMOID, AF_ACT_CLAMPED } af_act;
#define AF_CLAMP       7.0f
#define AF_CLAMP_SLOPE 1.702f

/* Rotation of pair i of the first `rotated` elements of each head at position p, by angle p * inv_freq[i]:
 *   (a, b) -> (a cos - b sin, a sin + b cos) * magnitude
 * pairs are (2i, 2i+1) if adjacent, else (i, i + rotated/2). All scalings (linear, YaRN, llama3, longrope) are in
 * inv_freq and magnitude, made once by rope.c from the file's metadata. Elements past `rotated` pass unchanged. */
typedef struct af_rope {
    uint32_t rotated; /* 0: no rotation */
    bool adjacent;
    const float *inv_freq; /* (rotated / 2) */
    float magnitude;       /* of sine and cosine; 1 unless YaRN or longrope say otherwise */
} af_rope;

/* What a layer remembers. Layers of one group share page tables. A window group sees only the last `window` positions,
 * so pages wholly outside may be given back. */
typedef struct af_cache_group {
    uint32_t window; /* 0: everything. Position i sees j if 0 <= i - j < window */
} af_cache_group;
typedef struct af_cache { /* of one layer */
    uint16_t group;
    uint16_t kv_heads;
    uint16_t k_dim, v_dim; /* elements of a head */
    bool shared;           /* a latent: a value is the first v_dim elements of its key, kept once */
} af_cache;

/* What a recurrent layer carries from token to token, its state of a sequence: `floats` numbers, however long the
 * sequence is. They are zeros before position 0 and are changed by every token, in order, so a state belongs to the one
 * position that its sequence has reached: unlike pages it cannot be rewound, and a prefix is not shared by it. */
typedef struct af_carry {
    uint32_t floats;
} af_carry;

typedef enum af_op_kind {
    AF_OP_EMBED,
    AF_OP_NORM,
    AF_OP_LINEAR,
    AF_OP_ROPE_STORE,
    AF_OP_ATTEND,
    AF_OP_HEAD,
    AF_OP_STATE,
    AF_OP_CONV,
    AF_OP_DELTA,
    AF_OP_GATE,
    AF_OP_ROUTE,
    AF_OP_EXPERTS,
    AF_OP_PER_HEAD
} af_op_kind;

/* out[t] = table[token[t]] * scale + positions[position[t]], or + positions[0] for all where there is a single row */
typedef struct af_op_embed {
    af_matrix table; /* (vocabulary, width) */
    float scale;
    const float *positions;  /* (position_count, width) learned ones, or NULL: nothing is added */
    uint32_t position_count; /* unless it is 1, no token stands further on */
    af_value out;
} af_op_embed;

/* out = norm(in) */
typedef struct af_op_norm {
    af_value in, out;
    af_norm norm;
} af_op_norm;

/* h = pre(in)                       (pre.kind NONE: h = in)
 * y_i = W_i h + bias_i              for each part
 * combine NONE: out_i = y_i, each part to its own value; with one part, post and residual may follow:
 *               out = residual + scale * post(y)
 *         ACT:  out = act(y_0)                  one part
 *         GLU:  out = act(y_0) * y_1            two parts of equal rows, parts[0].out is written
 * out may be the same value as residual. */
typedef enum af_combine { AF_COMBINE_NONE, AF_COMBINE_ACT, AF_COMBINE_GLU } af_combine;
typedef struct af_part {
    af_matrix w;
    const float *bias; /* (rows), or NULL */
    af_value out;
} af_part;
typedef struct af_op_linear {
    af_value in;
    af_norm pre;
    uint32_t part_count;
    af_part parts[AF_PLAN_PARTS];
    af_combine combine;
    af_act act;
    af_norm post;
    af_value residual; /* AF_NO_VALUE: none */
    float scale;       /* 1 unless the family says otherwise */
} af_op_linear;

/* Head norms on q and k (kind NONE: none; one narrower than a head norms its first elements), rotation of both, then k
 * and v of every token go to the cache of `cache` at the token's position p; of a shared cache k alone, and v is
 * AF_NO_VALUE. Where q_span > 0, q is last multiplied by 1 + q_growth ln(1 + floor(p / q_span)). q is changed in place;
 * k and v are not needed after. A norm over all heads of q or k together is an operation of its own. Heads of q begin
 * q_pitch elements apart (0: k_dim, one after another); what is between them is left alone. */
typedef struct af_op_rope_store {
    af_value q, k, v;
    uint16_t heads;      /* of q */
    uint16_t cache;      /* index into plan->caches: kv_heads, k_dim, v_dim */
    uint16_t rope;       /* index into plan->ropes */
    uint16_t rope_first; /* element of a head with which its `rotated` ones begin */
    af_norm q_norm, k_norm;
    float q_growth;
    uint32_t q_span; /* positions */
    uint32_t q_pitch;
} af_op_rope_store;

/* For query head h of token t at position i, kv head g = h * kv_heads / heads:
 *   s_j = scale * q.k_j over visible j;  softcap c > 0: s_j = c tanh(s_j / c);  w = softmax(s);  out = sum_j w_j v_j
 * `sinks`, when not NULL, adds one more score for each head to the softmax's sum (and nothing to out). q_pitch is
 * ROPE_STORE's; heads of out stand one after another.
 * Visible are the positions up to i that the cache group's window lets through; with `both` every position of the
 * sequence, later ones too, and no window. A sequence's tokens must then stand in one batch (af_plan.whole). */
typedef struct af_op_attend {
    af_value q, out;
    uint16_t heads, cache;
    float scale, softcap;
    const float *sinks; /* (heads), or NULL */
    bool both;
    uint32_t q_pitch;
} af_op_attend;

/* Only for the tokens whose logits are wanted: logits = cap(scale * (W norm(in) + bias)), cap as in attend. */
typedef struct af_op_head {
    af_value in;
    af_norm norm;
    af_matrix w; /* (vocabulary, width) */
    const float *bias;
    float scale, softcap;
} af_op_head;

/* Only for the tokens whose states are wanted: state = norm(in), of the plan's width. It is what a prompt's embedding
 * is pooled from (engine/pooling.h). A plan ends with it, or with it and a HEAD after it. */
typedef struct af_op_state {
    af_value in;
    af_norm norm;
} af_op_state;

/* Causal convolution of each channel with its own taps, then an activation. The last tap meets the token itself:
 *   out[t] = act(bias + sum over i of weight[i] in[t - (taps - 1) + i])        i = 0 .. taps - 1, elementwise
 * with zeros before the sequence's start. Its state is `in` of the last taps - 1 tokens, (taps - 1, width), the oldest
 * first. */
typedef struct af_op_conv {
    af_value in, out;
    const float *weight; /* (taps, width) */
    const float *bias;   /* (width), or NULL */
    uint32_t taps;       /* 2 .. AF_CONV_TAPS */
    uint16_t carry;      /* index into plan->carries: (taps - 1) * width floats */
    af_act act;
} af_op_conv;

/* The gated delta rule: linear attention whose memory is a matrix S of (k_dim, v_dim) for each value head, zeros at the
 * start. A row of `in` holds the heads of q, then those of k (key_heads, k_dim each), then v (value_heads, v_dim);
 * value head j goes with key head j mod key_heads. For each token in order and each value head:
 *     q, k <- q, k / sqrt(sum of its squares + eps)
 *     q <- q / sqrt(k_dim)
 *     decay = exp(rate[j] ln(1 + exp(step[j] + step_bias[j])))
 *     beta = 1 / (1 + exp(-strength[j]))
 *     S <- decay S
 *     u = beta (v - S^T k)
 *     S <- S + k u^T
 *     out = S^T q
 * in, step and strength are not needed after. Its state is S of all heads.
 * Source: Gated Delta Networks (arXiv 2412.06464). */
typedef struct af_op_delta {
    af_value in, step, strength, out; /* step and strength: (value_heads); out: (value_heads, v_dim) */
    uint16_t key_heads, value_heads, k_dim, v_dim;
    const float *rate, *step_bias; /* (value_heads); rate is negative where memory fades */
    float eps;
    uint16_t carry; /* index into plan->carries: value_heads * k_dim * v_dim floats */
} af_op_delta;

/* v = norm(v) * act(gate) in place, head by head of `dim` elements: norm (kind NONE: none) runs over each. Head h of
 * gate begins at element gate_first + h * gate_pitch of its row. */
typedef struct af_op_gate {
    af_value v, gate;
    uint16_t heads, dim;
    uint32_t gate_first, gate_pitch;
    af_norm norm;
    af_act act;
} af_op_gate;

/* Which experts each token goes to, and how much each counts. r = W in + bias, one number an expert.
 *   score   SOFTMAX softmax(r), SIGMOID 1 / (1 + exp(-r)), RAW r
 *   choice  score + choice_bias
 *   groups > 1: experts stand in so many equal groups, one after another; a group is worth the sum of its two largest
 *           choices, and all but the groups_used of largest worth are left out
 *   chosen  the `used` experts of largest choice
 *   weight  PLAIN the score of each chosen one; SHARE that, divided by the larger of 2^-14 and the chosen ones' sum;
 *           CHOSEN softmax over the scores of the chosen; and then times scale
 * Of equals the lower index is chosen; a NaN counts as the smallest number. `ids` of a token holds its experts in
 * rising order as floats, which they are exactly; `weights` what each counts, in that order. Sums run in that order. */
typedef enum af_score { AF_SCORE_SOFTMAX, AF_SCORE_SIGMOID, AF_SCORE_RAW } af_score;
typedef enum af_weigh { AF_WEIGH_PLAIN, AF_WEIGH_SHARE, AF_WEIGH_CHOSEN } af_weigh;
#define AF_LEAST_SHARE 0x1p-14f
typedef struct af_op_route {
    af_value in;
    af_value ids, weights;    /* both (tokens, used) */
    af_matrix w;              /* (experts, width) */
    const float *bias;        /* (experts), or NULL */
    const float *choice_bias; /* (experts), or NULL */
    af_score score;
    af_weigh weigh;
    float scale;
    uint32_t groups, groups_used; /* groups 0 or 1: all may be chosen */
} af_op_route;

/* Experts' (or heads') matrices of one shape: expert e's begins at w.data + e * stride. */
typedef struct af_stack {
    af_matrix w;       /* expert 0's */
    size_t stride;     /* bytes */
    const float *bias; /* (experts, rows), or NULL */
} af_stack;

static inline af_matrix af_stack_at(const af_stack *stack, uint32_t expert) {
    af_matrix w = stack->w;
    w.data = (const unsigned char *)w.data + expert * stack->stride;
    return w;
}

static inline const float *af_stack_bias(const af_stack *stack, uint32_t expert) { /* (rows), or NULL */
    return stack->bias ? stack->bias + (size_t)expert * stack->w.rows : NULL;
}

/* For the experts e of a token, as ROUTE or another wrote them to ids and weights, in their order:
 *   h_e = act(G_e in + bias) * (U_e in + bias)
 *   out = residual + sum over e of (scale * weight_e) (D_e h_e + bias)
 * out may be the same value as residual, and is not `in`. Only matrices of experts that some token goes to are read. An
 * expert that is shared but has a gate of its own, sigmoid(w in), is a mixture of one: ROUTE with one row, SIGMOID,
 * PLAIN. One without a gate is two LINEARs. */
typedef struct af_op_experts {
    af_value in, ids, weights;
    uint32_t experts;
    af_stack gate, up; /* (hidden, width) each */
    af_stack down;     /* (width, hidden) */
    af_act act;
    af_value residual; /* AF_NO_VALUE: none */
    float scale;
    af_value out;
} af_op_experts;

/* A matrix for each head. Of a token, head h has cols + kept elements in `in`, one head after another, and
 *   out_h = (W_h in_h[0 .. cols), in_h[cols .. cols + kept))
 * So keys of a latent are folded into queries, and values taken out of what attention makes of the latents. */
typedef struct af_op_per_head {
    af_value in, out;
    uint16_t heads;
    uint32_t kept;
    af_stack w; /* of (rows, cols), one for each head; no biases */
} af_op_per_head;

typedef struct af_op {
    af_op_kind kind;
    bool cut;         /* another backend runs what follows (plan_cut.h): nothing is left to the next operation */
    int32_t layer;    /* -1 before the first and after the last */
    const char *name; /* for messages and traces: "blk.3.attn_qkv" */
    union {
        af_op_embed embed;
        af_op_norm norm;
        af_op_linear linear;
        af_op_rope_store rope_store;
        af_op_attend attend;
        af_op_head head;
        af_op_state state;
        af_op_conv conv;
        af_op_delta delta;
        af_op_gate gate;
        af_op_route route;
        af_op_experts experts;
        af_op_per_head per_head;
    } u;
} af_op;

typedef struct af_plan {
    af_arena *arena;
    af_op *ops;
    size_t op_count, op_capacity;
    uint32_t *widths; /* of each value */
    size_t value_count, value_capacity;
    af_cache *caches;
    size_t cache_count, cache_capacity;
    af_cache_group groups[AF_PLAN_GROUPS];
    size_t group_count;
    af_rope *ropes;
    size_t rope_count, rope_capacity;
    af_carry *carries;
    size_t carry_count, carry_capacity;
    uint32_t vocabulary, width, layers;
    uint32_t context;   /* in tokens: the native length, or what YaRN extends it to because the caller asked for more */
    af_pooling pooling; /* how a prompt's states become its embedding; never AF_POOLING_MODEL once a family is built */
    bool whole;         /* all of a sequence runs in one batch: some attention sees both directions */
    bool part;          /* of a cut plan (plan_cut.h): it may have no HEAD */
} af_plan;

#define AF_OP_READS    4 /* values one operation may read */
#define AF_OP_MATRICES AF_PLAN_PARTS

/* Builders. They copy what they are given, assert what a family must get right (widths agree, one HEAD, last), and
 * report what a file can get wrong. On AF_ENOMEM the plan is still closeable. */
int af_plan_open(af_plan **out, af_error *error);
void af_plan_close(af_plan *plan);
int af_plan_value(af_plan *plan, uint32_t width, af_value *out, af_error *error);
int af_plan_rope(af_plan *plan, const af_rope *rope, uint16_t *out, af_error *error);
/* Adds a layer's cache in the group for `window` (0: full), made if there is none yet. */
int af_plan_cache(af_plan *plan, uint32_t window, uint32_t kv_heads, uint32_t k_dim, uint32_t v_dim, uint16_t *out,
                  af_error *error);
/* The same for a shared cache: one kv head. */
int af_plan_shared_cache(af_plan *plan, uint32_t window, uint32_t k_dim, uint32_t v_dim, uint16_t *out,
                         af_error *error);
/* Adds a layer's recurrent state of so many floats. */
int af_plan_carry(af_plan *plan, uint64_t floats, uint16_t *out, af_error *error);
/* Appends an operation; `name` is copied. Checks every shape the operation states against the values it names:
 * AF_EFORMAT with the tensor's name, found and expected. */
int af_plan_append(af_plan *plan, const af_op *op, af_error *error);

const char *af_op_kind_name(af_op_kind kind);
/* The values an operation reads, each once; the values it wrote, as later operations see them; its matrices, but
 * those of EXPERTS, which are stacks. They return how many. */
uint32_t af_op_reads(const af_op *op, af_value out[AF_OP_READS]);
uint32_t af_op_written(const af_op *op, af_value out[AF_PLAN_PARTS]);
/* Whether what a value holds before operation i is read from there on, before it is written again. */
bool af_plan_reads_later(const af_plan *plan, size_t i, af_value value);
uint32_t af_op_matrices(const af_op *op, const af_matrix *out[AF_OP_MATRICES]);

/* The plan's HEAD or STATE; NULL where it has none. A model without a head does not generate;
 * a part of a plan may lack both. */
const af_op_head *af_plan_head(const af_plan *plan);
const af_op_state *af_plan_state(const af_plan *plan);

/* What a key or value of n elements takes in a KV cache: each element's bytes, and those of a scale for every 32 or
 * part of 32. */
typedef struct af_kv_cost {
    uint32_t elem, scale;
} af_kv_cost;
static inline uint64_t af_kv_row_bytes(af_kv_cost cost, uint64_t n) {
    return n * cost.elem + (n + 31) / 32 * cost.scale;
}

/* Bytes that `tokens` positions of one sequence take: of KV cache (window groups need only their window), and of
 * recurrent states, f32. */
uint64_t af_plan_kv_bytes(const af_plan *plan, uint64_t tokens, af_kv_cost cost);

#endif

/* backend_test_model.c - plans of small models with random weights; between them they use every field of every
 * operation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend_test.h"
#include "base/os.h"
#include "temp_file.h"

#include <math.h>
#include <string.h>

const shape llama_like = {.name = "llama-like",
                          .width = 48,
                          .heads = 6,
                          .kv_heads = 2,
                          .k_dim = 16,
                          .v_dim = 16,
                          .hidden = 80,
                          .vocabulary = 100,
                          .layers = 2,
                          .rotated = 16,
                          .adjacent = true,
                          .act = AF_ACT_SILU,
                          .embed_scale = 1,
                          .residual_scale = 1,
                          .head_scale = 1,
                          .magnitude = 1};
static const shape gemma_like = {.name = "gemma-like",
                                 .width = 40,
                                 .heads = 4,
                                 .kv_heads = 1,
                                 .k_dim = 32,
                                 .v_dim = 32,
                                 .hidden = 72,
                                 .vocabulary = 99,
                                 .layers = 3,
                                 .window = 70,
                                 .rotated = 32,
                                 .head_norms = true,
                                 .post_norms = true,
                                 .tied = true,
                                 .act = AF_ACT_GELU,
                                 .softcap = 5,
                                 .head_softcap = 30,
                                 .embed_scale = 6.5f,
                                 .residual_scale = 1,
                                 .head_scale = 1,
                                 .magnitude = 1};
/* Everything odd at once: dimensions that fill no vector, more heads than a tile, unequal k and v. */
static const shape odd = {.name = "odd",
                          .width = 36,
                          .heads = 20,
                          .kv_heads = 1,
                          .k_dim = 10,
                          .v_dim = 7,
                          .hidden = 33,
                          .vocabulary = 61,
                          .layers = 2,
                          .window = 33,
                          .rotated = 6,
                          .layer_norm = true,
                          .biases = true,
                          .sinks = true,
                          .plain_act = true,
                          .act = AF_ACT_GELU,
                          .embed_scale = 1,
                          .residual_scale = 0.5f,
                          .head_scale = 0.25f,
                          .magnitude = 1.2f};
static const shape quantized = {.name = "quantized",
                                .width = 64,
                                .heads = 4,
                                .kv_heads = 2,
                                .k_dim = 32,
                                .v_dim = 32,
                                .hidden = 96,
                                .vocabulary = 120,
                                .layers = 2,
                                .rotated = 32,
                                .quantized = true,
                                .act = AF_ACT_SILU,
                                .embed_scale = 1,
                                .residual_scale = 1,
                                .head_scale = 1,
                                .magnitude = 1};
static const shape quantized_plain = {.name = "quantized, plain",
                                      .width = 64,
                                      .heads = 4,
                                      .kv_heads = 4,
                                      .k_dim = 16,
                                      .v_dim = 16,
                                      .hidden = 96,
                                      .vocabulary = 112,
                                      .layers = 2,
                                      .rotated = 8,
                                      .layer_norm = true,
                                      .biases = true,
                                      .plain_act = true,
                                      .quantized = true,
                                      .act = AF_ACT_GELU,
                                      .embed_scale = 1,
                                      .residual_scale = 1,
                                      .head_scale = 1,
                                      .magnitude = 1};
static const shape hybrid = {.name = "hybrid",
                             .width = 44,
                             .heads = 4,
                             .kv_heads = 2,
                             .k_dim = 24,
                             .v_dim = 24,
                             .hidden = 56,
                             .vocabulary = 90,
                             .layers = 4,
                             .rotated = 8,
                             .head_norms = true,
                             .recurrent = true,
                             .act = AF_ACT_SILU,
                             .embed_scale = 1,
                             .residual_scale = 1,
                             .head_scale = 1,
                             .magnitude = 1};
const shape *const shapes[SHAPES] = {&llama_like, &gemma_like, &odd, &hybrid, &quantized_plain, &quantized};

static uint64_t random_state;
static size_t blocks_taken;

void random_seed(uint32_t seed) {
    random_state = seed;
}

float random_float(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (float)((int64_t)(random_state >> 33) - (1 << 30)) / (float)(1 << 30);
}

float *random_floats(af_plan *plan, size_t n, float center, float spread) {
    float *p = af_arena_array(plan->arena, n, sizeof *p);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++) p[i] = center + spread * random_float();
    return p;
}

/* Blocks of Q8_0 (a half float and 32 bytes) in a file of their own: the backend lets go of pages it has packed, which
 * only a mapped file survives. Matrices are slices of it. */
#define FILE_BLOCKS 16384

static const unsigned char *mapped_blocks(size_t blocks) {
    static af_mapping mapping;
    if (!mapping.p) {
        static unsigned char bytes[FILE_BLOCKS][34];
        for (size_t i = 0; i < FILE_BLOCKS; i++) {
            const uint16_t d = af_f32_to_f16(0.0015f + 0.0005f * random_float());
            memcpy(bytes[i], &d, sizeof d);
            for (int j = 2; j < 34; j++) bytes[i][j] = (unsigned char)(int)(127 * random_float());
        }
        assert_int_equal(af_os_map_file(temp_write("blocks", bytes, sizeof bytes), &mapping, NULL), 0);
    }
    const unsigned char *p = mapping.p + blocks_taken * 34;
    blocks_taken += blocks;
    assert_true(blocks_taken <= FILE_BLOCKS);
    return p;
}

static af_matrix random_matrix(af_plan *plan, const shape *s, uint32_t rows, uint32_t cols) {
    if (s->quantized)
        return (af_matrix){.data = mapped_blocks((size_t)rows * cols / 32),
                           .format = af_format_of(AF_TYPE_Q8_0),
                           .rows = rows,
                           .cols = cols,
                           .name = "random"};
    const float spread = 1.7f / sqrtf((float)cols);
    return (af_matrix){.data = random_floats(plan, (size_t)rows * cols, 0, spread),
                       .format = af_format_of(AF_TYPE_F32),
                       .rows = rows,
                       .cols = cols,
                       .name = "random"};
}

af_norm random_norm(af_plan *plan, const shape *s, uint32_t width) {
    af_norm norm = {.kind = AF_NORM_RMS, .eps = 1e-5f, .weight = random_floats(plan, width, 1, 0.3f), .width = width};
    if (s->layer_norm) {
        norm.kind = AF_NORM_LAYER;
        norm.bias = random_floats(plan, width, 0, 0.2f);
    }
    return norm;
}

static const float *random_bias(af_plan *plan, const shape *s, uint32_t rows) {
    return s->biases ? random_floats(plan, rows, 0, 0.2f) : NULL;
}

void append_op(af_plan *plan, const af_op *op) {
    af_error error;
    if (af_plan_append(plan, op, &error)) fail_msg("%s", error.text);
}

af_value new_value(af_plan *plan, uint32_t width) {
    af_value value = 0;
    assert_int_equal(af_plan_value(plan, width, &value, NULL), 0);
    return value;
}

af_part random_part(af_plan *plan, const shape *s, uint32_t rows, uint32_t cols, af_value out) {
    return (af_part){.w = random_matrix(plan, s, rows, cols), .bias = random_bias(plan, s, rows), .out = out};
}

typedef struct values {
    af_value x, q, k, v, o, h;
} values;

static void append_attention(af_plan *plan, const shape *s, const values *at, uint32_t layer) {
    uint16_t cache, rope;
    const uint32_t q_pitch = s->recurrent ? 2 * s->k_dim : 0;
    const uint32_t q_width = s->heads * (q_pitch ? q_pitch : s->k_dim), k_width = s->kv_heads * s->k_dim,
                   v_width = s->kv_heads * s->v_dim;
    assert_int_equal(af_plan_cache(plan, layer % 2 ? s->window : 0, s->kv_heads, s->k_dim, s->v_dim, &cache, NULL), 0);
    float *inv_freq = random_floats(plan, s->rotated / 2, 0.5f, 0.5f);
    const af_rope spec = {s->rotated, s->adjacent, inv_freq, s->magnitude};
    assert_int_equal(af_plan_rope(plan, &spec, &rope, NULL), 0);
    append_op(plan, &(af_op){.kind = AF_OP_LINEAR,
                             .name = "qkv",
                             .u.linear = {.in = at->x,
                                          .pre = random_norm(plan, s, s->width),
                                          .part_count = 3,
                                          .parts = {random_part(plan, s, q_width, s->width, at->q),
                                                    random_part(plan, s, k_width, s->width, at->k),
                                                    random_part(plan, s, v_width, s->width, at->v)},
                                          .residual = AF_NO_VALUE,
                                          .scale = 1}});
    af_op store = {.kind = AF_OP_ROPE_STORE,
                   .name = "rope",
                   .u.rope_store = {.q = at->q,
                                    .k = at->k,
                                    .v = at->v,
                                    .heads = (uint16_t)s->heads,
                                    .cache = cache,
                                    .rope = rope,
                                    .q_pitch = q_pitch}};
    if (s->head_norms) {
        store.u.rope_store.q_norm = random_norm(plan, s, s->k_dim);
        store.u.rope_store.k_norm = (af_norm){.kind = AF_NORM_RMS,
                                              .eps = 1e-6f,
                                              .weight = random_floats(plan, k_width, 1, 0.3f),
                                              .width = s->k_dim,
                                              .per_head_weight = true};
    }
    append_op(plan, &store);
    append_op(plan, &(af_op){.kind = AF_OP_ATTEND,
                             .name = "attend",
                             .u.attend = {.q = at->q,
                                          .out = at->o,
                                          .heads = (uint16_t)s->heads,
                                          .cache = cache,
                                          .scale = 1 / sqrtf((float)s->k_dim),
                                          .softcap = s->softcap,
                                          .sinks = s->sinks ? random_floats(plan, s->heads, 0, 1) : NULL,
                                          .q_pitch = q_pitch}});
    if (q_pitch)
        append_op(plan, &(af_op){.kind = AF_OP_GATE,
                                 .name = "gate",
                                 .u.gate = {.v = at->o,
                                            .gate = at->q,
                                            .heads = (uint16_t)s->heads,
                                            .dim = (uint16_t)s->v_dim,
                                            .gate_first = s->k_dim,
                                            .gate_pitch = q_pitch,
                                            .act = AF_ACT_SIGMOID}});
}

static void append_linear_to_x(af_plan *plan, const shape *s, const values *at, af_value in, uint32_t width) {
    af_op op = {.kind = AF_OP_LINEAR,
                .name = "to x",
                .u.linear = {.in = in,
                             .part_count = 1,
                             .parts = {random_part(plan, s, s->width, width, at->x)},
                             .residual = at->x,
                             .scale = s->residual_scale}};
    if (s->post_norms) op.u.linear.post = random_norm(plan, s, s->width);
    append_op(plan, &op);
}

static void append_hidden(af_plan *plan, const shape *s, const values *at) {
    af_op op = {.kind = AF_OP_LINEAR,
                .name = "hidden",
                .u.linear = {.in = at->x,
                             .pre = random_norm(plan, s, s->width),
                             .part_count = s->plain_act ? 1 : 2,
                             .combine = s->plain_act ? AF_COMBINE_ACT : AF_COMBINE_GLU,
                             .act = s->act,
                             .residual = AF_NO_VALUE,
                             .scale = 1}};
    for (uint32_t i = 0; i < op.u.linear.part_count; i++)
        op.u.linear.parts[i] = random_part(plan, s, s->hidden, s->width, at->h);
    append_op(plan, &op);
}

af_plan *make_plan(const shape *s) {
    af_plan *plan = NULL;
    if (s->quantized) mapped_blocks(0); /* so that it draws no numbers later */
    random_seed(42);
    blocks_taken = 0;
    assert_int_equal(af_plan_open(&plan, NULL), 0);
    plan->vocabulary = s->vocabulary;
    plan->layers = s->layers;
    const values at = {new_value(plan, s->width),
                       new_value(plan, s->heads * s->k_dim * (s->recurrent ? 2 : 1)),
                       new_value(plan, s->kv_heads * s->k_dim),
                       new_value(plan, s->kv_heads * s->v_dim),
                       new_value(plan, s->heads * s->v_dim),
                       new_value(plan, s->hidden)};
    const af_matrix table = random_matrix(plan, s, s->vocabulary, s->width);
    append_op(plan, &(af_op){.kind = AF_OP_EMBED,
                             .layer = -1,
                             .name = "embed",
                             .u.embed = {.table = table, .scale = s->embed_scale, .out = at.x}});
    for (uint32_t layer = 0; layer < s->layers; layer++) {
        const size_t first = plan->op_count;
        af_value attended = at.o;
        if (s->recurrent && layer % 2 == 0)
            attended = append_recurrence(plan, s, at.x);
        else
            append_attention(plan, s, &at, layer);
        append_linear_to_x(plan, s, &at, attended, plan->widths[attended]);
        append_hidden(plan, s, &at);
        append_linear_to_x(plan, s, &at, at.h, s->hidden);
        for (size_t i = first; i < plan->op_count; i++) plan->ops[i].layer = (int32_t)layer;
    }
    append_op(plan, &(af_op){.kind = AF_OP_HEAD,
                             .layer = -1,
                             .name = "head",
                             .u.head = {.in = at.x,
                                        .norm = random_norm(plan, s, s->width),
                                        .w = s->tied ? table : random_matrix(plan, s, s->vocabulary, s->width),
                                        .bias = random_bias(plan, s, s->vocabulary),
                                        .scale = s->head_scale,
                                        .softcap = s->head_softcap}});
    return plan;
}

/* plan_test.c - a plan holds what it is given, and refuses shapes that do not agree. */
#include "plan/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { WIDTH = 64, HEADS = 4, KV_HEADS = 2, K_DIM = 16, V_DIM = 8, HIDDEN = 96, VOCABULARY = 50 };

/* A plan of the usual values, one rotation and one cache. */
typedef struct fixture {
    af_plan *plan;
    af_value x, q, k, v, attended, hidden;
    uint16_t rope, cache;
} fixture;

static const float numbers[1];

static int setup(void **state) {
    static fixture f;
    const af_rope rope = {.rotated = K_DIM, .inv_freq = numbers, .magnitude = 1};
    assert_int_equal(af_plan_open(&f.plan, NULL), 0);
    f.plan->vocabulary = VOCABULARY;
    assert_int_equal(af_plan_value(f.plan, WIDTH, &f.x, NULL), 0);
    assert_int_equal(af_plan_value(f.plan, HEADS * K_DIM, &f.q, NULL), 0);
    assert_int_equal(af_plan_value(f.plan, KV_HEADS * K_DIM, &f.k, NULL), 0);
    assert_int_equal(af_plan_value(f.plan, KV_HEADS * V_DIM, &f.v, NULL), 0);
    assert_int_equal(af_plan_value(f.plan, HEADS * V_DIM, &f.attended, NULL), 0);
    assert_int_equal(af_plan_value(f.plan, HIDDEN, &f.hidden, NULL), 0);
    assert_int_equal(af_plan_rope(f.plan, &rope, &f.rope, NULL), 0);
    assert_int_equal(af_plan_cache(f.plan, 0, KV_HEADS, K_DIM, V_DIM, &f.cache, NULL), 0);
    *state = &f;
    return 0;
}

static int teardown(void **state) {
    af_plan_close(((fixture *)*state)->plan);
    return 0;
}

static af_matrix matrix(const char *name, uint32_t rows, uint32_t cols) {
    return (af_matrix){.data = numbers, .format = af_format_of(AF_TYPE_F32), .rows = rows, .cols = cols, .name = name};
}

static af_norm rms(uint32_t width) {
    return (af_norm){.kind = AF_NORM_RMS, .eps = 1e-5f, .weight = numbers, .width = width};
}

static void accepted(const fixture *f, const af_op *op) {
    af_error error = {0};
    size_t before = f->plan->op_count;
    if (af_plan_append(f->plan, op, &error)) fail_msg("%s", error.text);
    assert_int_equal(f->plan->op_count, before + 1);
}

static void refused(const fixture *f, const af_op *op, const char *expected) {
    af_error error = {0};
    size_t before = f->plan->op_count;
    assert_int_equal(af_plan_append(f->plan, op, &error), AF_EFORMAT);
    assert_string_equal(error.text, expected);
    assert_int_equal(f->plan->op_count, before);
}

static af_op embed(const fixture *f) {
    return (af_op){.kind = AF_OP_EMBED,
                   .layer = -1,
                   .name = "embed",
                   .u.embed = {.table = matrix("token_embd.weight", VOCABULARY, WIDTH), .scale = 1, .out = f->x}};
}

static af_op qkv(const fixture *f) {
    af_op op = {.kind = AF_OP_LINEAR,
                .name = "blk.0.qkv",
                .u.linear = {.in = f->x, .pre = rms(WIDTH), .part_count = 3, .post = {0}, .residual = AF_NO_VALUE}};
    op.u.linear.parts[0] = (af_part){.w = matrix("blk.0.attn_q.weight", HEADS * K_DIM, WIDTH), .out = f->q};
    op.u.linear.parts[1] = (af_part){.w = matrix("blk.0.attn_k.weight", KV_HEADS * K_DIM, WIDTH), .out = f->k};
    op.u.linear.parts[2] = (af_part){.w = matrix("blk.0.attn_v.weight", KV_HEADS * V_DIM, WIDTH), .out = f->v};
    return op;
}

static af_op rope_store(const fixture *f) {
    return (af_op){.kind = AF_OP_ROPE_STORE,
                   .name = "blk.0.rope",
                   .u.rope_store = {.q = f->q,
                                    .k = f->k,
                                    .v = f->v,
                                    .heads = HEADS,
                                    .cache = f->cache,
                                    .rope = f->rope,
                                    .q_norm = rms(K_DIM),
                                    .k_norm = rms(K_DIM)}};
}

static af_op attend(const fixture *f) {
    return (af_op){.kind = AF_OP_ATTEND,
                   .name = "blk.0.attend",
                   .u.attend = {.q = f->q, .out = f->attended, .heads = HEADS, .cache = f->cache, .scale = 1}};
}

static af_op output(const fixture *f) {
    af_op op = {.kind = AF_OP_LINEAR,
                .name = "blk.0.output",
                .u.linear = {.in = f->attended, .part_count = 1, .post = rms(WIDTH), .residual = f->x, .scale = 1}};
    op.u.linear.parts[0] = (af_part){.w = matrix("blk.0.attn_output.weight", WIDTH, HEADS * V_DIM), .out = f->x};
    return op;
}

static af_op glu(const fixture *f) {
    af_op op = {.kind = AF_OP_LINEAR,
                .name = "blk.0.ffn",
                .u.linear = {.in = f->x, .part_count = 2, .combine = AF_COMBINE_GLU, .residual = AF_NO_VALUE}};
    op.u.linear.parts[0] = (af_part){.w = matrix("blk.0.ffn_gate.weight", HIDDEN, WIDTH), .out = f->hidden};
    op.u.linear.parts[1] = (af_part){.w = matrix("blk.0.ffn_up.weight", HIDDEN, WIDTH)};
    return op;
}

static af_op head(const fixture *f) {
    return (af_op){
        .kind = AF_OP_HEAD,
        .layer = -1,
        .name = "head",
        .u.head = {.in = f->x, .norm = rms(WIDTH), .w = matrix("output.weight", VOCABULARY, WIDTH), .scale = 1}};
}

static void a_dense_layer_is_five_operations_between_embed_and_head(void **state) {
    const fixture *f = *state;
    const af_op ops[] = {embed(f), qkv(f), rope_store(f), attend(f), output(f), glu(f), head(f)};
    for (size_t i = 0; i < 7; i++) accepted(f, &ops[i]);
    assert_int_equal(f->plan->op_count, 7);
    assert_int_equal(f->plan->ops[3].kind, AF_OP_ATTEND);
    assert_string_equal(f->plan->ops[3].name, "blk.0.attend");
    assert_ptr_not_equal(f->plan->ops[3].name, ops[3].name);
}

static void a_plan_grows_as_long_as_it_must(void **state) {
    const fixture *f = *state;
    af_op op = glu(f);
    for (int i = 0; i < 1000; i++) {
        op.layer = i;
        accepted(f, &op);
    }
    for (int i = 0; i < 1000; i++) assert_int_equal(f->plan->ops[i].layer, i);
}

static void matrices_must_fit_what_they_read_and_write(void **state) {
    const fixture *f = *state;
    af_op op = qkv(f);
    op.u.linear.parts[1].w.cols = 63;
    refused(f, &op, "blk.0.attn_k.weight: number of columns is 63, expected 64");
    op = qkv(f);
    op.u.linear.parts[2].w.rows = 17;
    refused(f, &op, "blk.0.attn_v.weight: number of rows is 17, expected 16");
    op = glu(f);
    op.u.linear.parts[1].w.rows = HIDDEN - 1;
    refused(f, &op, "blk.0.ffn_up.weight: number of rows is 95, expected 96");
    op = embed(f);
    op.u.embed.table.rows = 49;
    refused(f, &op, "token_embd.weight: number of rows is 49, expected 50");
    op = head(f);
    op.u.head.w.cols = 32;
    refused(f, &op, "output.weight: number of columns is 32, expected 64");
    op = head(f);
    op.u.head.w.data = NULL;
    refused(f, &op, "output.weight: has no matrix");
}

static void norms_must_fit_what_they_run_over(void **state) {
    const fixture *f = *state;
    af_op op = qkv(f);
    op.u.linear.pre.width = 32;
    refused(f, &op, "blk.0.qkv: width of its norm is 32, expected 64");
    op = output(f);
    op.u.linear.post.width = 32;
    refused(f, &op, "blk.0.output: width of the norm after it is 32, expected 64");
    op = rope_store(f);
    op.u.rope_store.k_norm.width = HEADS * K_DIM;
    refused(f, &op, "blk.0.rope: width of the norm of k is 64, expected 16");
    op = head(f);
    op.u.head.norm.width = 1;
    refused(f, &op, "head: width of its norm is 1, expected 64");
}

static void heads_must_fit_the_cache(void **state) {
    const fixture *f = *state;
    af_op op = attend(f);
    op.u.attend.heads = 3;
    refused(f, &op, "blk.0.attend: 3 query heads, expected a multiple of its 2 key and value heads");
    op = attend(f);
    op.u.attend.heads = 8;
    refused(f, &op, "blk.0.attend: width of q is 64, expected 128");
    op = attend(f);
    op.u.attend.out = f->x;
    refused(f, &op, "blk.0.attend: width of its result is 64, expected 32");
    op = rope_store(f);
    op.u.rope_store.v = f->k;
    refused(f, &op, "blk.0.rope: width of v is 32, expected 16");
    const af_rope wide = {.rotated = 2 * K_DIM, .inv_freq = numbers, .magnitude = 1};
    op = rope_store(f);
    assert_int_equal(af_plan_rope(f->plan, &wide, &op.u.rope_store.rope, NULL), 0);
    refused(f, &op, "blk.0.rope: rotates 32 elements of each head, allowed 16");
}

static void residuals_must_have_the_results_width(void **state) {
    const fixture *f = *state;
    af_op op = output(f);
    op.u.linear.residual = f->hidden;
    refused(f, &op, "blk.0.output: width of the residual is 96, expected 64");
}

static void layers_of_one_window_share_a_group(void **state) {
    const fixture *f = *state;
    uint16_t cache;
    assert_int_equal(af_plan_cache(f->plan, 512, 1, 8, 8, &cache, NULL), 0);
    assert_int_equal(af_plan_cache(f->plan, 0, 1, 8, 8, &cache, NULL), 0);
    assert_int_equal(af_plan_cache(f->plan, 512, 1, 8, 8, &cache, NULL), 0);
    assert_int_equal(cache, 3);
    assert_int_equal(f->plan->group_count, 2);
    assert_int_equal(f->plan->caches[1].group, 1);
    assert_int_equal(f->plan->caches[2].group, 0);
    assert_int_equal(f->plan->caches[3].group, 1);
    assert_int_equal(f->plan->groups[1].window, 512);
}

static void windows_of_too_many_kinds_are_refused(void **state) {
    const fixture *f = *state;
    uint16_t cache;
    af_error error;
    for (uint32_t window = 1; window < AF_PLAN_GROUPS; window++)
        assert_int_equal(af_plan_cache(f->plan, window, 1, 8, 8, &cache, &error), 0);
    assert_int_equal(af_plan_cache(f->plan, 99, 1, 8, 8, &cache, &error), AF_EUNSUPPORTED);
    assert_string_equal(error.text, "attention windows: more than 4 different ones (another is 99)");
}

static void cache_sizes_are_bounded(void **state) {
    const fixture *f = *state;
    uint16_t cache;
    af_error error;
    assert_int_equal(af_plan_cache(f->plan, 0, 65536, 8, 8, &cache, &error), AF_EFORMAT);
    assert_string_equal(error.text, "key and value heads: 65536, allowed 1 to 65535");
    assert_int_equal(af_plan_cache(f->plan, 0, 1, 0, 8, &cache, &error), AF_EFORMAT);
    assert_string_equal(error.text, "elements of a key head: 0, allowed 1 to 65535");
}

static void kv_bytes_count_windows_only_as_far_as_they_reach(void **state) {
    const fixture *f = *state;
    uint16_t cache;
    const af_kv_cost f16 = {.elem = 2};
    uint64_t full = KV_HEADS * (K_DIM + V_DIM) * 2;
    assert_int_equal(af_plan_kv_bytes(f->plan, 1000, f16), 1000 * full);
    assert_int_equal(af_plan_cache(f->plan, 100, 1, 8, 8, &cache, NULL), 0);
    assert_int_equal(af_plan_kv_bytes(f->plan, 1000, f16), 1000 * full + 100 * 32);
    assert_int_equal(af_plan_kv_bytes(f->plan, 10, f16), 10 * full + 10 * 32);
    assert_int_equal(af_plan_kv_bytes(f->plan, UINT64_MAX, f16), UINT64_MAX);
}

static void kv_bytes_count_recurrent_states_once_for_a_sequence(void **state) {
    const fixture *f = *state;
    uint16_t carry;
    af_error error;
    const af_kv_cost f16 = {.elem = 2};
    const uint64_t before = af_plan_kv_bytes(f->plan, 10, f16);
    assert_int_equal(af_plan_carry(f->plan, 1000, &carry, NULL), 0);
    assert_int_equal(af_plan_kv_bytes(f->plan, 10, f16), before + 4000);
    assert_int_equal(af_plan_kv_bytes(f->plan, 0, f16), 4000);
    assert_int_equal(af_plan_carry(f->plan, 1ull << 32, &carry, &error), AF_EFORMAT);
    assert_string_equal(error.text, "a layer's recurrent state: 4294967296 numbers, allowed 1 to 4294967295");
}

static void a_recurrence_with_shapes_that_disagree_is_refused(void **state) {
    const fixture *f = *state;
    enum { KEYS = 2, VALUES = 4, DIM = 8, MIXED = (2 * KEYS + VALUES) * DIM };
    af_value raw, mixed, step, strength, out;
    uint16_t taps, matrix;
    assert_int_equal(af_plan_value(f->plan, MIXED, &raw, NULL), 0);
    assert_int_equal(af_plan_value(f->plan, MIXED, &mixed, NULL), 0);
    assert_int_equal(af_plan_value(f->plan, VALUES, &step, NULL), 0);
    assert_int_equal(af_plan_value(f->plan, VALUES, &strength, NULL), 0);
    assert_int_equal(af_plan_value(f->plan, VALUES * DIM, &out, NULL), 0);
    assert_int_equal(af_plan_carry(f->plan, 3 * MIXED, &taps, NULL), 0);
    assert_int_equal(af_plan_carry(f->plan, VALUES * DIM * DIM, &matrix, NULL), 0);
    af_op conv = {.kind = AF_OP_CONV,
                  .name = "conv",
                  .u.conv = {.in = raw, .out = mixed, .weight = numbers, .taps = 4, .carry = taps}};
    accepted(f, &conv);
    conv.u.conv.out = out;
    refused(f, &conv, "conv: width of its result is 32, expected 64");
    af_op delta = {.kind = AF_OP_DELTA,
                   .name = "delta",
                   .u.delta = {.in = mixed,
                               .step = step,
                               .strength = strength,
                               .out = out,
                               .key_heads = KEYS,
                               .value_heads = VALUES,
                               .k_dim = DIM,
                               .v_dim = DIM,
                               .rate = numbers,
                               .step_bias = numbers,
                               .carry = matrix}};
    accepted(f, &delta);
    delta.u.delta.step = out;
    refused(f, &delta, "delta: width of its steps is 32, expected 4");
    delta.u.delta.key_heads = 3;
    refused(f, &delta, "delta: 4 value heads, expected a multiple of its 3 key heads");
    af_op gate = {.kind = AF_OP_GATE,
                  .name = "gate",
                  .u.gate = {.v = out, .gate = mixed, .heads = VALUES, .dim = DIM, .gate_pitch = 2 * DIM}};
    accepted(f, &gate);
    gate.u.gate.norm = rms(DIM + 1);
    refused(f, &gate, "gate: width of its norm is 9, expected 8");
}

static void kv_bytes_count_scales_and_what_is_kept_once(void **state) {
    const fixture *f = *state;
    uint16_t cache;
    const af_kv_cost q8_0 = {.elem = 1, .scale = 2};
    const uint64_t before = af_plan_kv_bytes(f->plan, 10, q8_0);
    assert_int_equal(af_plan_cache(f->plan, 0, 3, 64, 40, &cache, NULL), 0); /* two scales each, the last for 8 */
    assert_int_equal(af_plan_kv_bytes(f->plan, 10, q8_0) - before, 10 * 3 * (64 + 4 + 40 + 4));
    assert_int_equal(af_plan_shared_cache(f->plan, 0, 96, 64, &cache, NULL), 0);
    assert_int_equal(af_plan_kv_bytes(f->plan, 10, q8_0) - before, 10 * (3 * (64 + 4 + 40 + 4) + 96 + 6));
    af_error error;
    assert_int_equal(af_plan_shared_cache(f->plan, 0, 64, 96, &cache, &error), AF_EFORMAT);
    assert_string_equal(error.text, "elements of a value that its key holds: 96, allowed 64");
}

static void operations_have_names(void **state) {
    assert_string_equal(af_op_kind_name(AF_OP_EMBED), "embed");
    assert_string_equal(af_op_kind_name(AF_OP_ROPE_STORE), "rope_store");
    assert_string_equal(af_op_kind_name(AF_OP_HEAD), "head");
}

static void a_value_of_no_width_is_refused(void **state) {
    const fixture *f = *state;
    af_value value;
    assert_int_equal(af_plan_value(f->plan, 0, &value, NULL), AF_EFORMAT);
    af_plan_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_dense_layer_is_five_operations_between_embed_and_head, setup, teardown),
        cmocka_unit_test_setup_teardown(a_plan_grows_as_long_as_it_must, setup, teardown),
        cmocka_unit_test_setup_teardown(matrices_must_fit_what_they_read_and_write, setup, teardown),
        cmocka_unit_test_setup_teardown(norms_must_fit_what_they_run_over, setup, teardown),
        cmocka_unit_test_setup_teardown(heads_must_fit_the_cache, setup, teardown),
        cmocka_unit_test_setup_teardown(residuals_must_have_the_results_width, setup, teardown),
        cmocka_unit_test_setup_teardown(layers_of_one_window_share_a_group, setup, teardown),
        cmocka_unit_test_setup_teardown(windows_of_too_many_kinds_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(cache_sizes_are_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(kv_bytes_count_windows_only_as_far_as_they_reach, setup, teardown),
        cmocka_unit_test_setup_teardown(kv_bytes_count_recurrent_states_once_for_a_sequence, setup, teardown),
        cmocka_unit_test_setup_teardown(a_recurrence_with_shapes_that_disagree_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(kv_bytes_count_scales_and_what_is_kept_once, setup, teardown),
        cmocka_unit_test_setup_teardown(operations_have_names, setup, teardown),
        cmocka_unit_test_setup_teardown(a_value_of_no_width_is_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* model_test.c - families turn a file into the plan its metadata describes, and refuse by name what does not fit. */
#include "gguf_writer.h"
#include "model/model.h"
#include "temp_file.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { LAYERS = 7, WIDTH = 32, HEADS = 4, KV_HEADS = 2, HEAD = 8, HIDDEN = 48, VOCABULARY = 10, WINDOW = 16 };

/* ---- A small model's file, with one thing changed ---- */

typedef struct number {
    const char *key; /* without the architecture */
    uint32_t value;
} number;

typedef struct change {
    const char *without;      /* a tensor or key to leave out */
    const char *misshapen;    /* a tensor that gets a row (or element) more */
    number set;               /* a key's other value, or a key more */
    const char *architecture; /* another name under general.architecture */
    bool tied;                /* no output.weight */
    float rope_factor;        /* a key more, with its type; 0: none */
    const char *rope_type;
    float divisor; /* rope_freqs.weight, all of it; 0: none */
} change;

typedef struct writer {
    const change *with;
    const char *architecture;
    af_buf keys, tensors;
    uint64_t key_count, tensor_count, bytes;
} writer;

static bool is(const char *a, const char *b) {
    return a && strcmp(a, b) == 0;
}

static void number_key(writer *w, const char *key, uint32_t value) {
    char name[128];
    if (is(w->with->without, key)) return;
    snprintf(name, sizeof name, "%s.%s", w->architecture, key);
    put_kv_u32(&w->keys, name, is(w->with->set.key, key) ? w->with->set.value : value);
    w->key_count++;
}

static void float_key(writer *w, const char *key, float value) {
    char name[128];
    snprintf(name, sizeof name, "%s.%s", w->architecture, key);
    put_scalar(&w->keys, name, AF_GGUF_F32, &value, sizeof value);
    w->key_count++;
}

static void text_key(writer *w, const char *name, const char *value) {
    put_kv_string(&w->keys, name, value);
    w->key_count++;
}

static void tensor(writer *w, const char *name, uint64_t cols, uint64_t rows) {
    if (is(w->with->without, name)) return;
    if (is(w->with->misshapen, name)) *(rows ? &rows : &cols) += 1;
    put_tensor(&w->tensors, name, AF_TYPE_F32, cols, rows, w->bytes);
    w->bytes += (cols * (rows ? rows : 1) * sizeof(float) + 31) / 32 * 32;
    w->tensor_count++;
}

static void layer_tensor(writer *w, uint32_t layer, const char *part, uint64_t cols, uint64_t rows) {
    char name[128];
    snprintf(name, sizeof name, "blk.%u.%s.weight", layer, part);
    tensor(w, name, cols, rows);
}

static void layer_tensors(writer *w, uint32_t i) {
    layer_tensor(w, i, "attn_norm", WIDTH, 0);
    layer_tensor(w, i, "attn_q", WIDTH, HEADS * HEAD);
    layer_tensor(w, i, "attn_k", WIDTH, KV_HEADS * HEAD);
    layer_tensor(w, i, "attn_v", WIDTH, KV_HEADS * HEAD);
    layer_tensor(w, i, "attn_output", HEADS * HEAD, WIDTH);
    layer_tensor(w, i, "ffn_norm", WIDTH, 0);
    layer_tensor(w, i, "ffn_gate", WIDTH, HIDDEN);
    layer_tensor(w, i, "ffn_up", WIDTH, HIDDEN);
    layer_tensor(w, i, "ffn_down", HIDDEN, WIDTH);
    if (!is(w->architecture, "gemma3")) return;
    layer_tensor(w, i, "attn_q_norm", HEAD, 0);
    layer_tensor(w, i, "attn_k_norm", HEAD, 0);
    layer_tensor(w, i, "post_attention_norm", WIDTH, 0);
    layer_tensor(w, i, "post_ffw_norm", WIDTH, 0);
}

static void write_keys(writer *w) {
    const change *with = w->with;
    text_key(w, "general.architecture", with->architecture ? with->architecture : w->architecture);
    number_key(w, "block_count", LAYERS);
    number_key(w, "embedding_length", WIDTH);
    number_key(w, "context_length", 128);
    number_key(w, "feed_forward_length", HIDDEN);
    number_key(w, "attention.head_count", HEADS);
    number_key(w, "attention.head_count_kv", KV_HEADS);
    number_key(w, "attention.key_length", HEAD);
    number_key(w, "rope.dimension_count", HEAD);
    number_key(w, "attention.sliding_window", WINDOW);
    if (is(with->set.key, "expert_count")) number_key(w, "expert_count", 0);
    if (with->rope_factor != 0) float_key(w, "rope.scaling.factor", with->rope_factor);
    if (with->rope_type) {
        char name[128];
        snprintf(name, sizeof name, "%s.rope.scaling.type", w->architecture);
        text_key(w, name, with->rope_type);
    }
}

static const char *write_model(const char *architecture, const change *with) {
    writer w = {.with = with, .architecture = architecture};
    write_keys(&w);
    tensor(&w, "token_embd.weight", WIDTH, VOCABULARY);
    tensor(&w, "output_norm.weight", WIDTH, 0);
    if (!with->tied) tensor(&w, "output.weight", WIDTH, VOCABULARY);
    for (uint32_t i = 0; i < LAYERS; i++) layer_tensors(&w, i);
    const uint64_t divisors = w.bytes;
    if (with->divisor != 0) tensor(&w, "rope_freqs.weight", HEAD / 2, 0);

    af_buf file = {0};
    put_header(&file, 3, w.tensor_count, w.key_count);
    af_buf_append(&file, w.keys.p, w.keys.len);
    af_buf_append(&file, w.tensors.p, w.tensors.len);
    af_buf_fill(&file, 0, (32 - file.len % 32) % 32);
    const size_t data = file.len;
    af_buf_fill(&file, 0, w.bytes);
    for (size_t i = 0; with->divisor != 0 && i < HEAD / 2; i++)
        memcpy(file.p + data + divisors + i * sizeof(float), &with->divisor, sizeof(float));
    remove(temp_path("model.gguf")); /* one that is open stays as it was */
    const char *path = temp_write("model.gguf", file.p, file.len);
    af_buf_clear(&file);
    af_buf_clear(&w.keys);
    af_buf_clear(&w.tensors);
    return path;
}

typedef struct built {
    af_gguf *file;
    af_plan *plan;
} built;

static int build(const char *architecture, const change *with, built *out, af_error *error) {
    *out = (built){0};
    if (af_gguf_open(write_model(architecture, with), &out->file, error)) fail_msg("%s", error->text);
    return af_model_plan(out->file, 0, &out->plan, error);
}

static built accepted(const char *architecture, const change *with) {
    af_error error = {0};
    built b;
    if (build(architecture, with, &b, &error)) fail_msg("%s", error.text);
    return b;
}

static void let_go(built *b) {
    af_plan_close(b->plan);
    af_gguf_close(b->file);
}

/* A refusal that says each of `words`, apart by |. */
static void refused(const char *architecture, const change *with, const char *words) {
    af_error error = {0};
    built b;
    if (build(architecture, with, &b, &error) == 0) fail_msg("taken, expected to be refused: %s", words);
    char copy[256], *rest = copy;
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word; (word = strsep(&rest, "|"));)
        if (!strstr(error.text, word)) fail_msg("found \"%s\", expected it to say \"%s\"", error.text, word);
    af_gguf_close(b.file);
}

static const af_op *nth(const af_plan *plan, af_op_kind kind, size_t n) {
    for (size_t i = 0; i < plan->op_count; i++)
        if (plan->ops[i].kind == kind && n-- == 0) return &plan->ops[i];
    fail_msg("no such operation");
    return NULL;
}

/* ---- What is built ---- */

static void a_dense_layer_is_six_operations(void **state) {
    (void)state;
    static const af_op_kind layer[] = {AF_OP_LINEAR, AF_OP_ROPE_STORE, AF_OP_ATTEND,
                                       AF_OP_LINEAR, AF_OP_LINEAR,     AF_OP_LINEAR};
    enum { PER_LAYER = sizeof layer / sizeof *layer };
    built b = accepted("llama", &(change){0});
    assert_int_equal(b.plan->op_count, 3 + LAYERS * PER_LAYER);
    assert_int_equal(b.plan->ops[0].kind, AF_OP_EMBED);
    for (size_t i = 0; i < LAYERS * PER_LAYER; i++) {
        assert_int_equal(b.plan->ops[1 + i].kind, layer[i % PER_LAYER]);
        assert_int_equal(b.plan->ops[1 + i].layer, i / PER_LAYER);
    }
    assert_int_equal(b.plan->ops[b.plan->op_count - 2].kind, AF_OP_STATE);
    assert_int_equal(b.plan->ops[b.plan->op_count - 1].kind, AF_OP_HEAD);
    assert_int_equal(b.plan->pooling, AF_POOLING_LAST);
    assert_false(b.plan->whole);
    assert_int_equal(b.plan->vocabulary, VOCABULARY);
    assert_int_equal(b.plan->context, 128);
    let_go(&b);
}

static void llama_sees_everything_and_turns_adjacent_pairs(void **state) {
    (void)state;
    built b = accepted("llama", &(change){0});
    assert_int_equal(b.plan->group_count, 1);
    assert_int_equal(b.plan->groups[0].window, 0);
    assert_true(b.plan->ropes[nth(b.plan, AF_OP_ROPE_STORE, 0)->u.rope_store.rope].adjacent);
    assert_true(b.plan->ops[0].u.embed.scale == 1.0f);
    assert_true(nth(b.plan, AF_OP_ATTEND, 0)->u.attend.scale == 1.0f / sqrtf(HEAD));
    let_go(&b);
}

static void a_file_without_an_output_matrix_uses_its_embedding(void **state) {
    (void)state;
    built own = accepted("llama", &(change){0}), tied = accepted("llama", &(change){.tied = true});
    assert_string_equal(nth(own.plan, AF_OP_HEAD, 0)->u.head.w.name, "output.weight");
    assert_string_equal(nth(tied.plan, AF_OP_HEAD, 0)->u.head.w.name, "token_embd.weight");
    let_go(&own);
    let_go(&tied);
}

static void gemma_3_sees_a_window_but_for_every_sixth_layer(void **state) {
    (void)state;
    built b = accepted("gemma3", &(change){0});
    for (size_t i = 0; i < LAYERS; i++) {
        const af_op_rope_store *store = &nth(b.plan, AF_OP_ROPE_STORE, i)->u.rope_store;
        const uint32_t window = b.plan->groups[b.plan->caches[store->cache].group].window;
        assert_int_equal(window, i == 5 ? 0 : WINDOW);
        assert_false(b.plan->ropes[store->rope].adjacent);
        assert_int_equal(store->q_norm.kind, AF_NORM_RMS);
        assert_int_equal(store->q_norm.width, HEAD);
    }
    assert_true(b.plan->ops[0].u.embed.scale == sqrtf(WIDTH));
    let_go(&b);
}

/* The first pair's frequency is 1 before any scaling. */
static float first_frequency(const char *architecture, const change *with, size_t layer) {
    built b = accepted(architecture, with);
    const float f = b.plan->ropes[nth(b.plan, AF_OP_ROPE_STORE, layer)->u.rope_store.rope].inv_freq[0];
    let_go(&b);
    return f;
}

static void scalings_of_the_rotation_are_in_its_frequencies(void **state) {
    (void)state;
    assert_true(first_frequency("llama", &(change){0}, 0) == 1.0f);
    assert_true(first_frequency("llama", &(change){.rope_factor = 4}, 0) == 0.25f); /* no type: linear */
    assert_true(first_frequency("llama", &(change){.rope_factor = 4, .rope_type = "linear"}, 0) == 0.25f);
    assert_true(first_frequency("llama", &(change){.rope_factor = 4, .rope_type = "none"}, 0) == 1.0f);
    assert_true(first_frequency("llama", &(change){.rope_factor = 4, .rope_type = "yarn"}, 0) == 1.0f); /* fast: kept */
    assert_true(first_frequency("llama", &(change){.divisor = 8}, 0) == 0.125f);
    /* Gemma 3 scales its full layers only. */
    assert_true(first_frequency("gemma3", &(change){.rope_factor = 8}, 0) == 1.0f);
    assert_true(first_frequency("gemma3", &(change){.rope_factor = 8}, 5) == 0.125f);
}

/* ---- What is refused ---- */

static void an_unknown_architecture_is_refused_with_those_known(void **state) {
    (void)state;
    refused("llama", &(change){.architecture = "mamba"}, "model.gguf|general.architecture|\"mamba\"|llama|gemma3");
}

/* Every tensor of a family but the output matrix, left out and misshapen in turn. */
static void check_every_tensor(const char *architecture) {
    built whole = accepted(architecture, &(change){0});
    for (size_t i = 0; i < af_gguf_tensor_count(whole.file); i++) {
        const af_tensor *t = af_gguf_tensor_at(whole.file, i);
        char name[128], found[192];
        snprintf(name, sizeof name, "%.*s", (int)t->name.n, t->name.p);
        snprintf(found, sizeof found, "tensor %s|found|expected", name);
        if (!is(name, "token_embd.weight")) refused(architecture, &(change){.misshapen = name}, found);
        snprintf(found, sizeof found, "tensor %s|missing", name);
        if (!is(name, "output.weight")) refused(architecture, &(change){.without = name}, found);
    }
    let_go(&whole);
}

static void a_missing_or_misshapen_tensor_is_refused_by_name(void **state) {
    (void)state;
    check_every_tensor("llama");
    check_every_tensor("gemma3");
}

static void hyperparameters_that_do_not_fit_are_refused_by_key(void **state) {
    (void)state;
    static const struct {
        number set;
        const char *words;
    } cases[] = {
        {{"block_count", 0}, "llama.block_count|found 0|allowed 1"},
        {{"block_count", 5000}, "llama.block_count|found 5000|4096"},
        {{"block_count", LAYERS + 1}, "tensor blk.7.attn_norm.weight|missing"},
        {{"embedding_length", 0}, "llama.embedding_length|found 0"},
        {{"embedding_length", 64}, "tensor token_embd.weight|found 32 x 10|expected 64 x 10"},
        {{"feed_forward_length", 0}, "llama.feed_forward_length|found 0"},
        {{"attention.head_count", 0}, "llama.attention.head_count|found 0"},
        {{"attention.head_count", 5}, "llama.attention.head_count|found 5|multiple of"},
        {{"attention.head_count_kv", 0}, "llama.attention.head_count_kv|found 0"},
        {{"attention.key_length", 1u << 20}, "llama.attention.key_length|found 1048576"},
        {{"rope.dimension_count", HEAD + 2}, "llama.rope.dimension_count|found 10|allowed 0 to 8"},
        {{"rope.dimension_count", 5}, "llama.rope.dimension_count|found 5|even"},
        {{"context_length", 0}, "llama.context_length|found 0"},
        {{"expert_count", 8}, "llama.expert_used_count|missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused("llama", &(change){.set = cases[i].set}, cases[i].words);
    for (size_t i = 0; i < 2; i++) {
        static const char *const needed[] = {"block_count", "attention.head_count"};
        refused("llama", &(change){.without = needed[i]}, "missing|model.gguf");
    }
    refused("llama", &(change){.rope_factor = -1}, "llama.rope.scaling.factor|found -1|above 0");
    refused("llama", &(change){.rope_type = "spiral"}, "llama.rope.scaling.type|found \"spiral\"|yarn");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dense_layer_is_six_operations),
        cmocka_unit_test(llama_sees_everything_and_turns_adjacent_pairs),
        cmocka_unit_test(a_file_without_an_output_matrix_uses_its_embedding),
        cmocka_unit_test(gemma_3_sees_a_window_but_for_every_sixth_layer),
        cmocka_unit_test(scalings_of_the_rotation_are_in_its_frequencies),
        cmocka_unit_test(an_unknown_architecture_is_refused_with_those_known),
        cmocka_unit_test(a_missing_or_misshapen_tensor_is_refused_by_name),
        cmocka_unit_test(hyperparameters_that_do_not_fit_are_refused_by_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* kernel_check_attend.c - the kernels on sixteen lanes (lane_kernels.h): every instruction set gives the bits of
 * scalar, scalar is near the formula in double, and attention does not depend on who shares its tile or on what lies in
 * slots it does not see. */
#include "kernel_check.h"

#include "backend/cpu/lane_kernels.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ELEMS 100 /* of the longest row; no multiple of 16 */

static kernel_random stream = {7};

static void fill(float *p, size_t n, float spread) {
    for (size_t i = 0; i < n; i++) p[i] = kernel_random_float(&stream, -spread, spread);
}

/* ---- Rows ---- */

/* The row kernels, as one shape: in (ELEMS) and other (ELEMS) to out. */
typedef void (*row_case)(const af_lane_kernels *k, const float *in, const float *other, float *out, size_t n);

static void silu_case(const af_lane_kernels *k, const float *in, const float *other, float *out, size_t n) {
    memcpy(out, in, n * sizeof *out);
    k->act(AF_ACT_SILU, out, n);
}
static void gelu_case(const af_lane_kernels *k, const float *in, const float *other, float *out, size_t n) {
    memcpy(out, in, n * sizeof *out);
    k->act(AF_ACT_GELU, out, n);
}
static void softcap_case(const af_lane_kernels *k, const float *in, const float *other, float *out, size_t n) {
    memcpy(out, in, n * sizeof *out);
    k->softcap(out, 3.0f, n);
}
static void glu_case(const af_lane_kernels *k, const float *in, const float *other, float *out, size_t n) {
    memcpy(out, in, n * sizeof *out);
    k->glu(AF_ACT_SILU, out, other, n);
}
static void residual_case(const af_lane_kernels *k, const float *in, const float *other, float *out, size_t n) {
    k->residual(out, in, other, 0.3f, n);
}
static void sum_case(const af_lane_kernels *k, const float *in, const float *other, float *out, size_t n) {
    memcpy(out, in, n * sizeof *out);
    k->add(out, other, n);
    k->scale(out, 1.7f, n);
}
static void rms_case(const af_lane_kernels *k, const float *in, const float *other, float *out, size_t n) {
    k->norm(&(af_norm){.kind = AF_NORM_RMS, .eps = 1e-5f, .weight = other, .width = (uint32_t)n}, 0, in, out);
}
static void layer_case(const af_lane_kernels *k, const float *in, const float *other, float *out, size_t n) {
    const af_norm norm = {.kind = AF_NORM_LAYER, .eps = 1e-5f, .weight = other, .bias = in, .width = (uint32_t)n};
    k->norm(&norm, 0, in, out);
}
static void halves_case(const af_lane_kernels *k, const float *in, const float *other, float *out, size_t n) {
    memcpy(out, in, n * sizeof *out);
    k->rotate(&(af_rope){.rotated = (uint32_t)(n / 2 * 2)}, other, in, out);
}
static void adjacent_case(const af_lane_kernels *k, const float *in, const float *other, float *out, size_t n) {
    memcpy(out, in, n * sizeof *out);
    k->rotate(&(af_rope){.rotated = (uint32_t)(n / 2 * 2), .adjacent = true}, other, in, out);
}
static void best_case(const af_lane_kernels *k, const float *in, const float *other, float *out, size_t n) {
    for (size_t i = 0; i < n; i++) out[i] = (float)k->best(in, i + 1);
}

static const struct {
    const char *name;
    row_case run;
} row_cases[] = {{"silu", silu_case},
                 {"gelu", gelu_case},
                 {"softcap", softcap_case},
                 {"glu", glu_case},
                 {"residual", residual_case},
                 {"add, scale", sum_case},
                 {"rms norm", rms_case},
                 {"layer norm", layer_case},
                 {"rotate halves", halves_case},
                 {"rotate adjacent", adjacent_case},
                 {"best", best_case}};

static const float specials[] = {0.0f,  -0.0f,  INFINITY, -INFINITY, NAN,    FLT_MAX, -FLT_MAX, FLT_MIN, 1e-40f,
                                 87.0f, -87.5f, 88.0f,    88.1f,     0.625f, -0.62f,  5e8f,     -5e8f};

static void rows_are_the_same_on_every_instruction_set(void) {
    for (size_t c = 0; c < sizeof row_cases / sizeof *row_cases; c++)
        for (size_t n = 1; n <= ELEMS; n++) {
            float in[ELEMS], other[ELEMS], wanted[ELEMS], found[ELEMS];
            fill(in, n, n % 2 ? 3.0f : 60.0f);
            fill(other, n, 2.0f);
            if (n % 5 == 0)
                in[kernel_random_bits(&stream) % n] = specials[n / 5 % (sizeof specials / sizeof *specials)];
            row_cases[c].run(&af_lane_kernels_scalar, in, other, wanted, n);
            for (af_isa isa = AF_ISA_SCALAR + 1; isa <= af_cpu_isa(); isa++) {
                char where[64];
                snprintf(where, sizeof where, "%s, %s, %zu elements", row_cases[c].name, af_isa_name(isa), n);
                row_cases[c].run(af_lane_kernels_of(isa), in, other, found, n);
                kernel_assert_same(found, wanted, n, where);
            }
        }
}

static double silu(double v) {
    return v / (1 + exp(-v));
}
static double gelu(double v) {
    return 0.5 * v * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (v + 0.044715 * v * v * v)));
}
static double softcap(double v) {
    return 3 * tanh(v / 3);
}

/* Within 4 units in the last place of a float, or 1e-37 where results leave the normal numbers. */
static void assert_near(const char *name, float x, float found, double wanted) {
    const double allowed = 4 * fabs(wanted) * 0x1p-24 + 1e-37;
    if (!(fabs((double)found - wanted) <= allowed))
        fail_msg("%s(%.9g) is %.9g, wanted %.17g", name, (double)x, (double)found, wanted);
}

static void activations_are_near_their_formulas(void) {
    for (float x = -30.0f; x < 30.0f; x += 0.00317f) {
        float a = x, b = x, c = x;
        af_lane_kernels_scalar.act(AF_ACT_SILU, &a, 1);
        af_lane_kernels_scalar.softcap(&c, 3.0f, 1);
        assert_near("silu", x, a, silu((double)x));
        assert_near("softcap", x, c, softcap((double)x));
        if (x < -4.0f) continue; /* the formula itself, 1 + tanh, cancels in double far to the left */
        af_lane_kernels_scalar.act(AF_ACT_GELU, &b, 1);
        assert_true(fabs((double)b - gelu((double)x)) <= 1e-6 * (fabs((double)x) + 1e-3));
    }
}

static void the_best_is_the_lowest_of_equals_and_no_nan(void) {
    for (af_isa isa = AF_ISA_SCALAR; isa <= af_cpu_isa(); isa++) {
        float v[50];
        for (int i = 0; i < 50; i++) v[i] = -1.0f;
        v[3] = NAN;
        v[20] = v[37] = v[49] = 5.0f;
        assert_int_equal(af_lane_kernels_of(isa)->best(v, 50), 20);
        v[20] = NAN;
        assert_int_equal(af_lane_kernels_of(isa)->best(v, 50), 37);
        v[0] = -INFINITY;
        assert_int_equal(af_lane_kernels_of(isa)->best(v, 1), 0);
    }
}

/* ---- Attention ---- */

#define CONTEXT_PAGES 3
#define DIM_MOST      80

typedef struct attention {
    uint32_t tokens, heads, k_dim, v_dim, first; /* first: the position of token 0 */
    af_kv_type kv;
    float softcap;
    bool sinks, shared;
} attention;

static const attention attentions[] = {
    {1, 1, 64, 64, 70, AF_KV_F16, 0, false, false},  {4, 3, 64, 64, 60, AF_KV_F16, 0, false, false},
    {5, 3, 10, 7, 31, AF_KV_F32, 2, true, false},    {1, 16, 80, 33, 0, AF_KV_F16, 0, true, false},
    {16, 1, 16, 80, 62, AF_KV_F32, 0, false, false}, {2, 4, 33, 48, 30, AF_KV_F16, 9, false, false},
    {1, 9, 24, 16, 95, AF_KV_F32, 0, false, false},  {4, 3, 64, 64, 60, AF_KV_Q8_0, 0, false, false},
    {5, 3, 10, 7, 31, AF_KV_Q8_0, 2, true, false},   {2, 4, 33, 48, 30, AF_KV_Q8_0, 9, false, false},
    {1, 16, 80, 33, 0, AF_KV_Q8_0, 0, true, false},  {2, 8, 80, 64, 61, AF_KV_F16, 0, false, true},
    {1, 9, 40, 33, 70, AF_KV_Q8_0, 0, false, true},  {3, 5, 70, 17, 30, AF_KV_F32, 0, true, true}};

static af_kv_shape shape_of(const attention *a) {
    const af_cache cache = {.k_dim = (uint16_t)a->k_dim, .v_dim = (uint16_t)a->v_dim, .shared = a->shared};
    return af_kv_shape_of(&cache, a->kv);
}

/* The context's pages: every slot up to the last token's position written, the others NaN. */
static void store_context(const attention *a, const af_lane_kernels *k, unsigned char *pages, size_t page_bytes) {
    const af_kv_shape shape = shape_of(a);
    memset(pages, 0xFF, CONTEXT_PAGES * page_bytes);
    kernel_random same = {11};
    for (uint32_t position = 0; position < a->first + a->tokens; position++) {
        float key[DIM_MOST], value[DIM_MOST];
        for (uint32_t i = 0; i < a->k_dim; i++) key[i] = kernel_random_float(&same, -1, 1);
        for (uint32_t i = 0; i < a->v_dim; i++) value[i] = kernel_random_float(&same, -1, 1);
        k->store[a->kv](&shape, key, a->shared ? NULL : value, position % AF_KV_PAGE,
                        pages + position / AF_KV_PAGE * page_bytes);
    }
}

/* Attention of tokens t0 .. t0 + tokens - 1 of the case, all heads, as one tile; out is (tokens, heads, v_dim). */
static void run_tile(const attention *a, const af_lane_kernels *k, uint32_t t0, uint32_t tokens, float *out) {
    const af_kv_shape shape = shape_of(a);
    const size_t page_bytes = af_kv_head_bytes(&shape);
    unsigned char *pages = malloc(CONTEXT_PAGES * page_bytes);
    static float q[DIM_MOST * AF_ATTEND_ROWS], w[AF_ATTEND_ROWS * AF_KV_PAGE];
    static float state[AF_ATTEND_ROWS * (17 + DIM_MOST)], total[AF_ATTEND_ROWS * (17 + DIM_MOST)];
    assert_non_null(pages);
    memset(q, 0, sizeof q);
    store_context(a, k, pages, page_bytes);
    af_attend_tile tile = {
        .tokens = tokens, .heads = a->heads, .kv = &shape, .scale = 0.4f, .softcap = a->softcap, .q = q, .w = w};
    for (uint32_t t = 0; t < tokens; t++)
        for (uint32_t h = 0; h < a->heads; h++) {
            kernel_random same = {(t0 + t) * 100 + h};
            const uint32_t row = t * a->heads + h;
            for (uint32_t d = 0; d < a->k_dim; d++)
                q[a->shared ? row * shape.k_stride + d : d * AF_ATTEND_ROWS + row] = kernel_random_float(&same, -2, 2);
        }
    const size_t floats = af_attend_state_floats(tokens * a->heads, shape.v_stride);
    memset(total, 0, sizeof total);
    for (uint32_t r = 0; r < AF_ATTEND_ROWS; r++) total[r] = -FLT_MAX;
    for (uint32_t page = 0; page * AF_KV_PAGE < a->first + t0 + tokens; page++) { /* each page a split of its own */
        for (uint32_t t = 0; t < tokens; t++) {
            const uint32_t last = a->first + t0 + t, start = page * AF_KV_PAGE, past = last + 1;
            tile.begin[t] = 0;
            tile.end[t] = (uint8_t)(past <= start ? 0 : past - start < AF_KV_PAGE ? past - start : AF_KV_PAGE);
        }
        memset(state, 0, floats * sizeof *state);
        for (uint32_t r = 0; r < AF_ATTEND_ROWS; r++) state[r] = -FLT_MAX;
        k->attend_page[a->kv](&tile, state, pages + page * page_bytes);
        k->attend_merge(&tile, total, state);
    }
    float sinks[AF_ATTEND_ROWS];
    for (uint32_t h = 0; h < a->heads; h++) sinks[h] = 0.1f * (float)h - 0.5f;
    k->attend_finish(&tile, total, a->sinks ? sinks : NULL, out, (size_t)a->heads * a->v_dim);
    free(pages);
}

static void attention_is_the_same_on_every_instruction_set(void) {
    for (size_t c = 0; c < sizeof attentions / sizeof *attentions; c++) {
        const attention *a = &attentions[c];
        static float wanted[AF_ATTEND_ROWS * DIM_MOST], found[AF_ATTEND_ROWS * DIM_MOST];
        const size_t n = (size_t)a->tokens * a->heads * a->v_dim;
        run_tile(a, &af_lane_kernels_scalar, 0, a->tokens, wanted);
        for (size_t i = 0; i < n; i++) assert_true(isfinite(wanted[i])); /* nothing unseen came in */
        for (af_isa isa = AF_ISA_SCALAR + 1; isa <= af_cpu_isa(); isa++) {
            char where[64];
            snprintf(where, sizeof where, "attention %zu, %s", c, af_isa_name(isa));
            run_tile(a, af_lane_kernels_of(isa), 0, a->tokens, found);
            kernel_assert_same(found, wanted, n, where);
        }
    }
}

static void attention_of_one_token_is_the_same_in_any_tile(void) {
    for (size_t c = 0; c < sizeof attentions / sizeof *attentions; c++) {
        const attention *a = &attentions[c];
        const size_t row = (size_t)a->heads * a->v_dim;
        static float wanted[AF_ATTEND_ROWS * DIM_MOST], found[AF_ATTEND_ROWS * DIM_MOST];
        const af_lane_kernels *k = af_lane_kernels_of(af_cpu_isa());
        run_tile(a, k, 0, a->tokens, wanted);
        for (uint32_t t = 0; t < a->tokens; t++) {
            run_tile(a, k, t, 1, found);
            kernel_assert_same(found, wanted + t * row, row, "attention alone");
        }
    }
}

/* ---- Speed ---- */

typedef struct page_bench {
    const af_lane_kernels *kernels;
    af_attend_tile tile;
    float *state;
    void *page;
    int pages;
} page_bench;

static void run_pages(void *user) {
    const page_bench *b = user;
    for (int i = 0; i < b->pages; i++) b->kernels->attend_page[b->tile.kv->type](&b->tile, b->state, b->page);
}

typedef struct bench_case {
    uint32_t tokens, heads, k_dim, v_dim;
    af_kv_type kv;
    bool shared;
} bench_case;

static void bench_page(const bench_case *c, af_isa isa) {
    static const char *const names[AF_KV_TYPES] = {"f16", "f32", "q8_0"};
    const af_cache cache = {.k_dim = (uint16_t)c->k_dim, .v_dim = (uint16_t)c->v_dim, .shared = c->shared};
    const af_kv_shape shape = af_kv_shape_of(&cache, c->kv);
    const size_t queries = (size_t)shape.k_stride * AF_ATTEND_ROWS;
    float *memory = calloc(queries + 512 + af_attend_state_floats(16, shape.v_stride), sizeof *memory);
    void *page = calloc(af_kv_head_bytes(&shape), 1);
    assert_true(memory && page);
    page_bench b = {
        .kernels = af_lane_kernels_of(isa),
        .tile = {.tokens = c->tokens, .heads = c->heads, .kv = &shape, .scale = 1, .q = memory, .w = memory + queries},
        .state = memory + queries + 512,
        .page = page,
        .pages = 100};
    memset(b.tile.end, AF_KV_PAGE, sizeof b.tile.end);
    char name[96];
    snprintf(name, sizeof name, "attend page %s, %u x %u rows, dim %u%s", names[c->kv], c->tokens, c->heads, c->k_dim,
             c->shared ? " shared" : "");
    const kernel_work work = {
        .f32_macs = (double)b.pages * c->tokens * c->heads * AF_KV_PAGE * (c->k_dim + (double)c->v_dim), .threads = 1};
    kernel_report(name, isa, kernel_time(run_pages, &b), &work);
    free(memory);
    free(page);
}

static void bench_attention(void) {
    static const bench_case cases[] = {
        {1, 3, 64, 64, AF_KV_F16, false},    {5, 3, 64, 64, AF_KV_F16, false},   {1, 4, 256, 256, AF_KV_F16, false},
        {4, 4, 256, 256, AF_KV_F16, false},  {1, 3, 64, 64, AF_KV_Q8_0, false},  {5, 3, 64, 64, AF_KV_Q8_0, false},
        {4, 4, 256, 256, AF_KV_Q8_0, false}, {1, 16, 576, 512, AF_KV_F16, true}, {1, 16, 576, 512, AF_KV_Q8_0, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (af_isa isa = AF_ISA_SCALAR; isa <= af_cpu_isa(); isa++) bench_page(&cases[i], isa);
}

const kernel_check kernel_checks_attend[] = {
    {"lanes: rows are the same on every instruction set", rows_are_the_same_on_every_instruction_set, NULL},
    {"lanes: activations are near their formulas", activations_are_near_their_formulas, NULL},
    {"lanes: the best is the lowest of equals and no NaN", the_best_is_the_lowest_of_equals_and_no_nan, NULL},
    {"attention: the same on every instruction set", attention_is_the_same_on_every_instruction_set, NULL},
    {"attention: of one token the same in any tile", attention_of_one_token_is_the_same_in_any_tile, NULL},
    {"attention: speed", NULL, bench_attention},
    {NULL, NULL, NULL},
};

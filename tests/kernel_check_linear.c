/* kernel_check_linear.c - the matrix kernels: every format and instruction set against the scalar ones bit for bit, the
 * scalar ones against decoded weights in double precision.
 */
#include "backend/cpu/kernels.h"
#include "base/os.h"
#include "kernel_check.h"
#include "quant/iq_blocks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Matrices and activations to try ---- */

typedef enum scales { SCALES_USUAL, SCALES_EXTREME, SCALES_ANY_BITS } scales;

/* Where a block's half floats are. */
static uint32_t halves_of(af_type type, size_t at[2]) {
    switch (type) {
    case AF_TYPE_Q4_1:
    case AF_TYPE_Q5_1:
    case AF_TYPE_Q4_K:
    case AF_TYPE_Q5_K:
        at[0] = 0, at[1] = 2;
        return 2;
    case AF_TYPE_Q2_K:
        at[0] = offsetof(af_block_q2_k, d), at[1] = offsetof(af_block_q2_k, dmin);
        return 2;
    case AF_TYPE_Q3_K:
        at[0] = offsetof(af_block_q3_k, d);
        return 1;
    case AF_TYPE_TQ1_0:
        at[0] = offsetof(af_block_tq1_0, d);
        return 1;
    case AF_TYPE_TQ2_0:
        at[0] = offsetof(af_block_tq2_0, d);
        return 1;
    case AF_TYPE_Q6_K:
        at[0] = offsetof(af_block_q6_k, d);
        return 1;
    case AF_TYPE_Q4_0:
    case AF_TYPE_Q5_0:
    case AF_TYPE_Q8_0:
    case AF_TYPE_IQ4_NL:
    case AF_TYPE_IQ4_XS:
    case AF_TYPE_IQ2_XXS:
    case AF_TYPE_IQ2_XS:
    case AF_TYPE_IQ2_S:
    case AF_TYPE_IQ3_XXS:
    case AF_TYPE_IQ3_S:
    case AF_TYPE_IQ1_S:
        at[0] = 0;
        return 1;
    default:
        return 0;
    }
}

static uint16_t random_half(kernel_random *r, scales kind) {
    static const uint16_t EXTREMES[] = {0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0x7bff, 0xfbff, 0x3c00};
    if (kind == SCALES_EXTREME) return EXTREMES[kernel_random_bits(r) % 8];
    if (kind == SCALES_ANY_BITS) return (uint16_t)kernel_random_bits(r);
    return af_f32_to_f16(kernel_random_float(r, -0.02f, 0.02f));
}

/* Which lies in the top four bits of four words. */
static void put_iq1_m_half(unsigned char *block, uint16_t half) {
    unsigned char *scales = block + offsetof(af_block_iq1_m, scales);
    for (uint32_t i = 0; i < 4; i++)
        scales[2 * i + 1] = (unsigned char)((scales[2 * i + 1] & 15) | (half >> 4 * i & 15) << 4);
}

static void fill_row(const af_format *f, unsigned char *row, uint32_t cols, kernel_random *r, scales kind) {
    size_t at[2], bytes = af_row_bytes(f, cols);
    uint32_t halves = halves_of(f->type, at);
    for (size_t i = 0; i < bytes; i++) row[i] = (unsigned char)kernel_random_bits(r);
    for (size_t block = 0; block < bytes; block += f->block_bytes) {
        for (uint32_t i = 0; i < halves; i++) {
            uint16_t half = random_half(r, kind);
            memcpy(row + block + at[i], &half, sizeof half);
        }
        if (f->type == AF_TYPE_IQ1_M) put_iq1_m_half(row + block, random_half(r, kind));
        if (f->type == AF_TYPE_MXFP4 && kind == SCALES_USUAL) row[block] = (unsigned char)(116 + row[block] % 8);
        if (f->block_elems > 1 || kind == SCALES_ANY_BITS) continue;
        float value = kernel_random_float(r, -0.3f, 0.3f);
        uint16_t half = af_f32_to_f16(value);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        if (f->type == AF_TYPE_BF16) half = (uint16_t)(bits >> 16);
        memcpy(row + block, f->type == AF_TYPE_F32 ? (const void *)&value : &half, f->block_bytes);
    }
}

/* A matrix in memory of its own. af_packed_set_open releases what it packs, as if it were a mapped file, so it is given
 * a copy that may turn to zeros. */
typedef struct problem {
    af_matrix w, copy;
    uint32_t tokens;
    float *x; /* (tokens, cols) */
} problem;

static problem problem_open(const af_format *f, uint32_t rows, uint32_t cols, uint32_t tokens, scales kind,
                            uint64_t seed) {
    kernel_random r = {seed};
    size_t row_bytes = af_row_bytes(f, cols);
    unsigned char *data = malloc(rows * row_bytes), *copy = af_os_pages(rows * row_bytes, false);
    assert_non_null(data);
    assert_non_null(copy);
    for (uint32_t i = 0; i < rows; i++) fill_row(f, data + i * row_bytes, cols, &r, kind);
    memcpy(copy, data, rows * row_bytes);
    problem p = {{data, f, rows, cols, "test", true}, {copy, f, rows, cols, "test", false}, tokens, NULL};
    p.x = malloc((size_t)tokens * cols * sizeof *p.x);
    assert_non_null(p.x);
    for (size_t i = 0; i < (size_t)tokens * cols; i++) p.x[i] = kernel_random_float(&r, -2, 2);
    return p;
}

static void problem_close(problem *p) {
    af_os_pages_free((void *)p->copy.data, p->copy.rows * af_row_bytes(p->copy.format, p->copy.cols));
    free((void *)p->w.data);
    free(p->x);
}

typedef enum arithmetic { FAST, FINE, EXACT, MODES } arithmetic;
static const char *const MODE_NAMES[] = {"", "fine ", "exact "};

#define GAP       3 /* floats between rows of the output that must stay as they are */
#define UNTOUCHED 12345.0f

/* W x for all tokens, in batches of `batch` tokens and `panels` panels at a time; out is (tokens, rows). */
static void multiply(const problem *p, arithmetic mode, af_isa isa, uint32_t batch, uint32_t panels, float *out) {
    af_error error;
    af_packed_set *set;
    af_acts *acts;
    bool exact = mode == EXACT;
    if (!exact) memcpy((void *)p->copy.data, p->w.data, p->w.rows * af_row_bytes(p->w.format, p->w.cols));
    if (af_packed_set_open(kernel_pool(), exact ? &p->w : &p->copy, 1, exact, isa, NULL, NULL, &set, &error) ||
        af_acts_open(2 * batch, p->w.cols, &acts, &error))
        fail_msg("%s", error.text);
    const af_packed *packed = af_packed_at(set, 0);
    size_t rows = p->w.rows, stride = rows + GAP;
    float *wide = malloc(batch * stride * sizeof *wide);
    size_t scratch_bytes = af_linear_scratch_bytes(packed);
    void *scratch = af_os_pages(scratch_bytes, false);
    for (uint32_t t = 0; t < p->tokens; t += batch) {
        uint32_t n = p->tokens - t < batch ? p->tokens - t : batch;
        for (size_t i = 0; i < batch * stride; i++) wide[i] = UNTOUCHED;
        af_acts_set(acts, p->x + (size_t)t * p->w.cols, p->w.cols, n, p->w.cols, mode == FINE);
        if (af_packed_wants_int8(packed)) {
            af_acts_quantize(acts, isa, n / 2, n);
            af_acts_quantize(acts, isa, 0, n / 2);
        }
        for (uint32_t i = 0; i < af_packed_panels(packed); i += panels) {
            uint32_t end = af_packed_panels(packed) - i < panels ? af_packed_panels(packed) : i + panels;
            af_packed_multiply(packed, acts, i, end, wide, stride, scratch);
        }
        for (uint32_t i = 0; i < n; i++) {
            memcpy(out + (t + i) * rows, wide + i * stride, rows * sizeof *out);
            for (uint32_t gap = 0; gap < GAP; gap++) assert_true(wide[i * stride + rows + gap] == UNTOUCHED);
        }
        for (size_t i = n * stride; i < batch * stride; i++) assert_true(wide[i] == UNTOUCHED);
    }
    af_os_pages_free(scratch, scratch_bytes);
    free(wide);
    af_acts_close(acts);
    af_packed_set_close(set);
}

static float *results(const problem *p, arithmetic mode, af_isa isa, uint32_t batch, uint32_t panels) {
    float *out = malloc((size_t)p->tokens * p->w.rows * sizeof *out);
    assert_non_null(out);
    multiply(p, mode, isa, batch, panels, out);
    return out;
}

static bool fits(const af_format *f, uint32_t cols) {
    return cols % f->block_elems == 0;
}

/* ---- Checks ---- */

static void assert_same_results(const problem *p, arithmetic mode, af_isa isa, uint32_t batch, uint32_t panels,
                                const float *wanted) {
    char where[160];
    snprintf(where, sizeof where, "%s%s %s, %u rows, %u columns, %u tokens by %u, %u panels", MODE_NAMES[mode],
             p->w.format->name, af_isa_name(isa), p->w.rows, p->w.cols, p->tokens, batch, panels);
    float *found = results(p, mode, isa, batch, panels);
    kernel_assert_same(found, wanted, (size_t)p->tokens * p->w.rows, where);
    free(found);
}

static const struct {
    uint32_t rows, cols, tokens;
} SHAPES[] = {
    {1, 32, 1},     {15, 64, 2},   {16, 96, 3}, {17, 256, 7}, {100, 512, 8}, {16, 576, 9},  {33, 1536, 5},
    {17, 2048, 33}, {3, 256, 513}, {16, 1, 3},  {18, 37, 17}, {20, 96, 40},  {5, 160, 147}, {31, 64, 23},
};

static void every_instruction_set_equals_scalar_bit_for_bit(void) {
    for (size_t k = 0; af_format_at(k); k++) {
        const af_format *f = af_format_at(k);
        for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
            if (!fits(f, SHAPES[i].cols)) continue;
            problem p = problem_open(f, SHAPES[i].rows, SHAPES[i].cols, SHAPES[i].tokens, (scales)(i % 3), i + 1);
            for (arithmetic mode = FAST; mode < MODES; mode++) {
                float *wanted = results(&p, mode, AF_ISA_SCALAR, p.tokens, 1000);
                for (af_isa isa = AF_ISA_SCALAR + 1; isa <= af_cpu_isa(); isa++)
                    assert_same_results(&p, mode, isa, p.tokens, 1000, wanted);
                free(wanted);
            }
            problem_close(&p);
        }
    }
}

static void batches_and_panel_splits_change_no_bit(void) {
    static const uint32_t BATCHES[] = {1, 2, 3, 5, 8, 13, 16, 31};
    for (size_t k = 0; af_format_at(k); k++) {
        problem p = problem_open(af_format_at(k), 49, 512, 40, SCALES_USUAL, k);
        for (arithmetic mode = FAST; mode < MODES; mode++) {
            for (af_isa isa = AF_ISA_SCALAR; isa <= af_cpu_isa(); isa++) {
                if (isa == AF_ISA_SCALAR && mode == EXACT) continue;
                float *wanted = results(&p, mode, isa, p.tokens, 1000);
                for (size_t i = 0; i < sizeof BATCHES / sizeof *BATCHES; i++)
                    assert_same_results(&p, mode, isa, BATCHES[i], 1 + i % 3, wanted);
                free(wanted);
            }
        }
        problem_close(&p);
    }
}

/* A row times a token in double precision, with what the tolerances are made of. */
typedef struct reference {
    double sum;       /* of w * x */
    double rounded;   /* of w * x as int8 rounds it */
    double magnitude; /* of |w * x| */
    double rounding;  /* of |w| * half a step of x's int8 */
    double terms;     /* of |w * x rounded|, block minimum and codes apart: what f32 sums go through */
} reference;

static reference reference_of(const float *w, const float *x, uint32_t cols) {
    reference r = {0, 0, 0, 0, 0};
    for (uint32_t b = 0; b < cols; b += AF_BLOCK) {
        float most = 0, widest = 0;
        for (uint32_t i = b; i < b + AF_BLOCK; i++) {
            most = fmaxf(most, fabsf(x[i]));
            widest = fmaxf(widest, fabsf(w[i]));
        }
        float d = most / 127.0f, inverse = 127.0f / most;
        for (uint32_t i = b; i < b + AF_BLOCK; i++) {
            double rounded = (double)d * rintf(x[i] * inverse);
            r.sum += (double)w[i] * x[i];
            r.rounded += w[i] * rounded;
            r.magnitude += fabs((double)w[i] * x[i]);
            r.rounding += fabs((double)w[i]) * d * 0.5001;
            r.terms += widest * fabs(rounded);
        }
    }
    return r;
}

static void scalar_equals_decoded_weights_within_rounding(void) {
    for (size_t k = 0; af_format_at(k); k++) {
        const af_format *f = af_format_at(k);
        problem p = problem_open(f, 20, 1024, 3, SCALES_USUAL, 77);
        float *fast = results(&p, FAST, AF_ISA_SCALAR, p.tokens, 1000);
        float *exact = results(&p, EXACT, AF_ISA_SCALAR, p.tokens, 1000);
        float *fine = results(&p, FINE, AF_ISA_SCALAR, p.tokens, 1000);
        float w[1024];
        for (uint32_t row = 0; row < p.w.rows; row++) {
            f->decode((const unsigned char *)p.w.data + row * af_row_bytes(f, p.w.cols), w, p.w.cols);
            for (uint32_t t = 0; t < p.tokens; t++) {
                reference r = reference_of(w, p.x + t * p.w.cols, p.w.cols);
                double found = fast[t * p.w.rows + row], close = 1e-5 * r.magnitude;
                bool int8 = f->block_elems > 1;
                if (fabs(found - (int8 ? r.rounded : r.sum)) > (int8 ? 1e-5 * r.terms : close))
                    fail_msg("%s: %.9g, wanted %.9g", f->name, found, int8 ? r.rounded : r.sum);
                assert_true(fabs(found - r.sum) <= r.rounding + close);
                assert_true(fabs(fine[t * p.w.rows + row] - r.sum) <= r.rounding / 8 + 1e-5 * r.terms);
                if (fabs(exact[t * p.w.rows + row] - r.sum) > close)
                    fail_msg("exact %s: %.9g, wanted %.9g", f->name, exact[t * p.w.rows + row], r.sum);
            }
        }
        free(fast);
        free(exact);
        free(fine);
        problem_close(&p);
    }
}

static void odd_activations_are_the_same_everywhere(void) {
    static const float ODD[] = {0.0f, -0.0f, 1e-38f, 1e-45f, 3e38f, INFINITY, -INFINITY, NAN, 1e-30f};
    problem p = problem_open(af_format_of(AF_TYPE_Q4_1), 16, 64, 2 * sizeof ODD / sizeof *ODD, SCALES_USUAL, 5);
    for (uint32_t t = 0; t < p.tokens; t++) {
        float *x = p.x + t * p.w.cols, odd = ODD[t / 2];
        if (t % 2)
            x[40] = odd;
        else
            for (uint32_t i = 0; i < 32; i++) x[i] = odd;
    }
    for (arithmetic mode = FAST; mode <= FINE; mode++) {
        float *wanted = results(&p, mode, AF_ISA_SCALAR, p.tokens, 1);
        for (af_isa isa = AF_ISA_SCALAR + 1; isa <= af_cpu_isa(); isa++)
            assert_same_results(&p, mode, isa, p.tokens, 1, wanted);
        assert_true(isnan(wanted[14 * p.w.rows]) && isnan(wanted[15 * p.w.rows])); /* NaN is not hidden */
        assert_false(isnan(wanted[8 * p.w.rows]));
        free(wanted);
    }
    problem_close(&p);
}

/* Points of grids are taken apart, digits to base 3 given two bits each: docs/QUANTIZATION.md lists the sizes. */
static double size_allowed(af_type type) {
    switch (type) {
    case AF_TYPE_Q3_K:
    case AF_TYPE_MXFP4:
        return 1.06;
    case AF_TYPE_TQ2_0:
        return 1.16;
    case AF_TYPE_IQ3_S:
        return 1.28;
    case AF_TYPE_IQ2_S:
    case AF_TYPE_IQ3_XXS:
    case AF_TYPE_TQ1_0:
        return 1.43;
    case AF_TYPE_IQ2_XXS:
    case AF_TYPE_IQ2_XS:
    case AF_TYPE_IQ1_S:
        return 1.64;
    case AF_TYPE_IQ1_M:
        return 2.08;
    default:
        return 1.03;
    }
}

static void packed_size_is_near_the_files(void) {
    for (size_t k = 0; af_format_at(k); k++) {
        const af_format *f = af_format_at(k);
        double packed = (double)af_panel_bytes(af_panel_kind_of(f->type), 2048);
        double file = 16.0 * (double)af_row_bytes(f, 2048);
        assert_true(packed >= file);
        assert_true(packed <= file * size_allowed(f->type));
    }
}

static void environment_lowers_the_instruction_set(void) {
    static const struct {
        const char *name;
        af_isa most;
    } LOWERED[] = {
        {"scalar", AF_ISA_SCALAR},
#if defined(__x86_64__)
        {"avx2", AF_ISA_AVX2},
        {"avx512", AF_ISA_AVX512},
        {"amx", AF_ISA_AMX}
#elif defined(__aarch64__)
        {"neon", AF_ISA_NEON},
        {"dotprod", AF_ISA_DOTPROD},
        {"i8mm", AF_ISA_I8MM}
#endif
    };
    af_isa best = af_cpu_isa();
    for (size_t i = 0; i < sizeof LOWERED / sizeof *LOWERED; i++) {
        setenv("AF_CPU_ISA", LOWERED[i].name, 1);
        assert_int_equal(af_cpu_isa(), best < LOWERED[i].most ? best : LOWERED[i].most);
    }
    unsetenv("AF_CPU_ISA");
    assert_int_equal(af_cpu_isa(), best);
}

/* ---- Timing ---- */

#define DECODE_BYTES ((size_t)96 << 20) /* of a matrix read once: more than a cache holds */
#define PLAIN_TOKENS 16

typedef struct timed {
    problem *p;
    const af_packed *packed;
    af_acts *acts;
    float *out;
    uint32_t tasks;
    unsigned char *scratch; /* of each worker */
    size_t scratch_bytes;
} timed;

static void multiply_task(void *user, uint32_t task, uint32_t worker) {
    const timed *t = user;
    uint32_t panels = af_packed_panels(t->packed);
    uint32_t begin = (uint32_t)((uint64_t)panels * task / t->tasks);
    uint32_t end = (uint32_t)((uint64_t)panels * (task + 1) / t->tasks);
    af_packed_multiply(t->packed, t->acts, begin, end, t->out, t->p->w.rows, t->scratch + worker * t->scratch_bytes);
}

static void run_multiply(void *user) {
    timed *t = user;
    af_pool_run(kernel_pool(), multiply_task, t, t->tasks);
}

typedef struct timed_quantize {
    af_acts *acts;
    af_isa isa;
    uint32_t tokens;
} timed_quantize;

static void run_quantize(void *user) {
    const timed_quantize *t = user;
    af_acts_quantize(t->acts, t->isa, 0, t->tokens);
}

/* Rows that repeat the problem's first sixteen: their values do not matter, their bytes do. */
static unsigned char *many_rows(const problem *p, uint32_t rows, size_t bytes) {
    const size_t row_bytes = af_row_bytes(p->w.format, p->w.cols);
    unsigned char *big = af_os_pages(bytes, true);
    for (uint32_t i = 0; big && i < rows; i++)
        memcpy(big + i * row_bytes, (const char *)p->w.data + i % 16 * row_bytes, row_bytes);
    return big;
}

static void bench_product(timed *t, const char *name, af_isa isa, uint32_t tokens) {
    const bool int8 = af_packed_wants_int8(t->packed);
    const uint32_t cols = t->p->w.cols;
    if (af_acts_open(tokens, cols, &t->acts, NULL)) return;
    af_acts_set(t->acts, t->p->x, cols, tokens, cols, false);
    if (int8) af_acts_quantize(t->acts, isa, 0, tokens);
    const double macs = (double)t->p->w.rows * cols * tokens;
    const kernel_work work = {.bytes = (double)af_packed_bytes(t->packed),
                              .int8_macs = int8 ? macs : 0,
                              .f32_macs = int8 ? 0 : macs,
                              .threads = t->tasks};
    kernel_report(name, isa, kernel_time(run_multiply, t), &work);
    af_acts_close(t->acts);
}

/* Rows of the table for one shape: packing, and the product with each instruction set. Plain C gets few tokens. */
static void bench_shape(const af_format *f, uint32_t rows, uint32_t cols, uint32_t tokens) {
    problem p = problem_open(f, 16, cols, tokens, SCALES_USUAL, 1);
    const size_t bytes = rows * af_row_bytes(f, cols);
    unsigned char *big = many_rows(&p, rows, bytes);
    const af_matrix w = {big, f, rows, cols, "bench", true};
    timed t = {.p = &p, .tasks = af_pool_threads(kernel_pool()), .out = malloc((size_t)rows * tokens * sizeof(float))};
    p.w.rows = rows;
    char name[64];
    for (af_isa isa = AF_ISA_SCALAR; isa <= af_cpu_isa(); isa++) {
        const uint64_t begin = af_os_nanoseconds();
        af_packed_set *set;
        if (af_packed_set_open(kernel_pool(), &w, 1, false, isa, NULL, NULL, &set, NULL)) break;
        const double took = (double)(af_os_nanoseconds() - begin);
        t.packed = af_packed_at(set, 0);
        t.scratch_bytes = (af_linear_scratch_bytes(t.packed) + 63) / 64 * 64;
        t.scratch = af_os_pages(t.scratch_bytes * t.tasks, false);
        snprintf(name, sizeof name, "%s pack %ux%u", f->name, rows, cols);
        if (tokens == 1 && isa == AF_ISA_SCALAR)
            kernel_report(name, isa, took, &(kernel_work){.bytes = (double)bytes, .threads = t.tasks});
        const uint32_t some = isa == AF_ISA_SCALAR && tokens > PLAIN_TOKENS ? PLAIN_TOKENS : tokens;
        snprintf(name, sizeof name, "%s %ux%u x %u", f->name, rows, cols, some);
        bench_product(&t, name, isa, some);
        af_os_pages_free(t.scratch, t.scratch_bytes * t.tasks);
        af_packed_set_close(set);
    }
    af_os_pages_free(big, bytes);
    free(t.out);
    p.w.rows = 16;
    problem_close(&p);
}

static void bench_quantize(void) {
    enum { TOKENS = 512, COLS = 2048 };
    problem p = problem_open(af_format_of(AF_TYPE_Q4_1), 16, COLS, TOKENS, SCALES_USUAL, 1);
    for (af_isa isa = AF_ISA_SCALAR; isa <= af_cpu_isa(); isa++) {
        timed_quantize t = {.isa = isa, .tokens = TOKENS};
        if (af_acts_open(TOKENS, COLS, &t.acts, NULL)) break;
        af_acts_set(t.acts, p.x, COLS, TOKENS, COLS, false);
        const kernel_work work = {.bytes = (double)TOKENS * COLS * sizeof(float), .threads = 1};
        kernel_report("quantize 512x2048, one thread", isa, kernel_time(run_quantize, &t), &work);
        af_acts_close(t.acts);
    }
    problem_close(&p);
}

static void bench_linear(void) {
    bench_quantize();
    for (size_t k = 0; af_format_at(k); k++) {
        const af_format *f = af_format_at(k);
        bench_shape(f, (uint32_t)(DECODE_BYTES / af_row_bytes(f, 2048)) / 16 * 16, 2048, 1);
        bench_shape(f, 1536, 512, 512);
        bench_shape(f, 2048, 2048, 512);
        bench_shape(f, 2048, 2048, 8);
    }
}

const kernel_check kernel_checks_linear[] = {
    {"linear: every instruction set equals scalar bit for bit", every_instruction_set_equals_scalar_bit_for_bit, NULL},
    {"linear: batches and panel splits change no bit", batches_and_panel_splits_change_no_bit, NULL},
    {"linear: scalar equals decoded weights within rounding", scalar_equals_decoded_weights_within_rounding, NULL},
    {"linear: odd activations are the same everywhere", odd_activations_are_the_same_everywhere, NULL},
    {"linear: packed size is near the file's", packed_size_is_near_the_files, NULL},
    {"linear: environment lowers the instruction set", environment_lowers_the_instruction_set, NULL},
    {"linear: speed", NULL, bench_linear},
    {NULL, NULL, NULL},
};

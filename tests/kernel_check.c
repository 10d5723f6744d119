/* kernel_check.c - compares every CPU kernel with its reference, and with --bench times it beside the machine's bounds.
 *
 *     kernel_check [--bench] [part of a check's name]
 *
 * KERNEL_CHECK_ISA, if set, is the instruction set that must be found.
 */
#include "kernel_check.h"

#include "backend/cpu/linear.h"
#include "base/os.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

static const kernel_check *const TABLES[] = {kernel_checks_linear, kernel_checks_attend};

uint64_t kernel_random_bits(kernel_random *r) { /* splitmix64 */
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

float kernel_random_float(kernel_random *r, float low, float high) {
    return low + (high - low) * (float)(kernel_random_bits(r) >> 40) * 0x1p-24f;
}

void kernel_assert_same(const float *found, const float *wanted, size_t count, const char *where) {
    for (size_t i = 0; i < count; i++) {
        if (memcmp(&found[i], &wanted[i], sizeof *found) == 0 || (found[i] != found[i] && wanted[i] != wanted[i]))
            continue;
        fail_msg("%s: [%zu] is %.9g, wanted %.9g", where, i, found[i], wanted[i]);
    }
}

/* ---- Timing ---- */

static af_pool *pool;

af_pool *kernel_pool(void) {
    af_error error;
    if (!pool && af_pool_open(af_os_cores(), &pool, &error)) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
    return pool;
}

double kernel_time(void (*run)(void *user), void *user) {
    double best = 0;
    uint64_t begin = af_os_nanoseconds();
    for (int i = 0; i < 50 && (i < 5 || af_os_nanoseconds() - begin < 200000000); i++) {
        uint64_t start = af_os_nanoseconds();
        run(user);
        double took = (double)(af_os_nanoseconds() - start);
        if (i == 0 || took < best) best = took;
    }
    return best;
}

void kernel_report(const char *name, double nanoseconds, double amount, const char *unit, double bound) {
    double rate = amount / nanoseconds;
    printf("%-44s %12.0f ns %8.1f %s", name, nanoseconds, rate, unit);
    if (bound > 0) printf(", %3.0f%% of %.1f", 100 * rate / bound, bound);
    printf("\n");
    fflush(stdout);
}

#define READ_BYTES                                                                                                     \
    ((size_t)96 << 20) /* as the matrices that are timed with one token: a shared cache holds some of it */
#define MACS_RUNS 2000000

typedef uint64_t line __attribute__((vector_size(64)));

static inline __attribute__((always_inline)) void read_share(const void *memory, uint32_t task) {
    uint32_t tasks = af_pool_threads(kernel_pool());
    size_t lines = READ_BYTES / tasks / sizeof(line) / 4 * 4;
    const line *p = (const line *)memory + task * lines;
    line sums[4] = {{0}};
    for (size_t i = 0; i < lines; i += 4) {
        for (size_t j = 0; j < 4; j++) __builtin_prefetch(p + i + j + 32);
        for (size_t j = 0; j < 4; j++) sums[j] ^= p[i + j];
    }
    sums[0] ^= sums[1] ^ sums[2] ^ sums[3];
    for (size_t j = 0; j < 8; j++) __asm__ volatile("" : : "r"(sums[0][j]));
}

static void read_plain(void *user, uint32_t task, uint32_t worker) {
    (void)worker;
    read_share(user, task);
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static void read_wide(void *user, uint32_t task, uint32_t worker) {
    (void)worker;
    read_share(user, task);
}

static af_pool_fn reader(void) {
    return af_cpu_isa() >= AF_ISA_AVX512 ? read_wide : read_plain;
}
#else
static af_pool_fn reader(void) {
    return read_plain;
}
#endif

static void read_all(void *memory) {
    af_pool_run(kernel_pool(), reader(), memory, af_pool_threads(kernel_pool()));
}

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512vnni"))) static void multiply_registers(void *user, uint32_t task,
                                                                             uint32_t worker) {
    (void)user, (void)task, (void)worker;
    __m512i sums[12], codes = _mm512_set1_epi32(0x01020304);
    for (int i = 0; i < 12; i++) sums[i] = _mm512_setzero_si512();
    for (int run = 0; run < MACS_RUNS; run++) {
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++) sums[i] = _mm512_dpbusd_epi32(sums[i], codes, codes);
        __asm__ volatile("" : "+v"(codes));
    }
    for (int i = 1; i < 12; i++) sums[0] = _mm512_add_epi32(sums[0], sums[i]);
    __asm__ volatile("" : : "v"(sums[0]));
}

/* Tiles half as deep as they could be, as a block of 32 columns leaves them. */
__attribute__((target("amx-tile,amx-int8"))) static void multiply_tiles(void *user, uint32_t task, uint32_t worker) {
    (void)user, (void)task, (void)worker;
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } SHAPES = {1, 0, {0}, {64, 64, 64, 64, 32, 64}, {16, 16, 16, 16, 16, 8}};
    _tile_loadconfig(&SHAPES);
    for (int run = 0; run < MACS_RUNS / 64; run++) {
        _tile_dpbssd(0, 4, 5);
        _tile_dpbssd(1, 4, 5);
        _tile_dpbssd(2, 4, 5);
        _tile_dpbssd(3, 4, 5);
    }
    _tile_release();
}

static void vectors_on_all(void *user) {
    af_pool_run(kernel_pool(), multiply_registers, user, af_pool_threads(kernel_pool()));
}

static void tiles_on_all(void *user) {
    af_pool_run(kernel_pool(), multiply_tiles, user, af_pool_threads(kernel_pool()));
}

static double int8_bound(void) {
    if (af_cpu_isa() == AF_ISA_AMX)
        return 4.0 * 16 * 16 * 32 * (MACS_RUNS / 64) * af_pool_threads(kernel_pool()) / kernel_time(tiles_on_all, NULL);
    if (af_cpu_isa() == AF_ISA_AVX512)
        return 12.0 * 64 * MACS_RUNS * af_pool_threads(kernel_pool()) / kernel_time(vectors_on_all, NULL);
    return 0;
}
#else
static double int8_bound(void) {
    return 0;
}
#endif

kernel_bounds kernel_machine_bounds(void) {
    static kernel_bounds bounds;
    if (bounds.gb_per_second > 0) return bounds;
    void *memory = af_os_pages(READ_BYTES, true);
    if (!memory) return bounds;
    memset(memory, 1, READ_BYTES);
    bounds.gb_per_second = (double)READ_BYTES / kernel_time(read_all, memory);
    bounds.gmacs_per_second = int8_bound();
    af_os_pages_free(memory, READ_BYTES);
    printf("%u threads: reading %.1f GB/s, int8 %.0f GMAC/s\n", af_pool_threads(kernel_pool()), bounds.gb_per_second,
           bounds.gmacs_per_second);
    return bounds;
}

/* ---- Running the tables ---- */

static void run_check(void **state) {
    ((const kernel_check *)*state)->check();
}

#define CHECKS_MAX 128

static bool isa_is_as_expected(void) {
    const char *expected = getenv("KERNEL_CHECK_ISA"), *found = af_isa_name(af_cpu_isa());
    if (!expected || strcmp(expected, found) == 0) return true;
    fprintf(stderr, "kernel_check: the instruction set is %s, expected %s\n", found, expected);
    return false;
}

int main(int argc, char **argv) {
    bool bench = argc > 1 && strcmp(argv[1], "--bench") == 0;
    const char *part = argc > 1 + bench ? argv[1 + bench] : "";
    if (!isa_is_as_expected()) return 1;
    struct CMUnitTest tests[CHECKS_MAX];
    size_t count = 0;
    for (size_t t = 0; t < sizeof TABLES / sizeof *TABLES; t++) {
        for (const kernel_check *c = TABLES[t]; c->name && count < CHECKS_MAX; c++) {
            if (!strstr(c->name, part)) continue;
            if (bench && c->bench) c->bench();
            if (!bench && c->check)
                tests[count++] =
                    (struct CMUnitTest){.name = c->name, .test_func = run_check, .initial_state = (void *)c};
        }
    }
    if (!bench && !count) {
        fprintf(stderr, "kernel_check: no check has \"%s\" in its name\n", part);
        return 1;
    }
    int failed = bench ? 0 : _cmocka_run_group_tests("kernel_check", tests, count, NULL, NULL);
    af_pool_close(pool);
    return failed;
}

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

#define ROW "%-40s %-12s %12s %8s %8s %12s %6s\n"

/* Nanoseconds that the machine's bounds allow for the work. */
static double bound_of(af_isa isa, const kernel_work *work) {
    const kernel_peaks peaks = kernel_peaks_of(isa);
    const double share = (double)work->threads / af_pool_threads(kernel_pool());
    const double macs = work->int8_macs / peaks.int8 + work->f32_macs / peaks.f32;
    const double bytes = work->bytes / kernel_bandwidth();
    return bytes > macs / share ? bytes : macs / share;
}

static void format_rate(char out[16], double amount, double nanoseconds) {
    snprintf(out, 16, amount > 0 ? "%.1f" : "-", amount / nanoseconds);
}

void kernel_report(const char *name, af_isa isa, double nanoseconds, const kernel_work *work) {
    static bool begun;
    const double bound = bound_of(isa, work);
    char time[24], bytes[16], macs[16], least[24], part[16];
    if (!begun) printf(ROW, "kernel", "set", "ns", "GB/s", "GMAC/s", "bound ns", "share");
    begun = true;
    snprintf(time, sizeof time, "%.0f", nanoseconds);
    snprintf(least, sizeof least, "%.0f", bound);
    snprintf(part, sizeof part, "%.0f%%", 100 * bound / nanoseconds);
    format_rate(bytes, work->bytes, nanoseconds);
    format_rate(macs, work->int8_macs + work->f32_macs, nanoseconds);
    printf(ROW, name, af_isa_name(isa), time, bytes, macs, least, part);
    fflush(stdout);
}

#define READ_BYTES                                                                                                     \
    ((size_t)96 << 20) /* as the matrices that are timed with one token: a shared cache holds some of it */

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

double kernel_bandwidth(void) {
    static double found;
    void *memory = found > 0 ? NULL : af_os_pages(READ_BYTES, true);
    if (!memory) return found;
    memset(memory, 1, READ_BYTES);
    found = (double)READ_BYTES / kernel_time(read_all, memory);
    af_os_pages_free(memory, READ_BYTES);
    return found;
}

static void print_bounds(void) {
    printf("bounds, %u threads: reading %.1f GB/s", af_pool_threads(kernel_pool()), kernel_bandwidth());
    for (af_isa isa = AF_ISA_SCALAR; isa <= af_cpu_isa(); isa++) {
        const kernel_peaks p = kernel_peaks_of(isa);
        printf("; %s %.0f GMAC/s of int8, %.0f of f32", af_isa_name(isa), p.int8, p.f32);
    }
    printf("\n");
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
    if (bench) print_bounds();
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

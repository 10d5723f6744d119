/* kernel_check.h - the harness for the CPU's kernels: a table of checks, each of which compares kernels with their
 * reference and, under --bench, times them. A file of checks defines one table and kernel_check.c lists it.
 */
#ifndef KERNEL_CHECK_H
#define KERNEL_CHECK_H

#include "backend/cpu/linear.h"

#include <stdint.h>

typedef struct kernel_check {
    const char *name;    /* NULL ends a table */
    void (*check)(void); /* fails through cmocka's assertions */
    void (*bench)(void); /* prints rows with kernel_report; either may be NULL */
} kernel_check;

extern const kernel_check kernel_checks_linear[], kernel_checks_attend[];

/* A reproducible random stream. */
typedef struct kernel_random {
    uint64_t state;
} kernel_random;
uint64_t kernel_random_bits(kernel_random *r);
float kernel_random_float(kernel_random *r, float low, float high);

/* Equal bit for bit, or both NaN. Fails with `where` and the first index that differs. */
void kernel_assert_same(const float *found, const float *wanted, size_t count, const char *where);

/* ---- Timing ---- */

af_pool *kernel_pool(void);    /* threads as af_os_cores says */
double kernel_bandwidth(void); /* GB/s of reading memory, all threads */
typedef struct kernel_peaks {
    double int8, f32; /* GMAC/s in registers, all threads */
} kernel_peaks;
kernel_peaks kernel_peaks_of(af_isa isa);

/* Nanoseconds of the fastest of several runs. */
double kernel_time(void (*run)(void *user), void *user);

/* What a run does at least, whatever the kernel: bytes it reads from memory, products it sums. */
typedef struct kernel_work {
    double bytes, int8_macs, f32_macs;
    uint32_t threads; /* that share it */
} kernel_work;
/* One row of the table: name, instruction set, time, rates, the time that the machine's bounds allow, and its share. */
void kernel_report(const char *name, af_isa isa, double nanoseconds, const kernel_work *work);

#endif

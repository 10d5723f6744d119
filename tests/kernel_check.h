/* kernel_check.h - the harness for the CPU's kernels: a table of checks, each of which compares kernels with their
 * reference and, under --bench, times them. A file of checks defines one table and kernel_check.c lists it.
 */
#ifndef KERNEL_CHECK_H
#define KERNEL_CHECK_H

#include "base/pool.h"

#include <stdint.h>

typedef struct kernel_check {
    const char *name;    /* NULL ends a table */
    void (*check)(void); /* fails through cmocka's assertions */
    void (*bench)(void); /* prints lines with kernel_report; either may be NULL */
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

typedef struct kernel_bounds {
    double gb_per_second;    /* reading memory, all threads */
    double gmacs_per_second; /* int8 products in registers, all threads; 0 without such an instruction */
} kernel_bounds;
kernel_bounds kernel_machine_bounds(void);
af_pool *kernel_pool(void); /* threads as af_os_cores says */

/* Nanoseconds of the fastest of several runs. */
double kernel_time(void (*run)(void *user), void *user);
/* One line: name, time, and what it is of `bound`, as "12.3 GB/s, 81% of 15.2". `amount` in the unit, a run. */
void kernel_report(const char *name, double nanoseconds, double amount, const char *unit, double bound);

#endif

/* pool.h - the threads that run CPU kernels.
 *
 * A pool runs one job at a time: `tasks` calls of fn, taken by the workers and the calling thread in rising order from
 * a shared counter, and returns when all are done. Workers spin briefly between jobs (decode has some two hundred a
 * token) and then sleep, so that an idle process uses no CPU. How tasks fall to workers must never change a result.
 *
 * On a machine with several nodes of memory each node's workers have a counter of their own, for their share of the
 * tasks, and help the other nodes when it is done. A job's shares are the same every time, so what a task touches
 * first, when weights are packed, lies near the workers that read it later.
 */
#ifndef AF_POOL_H
#define AF_POOL_H

#include "base/os.h"

typedef struct af_pool af_pool;
/* worker: 0 .. threads-1, for scratch memory. */
typedef void (*af_pool_fn)(void *user, uint32_t task, uint32_t worker);

/* Where the threads run: spread evenly over `cores` (af_os_core_list). With `pin` each keeps to its core; without, to
 * the processors of its node, and on a machine with one node, or without cores, the system places them. */
typedef struct af_pool_places {
    const af_core *cores;
    uint32_t count;
    bool pin;
} af_pool_places;

int af_pool_open(uint32_t threads, af_pool **out, af_error *error); /* threads counts the caller's */
int af_pool_open_on(const af_pool_places *places, uint32_t threads, af_pool **out, af_error *error);
void af_pool_close(af_pool *pool);
uint32_t af_pool_threads(const af_pool *pool);
uint32_t af_pool_nodes(const af_pool *pool);
void af_pool_run(af_pool *pool, af_pool_fn fn, void *user, uint32_t tasks);
/* The same for a job of several parts, each with its own number of tasks, numbered one part after another: nodes share
 * each part. */
void af_pool_run_parts(af_pool *pool, af_pool_fn fn, void *user, const uint32_t *tasks, uint32_t parts);
/* Jobs so far that threads had to wait for each other in. */
uint64_t af_pool_barriers(const af_pool *pool);

/* The calling thread keeps to worker 0's place from now on: for the thread that runs the pool's jobs. Once it is there
 * this costs next to nothing. Threads it starts inherit the place, so one that only opens a pool leaves it again. */
void af_pool_take_place(const af_pool *pool);
void af_pool_leave_place(const af_pool *pool);

#endif

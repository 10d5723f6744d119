/* pool.h - the threads that run CPU kernels.
 *
 * A pool runs one job at a time: `tasks` calls of fn, taken by the workers and the calling thread in rising order from
 * a shared counter, and returns when all are done. Workers spin briefly between jobs (decode has some two hundred a
 * token) and then sleep, so that an idle process uses no CPU. How tasks fall to workers must never change a result.
 */
#ifndef AF_POOL_H
#define AF_POOL_H

#include "base/status.h"

typedef struct af_pool af_pool;
/* worker: 0 .. threads-1, for scratch memory. */
typedef void (*af_pool_fn)(void *user, uint32_t task, uint32_t worker);

int af_pool_open(uint32_t threads, af_pool **out, af_error *error); /* threads counts the caller's */
void af_pool_close(af_pool *pool);
uint32_t af_pool_threads(const af_pool *pool);
void af_pool_run(af_pool *pool, af_pool_fn fn, void *user, uint32_t tasks);

#endif

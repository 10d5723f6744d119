/* pool.c - the kernels' threads.
 *
 * One 64-bit word, `tickets`, holds a job's number of tasks (upper half) and the next task to take (lower half). Adding
 * 1 takes a task; the old value says whether it was one. Whoever holds an unfinished task keeps its job alive, so fn
 * and user are read only after taking one, and a worker that wakes late finds either no task or a task of a later job:
 * both are fine. The caller therefore never waits for a thread that has nothing to do, which matters when the system
 * runs other work on that thread's core.
 *
 *     caller                                   worker
 *     fn, user; unfinished = tasks             generation seen = g
 *     tickets = tasks << 32          ------>   while a ticket: run it
 *     generation += 1, wake sleepers           unfinished -= tasks run; the last wakes the caller
 *     while a ticket: run it                   spin, then sleep, until generation != g
 *     spin, then sleep, until unfinished == 0
 *
 * Sleeping on either side is the usual pair: announce (sleepers, caller_sleeps), then let the futex compare the word.
 * Announcements and words are sequentially consistent, so that one side always sees the other.
 */
#include "base/pool.h"

#include "base/os.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define LINE             64 /* words written by different threads lie on lines of their own */
#define SPIN_NANOSECONDS 50000
#define SPINS_A_CLOCK    32 /* pauses between looks at the clock */
#define THREADS_MAX      1024

typedef struct worker {
    af_pool *pool;
    af_thread *thread;
    uint32_t index;
} worker;

struct af_pool {
    _Alignas(LINE) _Atomic uint64_t tickets;
    _Alignas(LINE) _Atomic uint32_t generation;
    _Atomic uint32_t sleepers;
    atomic_bool closing;
    _Alignas(LINE) _Atomic uint32_t unfinished;
    _Atomic uint32_t caller_sleeps;
    _Alignas(LINE) af_pool_fn fn;
    void *user;
    uint32_t threads, started;
    bool running;
    worker *workers; /* threads - 1 */
};

static inline void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Spins until *word is `value` (wanted) or is no longer `value` (!wanted); false if the time for spinning is over. */
static bool spin_until(const _Atomic uint32_t *word, uint32_t value, bool wanted) {
    uint64_t start = 0;
    for (;;) {
        for (int i = 0; i < SPINS_A_CLOCK; i++) {
            if ((atomic_load_explicit(word, memory_order_acquire) == value) == wanted) return true;
            pause_briefly();
        }
        uint64_t now = af_os_nanoseconds();
        if (!start) start = now;
        if (now - start > SPIN_NANOSECONDS) return false;
    }
}

/* Takes and runs tasks until there are none left. */
static void work(af_pool *pool, uint32_t index) {
    uint32_t ran = 0;
    for (;;) {
        uint64_t seen = atomic_load_explicit(&pool->tickets, memory_order_relaxed);
        if ((uint32_t)seen >= seen >> 32) break;
        uint64_t ticket = atomic_fetch_add_explicit(&pool->tickets, 1, memory_order_acq_rel);
        uint32_t task = (uint32_t)ticket;
        if (task >= ticket >> 32) break;
        pool->fn(pool->user, task, index);
        ran++;
    }
    if (ran && atomic_fetch_sub(&pool->unfinished, ran) == ran && atomic_load(&pool->caller_sleeps))
        af_futex_wake_all(&pool->unfinished);
}

static void worker_main(void *user) {
    const worker *self = user;
    af_pool *pool = self->pool;
    uint32_t generation = 0; /* the pool's first, so that a job from before this thread ran is not slept through */
    while (!atomic_load_explicit(&pool->closing, memory_order_acquire)) {
        work(pool, self->index);
        if (!spin_until(&pool->generation, generation, false)) {
            atomic_fetch_add(&pool->sleepers, 1);
            while (atomic_load(&pool->generation) == generation) af_futex_wait(&pool->generation, generation);
            atomic_fetch_sub(&pool->sleepers, 1);
        }
        generation = atomic_load_explicit(&pool->generation, memory_order_acquire);
    }
}

static void announce(af_pool *pool) {
    atomic_fetch_add(&pool->generation, 1);
    if (atomic_load(&pool->sleepers)) af_futex_wake_all(&pool->generation);
}

static void wait_for_workers(af_pool *pool) {
    if (spin_until(&pool->unfinished, 0, true)) return;
    atomic_store(&pool->caller_sleeps, 1);
    for (uint32_t left; (left = atomic_load(&pool->unfinished)) != 0;) af_futex_wait(&pool->unfinished, left);
    atomic_store(&pool->caller_sleeps, 0);
}

void af_pool_run(af_pool *pool, af_pool_fn fn, void *user, uint32_t tasks) {
    assert(!pool->running);
    if (pool->threads == 1 || tasks <= 1) {
        for (uint32_t task = 0; task < tasks; task++) fn(user, task, 0);
        return;
    }
    pool->running = true;
    pool->fn = fn;
    pool->user = user;
    atomic_store_explicit(&pool->unfinished, tasks, memory_order_relaxed);
    atomic_store_explicit(&pool->tickets, (uint64_t)tasks << 32, memory_order_release);
    announce(pool);
    work(pool, 0);
    wait_for_workers(pool);
    pool->running = false;
}

static int start_workers(af_pool *pool, af_error *error) {
    for (uint32_t i = 1; i < pool->threads; i++) {
        worker *w = &pool->workers[i - 1];
        *w = (worker){.pool = pool, .index = i};
        char name[32];
        snprintf(name, sizeof name, "af-kernel-%u", i);
        int status = af_thread_start(&w->thread, name, worker_main, w, error);
        if (status) return status;
        pool->started++;
    }
    return 0;
}

int af_pool_open(uint32_t threads, af_pool **out, af_error *error) {
    if (threads < 1 || threads > THREADS_MAX)
        return af_fail(error, AF_EINVAL, "threads: %u, allowed 1 to %d", threads, THREADS_MAX);
    af_pool *pool = aligned_alloc(LINE, sizeof *pool);
    if (!pool) return af_fail_memory(error, sizeof *pool, "thread pool");
    *pool = (af_pool){.threads = threads};
    pool->workers = calloc(threads, sizeof *pool->workers);
    int status = pool->workers ? start_workers(pool, error)
                               : af_fail_memory(error, threads * sizeof *pool->workers, "thread pool");
    if (status) {
        af_pool_close(pool);
        return status;
    }
    *out = pool;
    return 0;
}

void af_pool_close(af_pool *pool) {
    if (!pool) return;
    atomic_store(&pool->closing, true);
    announce(pool);
    for (uint32_t i = 0; i < pool->started; i++) af_thread_join(pool->workers[i].thread);
    free(pool->workers);
    free(pool);
}

uint32_t af_pool_threads(const af_pool *pool) {
    return pool->threads;
}

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
 * With several nodes of memory there is such a word for each (share), and a worker looks at its own node's first.
 *
 * Sleeping on either side is the usual pair: announce (sleepers, caller_sleeps), then let the futex compare the word.
 * Announcements and words are sequentially consistent, so that one side always sees the other.
 */
#include "base/pool.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define LINE             64 /* words written by different threads lie on lines of their own */
#define SPIN_NANOSECONDS 50000
#define SPINS_A_CLOCK    32 /* pauses between looks at the clock */
#define THREADS_MAX      1024
#define NODES_MAX        16 /* workers of further nodes count as the last one's */

typedef struct worker {
    af_pool *pool;
    af_thread *thread; /* NULL: the caller's, worker 0 */
    uint32_t index;
    uint32_t node;     /* of the pool's, not the machine's number */
    af_cpu_mask place; /* empty: anywhere */
} worker;

/* What one node's workers take first. */
typedef struct share {
    _Alignas(LINE) _Atomic uint64_t tickets;
    uint32_t first_worker;
} share;

struct af_pool {
    share shares[NODES_MAX];
    _Alignas(LINE) _Atomic uint32_t generation;
    _Atomic uint32_t sleepers;
    atomic_bool closing;
    _Alignas(LINE) _Atomic uint32_t unfinished;
    _Atomic uint32_t caller_sleeps;
    _Alignas(LINE) af_pool_fn fn;
    void *user;
    const uint32_t *part_tasks; /* of each part */
    uint32_t threads, started, nodes, serial;
    bool running;
    uint64_t barriers;
    worker *workers; /* (threads) */
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

/* ---- Shares ---- */

/* Tasks before node `node`'s, of n: as many as its workers are of all. */
static uint32_t share_begin(const af_pool *pool, uint32_t node, uint32_t n) {
    const uint32_t before = node < pool->nodes ? pool->shares[node].first_worker : pool->threads;
    return (uint32_t)((uint64_t)n * before / pool->threads);
}

static uint32_t share_of(const af_pool *pool, uint32_t node, uint32_t n) {
    return share_begin(pool, node + 1, n) - share_begin(pool, node, n);
}

/* The task that is the i-th of a node's: its share of the first part, then of the second, ... */
static uint32_t task_of(const af_pool *pool, uint32_t node, uint32_t i) {
    uint32_t before = 0;
    for (const uint32_t *tasks = pool->part_tasks;; before += *tasks++) {
        const uint32_t own = share_of(pool, node, *tasks);
        if (i < own) return before + share_begin(pool, node, *tasks) + i;
        i -= own;
    }
}

/* Takes and runs a node's tasks until there are none left; returns how many it ran. */
static uint32_t work_share(af_pool *pool, uint32_t node, uint32_t index) {
    _Atomic uint64_t *const tickets = &pool->shares[node].tickets;
    for (uint32_t ran = 0;; ran++) {
        const uint64_t seen = atomic_load_explicit(tickets, memory_order_relaxed);
        if ((uint32_t)seen >= seen >> 32) return ran;
        const uint64_t ticket = atomic_fetch_add_explicit(tickets, 1, memory_order_acq_rel);
        const uint32_t i = (uint32_t)ticket;
        if (i >= ticket >> 32) return ran;
        pool->fn(pool->user, pool->nodes == 1 ? i : task_of(pool, node, i), index);
    }
}

/* Takes and runs tasks until there are none left, those of the worker's own node first. */
static void work(af_pool *pool, uint32_t index) {
    uint32_t ran = 0;
    const uint32_t own = pool->workers[index].node;
    for (uint32_t i = 0; i < pool->nodes; i++) ran += work_share(pool, (own + i) % pool->nodes, index);
    if (ran && atomic_fetch_sub(&pool->unfinished, ran) == ran && atomic_load(&pool->caller_sleeps))
        af_futex_wake_all(&pool->unfinished);
}

static bool has_place(const worker *w) {
    for (size_t i = 0; i < sizeof w->place.bits / sizeof *w->place.bits; i++)
        if (w->place.bits[i]) return true;
    return false;
}

static void worker_main(void *user) {
    const worker *self = user;
    af_pool *pool = self->pool;
    if (has_place(self)) af_os_thread_keep_to(&self->place);
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

void af_pool_run_parts(af_pool *pool, af_pool_fn fn, void *user, const uint32_t *part_tasks, uint32_t parts) {
    assert(!pool->running);
    uint32_t tasks = 0;
    for (uint32_t i = 0; i < parts; i++) tasks += part_tasks[i];
    if (pool->threads == 1 || tasks <= 1) {
        for (uint32_t task = 0; task < tasks; task++) fn(user, task, 0);
        return;
    }
    pool->running = true;
    pool->barriers++;
    pool->fn = fn;
    pool->user = user;
    pool->part_tasks = part_tasks;
    atomic_store_explicit(&pool->unfinished, tasks, memory_order_relaxed);
    for (uint32_t node = 0; node < pool->nodes; node++) {
        uint64_t own = pool->nodes == 1 ? tasks : 0;
        for (uint32_t i = 0; i < parts && pool->nodes > 1; i++) own += share_of(pool, node, part_tasks[i]);
        atomic_store_explicit(&pool->shares[node].tickets, own << 32, memory_order_release);
    }
    announce(pool);
    work(pool, 0);
    wait_for_workers(pool);
    pool->running = false;
}

void af_pool_run(af_pool *pool, af_pool_fn fn, void *user, uint32_t tasks) {
    af_pool_run_parts(pool, fn, user, &tasks, 1);
}

/* ---- Places ---- */

static bool on_several_nodes(const af_pool_places *places) {
    return places->count > 0 && places->cores[0].node != places->cores[places->count - 1].node;
}

/* Each worker's core and node. The cores are in the order of nodes, so workers are too. */
static void place_workers(af_pool *pool, const af_pool_places *places) {
    const bool several = on_several_nodes(places);
    uint32_t before = 0; /* the machine's number of the last worker's node */
    for (uint32_t i = 0; i < pool->threads; i++) {
        const af_core *core = &places->cores[(uint64_t)i * places->count / pool->threads];
        if (i > 0 && core->node != before && pool->nodes < NODES_MAX) pool->shares[pool->nodes++].first_worker = i;
        before = core->node;
        worker *w = &pool->workers[i];
        w->node = pool->nodes - 1;
        if (places->pin) af_cpu_mask_add(&w->place, core->cpu);
        for (uint32_t c = 0; several && !places->pin && c < places->count; c++)
            if (places->cores[c].node == core->node) af_cpu_mask_add(&w->place, places->cores[c].cpu);
    }
}

/* Of the calling thread: the pool whose place it took, and where it could run before. */
static _Thread_local struct {
    uint32_t serial;
    bool moved;
    af_cpu_mask before;
} taken;

void af_pool_take_place(const af_pool *pool) {
    if (taken.serial == pool->serial) return;
    taken.serial = pool->serial;
    taken.moved = has_place(&pool->workers[0]) && af_os_thread_mask(&taken.before) &&
                  af_os_thread_keep_to(&pool->workers[0].place);
}

void af_pool_leave_place(const af_pool *pool) {
    if (taken.serial != pool->serial) return;
    if (taken.moved) af_os_thread_keep_to(&taken.before);
    taken.serial = 0;
}

/* ---- Opening and closing ---- */

static int start_workers(af_pool *pool, af_error *error) {
    for (uint32_t i = 1; i < pool->threads; i++) {
        worker *w = &pool->workers[i];
        char name[32];
        snprintf(name, sizeof name, "af-kernel-%u", i);
        int status = af_thread_start(&w->thread, name, worker_main, w, error);
        if (status) return status;
        pool->started++;
    }
    return 0;
}

int af_pool_open(uint32_t threads, af_pool **out, af_error *error) {
    return af_pool_open_on(&(af_pool_places){0}, threads, out, error);
}

int af_pool_open_on(const af_pool_places *places, uint32_t threads, af_pool **out, af_error *error) {
    static _Atomic uint32_t opened;
    if (threads < 1 || threads > THREADS_MAX)
        return af_fail(error, AF_EINVAL, "threads: %u, allowed 1 to %d", threads, THREADS_MAX);
    af_pool *pool = aligned_alloc(LINE, sizeof *pool);
    if (!pool) return af_fail_memory(error, sizeof *pool, "thread pool");
    *pool = (af_pool){.threads = threads, .nodes = 1, .serial = atomic_fetch_add(&opened, 1) + 1};
    pool->workers = calloc(threads, sizeof *pool->workers);
    for (uint32_t i = 0; i < threads && pool->workers; i++) pool->workers[i] = (worker){.pool = pool, .index = i};
    if (pool->workers && places->count > 0) place_workers(pool, places);
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
    for (uint32_t i = 1; i <= pool->started; i++) af_thread_join(pool->workers[i].thread);
    free(pool->workers);
    free(pool);
}

uint32_t af_pool_threads(const af_pool *pool) {
    return pool->threads;
}

uint32_t af_pool_nodes(const af_pool *pool) {
    return pool->nodes;
}

uint64_t af_pool_barriers(const af_pool *pool) {
    return pool->barriers;
}

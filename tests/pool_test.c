/* pool_test.c - threads, locks, and the kernels' pool. */
#include "base/os.h"
#include "base/pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define TASKS_MAX 5000

typedef struct job {
    _Atomic uint32_t runs[TASKS_MAX]; /* of each task */
    _Atomic uint32_t busy[64];        /* of each worker: no two tasks at once with one worker's number */
    _Atomic uint32_t clashes, worker_end;
} job;

static void count_run(void *user, uint32_t task, uint32_t worker) {
    job *j = user;
    if (worker >= j->worker_end || atomic_exchange(&j->busy[worker], 1)) atomic_fetch_add(&j->clashes, 1);
    atomic_fetch_add(&j->runs[task], 1);
    atomic_store(&j->busy[worker], 0);
}

static void every_task_runs_once_with_any_number_of_threads(void **state) {
    for (uint32_t threads = 1; threads <= 5; threads++) {
        af_pool *pool;
        assert_int_equal(af_pool_open(threads, &pool, NULL), 0);
        assert_int_equal(af_pool_threads(pool), threads);
        for (uint32_t tasks = 0; tasks < 200; tasks++) {
            job j = {.worker_end = threads};
            af_pool_run(pool, count_run, &j, tasks);
            for (uint32_t i = 0; i < 200; i++) assert_int_equal(j.runs[i], i < tasks);
            assert_int_equal(j.clashes, 0);
        }
        af_pool_close(pool);
    }
}

static void add_up(void *user, uint32_t task, uint32_t worker) {
    ((uint64_t *)user)[task] += task;
}

/* Plain memory written in one job is read in the next, by whichever thread. */
static void jobs_in_a_row_see_each_others_writes(void **state) {
    enum { TASKS = 7, JOBS = 20000 };
    af_pool *pool;
    uint64_t sums[TASKS] = {0};
    assert_int_equal(af_pool_open(3, &pool, NULL), 0);
    for (int i = 0; i < JOBS; i++) af_pool_run(pool, add_up, sums, TASKS);
    for (uint64_t i = 0; i < TASKS; i++) assert_int_equal(sums[i], i * JOBS);
    af_pool_close(pool);
}

static void pause_for(uint64_t nanoseconds) {
    struct timespec t = {.tv_nsec = (long)nanoseconds};
    nanosleep(&t, NULL);
}

static void sleeping_workers_wake_for_the_next_job(void **state) {
    af_pool *pool;
    assert_int_equal(af_pool_open(4, &pool, NULL), 0);
    for (int round = 0; round < 50; round++) {
        job j = {.worker_end = 4};
        pause_for(1000000); /* past their spinning */
        af_pool_run(pool, count_run, &j, 64);
        for (uint32_t i = 0; i < 64; i++) assert_int_equal(j.runs[i], 1);
    }
    af_pool_close(pool);
}

static void an_idle_pool_uses_no_processor_time(void **state) {
    af_pool *pool;
    job j = {.worker_end = 4};
    assert_int_equal(af_pool_open(4, &pool, NULL), 0);
    af_pool_run(pool, count_run, &j, 64);
    pause_for(5000000);
    clock_t before = clock();
    pause_for(200000000);
    assert_true(clock() - before < CLOCKS_PER_SEC / 100);
    af_pool_close(pool);
}

static void slow_task(void *user, uint32_t task, uint32_t worker) {
    pause_for(2000000);
    atomic_fetch_add((_Atomic uint32_t *)user, 1);
}

static void the_caller_waits_for_tasks_that_outlast_its_spinning(void **state) {
    af_pool *pool;
    assert_int_equal(af_pool_open(3, &pool, NULL), 0);
    for (int i = 0; i < 20; i++) {
        _Atomic uint32_t done = 0;
        af_pool_run(pool, slow_task, (void *)&done, 4);
        assert_int_equal(done, 4);
    }
    af_pool_close(pool);
}

static void thread_counts_out_of_bounds_are_refused(void **state) {
    af_error error;
    af_pool *pool = NULL;
    assert_int_equal(af_pool_open(0, &pool, &error), AF_EINVAL);
    assert_string_equal(error.text, "threads: 0, allowed 1 to 1024");
    assert_int_equal(af_pool_open(100000, &pool, &error), AF_EINVAL);
    assert_null(pool);
    af_pool_close(NULL);
}

typedef struct turn {
    af_mutex *mutex;
    af_cond *cond;
    int value;
} turn;

static void take_turn(void *user) {
    turn *t = user;
    af_mutex_lock(t->mutex);
    while (t->value != 1) af_cond_wait(t->cond, t->mutex);
    t->value = 2;
    af_cond_broadcast(t->cond);
    af_mutex_unlock(t->mutex);
}

static void threads_hand_over_through_a_condition(void **state) {
    turn t = {af_mutex_open(), af_cond_open(), 0};
    af_thread *thread;
    assert_int_equal(af_thread_start(&thread, "a name longer than the system's fifteen", take_turn, &t, NULL), 0);
    af_mutex_lock(t.mutex);
    t.value = 1;
    af_cond_signal(t.cond);
    while (t.value != 2) af_cond_wait(t.cond, t.mutex);
    af_mutex_unlock(t.mutex);
    af_thread_join(thread);
    af_thread_join(NULL);
    af_cond_close(t.cond);
    af_mutex_close(t.mutex);
}

static void a_timed_wait_ends_by_itself(void **state) {
    turn t = {af_mutex_open(), af_cond_open(), 0};
    uint64_t start = af_os_nanoseconds();
    af_mutex_lock(t.mutex);
    while (af_cond_wait_for(t.cond, t.mutex, 20000000)) continue;
    af_mutex_unlock(t.mutex);
    assert_true(af_os_nanoseconds() - start >= 20000000);
    af_cond_close(t.cond);
    af_mutex_close(t.mutex);
}

int main(void) {
    alarm(120); /* a lost wake-up ends as a failure */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_runs_once_with_any_number_of_threads),
        cmocka_unit_test(jobs_in_a_row_see_each_others_writes),
        cmocka_unit_test(sleeping_workers_wake_for_the_next_job),
        cmocka_unit_test(an_idle_pool_uses_no_processor_time),
        cmocka_unit_test(the_caller_waits_for_tasks_that_outlast_its_spinning),
        cmocka_unit_test(thread_counts_out_of_bounds_are_refused),
        cmocka_unit_test(threads_hand_over_through_a_condition),
        cmocka_unit_test(a_timed_wait_ends_by_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

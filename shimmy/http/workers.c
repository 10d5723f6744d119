/* workers.c - see workers.h. */
#include "http/workers.h"

#include "base/os.h"

#include <stdlib.h>

struct shimmy_workers {
    af_mutex *lock;
    af_cond *arrived;
    shimmy_task *first, *last; /* under lock */
    bool closing;              /* under lock */
    uint32_t count;
    af_thread *threads[];
};

/* Waits for a task; NULL when closing and none is left. */
static shimmy_task *take(shimmy_workers *workers) {
    af_mutex_lock(workers->lock);
    while (!workers->first && !workers->closing) af_cond_wait(workers->arrived, workers->lock);
    shimmy_task *task = workers->first;
    if (task) workers->first = task->next;
    af_mutex_unlock(workers->lock);
    return task;
}

static void work(void *user) {
    shimmy_task *task;
    while ((task = take(user)) != NULL) task->run(task);
}

int shimmy_workers_open(uint32_t threads, shimmy_workers **out, af_error *error) {
    shimmy_workers *workers = calloc(1, sizeof *workers + threads * sizeof *workers->threads);
    if (!workers) return af_fail_memory(error, sizeof *workers, "the text workers");
    workers->lock = af_mutex_open();
    workers->arrived = af_cond_open();
    int rc = workers->lock && workers->arrived ? 0 : af_fail(error, AF_ENOMEM, "the text workers: out of memory");
    while (rc == 0 && workers->count < threads) {
        rc = af_thread_start(&workers->threads[workers->count], "text", work, workers, error);
        if (rc == 0) workers->count++;
    }
    if (rc < 0) {
        shimmy_workers_close(workers);
        return rc;
    }
    *out = workers;
    return 0;
}

void shimmy_workers_close(shimmy_workers *workers) {
    if (!workers) return;
    if (workers->count) {
        af_mutex_lock(workers->lock);
        workers->closing = true;
        af_cond_broadcast(workers->arrived);
        af_mutex_unlock(workers->lock);
    }
    for (uint32_t i = 0; i < workers->count; i++) af_thread_join(workers->threads[i]);
    af_cond_close(workers->arrived);
    af_mutex_close(workers->lock);
    free(workers);
}

void shimmy_workers_push(shimmy_workers *workers, shimmy_task *task) {
    task->next = NULL;
    af_mutex_lock(workers->lock);
    if (workers->first)
        workers->last->next = task;
    else
        workers->first = task;
    workers->last = task;
    af_cond_signal(workers->arrived);
    af_mutex_unlock(workers->lock);
}

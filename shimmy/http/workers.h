/* workers.h - the threads that parse, render and tokenize, so that a long prompt stalls nobody's stream.
 *
 * Tasks are taken in order of arrival. A task is embedded in what it is about; how many there are is bounded by the
 * number of connections, each of which has one request in hand.
 */
#ifndef SHIMMY_WORKERS_H
#define SHIMMY_WORKERS_H

#include "base/status.h"

typedef struct shimmy_workers shimmy_workers;

typedef struct shimmy_task {
    struct shimmy_task *next; /* the workers' */
    void (*run)(struct shimmy_task *task);
} shimmy_task;

int shimmy_workers_open(uint32_t threads, shimmy_workers **out, af_error *error);
/* Runs what is queued, then ends the threads. */
void shimmy_workers_close(shimmy_workers *workers);
void shimmy_workers_push(shimmy_workers *workers, shimmy_task *task);

#endif

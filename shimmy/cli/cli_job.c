/* cli_job.c - see cli_job.h. Ctrl-C only sets a flag, since a signal handler may do no more; the waiting thread looks
 * at it several times a second and cancels, so that the engine ends the request in its own order. A second Ctrl-C ends
 * the program at once. */
#include "cli/cli_job.h"

#include <signal.h>

#define LOOK_EVERY 50000000u /* nanoseconds between looks at the flag */

static volatile sig_atomic_t interrupted;

static void interrupt(int number) {
    interrupted = 1;
    signal(number, SIG_DFL);
}

static void job_event(void *user, const af_event *event) {
    shimmy_job *job = user;
    if (job->on_event) job->on_event(job->user, event);
    if (event->finish == AF_FINISH_NONE) return;
    af_mutex_lock(job->mutex);
    job->finish = event->finish;
    job->prompt_tokens = event->prompt_tokens;
    job->cached_tokens = event->cached_tokens;
    job->completion_tokens = event->completion_tokens;
    if (event->error) job->failure = *event->error;
    job->over = true;
    af_cond_signal(job->ended);
    af_mutex_unlock(job->mutex);
}

static void job_logits(void *user, size_t position, const float *logits, size_t count) {
    const shimmy_job *job = user;
    job->on_logits(job->user, position, logits, count);
}

static void job_clear(shimmy_job *job) {
    af_cond_close(job->ended);
    af_mutex_close(job->mutex);
    job->ended = NULL;
    job->mutex = NULL;
}

int shimmy_job_start(shimmy_job *job, af_engine *engine, const af_request *request, af_error *error) {
    job->engine = engine;
    job->finish = AF_FINISH_NONE;
    job->over = false;
    job->mutex = af_mutex_open();
    job->ended = af_cond_open();
    if (!job->mutex || !job->ended) {
        job_clear(job);
        return af_fail_memory(error, sizeof *job, "a request");
    }
    signal(SIGINT, interrupt);
    af_request copy = *request;
    copy.on_event = job_event;
    copy.on_logits = job->on_logits ? job_logits : NULL;
    copy.user = job;
    const int status = af_submit(engine, &copy, &job->id, error);
    if (status) job_clear(job);
    return status;
}

void shimmy_job_cancel(shimmy_job *job) {
    af_cancel(job->engine, job->id);
}

int shimmy_job_wait(shimmy_job *job, af_error *error) {
    bool cancelled = false;
    af_mutex_lock(job->mutex);
    while (!job->over) {
        const bool cancel = interrupted && !cancelled;
        if (cancel) {
            af_mutex_unlock(job->mutex);
            shimmy_job_cancel(job);
            af_mutex_lock(job->mutex);
            cancelled = true;
        } else {
            af_cond_wait_for(job->ended, job->mutex, LOOK_EVERY);
        }
    }
    af_mutex_unlock(job->mutex);
    job_clear(job);
    if (job->finish == AF_FINISH_CANCEL) return af_fail(error, AF_ECANCELED, "interrupted");
    if (job->finish != AF_FINISH_ERROR) return 0;
    if (error) *error = job->failure;
    return job->failure.code;
}

int shimmy_job_run(shimmy_job *job, af_engine *engine, const af_request *request, af_error *error) {
    const int status = shimmy_job_start(job, engine, request, error);
    return status ? status : shimmy_job_wait(job, error);
}

/* cli_job.h - a request run from the command line: submitted, waited for, cancelled by Ctrl-C.
 *
 * The engine reports on its own thread; the command waits on its own. A job carries between the two: it forwards each
 * event to the command's function and keeps what the final one said.
 */
#ifndef SHIMMY_CLI_JOB_H
#define SHIMMY_CLI_JOB_H

#include "base/os.h"
#include "base/status.h"

typedef struct shimmy_job {
    /* Set before the start; either may be NULL. Called on the engine's thread. */
    af_event_fn on_event;
    af_logits_fn on_logits;
    void *user;

    /* Valid after the wait. */
    af_finish finish;
    uint32_t prompt_tokens, cached_tokens, completion_tokens;

    /* Private. */
    af_engine *engine;
    af_mutex *mutex;
    af_cond *ended;
    uint64_t id;
    bool over;
    af_error failure;
} shimmy_job;

/* Submits a copy of the request whose functions are the job's. On success a wait must follow; the job must not move. */
int shimmy_job_start(shimmy_job *job, af_engine *engine, const af_request *request, af_error *error);
/* Waits for the end. AF_ECANCELED after Ctrl-C or shimmy_job_cancel, or the engine's own error. */
int shimmy_job_wait(shimmy_job *job, af_error *error);
void shimmy_job_cancel(shimmy_job *job);
/* Both. */
int shimmy_job_run(shimmy_job *job, af_engine *engine, const af_request *request, af_error *error);

#endif

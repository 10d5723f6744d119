/* prepared.c - decoding where the host chooses, with the next step made ready while the device runs this one.
 *
 * What a token of a GPU costs the host is mostly telling it what to do: a hundred dispatches or more. Nothing of that
 * depends on which token was chosen, so the step after is prepared while the one before runs, and started with the ids
 * as soon as these are drawn (backend.h). Unlike in ahead.c the device waits for that, and nothing else.
 *
 * It goes on as long as it would in ahead.c, and pages are kept safe in the same way: a prepared step that is not
 * started has written nothing.
 */
#include "engine/engine_internal.h"

bool af_step_can_prepare(const af_engine *engine) {
    const af_step *step = &engine->step;
    if (!engine->backend->ops->prepare || step->prompt_tokens > 0) return false;
    return step->token_count == step->job_count && step->row_count == step->job_count &&
           step->job_count == engine->running_count;
}

/* 0: prepared; 1: it is not to be, or cannot. */
static int prepare(af_engine *engine, af_error *error) {
    if (!af_step_may_go_on(engine, 1)) return 1;
    const af_batch batch = af_step_next(engine, 1);
    for (uint32_t i = 0; i < batch.token_count; i++)
        if (batch.tokens[i].choose != af_job_choice_at(engine->step.jobs[i], batch.tokens[i].position)) return 1;
    return engine->backend->ops->prepare(engine->backend, &batch, error);
}

static int start(af_engine *engine, af_ticket *ticket, af_error *error) {
    af_step *step = &engine->step;
    for (uint32_t i = 0; i < step->job_count; i++) {
        step->tokens[i].id = step->jobs[i]->last;
        step->rows[i].position = step->tokens[i].position;
    }
    const af_batch batch = af_step_batch(step);
    return engine->backend->ops->start(engine->backend, &batch, ticket, error);
}

/* True if every job goes on. Counted first: who hears of a job's end may ask for the sums. */
static bool take(af_engine *engine, const af_result *result) {
    const af_step *step = &engine->step;
    bool all = true;
    af_step_count(engine, 0, step->row_count);
    for (uint32_t i = 0; i < step->job_count; i++) step->jobs[i]->done++;
    for (uint32_t i = 0; i < step->row_count; i++)
        all &= af_step_take_row(engine, &step->rows[i], result->ids[i], result->logits[i]);
    return all;
}

void af_step_prepared(af_engine *engine) {
    af_backend *backend = engine->backend;
    const af_batch first = af_step_batch(&engine->step);
    af_ticket ticket = 0;
    af_error error = {0}, late = {0};
    int rc = backend->ops->submit(backend, &first, &ticket, &error);
    while (rc == 0) {
        af_result result = {0};
        const int prepared = prepare(engine, &error);
        rc = backend->ops->collect(backend, ticket, &result, prepared < 0 ? &late : &error);
        if (rc < 0 || prepared < 0) break;
        if (!take(engine, &result) || prepared != 0) return;
        rc = start(engine, &ticket, &error);
    }
    af_step_fail(engine, &error);
}

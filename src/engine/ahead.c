/* ahead.c - decoding with several steps in flight.
 *
 * A device that chooses a token itself need not wait for the host between steps: a step's input is "what row r of the
 * step before chose". So while the running jobs all decode in ways that the device knows (the best token; a draw from
 * the best few, or from all), steps are submitted ahead and collected in order, and the host's work (text, events,
 * encoding the next step, drawing again) hides behind the device's. The flight ends, with everything collected, as soon
 * as a job ends, is cancelled, reaches its limit, or another waits to be admitted; what a job that ended was given
 * beyond its end is dropped.
 *
 * A drawn token is the sampler's all the same: the rows come back, the sampler draws of each with the same random
 * number, and what the device drew is no more than a guess at that, made so that the next step could begin. Sums of
 * floats in another order make it wrong once in many thousand tokens; where a row is so flat that thousands of tokens
 * are as good, more often. The job is astray then: its steps in flight are dropped, the flight ends, and the token that
 * was drawn takes the place of the other, in the cache too. So the text does not depend on whether steps were in
 * flight. Where flights end so soon that what they drop costs more than they win, those jobs stay on the ground for a
 * while. Recurrent states cannot be taken back: plans with them fly greedily or not at all.
 *
 * Pages: a step in flight may still write to a page of a job that ended. Nobody else is given pages until the flight is
 * over, and the device runs steps in order, so nothing is overwritten that is read later. What the oldest step in
 * flight sees through a window stays, for that is where an astray job begins again.
 */
#include "engine/engine_internal.h"

#include <assert.h>

#define GROUNDED 64 /* tokens: who has one row too flat for the device may well have more */
#define SHORT    2  /* flights in a row, before their jobs are grounded */

typedef struct flight {
    af_engine *engine;
    af_ticket tickets[AF_AHEAD_MOST]; /* oldest first */
    uint32_t in_flight, collected;
    bool over;    /* nothing more is submitted */
    bool strayed; /* from what the device drew */
} flight;

static bool device_draws(const af_backend *backend, const af_batch_token *token, const af_job *job) {
    if (token->choose == AF_CHOOSE_TOP) return backend->draws_top;
    return token->choose == AF_CHOOSE_LOGITS && backend->draws_whole && !af_job_wants(job, token->position) &&
           af_sampler_draws_whole(job->sampler);
}

static bool device_chooses(const af_engine *engine, const af_batch_token *token, const af_job *job) {
    if (token->choose == AF_CHOOSE_GREEDY) return true;
    return engine->plan->carry_count == 0 && job->completion >= job->fly_from &&
           device_draws(engine->backend, token, job);
}

bool af_step_can_run_ahead(const af_engine *engine) {
    const af_step *step = &engine->step;
    if (engine->backend->ops->in_flight < 2 || step->prompt_tokens > 0) return false;
    if (step->token_count != step->job_count || step->row_count != step->job_count) return false;
    if (step->job_count != engine->running_count) return false; /* somebody waits for a disk */
    for (uint32_t i = 0; i < step->token_count; i++)
        if (!device_chooses(engine, &step->tokens[i], step->jobs[i])) return false;
    return true;
}

/* Somebody is to be admitted or cancelled, or the engine closes. */
static bool somebody_waits(af_engine *engine) {
    const af_step *step = &engine->step;
    for (uint32_t i = 0; i < step->job_count; i++)
        if (step->jobs[i] && atomic_load(&step->jobs[i]->cancelled)) return true;
    af_mutex_lock(engine->mutex);
    const bool waits =
        engine->closing || (engine->live_count > engine->admitted_count && engine->running_count < engine->parallel);
    af_mutex_unlock(engine->mutex);
    return waits;
}

bool af_step_may_go_on(af_engine *engine, uint32_t in_flight) {
    const af_step *step = &engine->step;
    for (uint32_t i = 0; i < step->job_count; i++)
        if (in_flight >= af_job_room(step->jobs[i])) return false;
    return !somebody_waits(engine);
}

af_batch af_step_next(af_engine *engine, uint32_t in_flight) {
    af_step *step = &engine->step;
    for (uint32_t i = 0; i < step->job_count; i++) {
        af_job *job = step->jobs[i];
        step->tokens[i].position = job->done + in_flight;
        const bool reserved = af_kv_reserve(engine->kv, job->seq, job->done, job->done + in_flight + 1);
        assert(reserved); /* invariant 3 */
        (void)reserved;
        af_kv_view(job->seq, &step->seqs[i]);
    }
    return af_step_batch(step);
}

/* The step after those in flight. The first is the batch as it was built. */
static af_batch next_batch(flight *f) {
    const af_step *step = &f->engine->step;
    for (uint32_t i = 0; i < step->job_count; i++) {
        af_batch_token *token = &step->tokens[i];
        token->id = f->in_flight ? -1 : step->jobs[i]->last;
        token->from = f->in_flight ? f->tickets[f->in_flight - 1] : 0;
        token->from_row = i;
        if (token->choose == AF_CHOOSE_GREEDY) continue;
        step->draws[i] = af_sampler_draw(step->jobs[i]->sampler, f->in_flight);
        token->draw = &step->draws[i];
    }
    return af_step_next(f->engine, f->in_flight);
}

static int submit(flight *f, af_error *error) {
    af_backend *backend = f->engine->backend;
    const af_batch batch = next_batch(f);
    const int rc = backend->ops->submit(backend, &batch, &f->tickets[f->in_flight], error);
    if (rc == 0) f->in_flight++;
    return rc;
}

/* ---- What comes back ---- */

static bool still_hears(const af_job *job) {
    return job && !job->astray && !atomic_load(&job->cancelled);
}

static void lead_astray(flight *f, af_job *job) {
    job->astray = true;
    f->over = true;
}

/* Whether the row came back that the job's next token is drawn from. */
static bool has_choice(const af_step *step, const af_result *result, uint32_t i) {
    return step->tokens[i].choose == AF_CHOOSE_GREEDY || result->logits[i];
}

static void take_choice(flight *f, const af_result *result, uint32_t i) {
    af_step *step = &f->engine->step;
    af_job *job = step->jobs[i];
    if (!has_choice(step, result, i)) {
        job->fly_from = job->completion + GROUNDED;
        lead_astray(f, job);
        return;
    }
    job->done++;
    const bool greedy = step->tokens[i].choose == AF_CHOOSE_GREEDY;
    const int32_t id = greedy ? result->ids[i] : af_job_choose(job, result->logits[i]);
    if (!af_step_take(f->engine, job, id)) {
        step->jobs[i] = NULL; /* it ended, and is gone */
        f->over = true;
    } else if (id != result->ids[i]) {
        f->strayed = true;
        lead_astray(f, job);
    }
}

/* Counted first: who hears of a job's end may ask for the sums. */
static void take_choices(flight *f, const af_result *result) {
    const af_step *step = &f->engine->step;
    uint32_t generated = 0;
    for (uint32_t i = 0; i < step->job_count; i++)
        generated += still_hears(step->jobs[i]) && has_choice(step, result, i);
    af_step_count(f->engine, 0, generated);
    for (uint32_t i = 0; i < step->job_count; i++)
        if (still_hears(step->jobs[i])) take_choice(f, result, i);
}

static int take_oldest(flight *f, af_result *result, af_error *error) {
    af_backend *backend = f->engine->backend;
    const int rc = backend->ops->collect(backend, f->tickets[0], result, error);
    f->in_flight--;
    for (uint32_t i = 0; i < f->in_flight; i++) f->tickets[i] = f->tickets[i + 1];
    return rc;
}

static int collect(flight *f, af_error *error) {
    af_result result = {0};
    const int rc = take_oldest(f, &result, error);
    if (rc == 0) take_choices(f, &result);
    f->collected++;
    return rc;
}

/* What a flight wins is about half a step for each that it collects; what it drops at its end, a step less than fly. */
static void judge(const flight *f, uint32_t most) {
    af_engine *engine = f->engine;
    const bool paid = f->collected >= 2 * most;
    if (paid) engine->short_flights = 0;
    if (paid || !f->strayed || ++engine->short_flights < SHORT) return;
    engine->short_flights = 0;
    for (uint32_t i = 0; i < engine->step.job_count; i++) {
        af_job *job = engine->step.jobs[i];
        if (job) job->fly_from = job->completion + GROUNDED;
    }
}

void af_step_ahead(af_engine *engine) {
    flight f = {.engine = engine};
    const uint32_t depth = engine->backend->ops->in_flight;
    const uint32_t most = depth < AF_AHEAD_MOST ? depth : AF_AHEAD_MOST;
    af_error error = {0};
    for (uint32_t i = 0; i < engine->step.job_count; i++) engine->step.jobs[i]->astray = false;
    int rc = submit(&f, &error);
    while (rc == 0 && f.in_flight > 0) {
        while (rc == 0 && f.in_flight < most && !f.over && af_step_may_go_on(engine, f.in_flight))
            rc = submit(&f, &error);
        if (rc == 0) rc = collect(&f, &error);
    }
    judge(&f, most);
    if (rc == 0) return;
    af_error unheard;
    while (f.in_flight > 0) take_oldest(&f, &(af_result){0}, &unheard);
    af_step_fail(engine, &error);
}

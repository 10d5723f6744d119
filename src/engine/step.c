/* step.c - one step of all running requests: a token for each that decodes, and a share of the prompt budget for each
 * whose prompt is not through yet.
 *
 * The budget is prefill_chunk tokens, and a quarter of that while somebody decodes: a step's time is the time between
 * two tokens of those who do. Requests in their prompt share it evenly; what a short prompt leaves goes to the others,
 * so that a short one is never behind a long one. Where logits of many prompt tokens are wanted, a share is cut so that
 * the rows fit. All of this is allowed by promise 1: no cut changes a logit.
 *
 * A device whose decoded tokens have other bits than a prompt's (backend.h) is given steps of the one and of the other
 * in turn, so that nobody's tokens depend on who else is there.
 *
 * A plan whose attention sees both directions takes prompts whole: as many as fit into the budget, which holds the
 * longest, first come first served.
 *
 * The greedy choice is left to the device; other rows come back as logits, and the sampler chooses here.
 */
#include "engine/engine_internal.h"

#include "base/log.h"

#include <assert.h>
#include <stdlib.h>

#define DECODE_DIVISOR 4 /* of the prompt budget, while somebody decodes */
#define LEAST_BUDGET   32u

int af_step_open(uint32_t max_tokens, uint32_t max_rows, uint32_t max_jobs, af_step *out, af_error *error) {
    *out = (af_step){.max_tokens = max_tokens, .max_rows = max_rows, .max_jobs = max_jobs};
    out->tokens = calloc(max_tokens, sizeof *out->tokens);
    out->rows = calloc(max_rows, sizeof *out->rows);
    out->states = calloc(max_tokens, sizeof *out->states);
    out->seqs = calloc(max_jobs, sizeof *out->seqs);
    out->jobs = calloc(max_jobs, sizeof *out->jobs);
    out->draws = calloc(max_jobs, sizeof *out->draws);
    if (out->tokens && out->rows && out->states && out->seqs && out->jobs && out->draws) return AF_OK;
    af_step_close(out);
    return af_fail_memory(error, max_tokens * sizeof *out->tokens, "the engine's batch");
}

void af_step_close(af_step *step) {
    free(step->tokens);
    free(step->rows);
    free(step->states);
    free(step->seqs);
    free(step->jobs);
    free(step->draws);
    *step = (af_step){0};
}

/* ---- The batch ---- */

static void add_token(af_step *step, af_job *job, uint32_t position) {
    af_choose choose = af_job_choice_at(job, position);
    const uint32_t known = af_job_known(job);
    int32_t id = position < known ? job->tokens[position] : af_draft_guess(&job->draft, position - known);
    assert(step->token_count < step->max_tokens);
    step->tokens[step->token_count++] =
        (af_batch_token){.id = id, .seq = step->job_count, .position = position, .choose = choose};
    if (choose == AF_CHOOSE_STATE) step->states[step->state_count++] = (af_step_row){job, position};
    if (!af_choose_wants_row(choose)) return;
    assert(step->row_count < step->max_rows);
    step->rows[step->row_count++] = (af_step_row){job, position};
}

static void add_job(af_engine *engine, af_job *job, uint32_t count) {
    af_step *step = &engine->step;
    bool reserved = af_kv_reserve(engine->kv, job->seq, job->done, job->done + count);
    assert(reserved); /* invariant 3 */
    (void)reserved;
    if (af_job_in_prompt(job)) step->prompt_tokens += count;
    for (uint32_t i = 0; i < count; i++) add_token(step, job, job->done + i);
    job->step_count = count;
    job->drafted = af_job_in_prompt(job) ? 0 : count - 1;
    af_kv_view(job->seq, &step->seqs[step->job_count]);
    step->jobs[step->job_count++] = job;
}

static void add_decodes(af_engine *engine) {
    af_speculate_settle(engine);
    for (uint32_t i = 0; i < engine->running_count; i++) {
        af_job *job = engine->running[i];
        if (!af_job_in_prompt(job)) add_job(engine, job, 1 + af_speculate_size(engine, i));
    }
}

/* What of its prompt this step may run. */
static uint32_t prompt_left(const af_job *job) {
    return af_job_in_prompt(job) && !job->waits ? job->prompt_end - job->done : 0;
}

static uint32_t decoding(const af_engine *engine) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < engine->running_count; i++) count += !af_job_in_prompt(engine->running[i]);
    return count;
}

static bool any_prompt(const af_engine *engine) {
    for (uint32_t i = 0; i < engine->running_count; i++)
        if (prompt_left(engine->running[i]) > 0) return true;
    return false;
}

/* The level up to which every prompt is filled so that the budget is used: sum of min(left, level) <= budget. */
static uint32_t fair_level(const af_engine *engine, uint32_t budget) {
    for (uint32_t level = 0;;) {
        uint32_t filled = 0, unfilled = 0;
        for (uint32_t i = 0; i < engine->running_count; i++) {
            const af_job *job = engine->running[i];
            uint32_t left = prompt_left(job);
            if (left <= level) {
                filled += left;
            } else {
                unfilled++;
            }
        }
        uint32_t next = unfilled > 0 ? (budget - filled) / unfilled : level;
        if (next <= level) return level;
        level = next;
    }
}

/* How many of `count` tokens from job->done on fit into `rows` rows. */
static uint32_t cut_to_rows(const af_job *job, uint32_t count, uint32_t rows) {
    for (uint32_t i = 0; i < count; i++) {
        if (af_choose_wants_row(af_job_choice_at(job, job->done + i)) && rows-- == 0) return i;
    }
    return count;
}

/* Shares rounded down leave a few tokens over: they go to those who came first. Each job further back keeps a row;
 * `behind` are all of them at first. */
static void add_prompts(af_engine *engine, uint32_t behind, uint32_t budget) {
    af_step *step = &engine->step;
    uint32_t level = fair_level(engine, budget);
    for (uint32_t i = 0; i < engine->running_count && behind > 0; i++) {
        af_job *job = engine->running[i];
        if (!af_job_in_prompt(job)) continue;
        behind--;
        uint32_t share = level + (budget > level * (behind + 1) ? (budget - level * (behind + 1)) : 0);
        uint32_t left = prompt_left(job);
        uint32_t count = left < share ? left : share;
        count = cut_to_rows(job, count, step->max_rows - step->row_count - behind);
        if (count == 0) continue;
        add_job(engine, job, count);
        budget -= count;
    }
}

/* Prompts that must not be cut. The first that does not fit has to wait, and whoever is behind it with it. */
static void add_whole_prompts(af_engine *engine, uint32_t budget) {
    for (uint32_t i = 0; i < engine->running_count; i++) {
        af_job *job = engine->running[i];
        if (job->prompt_end > budget) return;
        if (!af_job_in_prompt(job)) continue;
        add_job(engine, job, job->prompt_end);
        budget -= job->prompt_end;
    }
}

static uint32_t beside_decodes(uint32_t budget) {
    if (budget <= LEAST_BUDGET) return budget;
    return budget / DECODE_DIVISOR > LEAST_BUDGET ? budget / DECODE_DIVISOR : LEAST_BUDGET;
}

static void build_batch(af_engine *engine) {
    af_step *step = &engine->step;
    step->token_count = step->job_count = step->row_count = step->state_count = step->prompt_tokens = 0;
    for (uint32_t i = 0; i < engine->running_count; i++) engine->running[i]->step_count = 0;
    uint32_t budget = engine->prefill_chunk;
    af_shift_full(engine);
    af_reuse_prefixes(engine);
    if (engine->plan->whole) {
        add_whole_prompts(engine, budget);
        return;
    }
    const uint32_t decodes = decoding(engine);
    const bool prompts = !engine->apart || decodes == 0 || (engine->decoded && any_prompt(engine));
    engine->decoded = !prompts;
    if (!engine->apart || !prompts) add_decodes(engine);
    if (prompts) add_prompts(engine, engine->running_count - decodes, decodes ? beside_decodes(budget) : budget);
}

/* ---- What comes back ---- */

bool af_step_take(af_engine *engine, af_job *job, int32_t id) {
    af_error error;
    af_finish finish = AF_FINISH_NONE;
    const int rc = af_job_push(job, id, &finish, &error);
    if (rc == 0 && finish == AF_FINISH_NONE) {
        af_job_emit(job, &id, 1, AF_FINISH_NONE, NULL);
        return true;
    }
    af_engine_end(engine, job, &id, 1, rc < 0 ? AF_FINISH_ERROR : finish, rc < 0 ? &error : NULL);
    return false;
}

void af_step_count(af_engine *engine, uint32_t prompt_tokens, uint32_t generated_tokens) {
    af_mutex_lock(engine->mutex);
    engine->prompt_tokens += prompt_tokens;
    engine->generated_tokens += generated_tokens;
    af_mutex_unlock(engine->mutex);
}

/* A job that was cancelled meanwhile hears no more until its last event. */
bool af_step_take_row(af_engine *engine, const af_step_row *row, int32_t id, const float *logits) {
    af_job *job = row->job;
    if (atomic_load(&job->cancelled)) return false;
    if (af_job_wants(job, row->position)) af_job_take_wanted(job, row->position, logits);
    if (!af_job_chooses_at(job, row->position)) return true;
    return af_step_take(engine, job, logits ? af_job_choose(job, logits) : id);
}

static void take_rows(af_engine *engine, const af_result *result) {
    const af_step *step = &engine->step;
    for (uint32_t i = 0; i < step->row_count; i++) {
        const uint32_t drafted = step->rows[i].job->drafted; /* the job may be gone afterwards */
        if (drafted)
            af_speculate_take(engine, step->rows[i].job, result->ids + i, result->logits + i);
        else
            af_step_take_row(engine, &step->rows[i], result->ids[i], result->logits[i]);
        i += drafted;
    }
}

static void take_state(const af_engine *engine, const af_step_row *row, const float *state) {
    af_job *job = row->job;
    if (atomic_load(&job->cancelled)) return;
    if (job->on_embedding)
        af_pooled_add(&job->pooled, state);
    else
        job->on_logits(job->user, row->position, state, engine->plan->width);
}

/* A choice comes with a job's last row of the step, so that no row is left of a job that ends here. Those with a draft
 * are counted as they turn out (speculate.c). */
static void take_result(af_engine *engine, const af_result *result) {
    af_step *step = &engine->step;
    assert(result->row_count == step->row_count && result->state_count == step->state_count);
    uint32_t generated = 0;
    for (uint32_t i = 0; i < step->job_count; i++) {
        af_job *job = step->jobs[i];
        if (job->drafted == 0) job->done += job->step_count;
    }
    for (uint32_t i = 0; i < step->row_count; i++) {
        const af_job *job = step->rows[i].job;
        generated += job->drafted == 0 && af_job_chooses_at(job, step->rows[i].position);
    }
    af_step_count(engine, step->prompt_tokens, generated);
    for (uint32_t i = 0; i < step->state_count; i++) take_state(engine, &step->states[i], result->states[i]);
    take_rows(engine, result);
}

static void trace_chunks(const af_step *step, uint64_t nanoseconds) {
    for (uint32_t i = 0; i < step->job_count; i++) {
        const af_job *job = step->jobs[i];
        if (!af_job_in_prompt(job)) continue;
        double ms = (double)nanoseconds / 1e6;
        af_trace("prefill chunk: request %llu, %u tokens from %u of %u, %.2f ms, %.1f tokens/s",
                 (unsigned long long)job->id, job->step_count, job->done, job->prompt_count, ms,
                 ms > 0 ? (double)job->step_count * 1e3 / ms : 0.0);
    }
}

static void end_prompt(af_engine *engine, af_job *job) {
    af_error error;
    if (!job->on_embedding)
        af_engine_end(engine, job, NULL, 0, AF_FINISH_LENGTH, NULL);
    else if (af_job_give_embedding(job, &error) == 0)
        af_engine_end(engine, job, NULL, 0, AF_FINISH_STOP, NULL);
    else
        af_engine_end(engine, job, NULL, 0, AF_FINISH_ERROR, &error);
}

/* A job without an answer to come is over when its prompt is. */
static void end_finished_prompts(af_engine *engine) {
    for (uint32_t i = engine->running_count; i-- > 0;) {
        af_job *job = engine->running[i];
        if (job->limit > 0 || af_job_in_prompt(job) || atomic_load(&job->cancelled)) continue;
        end_prompt(engine, job);
    }
}

void af_step_fail(af_engine *engine, const af_error *error) {
    for (uint32_t i = 0; i < engine->step.job_count; i++) {
        if (engine->step.jobs[i]) af_engine_end(engine, engine->step.jobs[i], NULL, 0, AF_FINISH_ERROR, error);
    }
    af_engine_drop_lost(engine, error);
}

void af_step_run(af_engine *engine) {
    af_error error = {0};
    af_result result = {0};
    af_ticket ticket = 0;
    end_finished_prompts(engine); /* those that need nothing run */
    build_batch(engine);
    af_step *step = &engine->step;
    if (step->token_count == 0) {
        af_disk_wait(engine);
        return;
    }
    if (af_step_can_run_ahead(engine)) {
        af_step_ahead(engine);
        return;
    }
    if (af_step_can_prepare(engine)) {
        af_step_prepared(engine);
        return;
    }
    const af_batch batch = af_step_batch(step);
    af_backend *backend = engine->backend;
    uint64_t start = af_os_nanoseconds();
    int rc = backend->ops->submit(backend, &batch, &ticket, &error);
    if (rc == 0) rc = backend->ops->collect(backend, ticket, &result, &error);
    if (rc < 0) {
        af_step_fail(engine, &error);
        return;
    }
    const uint64_t took = af_os_nanoseconds() - start;
    if (step->prompt_tokens == 0) af_draft_measure(&engine->draft_costs, step->token_count, took);
    if (engine->trace_chunks) trace_chunks(step, took);
    take_result(engine, &result);
    end_finished_prompts(engine);
}

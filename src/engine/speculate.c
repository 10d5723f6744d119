/* speculate.c - several tokens of an answer in one step, where guesses at them (draft.c) are likely enough to pay
 * (draft_cost.c).
 *
 * A draft runs behind the token chosen last, each token with a row of its own. The rows are taken in order: each
 * chooses as it would have without a draft (same logits by promise 1, same sampler state), and as long as the choice is
 * what was guessed, the next row stands behind the right text. So the text is the same as without drafts, greedy or
 * drawn. What was guessed wrongly is passed over: its positions lie behind af_job.done, where nothing is kept or seen,
 * and the next step writes them again.
 *
 * Not here: devices whose logits depend on what else a batch holds (a GPU runs one token by other kernels than several,
 * and decodes with steps in flight, whose inputs a host cannot guess in time), and plans whose past cannot be taken
 * back (af_carry) or that take prompts whole.
 */
#include "engine/engine_internal.h"

#include <assert.h>

bool af_speculate_can(const af_plan *plan, const af_backend *backend, const af_engine_options *options) {
    return options->speculate != AF_SPECULATE_OFF && backend->ops->same_in_any_batch && !plan->whole &&
           plan->carry_count == 0;
}

/* While nobody is in a prompt, which has a better use for the step. */
void af_speculate_settle(af_engine *engine) {
    const uint32_t count = engine->running_count, rows = engine->step.max_rows;
    engine->draft_size = 0;
    if (!engine->speculates || !count) return; /* the last one may just have been cancelled */
    for (uint32_t i = 0; i < count; i++) {
        const af_job *job = engine->running[i];
        if (af_job_in_prompt(job)) return;
        const uint32_t left = af_job_room(job); /* at least 1: that token comes anyway */
        engine->offers[i] = (af_draft_offer){af_draft_chance(&job->draft), left - 1};
    }
    const uint32_t row_room = rows - count, room = engine->prefill_chunk < row_room ? engine->prefill_chunk : row_room;
    engine->draft_size = af_draft_settle(&engine->draft_costs, engine->offers, count, room);
}

uint32_t af_speculate_size(const af_engine *engine, uint32_t index) {
    return engine->draft_size ? af_draft_size(&engine->offers[index], engine->draft_size) : 0;
}

/* Told before the token is, so that totals are never behind what was heard. */
static void count(af_engine *engine, af_job *job, uint32_t accepted, uint32_t rejected) {
    job->accepted += accepted;
    job->rejected += rejected;
    af_mutex_lock(engine->mutex);
    engine->generated_tokens++;
    engine->accepted_tokens += accepted;
    engine->rejected_tokens += rejected;
    af_mutex_unlock(engine->mutex);
}

void af_speculate_take(af_engine *engine, af_job *job, const int32_t *ids, const float *const *logits) {
    const uint32_t drafted = job->drafted;
    int32_t guesses[AF_DRAFT_MOST];
    assert(drafted <= AF_DRAFT_MOST);
    for (uint32_t i = 0; i < drafted; i++) guesses[i] = af_draft_guess(&job->draft, i);
    bool goes_on = true;
    for (uint32_t i = 0; goes_on && !atomic_load(&job->cancelled); i++) {
        const int32_t id = logits[i] ? af_job_choose(job, logits[i]) : ids[i];
        const bool right = i < drafted && guesses[i] == id;
        count(engine, job, right, right ? 0 : drafted - i);
        job->done++;
        goes_on = af_step_take(engine, job, id) && right;
    }
}

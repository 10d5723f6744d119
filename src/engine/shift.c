/* shift.c - context shift: a request whose context is full goes on with less of its past.
 *
 * Its first `keep` tokens stay, the older half of the others leaves, and what is left runs again as a prompt, at the
 * positions that it has now. Turning the keys in the cache to their new positions would be quicker and is what others
 * do; but a key that was rounded when it was stored is rounded twice then, and what a kept token saw is still in it.
 * Run again, the answer is bit for bit the one to that shorter text (promise 1), and any plan and cache may be shifted.
 * It costs a prompt of at most three quarters of a context for each quarter or more that is won.
 *
 * What the client is told goes on as if nothing had happened: usage, the sampler's memory of the text, stop strings. Of
 * the text that ran before, full pages stay in the prefix cache.
 */
#include "engine/engine_internal.h"

#include <stdlib.h>
#include <string.h>

/* The first token stays in any case, where there is room for two: models lean on it. */
uint32_t af_shift_keep(uint32_t asked, uint32_t prompt_count, uint32_t ctx) {
    uint32_t keep = asked > 0 ? asked : 1;
    if (keep > prompt_count) keep = prompt_count;
    return keep < ctx / 2 ? keep : ctx / 2;
}

static void drop_half(af_job *job) {
    const uint32_t known = af_job_known(job), drop = (known - job->keep) / 2;
    memmove(job->tokens + job->keep, job->tokens + job->keep + drop, (known - job->keep - drop) * sizeof *job->tokens);
    job->prompt_count = known - drop;
    job->absorbed = job->completion;
}

/* Of its prompt nothing is wanted any more but the choice at its end. */
static void begin_again(af_job *job) {
    free(job->want);
    job->want = NULL;
    job->on_prompt_logprob = NULL;
    job->prompt_end = job->prompt_count;
    job->reusable = job->prompt_count - 1;
    job->done = 0;
    job->restore = (af_restore){.looked = true};
    af_draft_restart(&job->draft, job->prompt_count);
}

void af_shift_full(af_engine *engine) {
    if (!engine->shifts) return;
    for (uint32_t i = 0; i < engine->running_count; i++) {
        af_job *job = engine->running[i];
        if (job->done < engine->ctx || job->limit == 0) continue;
        af_kv_keep(engine->kv, job->seq, job->tokens, af_job_shareable(job, engine->apart));
        af_kv_seq_release(engine->kv, job->seq);
        job->seq = af_kv_seq_take(engine->kv);
        drop_half(job);
        begin_again(job);
    }
}

/* reuse.c - prompts that begin as others did do not run again.
 *
 * Before each step the running jobs' full pages are kept under their text (kv.h), those that end keep theirs when they
 * end, and a job that stands at a page's edge takes over what is kept of the text that follows. It does so in every
 * step, not only when it is admitted: where several requests with the same beginning come together, the first runs it
 * and the others wait at the edge for its pages, a step behind at the most.
 *
 * Positions of which something is wanted always run (af_job.reusable). None of this changes a logit (promise 1).
 */
#include "engine/engine_internal.h"

#include <string.h>

/* True if an earlier job is about to run the page that this one needs next. The earliest never waits. */
static bool is_behind_another(const af_engine *engine, uint32_t index) {
    const af_job *job = engine->running[index];
    const uint32_t end = job->done + AF_KV_PAGE;
    if (job->done % AF_KV_PAGE != 0 || end > job->reusable) return false;
    for (uint32_t i = 0; i < index; i++) {
        const af_job *other = engine->running[i];
        if (other->done < job->done || other->done >= end || other->prompt_end < end) continue;
        if (memcmp(other->tokens, job->tokens, end * sizeof *job->tokens) == 0) return true;
    }
    return false;
}

static void adopt(af_engine *engine, af_job *job) {
    const uint32_t before = job->done;
    if (af_disk_restores(&job->restore)) return;
    job->done = af_kv_adopt(engine->kv, job->seq, job->tokens, before, job->reusable);
    if (job->absorbed == 0) job->cached += job->done - before; /* of the request's prompt */
}

void af_reuse_prefixes(af_engine *engine) {
    if (!af_kv_keeps(engine->kv)) return;
    for (uint32_t i = 0; i < engine->running_count; i++) {
        const af_job *job = engine->running[i];
        af_kv_keep(engine->kv, job->seq, job->tokens, af_job_shareable(job, engine->apart));
    }
    for (uint32_t i = 0; i < engine->running_count; i++) {
        af_job *job = engine->running[i];
        adopt(engine, job);
        job->waits = is_behind_another(engine, i) || af_disk_restore(engine, job);
    }
    af_mutex_lock(engine->mutex);
    engine->kept_pages = af_kv_kept(engine->kv);
    af_mutex_unlock(engine->mutex);
}

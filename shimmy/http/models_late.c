/* models_late.c - the thread that refuses those who have waited for a model too long (models.h). It sleeps for as long
 * as nobody waits; whoever came first is late first. */
#include "http/models_internal.h"

static void refuse_late(const shimmy_models *models, const shimmy_model_entry *e, shimmy_refusal *refusal) {
    const unsigned seconds = (unsigned)(models->options.load_time / 1000000000u);
    if (e->loading)
        shimmy_refuse(refusal, 503, "loading", "model",
                      "model: '%.200s' is still being loaded (%u%%) after %u seconds (--load-timeout): try again later",
                      e->name, atomic_load(&e->permille) / 10, seconds);
    else
        shimmy_refuse(refusal, 503, "overloaded", "model",
                      "model: no room for '%.200s' in %u seconds (--load-timeout) beside the models that are in use "
                      "(--models-max %u): try again later",
                      e->name, seconds, models->options.max);
    refusal->retry_after = 5;
}

/* Those whose time is up are served by the file that was replaced, if it is there, or refused. */
static void expire(const shimmy_models *models, shimmy_model_entry *e, uint64_t now) {
    while (e->first && e->first->deadline <= now) { /* in the order they came: so are the deadlines */
        shimmy_waiter *waiter = e->first;
        shimmy_refusal refusal;
        shimmy_models_unlink(waiter);
        if (e->ready) {
            e->ready->refs++;
            e->ready->used = now;
            waiter->over(waiter, e->ready, NULL);
        } else {
            refuse_late(models, e, &refusal);
            waiter->over(waiter, NULL, &refusal);
        }
    }
}

void shimmy_models_watch(void *user) {
    shimmy_models *models = user;
    af_mutex_lock(models->lock);
    while (!models->closing) {
        const uint64_t now = af_os_nanoseconds();
        uint64_t alarm = UINT64_MAX;
        for (size_t i = 0; i < models->count; i++) {
            shimmy_model_entry *e = models->entries[i];
            expire(models, e, now);
            if (e->first && e->first->deadline < alarm) alarm = e->first->deadline;
        }
        models->watched = alarm < UINT64_MAX;
        if (models->watched)
            af_cond_wait_for(models->waits, models->lock, alarm - now);
        else
            af_cond_wait(models->waits, models->lock);
    }
    af_mutex_unlock(models->lock);
}

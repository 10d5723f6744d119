/* models.c - see models.h: life of the registry, and what requests do with it. */
#include "http/models_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- Those who wait: the lock is held ---- */

bool shimmy_models_unlink(shimmy_waiter *waiter) {
    shimmy_model_entry *e = waiter->entry;
    if (!e) return false;
    shimmy_waiter **link = &e->first, *before = NULL;
    while (*link != waiter) {
        before = *link;
        link = &before->next;
    }
    *link = waiter->next;
    if (e->last == waiter) e->last = before;
    e->waiting--;
    waiter->entry = NULL;
    return true;
}

static shimmy_waiter *take_first(shimmy_model_entry *e) {
    shimmy_waiter *first = e->first;
    if (first) shimmy_models_unlink(first);
    return first;
}

void shimmy_models_serve(shimmy_model_entry *e) {
    shimmy_waiter *waiter;
    e->ready->used = af_os_nanoseconds();
    while ((waiter = take_first(e)) != NULL) {
        e->ready->refs++;
        waiter->over(waiter, e->ready, NULL);
    }
}

void shimmy_models_refuse(shimmy_model_entry *e, const shimmy_refusal *refusal) {
    shimmy_waiter *waiter;
    while ((waiter = take_first(e)) != NULL) waiter->over(waiter, NULL, refusal);
}

static int wait_for(shimmy_models *models, shimmy_model_entry *e, shimmy_waiter *waiter, shimmy_refusal *refusal) {
    const uint64_t now = af_os_nanoseconds();
    if (e->waiting >= models->options.waiting)
        return shimmy_refuse(refusal, 503, "queue_full", "model",
                             "model: %u requests wait for '%.200s' to be loaded already", e->waiting, e->name);
    if (!e->first) e->asked = now;
    waiter->next = NULL;
    waiter->entry = e;
    waiter->deadline = waiter->endless ? UINT64_MAX : now + models->options.load_time;
    if (e->first)
        e->last->next = waiter;
    else
        e->first = waiter;
    e->last = waiter;
    e->waiting++;
    af_cond_signal(models->changed);
    if (!models->watched) af_cond_signal(models->waits);
    return SHIMMY_MODEL_WAITS;
}

/* ---- Taking and giving back ---- */

static bool same_file(const af_file_stat *a, const af_file_stat *b) {
    return a->device == b->device && a->inode == b->inode && a->size == b->size && a->modified == b->modified;
}

/* Whether the file of a model that the caller has a reference to is another one now. One that is gone is none. */
static bool was_replaced(const shimmy_loaded *loaded, af_file_stat *now) {
    *now = af_os_stat(loaded->path);
    return now->kind != AF_FILE_NONE && !same_file(now, &loaded->file);
}

static bool known_bad(const shimmy_model_entry *e, const af_file_stat *file) {
    return same_file(&e->bad, file) && af_os_nanoseconds() < e->bad_until;
}

static shimmy_loaded *take_ready(shimmy_model_entry *e) {
    shimmy_loaded *ready = e->ready;
    if (!ready || e->stale || e->yields) return NULL;
    ready->refs++;
    ready->used = af_os_nanoseconds();
    return ready;
}

/* The lock is held. The loader is woken where it may have waited for that. */
static void drop(shimmy_models *models, shimmy_loaded *loaded) {
    assert(loaded->refs);
    loaded->used = af_os_nanoseconds();
    if (--loaded->refs == 0 && models->awaits_release) af_cond_signal(models->changed);
}

/* The caller has a reference to what it took for ready, and sees that the file is another one by now. */
static int take_replaced(shimmy_models *models, shimmy_model_entry *e, const af_file_stat *file, shimmy_waiter *waiter,
                         shimmy_loaded **taken, shimmy_refusal *refusal) {
    int rc = 0;
    af_mutex_lock(models->lock);
    if (e->ready == *taken && !known_bad(e, file)) e->stale = true;
    if (e->ready != *taken || e->stale) {
        drop(models, *taken);
        rc = wait_for(models, e, waiter, refusal);
    }
    af_mutex_unlock(models->lock);
    return rc;
}

static int take(shimmy_models *models, const char *name, shimmy_waiter *waiter, shimmy_loaded **out,
                shimmy_refusal *refusal) {
    af_mutex_lock(models->lock);
    shimmy_model_entry *e = shimmy_models_named(models, name, refusal);
    shimmy_loaded *ready = e ? take_ready(e) : NULL;
    int rc = !e ? AF_EINVAL : ready ? 0 : wait_for(models, e, waiter, refusal);
    af_mutex_unlock(models->lock);
    if (!ready) return rc;
    af_file_stat file;
    if (was_replaced(ready, &file)) rc = take_replaced(models, e, &file, waiter, &ready, refusal);
    if (rc == 0) *out = ready;
    return rc;
}

/* A model that came after the server's start is found when somebody asks for it. */
int shimmy_models_take(shimmy_models *models, const char *name, shimmy_waiter *waiter, shimmy_loaded **out,
                       shimmy_refusal *refusal) {
    int rc = take(models, name, waiter, out, refusal);
    if (rc >= 0 || refusal->status != 404 || !shimmy_models_may_refresh(models)) return rc;
    af_error error;
    return shimmy_models_refresh(models, &error) < 0 ? rc : take(models, name, waiter, out, refusal);
}

void shimmy_models_release(shimmy_models *models, shimmy_loaded *loaded) {
    af_mutex_lock(models->lock);
    drop(models, loaded);
    af_mutex_unlock(models->lock);
}

bool shimmy_models_forget(shimmy_models *models, shimmy_waiter *waiter) {
    af_mutex_lock(models->lock);
    const bool waited = shimmy_models_unlink(waiter);
    af_mutex_unlock(models->lock);
    return waited;
}

/* ---- Looking at them ---- */

static shimmy_model_numbers numbers_of(const shimmy_models *models, const shimmy_model_entry *e) {
    const shimmy_model_keeper *keeper = &models->options.keeper;
    shimmy_model_numbers sum = {.prompt_tokens = e->prompt_tokens,
                                .generated_tokens = e->generated_tokens,
                                .accepted_tokens = e->accepted_tokens,
                                .rejected_tokens = e->rejected_tokens};
    if (e->ready) keeper->count(keeper->user, e->ready, &sum);
    for (const shimmy_loaded *l = models->retired; l; l = l->next)
        if (l->entry == e) keeper->count(keeper->user, l, &sum);
    return sum;
}

static void show(const shimmy_models *models, const shimmy_model_entry *e, shimmy_model_view_fn fn, void *user) {
    const shimmy_model_view view = {
        .name = e->name,
        .path = e->path,
        .architecture = e->architecture,
        .quantization = e->quantization,
        .bytes = e->bytes,
        .state = e->loading ? SHIMMY_MODEL_LOADING
                 : e->ready ? SHIMMY_MODEL_READY
                            : SHIMMY_MODEL_ABSENT,
        .progress = (double)atomic_load(&e->permille) / 1000,
        .error = e->error.text,
        .loaded = e->ready,
        .loads = e->loads,
        .waiting = e->waiting,
        .numbers = numbers_of(models, e),
    };
    fn(user, &view);
}

void shimmy_models_each(shimmy_models *models, shimmy_model_view_fn fn, void *user) {
    af_mutex_lock(models->lock);
    for (size_t i = 0; i < models->count; i++)
        if (shimmy_models_offers(models->entries[i])) show(models, models->entries[i], fn, user);
    af_mutex_unlock(models->lock);
}

int shimmy_models_look(shimmy_models *models, const char *name, shimmy_model_view_fn fn, void *user,
                       shimmy_refusal *refusal) {
    af_mutex_lock(models->lock);
    const shimmy_model_entry *e = shimmy_models_named(models, name, refusal);
    if (e) show(models, e, fn, user);
    af_mutex_unlock(models->lock);
    return e ? 0 : AF_EINVAL;
}

size_t shimmy_models_count(shimmy_models *models) {
    af_mutex_lock(models->lock);
    const size_t count = models->count;
    af_mutex_unlock(models->lock);
    return count;
}

/* ---- Life ---- */

int shimmy_models_open(const shimmy_models_options *options, shimmy_models **out, af_error *error) {
    shimmy_models *models = calloc(1, sizeof *models);
    if (!models) return af_fail_memory(error, sizeof *models, "the list of models");
    models->options = *options;
    models->lock = af_mutex_open();
    models->changed = af_cond_open();
    models->waits = af_cond_open();
    if (!models->lock || !models->changed || !models->waits) {
        shimmy_models_close(models);
        return af_fail_memory(error, sizeof *models, "the list of models");
    }
    *out = models;
    return 0;
}

int shimmy_models_start(shimmy_models *models, af_error *error) {
    const int rc = af_thread_start(&models->loader, "loader", shimmy_models_load, models, error);
    return rc < 0 ? rc : af_thread_start(&models->watcher, "late", shimmy_models_watch, models, error);
}

static bool is_loading(const shimmy_models *models) {
    bool loading = false;
    for (size_t i = 0; i < models->count; i++) loading = loading || models->entries[i]->loading;
    return loading;
}

bool shimmy_models_stop(shimmy_models *models) {
    const shimmy_model_keeper *keeper = &models->options.keeper;
    af_mutex_lock(models->lock);
    models->closing = true;
    const bool busy = is_loading(models);
    af_cond_signal(models->changed);
    af_cond_signal(models->waits);
    af_mutex_unlock(models->lock);
    af_thread_join(models->watcher);
    if (!busy) af_thread_join(models->loader);
    for (size_t i = 0; i < models->count; i++)
        if (models->entries[i]->ready) keeper->stop(keeper->user, models->entries[i]->ready);
    for (shimmy_loaded *l = models->retired; l; l = l->next) keeper->stop(keeper->user, l);
    return !busy;
}

static void close_entry(const shimmy_model_keeper *keeper, shimmy_model_entry *e) {
    assert(!e->first);
    if (e->ready) keeper->close(keeper->user, e->ready);
    shimmy_model_entry_free(e);
}

void shimmy_models_close(shimmy_models *models) {
    if (!models) return;
    const shimmy_model_keeper *keeper = &models->options.keeper;
    for (size_t i = 0; i < models->count; i++) close_entry(keeper, models->entries[i]);
    for (shimmy_loaded *l = models->retired, *next; l; l = next) {
        next = l->next;
        keeper->close(keeper->user, l);
    }
    free(models->entries);
    af_cond_close(models->waits);
    af_cond_close(models->changed);
    af_mutex_close(models->lock);
    free(models);
}

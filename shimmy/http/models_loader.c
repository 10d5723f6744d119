/* models_loader.c - the thread that loads and unloads (models.h): serves those who wait, makes room, loads
 * for whoever has waited longest, and sleeps until something changes or is due. That no request waits too long is
 * another thread's business (models_late.c), since a load cannot be broken off.
 */
#include "http/models_internal.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEVER       UINT64_MAX
#define RETRY_AFTER 10000000000u /* nanoseconds before a replaced file that did not load is tried again as it is */

/* ---- The state of things: the lock is held ---- */

static bool is_fresh(const shimmy_model_entry *e) {
    return e->ready && !e->stale && !e->yields;
}

/* Whether there is a model that can only come where another goes. */
static bool room_is_wanted(const shimmy_models *models) {
    bool wanted = false;
    for (size_t i = 0; i < models->count; i++)
        wanted = wanted || (models->entries[i]->first && !models->entries[i]->ready);
    return wanted;
}

/* Whoever can be answered now is. */
static void settle(shimmy_models *models) {
    const bool wanted = room_is_wanted(models);
    for (size_t i = 0; i < models->count; i++) {
        shimmy_model_entry *e = models->entries[i];
        e->yields = e->yields && wanted;
        if (is_fresh(e) && e->first) shimmy_models_serve(e);
    }
}

/* ---- Room ---- */

/* No name leads to it any more: it goes when its last request has gone. */
static void retire(shimmy_models *models, shimmy_model_entry *e, const char *why) {
    shimmy_loaded *loaded = e->ready;
    if (why) af_log(AF_LOG_INFO, "unloading %s: %s", e->name, why);
    e->ready = NULL;
    e->stale = e->yields = false;
    loaded->next = models->retired;
    models->retired = loaded;
}

/* Of the models that are unused, or of all, the one unused longest; NULL: there is none. */
static shimmy_model_entry *oldest(const shimmy_models *models, const shimmy_model_entry *but, bool unused) {
    shimmy_model_entry *best = NULL;
    for (size_t i = 0; i < models->count; i++) {
        shimmy_model_entry *e = models->entries[i];
        if (!e->ready || e == but || e->loading || (unused && e->ready->refs)) continue;
        if (!best || e->ready->used < best->ready->used) best = e;
    }
    return best;
}

static bool any_yields(const shimmy_models *models) {
    bool yields = false;
    for (size_t i = 0; i < models->count; i++) yields = yields || models->entries[i]->yields;
    return yields;
}

/* Lets a model go for `e`'s sake, or has one give way that is not unused for too long. What goes already is enough. */
static void make_room(shimmy_models *models, const shimmy_model_entry *e, uint64_t now) {
    uint32_t going = 0;
    for (const shimmy_loaded *l = models->retired; l; l = l->next) going++;
    if (models->live - going < models->options.max) return;
    shimmy_model_entry *victim = oldest(models, e, true);
    if (victim) {
        retire(models, victim, "another model needs its place");
        return;
    }
    victim = oldest(models, e, false);
    if (!victim || any_yields(models) || now - e->asked < models->options.patience) return;
    victim->yields = true;
}

/* A replaced file takes a place more, for as long as the old one has requests. */
static bool has_room(const shimmy_models *models, const shimmy_model_entry *e) {
    return models->live < models->options.max + (e->ready != NULL);
}

/* The model that has been waited for longest of those that can be loaded; makes room for the others. */
static shimmy_model_entry *next_to_load(shimmy_models *models, uint64_t now) {
    shimmy_model_entry *best = NULL;
    for (size_t i = 0; i < models->count; i++) {
        shimmy_model_entry *e = models->entries[i];
        if (!e->first || is_fresh(e) || (e->yields && !e->stale)) continue;
        if (!has_room(models, e))
            make_room(models, e, now);
        else if (!best || e->asked < best->asked)
            best = e;
    }
    return best;
}

/* ---- Loading and closing: the lock is given up meanwhile ---- */

/* The load that a server starts with: the program tells of it itself, and ends with its failure. */
static bool is_first(const shimmy_model_entry *e) {
    return e->own && !e->loads;
}

static void adopt(shimmy_models *models, shimmy_model_entry *e, shimmy_loaded *loaded) {
    if (e->ready) retire(models, e, NULL);
    e->ready = loaded;
    e->stale = strcmp(loaded->path, e->path) != 0; /* the name has come to mean another file */
    e->yields = false;
    e->error.text[0] = 0;
    e->loads++;
    shimmy_models_serve(e);
}

/* What was asked for is told to all; where the file was replaced, the old one goes on. */
static void give_up(shimmy_model_entry *e, const af_error *error) {
    shimmy_refusal refusal;
    e->error = *error;
    if (e->ready) {
        af_log(AF_LOG_ERROR, "%s; %s goes on with the file it has", error->text, e->name);
        e->bad = e->tried;
        e->bad_until = af_os_nanoseconds() + RETRY_AFTER;
        e->stale = false;
        return; /* settle serves them */
    }
    if (!is_first(e)) af_log(AF_LOG_ERROR, "%s: %s", e->name, error->text);
    const bool memory = error->code == AF_ENOMEM;
    shimmy_refuse(&refusal, memory ? 503 : 500, memory ? "out_of_memory" : "model_load_failed", "model",
                  "model: '%.100s' could not be loaded: %s", e->name, error->text);
    shimmy_models_refuse(e, &refusal);
}

static int open_file(shimmy_models *models, shimmy_model_entry *e, shimmy_loaded **out, af_error *error) {
    const shimmy_model_keeper *keeper = &models->options.keeper;
    const bool first = is_first(e);
    char *path = strdup(e->path);
    if (!path) return af_fail_memory(error, strlen(e->path), "a path");
    if (!first) af_log(AF_LOG_INFO, "loading %s%s from %s", e->ready ? "the new file of " : "", e->name, path);
    const shimmy_load what = {.name = e->name, .path = path, .own = e->own, .permille = &e->permille};
    const uint64_t start = af_os_nanoseconds();
    atomic_store(&e->permille, 0);
    e->loading = true;
    af_mutex_unlock(models->lock);
    e->tried = af_os_stat(path); /* before it is opened: a later change is seen as one */
    const int rc = keeper->open(keeper->user, &what, out, error);
    af_mutex_lock(models->lock);
    e->loading = false;
    free(path);
    if (rc == 0 && !first)
        af_log(AF_LOG_INFO, "loaded %s in %.1f s", e->name, (double)(af_os_nanoseconds() - start) / 1e9);
    return rc;
}

static void load(shimmy_models *models, shimmy_model_entry *e) {
    shimmy_loaded *loaded = NULL;
    af_error error;
    models->live++;
    if (open_file(models, e, &loaded, &error) == 0) {
        loaded->entry = e;
        loaded->file = e->tried;
        adopt(models, e, loaded);
    } else {
        models->live--;
        give_up(e, &error);
    }
}

/* One that no name leads to and no request holds. What it did is kept by its name. */
static shimmy_loaded *take_spent(shimmy_models *models) {
    const shimmy_model_keeper *keeper = &models->options.keeper;
    shimmy_loaded **link = &models->retired;
    while (*link && (*link)->refs) link = &(*link)->next;
    shimmy_loaded *spent = *link;
    if (!spent) return NULL;
    *link = spent->next;
    shimmy_model_numbers numbers = {0};
    keeper->count(keeper->user, spent, &numbers);
    spent->entry->prompt_tokens += numbers.prompt_tokens;
    spent->entry->generated_tokens += numbers.generated_tokens;
    spent->entry->accepted_tokens += numbers.accepted_tokens;
    spent->entry->rejected_tokens += numbers.rejected_tokens;
    return spent;
}

static void close_spent(shimmy_models *models, shimmy_loaded *spent) {
    const shimmy_model_keeper *keeper = &models->options.keeper;
    af_mutex_unlock(models->lock);
    keeper->close(keeper->user, spent);
    af_mutex_lock(models->lock);
    models->live--;
}

/* ---- Time ---- */

static void retire_unused(shimmy_models *models, uint64_t now) {
    char why[64];
    const uint64_t most = models->options.idle_time;
    if (!most) return;
    for (size_t i = 0; i < models->count; i++) {
        shimmy_model_entry *e = models->entries[i];
        if (!e->ready || e->ready->refs || e->first || now - e->ready->used < most) continue;
        snprintf(why, sizeof why, "unused for %llu s (--model-idle)", (unsigned long long)(most / 1000000000u));
        retire(models, e, why);
    }
}

static uint64_t earlier(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* When an entry is to be looked at again though nothing changes. */
static uint64_t alarm_of(const shimmy_models *models, const shimmy_model_entry *e, uint64_t now) {
    const shimmy_models_options *o = &models->options;
    uint64_t alarm = NEVER;
    if (e->first && e->asked + o->patience > now) alarm = e->asked + o->patience;
    if (e->ready && o->idle_time) /* nobody wakes this thread when a model falls idle: it looks again soon enough */
        alarm = earlier(alarm, (e->ready->refs ? now : e->ready->used) + o->idle_time);
    return alarm;
}

static void sleep_until_due(shimmy_models *models, uint64_t now) {
    uint64_t alarm = NEVER;
    models->awaits_release = models->retired != NULL;
    for (size_t i = 0; i < models->count; i++) {
        alarm = earlier(alarm, alarm_of(models, models->entries[i], now));
        models->awaits_release = models->awaits_release || models->entries[i]->first;
    }
    if (alarm == NEVER)
        af_cond_wait(models->changed, models->lock);
    else if (alarm > now)
        af_cond_wait_for(models->changed, models->lock, alarm - now);
    models->awaits_release = false;
}

/* ---- The thread ---- */

void shimmy_models_load(void *user) {
    shimmy_models *models = user;
    af_mutex_lock(models->lock);
    while (!models->closing) {
        const uint64_t now = af_os_nanoseconds();
        settle(models);
        retire_unused(models, now);
        shimmy_model_entry *wanted = next_to_load(models, now);
        shimmy_loaded *spent = take_spent(models);
        if (spent)
            close_spent(models, spent);
        else if (wanted)
            load(models, wanted);
        else
            sleep_until_due(models, now);
    }
    af_mutex_unlock(models->lock);
}

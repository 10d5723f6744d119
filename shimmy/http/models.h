/* models.h - which models a server offers, which of them are in memory, and who waits for one.
 *
 *     absent --somebody asks--> wanted --there is room--> loading --> ready --unused, or room is needed--> absent
 *                                                           | a failure is told to all who wait: absent again
 *     ready --its file was replaced, somebody asks--> still ready for those who run, loading the new file for the rest
 *
 * One loader thread loads and unloads, and keeps no lock meanwhile; another sees to it that nobody waits too long. What
 * a name leads to changes under one lock, which is held for a few comparisons. A model is kept in memory by the
 * references of its requests: it is closed when no name leads to it any more and the last request has let go. Requests
 * for a model that is not there wait in a list, not in a thread.
 *
 * Room: no more than `max` models are in memory, those that are being closed among them. For another one, the one
 * unused longest goes. Where all have requests, the newcomer waits until one has none; after `patience` the one asked
 * for longest ago gives way: its new requests wait behind, so that nobody can keep others out for ever. A replaced file
 * is loaded before the old one goes, so that it takes a place more for that time.
 *
 * It knows nothing of HTTP, and models only through the functions it is given.
 */
#ifndef SHIMMY_MODELS_H
#define SHIMMY_MODELS_H

#include "http/loaded.h"

typedef struct shimmy_models shimmy_models;
struct shimmy_model_entry;

/* A model that may be asked for. Strings live during the call. */
typedef struct shimmy_offer {
    const char *name, *path, *architecture, *quantization;
    uint64_t bytes;
} shimmy_offer;

typedef void (*shimmy_offer_fn)(void *to, const shimmy_offer *offer);

/* What an engine does, and did. */
typedef struct shimmy_model_numbers {
    uint32_t running, waiting;
    uint64_t prompt_tokens, generated_tokens, accepted_tokens, rejected_tokens, kv_bytes;
} shimmy_model_numbers;

/* How models are found, opened and closed. */
typedef struct shimmy_model_keeper {
    int (*open)(void *user, const shimmy_load *what, shimmy_loaded **out, af_error *error);
    void (*stop)(void *user, shimmy_loaded *loaded); /* ends its engine, so that requests let go */
    void (*close)(void *user, shimmy_loaded *loaded);
    void (*count)(void *user, const shimmy_loaded *loaded, shimmy_model_numbers *sum); /* adds to what is there */
    /* Tells of every model on this machine; NULL: none but those that were added. */
    int (*discover)(void *user, shimmy_offer_fn offer, void *to, af_error *error);
    void *user;
} shimmy_model_keeper;

typedef struct shimmy_models_options {
    uint32_t max;                  /* models in memory */
    uint32_t waiting;              /* requests that may wait for one model */
    uint64_t load_time, idle_time; /* nanoseconds: the most a request waits; unused so long a model goes, 0: stays */
    uint64_t patience;             /* nanoseconds before a busy model gives way */
    shimmy_model_keeper keeper;
} shimmy_models_options;

int shimmy_models_open(const shimmy_models_options *options, shimmy_models **out, af_error *error);
/* Ends the threads and all engines. False if a file is being loaded, which cannot be broken off: then nothing may be
 * freed. Nobody waits any more. */
bool shimmy_models_stop(shimmy_models *models);
/* Frees all, when every reference is given back. */
void shimmy_models_close(shimmy_models *models);

/* Adds the model of the command line: what is meant where a request names none. Before the thread starts. */
int shimmy_models_add(shimmy_models *models, const char *name, const char *path, af_error *error);
/* Looks for models again; takes as long as that takes. Without one added, the first found is what is meant by no name.
 */
int shimmy_models_refresh(shimmy_models *models, af_error *error);
/* Whether there is something to look through, and was not of late: for those who ask often. */
bool shimmy_models_may_refresh(shimmy_models *models);
size_t shimmy_models_count(shimmy_models *models);
/* Starts the threads. */
int shimmy_models_start(shimmy_models *models, af_error *error);

/* ---- Requests: any thread ---- */

typedef struct shimmy_waiter {
    /* Either the model, with a reference, or why there is none. Called under the registry's lock: it may hand on what
     * it is told, and not ask the registry. */
    void (*over)(struct shimmy_waiter *waiter, shimmy_loaded *model, const shimmy_refusal *refusal);
    bool endless; /* waits however long it takes */
    /* The registry's. */
    struct shimmy_waiter *next;
    struct shimmy_model_entry *entry; /* NULL: does not wait */
    uint64_t deadline;
} shimmy_waiter;

enum { SHIMMY_MODEL_WAITS = 1 };

/* The model of a name ("": the default), with a reference: 0. SHIMMY_MODEL_WAITS: waiter->over will be called, perhaps
 * before this returns. Negative: the refusal says why not. */
int shimmy_models_take(shimmy_models *models, const char *name, shimmy_waiter *waiter, shimmy_loaded **out,
                       shimmy_refusal *refusal);
void shimmy_models_release(shimmy_models *models, shimmy_loaded *loaded);
/* Waits no longer. True if it did wait: then `over` will not be called. */
bool shimmy_models_forget(shimmy_models *models, shimmy_waiter *waiter);

/* ---- What they are ---- */

typedef enum shimmy_model_state { SHIMMY_MODEL_ABSENT, SHIMMY_MODEL_LOADING, SHIMMY_MODEL_READY } shimmy_model_state;

/* As it is now: during the call, under the lock. */
typedef struct shimmy_model_view {
    const char *name, *path, *architecture, *quantization;
    uint64_t bytes;
    shimmy_model_state state;
    double progress;              /* LOADING: 0 to 1 */
    const char *error;            /* of the last attempt to load it, or "" */
    const shimmy_loaded *loaded;  /* READY, or while its new file is LOADING */
    uint64_t loads;               /* how often it was */
    uint32_t waiting;             /* requests that wait for it to be loaded */
    shimmy_model_numbers numbers; /* of all engines that it has and had */
} shimmy_model_view;

typedef void (*shimmy_model_view_fn)(void *user, const shimmy_model_view *view);

void shimmy_models_each(shimmy_models *models, shimmy_model_view_fn fn, void *user);
/* The one that a name leads to; negative with a refusal if there is none. */
int shimmy_models_look(shimmy_models *models, const char *name, shimmy_model_view_fn fn, void *user,
                       shimmy_refusal *refusal);

#endif

/* models_internal.h - the registry of models as its parts share it: models.c (requests), models_names.c (which model a
 * name means), models_loader.c and models_late.c (the threads). Everything that changes does so under `lock`.
 */
#ifndef SHIMMY_MODELS_INTERNAL_H
#define SHIMMY_MODELS_INTERNAL_H

#include "http/models.h"

/* A name that requests may use, and what it leads to. Never freed before the registry. */
typedef struct shimmy_model_entry {
    char *name, *path;
    char *also; /* another name of the same file, or NULL */
    char *architecture, *quantization;
    uint64_t bytes;
    bool own;    /* the command line's */
    bool listed; /* it was there when models were last looked for */

    shimmy_loaded *ready; /* answers its requests */
    bool stale;           /* ... but its file was replaced: new requests wait for the new one */
    bool yields;          /* ... but another model needs its room: new requests wait */
    bool loading;
    atomic_uint permille; /* how far that is */
    uint64_t loads;
    af_error error;     /* of the last attempt; text "": it was none, or went well */
    af_file_stat tried; /* its file at the last attempt; the loader's */
    af_file_stat bad;   /* a replaced file that did not load */
    uint64_t bad_until; /* ... and is not tried again before */

    shimmy_waiter *first, *last;
    uint32_t waiting;
    uint64_t asked; /* when the first of them came */
    uint64_t prompt_tokens, generated_tokens, accepted_tokens, rejected_tokens;
} shimmy_model_entry;

struct shimmy_models {
    shimmy_models_options options;
    af_mutex *lock;
    af_cond *changed; /* there may be something for the loader to do */
    af_cond *waits;   /* somebody waits, where nobody did */
    bool watched;     /* somebody is known to */
    af_thread *loader, *watcher;
    bool closing;
    shimmy_model_entry **entries; /* the first that is offered is what is meant by no name */
    size_t count, room;
    shimmy_loaded *retired; /* no name leads to them */
    uint32_t live;          /* in memory, or on the way in or out */
    bool awaits_release;    /* the loader sleeps, and would go on where a model loses its last reference */
    uint64_t refreshed;     /* when models were last looked for */
    bool refreshing;
};

/* Not one whose file was gone when models were last looked for. */
bool shimmy_models_offers(const shimmy_model_entry *entry);
/* The entry that a name means, or NULL with a refusal. The lock is held. */
shimmy_model_entry *shimmy_models_named(const shimmy_models *models, const char *name, shimmy_refusal *refusal);

void shimmy_model_entry_free(shimmy_model_entry *entry);

/* Hands a ready model to all who wait for it, or tells them all why there is none. The lock is held. */
void shimmy_models_serve(shimmy_model_entry *entry);
void shimmy_models_refuse(shimmy_model_entry *entry, const shimmy_refusal *refusal);
/* Takes a waiter out of its entry's list, if it is in one. */
bool shimmy_models_unlink(shimmy_waiter *waiter);

/* The threads' lives, until models->closing. */
void shimmy_models_load(void *models);
void shimmy_models_watch(void *models);

#endif

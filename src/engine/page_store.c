/* page_store.c - see page_store.h. The mutex guards the slots' states, the index and the counts; no file is touched
 * while it is held. */
#include "engine/page_store.h"

#include "base/log.h"
#include "base/os.h"
#include "base/os_folder.h"
#include "engine/page_index.h"
#include "engine/page_sweep.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define LOADS_ALONE 4 /* slots that saving leaves to loading */

typedef enum slot_state { UNUSED, TAKEN, TO_SAVE, TO_TOUCH, TO_LOAD, LOADED, FAILED, BUSY } slot_state;

typedef struct slot {
    af_page_slot slot; /* first: one is found by the other's address */
    slot_state state;
    bool abandoned; /* given back while the thread is at it */
    uint64_t order; /* of being asked for */
} slot;

struct af_page_store {
    af_folder *folder;
    af_page_kind kind;
    uint64_t limit;
    size_t file_bytes; /* the largest */
    unsigned char *memory;

    af_mutex *mutex;
    af_cond *changed; /* something is to be done; something was done */
    af_thread *thread;
    slot slots[AF_PAGE_SLOTS];
    af_page_index index;
    af_page_stats stats;
    uint64_t asked, done, seen; /* slots asked for, slots done with, as `wait` saw it last */
    bool closing, told;         /* told: that writing fails */
};

/* ---- The folder's files ---- */

static void half_of(const unsigned char name[AF_SHA256_BYTES], uint64_t half[2]) {
    memcpy(half, name, 2 * sizeof *half);
}

/* Of two files of one text, the one with more groups is known. */
static void see_file(void *user, const af_folder_entry *entry) {
    af_page_store *store = user;
    uint64_t half[2];
    uint32_t groups;
    if (!af_page_file_read_name(entry->name, half, &groups)) return;
    store->stats.bytes += entry->size;
    if (groups > af_page_index_find(&store->index, half)) af_page_index_put(&store->index, half, groups);
}

static void forget(void *user, const char *name) {
    af_page_store *store = user;
    uint64_t half[2];
    uint32_t groups;
    if (!af_page_file_read_name(name, half, &groups)) return;
    af_mutex_lock(store->mutex);
    if (af_page_index_find(&store->index, half) == groups) af_page_index_remove(&store->index, half);
    af_mutex_unlock(store->mutex);
}

/* The folder is looked at anew, since others write there too. */
static void keep_limit(af_page_store *store) {
    af_mutex_lock(store->mutex);
    const bool within = store->stats.bytes <= store->limit;
    af_mutex_unlock(store->mutex);
    if (within) return;
    const uint64_t bytes = af_page_sweep(store->folder, store->limit, forget, store);
    af_mutex_lock(store->mutex);
    store->stats.bytes = bytes;
    af_mutex_unlock(store->mutex);
}

/* ---- The thread ---- */

static void save(af_page_store *store, const af_page_slot *s) {
    char name[AF_PAGE_NAME];
    uint64_t half[2];
    af_error error;
    const size_t bytes = af_page_file_bytes(&store->kind, s->groups);
    half_of(s->text.name, half);
    af_page_file_name(s->text.name, s->groups, name);
    af_page_file_seal(&store->kind, &s->text, s->groups, s->file);
    if (af_folder_write(store->folder, name, s->file, bytes, s->stamp, &error) < 0) {
        if (!store->told) af_log(AF_LOG_WARNING, "%s: what is not written must run again", error.text);
        store->told = true;
        return;
    }
    store->told = false;
    af_mutex_lock(store->mutex);
    const uint32_t before = af_page_index_find(&store->index, half);
    af_page_index_put(&store->index, half, s->groups);
    store->stats.saved++;
    store->stats.bytes += before == s->groups ? 0 : bytes;
    af_mutex_unlock(store->mutex);
    if (before && before != s->groups) {
        af_page_file_name(s->text.name, before, name);
        af_folder_remove(store->folder, name);
    }
    keep_limit(store);
}

static slot_state load(af_page_store *store, const af_page_slot *s) {
    char name[AF_PAGE_NAME];
    af_error error;
    const size_t bytes = af_page_file_bytes(&store->kind, s->groups);
    af_page_file_name(s->text.name, s->groups, name);
    const int status = af_folder_read(store->folder, name, s->file, bytes, &error);
    const bool holds = status == AF_OK && af_page_file_holds(&store->kind, &s->text, s->groups, s->file);
    if (holds) {
        af_folder_touch(store->folder, name, s->stamp);
    } else {
        if (status == AF_OK || status == AF_EFORMAT) {
            af_log(AF_LOG_WARNING, "%s in the cache folder is damaged or not what its name says: it is removed", name);
            af_folder_remove(store->folder, name);
        }
        forget(store, name);
    }
    af_mutex_lock(store->mutex);
    store->stats.restored += holds;
    store->stats.refused += status == AF_EFORMAT || (status == AF_OK && !holds);
    af_mutex_unlock(store->mutex);
    return holds ? LOADED : FAILED;
}

static slot_state attend(af_page_store *store, const slot *s, slot_state what) {
    char name[AF_PAGE_NAME];
    switch (what) {
    case TO_LOAD:
        return load(store, &s->slot);
    case TO_SAVE:
        save(store, &s->slot);
        return UNUSED;
    default:
        af_page_file_name(s->slot.text.name, s->slot.groups, name);
        af_folder_touch(store->folder, name, s->slot.stamp);
        return UNUSED;
    }
}

/* The mutex is held. Loads first, then in the order they were asked for. */
static slot *next_slot(af_page_store *store) {
    slot *next = NULL;
    for (size_t i = 0; i < AF_PAGE_SLOTS; i++) {
        slot *s = &store->slots[i];
        if (s->state != TO_LOAD && s->state != TO_SAVE && s->state != TO_TOUCH) continue;
        const bool sooner = next && (s->state == TO_LOAD) != (next->state == TO_LOAD) ? s->state == TO_LOAD
                                                                                      : !next || s->order < next->order;
        if (sooner) next = s;
    }
    return next;
}

static void run_store(void *user) {
    af_page_store *store = user;
    af_mutex_lock(store->mutex);
    for (;;) {
        slot *s = next_slot(store);
        if (!s && store->closing) break;
        if (!s) {
            af_cond_wait(store->changed, store->mutex);
            continue;
        }
        const slot_state what = s->state;
        s->state = BUSY;
        af_mutex_unlock(store->mutex);
        const slot_state then = attend(store, s, what);
        af_mutex_lock(store->mutex);
        s->state = s->abandoned ? UNUSED : then;
        store->done++;
        af_cond_broadcast(store->changed);
    }
    af_mutex_unlock(store->mutex);
}

/* ---- Slots ---- */

static af_page_slot *take(af_page_store *store, size_t leave) {
    slot *found = NULL;
    size_t unused = 0;
    af_mutex_lock(store->mutex);
    for (size_t i = 0; i < AF_PAGE_SLOTS; i++) {
        if (store->slots[i].state != UNUSED) continue;
        found = &store->slots[i];
        unused++;
    }
    if (unused <= leave) found = NULL;
    if (found) {
        found->state = TAKEN;
        found->abandoned = false;
    }
    af_mutex_unlock(store->mutex);
    return found ? &found->slot : NULL;
}

af_page_slot *af_page_store_slot_to_load(af_page_store *store) {
    return take(store, 0);
}

af_page_slot *af_page_store_slot_to_save(af_page_store *store) {
    return take(store, LOADS_ALONE);
}

static void ask(af_page_store *store, af_page_slot *given, slot_state what) {
    slot *s = (slot *)given;
    assert(given->groups && af_page_file_bytes(&store->kind, given->groups) <= store->file_bytes);
    af_mutex_lock(store->mutex);
    assert(s->state == TAKEN);
    s->state = what;
    s->order = store->asked++;
    af_cond_broadcast(store->changed);
    af_mutex_unlock(store->mutex);
}

void af_page_store_save(af_page_store *store, af_page_slot *s) {
    ask(store, s, TO_SAVE);
}

void af_page_store_touch(af_page_store *store, af_page_slot *s) {
    ask(store, s, TO_TOUCH);
}

void af_page_store_load(af_page_store *store, af_page_slot *s) {
    ask(store, s, TO_LOAD);
}

af_page_load af_page_store_look(af_page_store *store, const af_page_slot *given) {
    af_mutex_lock(store->mutex);
    const slot_state state = ((const slot *)given)->state;
    af_mutex_unlock(store->mutex);
    return state == LOADED ? AF_PAGE_LOADED : state == FAILED ? AF_PAGE_FAILED : AF_PAGE_LOADING;
}

void af_page_store_give_back(af_page_store *store, af_page_slot *given) {
    slot *s = (slot *)given;
    af_mutex_lock(store->mutex);
    if (s->state == BUSY)
        s->abandoned = true;
    else
        s->state = UNUSED;
    af_mutex_unlock(store->mutex);
}

void af_page_store_wait(af_page_store *store, uint64_t nanoseconds) {
    af_mutex_lock(store->mutex);
    if (store->done == store->seen) af_cond_wait_for(store->changed, store->mutex, nanoseconds);
    store->seen = store->done;
    af_mutex_unlock(store->mutex);
}

uint32_t af_page_store_find(af_page_store *store, const unsigned char name[AF_SHA256_BYTES]) {
    uint64_t half[2];
    half_of(name, half);
    af_mutex_lock(store->mutex);
    const uint32_t groups = af_page_index_find(&store->index, half);
    af_mutex_unlock(store->mutex);
    return groups;
}

void af_page_store_doubt(af_page_store *store, const unsigned char name[AF_SHA256_BYTES]) {
    uint64_t half[2];
    half_of(name, half);
    af_mutex_lock(store->mutex);
    af_page_index_remove(&store->index, half);
    af_mutex_unlock(store->mutex);
}

const af_page_kind *af_page_store_kind(const af_page_store *store) {
    return &store->kind;
}

af_page_stats af_page_store_stats(af_page_store *store) {
    af_mutex_lock(store->mutex);
    const af_page_stats stats = store->stats;
    af_mutex_unlock(store->mutex);
    return stats;
}

/* ---- Open and close ---- */

static int open_parts(af_page_store *store, const char *folder, af_error *error) {
    const size_t bytes = store->file_bytes * AF_PAGE_SLOTS;
    store->mutex = af_mutex_open();
    store->changed = af_cond_open();
    store->memory = af_os_pages(bytes, false);
    if (!store->mutex || !store->changed || !store->memory)
        return af_fail_memory(error, bytes, "pages on their way to disk");
    for (size_t i = 0; i < AF_PAGE_SLOTS; i++) store->slots[i].slot.file = store->memory + i * store->file_bytes;
    int status = af_folder_open(folder, &store->folder, error);
    if (status == AF_OK) status = af_folder_list(store->folder, see_file, store, error);
    return status == AF_OK ? af_thread_start(&store->thread, "airframe-disk", run_store, store, error) : status;
}

int af_page_store_open(const char *folder, const af_page_kind *kind, uint64_t limit, af_page_store **out,
                       af_error *error) {
    af_page_store *store = calloc(1, sizeof *store);
    if (!store) return af_fail_memory(error, sizeof *store, "the cache on disk");
    store->kind = *kind;
    store->limit = limit;
    store->file_bytes = (af_page_file_bytes(kind, UINT32_MAX) + 63) / 64 * 64;
    const int status = open_parts(store, folder, error);
    if (status == AF_OK)
        *out = store;
    else
        af_page_store_close(store);
    return status;
}

void af_page_store_close(af_page_store *store) {
    if (!store) return;
    if (store->thread) {
        af_mutex_lock(store->mutex);
        store->closing = true;
        af_cond_broadcast(store->changed);
        af_mutex_unlock(store->mutex);
        af_thread_join(store->thread);
    }
    af_folder_close(store->folder);
    af_page_index_close(&store->index);
    af_cond_close(store->changed);
    af_mutex_close(store->mutex);
    if (store->memory) af_os_pages_free(store->memory, store->file_bytes * AF_PAGE_SLOTS);
    free(store);
}

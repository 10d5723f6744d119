/* page_store.h - a folder of pages (page_file.h), and the thread that reads and writes them.
 *
 * The engine's thread never waits for a disk: it asks for a page by a slot and looks later whether it came, or fills a
 * slot and leaves it to be written. There are a few slots, so what lies in between is bounded; reading goes first, and
 * writing never takes all slots.
 *
 * The folder is shared: by engines of other models and by other processes. Each knows the files that were there when it
 * opened and those that it wrote; a file that is gone by then was somebody else's to remove. Together they take no more
 * than about `limit` bytes: who writes past it removes the files whose time is oldest. So a page's time is the text's
 * last use, and a little earlier the further from its beginning: ends go first.
 *
 * A file that does not hold what it must is removed and counted.
 */
#ifndef AF_PAGE_STORE_H
#define AF_PAGE_STORE_H

#include "engine/page_file.h"

#include "base/status.h"

#define AF_PAGE_SLOTS 8

typedef struct af_page_store af_page_store;

typedef struct af_page_slot {
    af_page_text text; /* the caller's to fill in, like all of this */
    uint32_t groups;
    int64_t stamp;       /* the file's time: nanoseconds since 1970 */
    unsigned char *file; /* a whole file, its header the store's business */
} af_page_slot;

typedef struct af_page_stats {
    uint64_t bytes;           /* of files in the folder, as far as is known */
    uint64_t saved, restored; /* pages since the start */
    uint64_t refused;         /* files that did not hold what they must */
} af_page_stats;

int af_page_store_open(const char *folder, const af_page_kind *kind, uint64_t limit, af_page_store **out,
                       af_error *error);
/* Writes what is left to be written. No slot may be in use. */
void af_page_store_close(af_page_store *store);

/* The groups that a text's last page has on disk; 0: it is not there. */
uint32_t af_page_store_find(af_page_store *store, const unsigned char name[AF_SHA256_BYTES]);

/* What is there is to be written anew. */
void af_page_store_doubt(af_page_store *store, const unsigned char name[AF_SHA256_BYTES]);

/* An unused slot, NULL if there is none. It goes back to the store by save, touch or give_back. */
af_page_slot *af_page_store_slot_to_load(af_page_store *store);
af_page_slot *af_page_store_slot_to_save(af_page_store *store);
void af_page_store_save(af_page_store *store, af_page_slot *slot);
void af_page_store_touch(af_page_store *store, af_page_slot *slot);

/* Begins to read slot->text's file with slot->groups. */
void af_page_store_load(af_page_store *store, af_page_slot *slot);
typedef enum af_page_load { AF_PAGE_LOADING, AF_PAGE_LOADED, AF_PAGE_FAILED } af_page_load;
af_page_load af_page_store_look(af_page_store *store, const af_page_slot *slot);
/* Whatever becomes of it. */
void af_page_store_give_back(af_page_store *store, af_page_slot *slot);

/* Until the thread got something done since the last call, at most `nanoseconds`. */
void af_page_store_wait(af_page_store *store, uint64_t nanoseconds);
const af_page_kind *af_page_store_kind(const af_page_store *store);
af_page_stats af_page_store_stats(af_page_store *store);

#endif

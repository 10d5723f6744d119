/* disk.h - the part of the prefix cache that outlives the process (airframe.h, cache_dir).
 *
 * When a request ends, its text is noted; between steps its kept pages are copied, a few at a time, to be written
 * (page_store.h). When a prompt's next page is not in memory but on disk, the pages that are there are read in the
 * background and put into the request's own pages, just as if their tokens had run: from then on nothing tells them
 * from others. The request waits meanwhile, others do not.
 *
 * Of a model with windows, pages are taken over as far as a place where all groups have what the next position sees; if
 * reading fails before it, the request begins anew and runs.
 *
 * All of this is the engine's thread's.
 */
#ifndef AF_DISK_H
#define AF_DISK_H

#include "engine/page_store.h"

#define AF_DISK_AHEAD 4 /* pages of a request that are read at once */

typedef struct af_disk af_disk;
struct af_engine;
struct af_job;

/* A request's pages on their way from disk. All zeros: it was not looked for them. */
typedef struct af_restore {
    bool looked;
    uint32_t at, asked, end;             /* pages: in place, asked for, to be had */
    unsigned char name[AF_SHA256_BYTES]; /* of the text as far as `asked` */
    int64_t stamp;
    af_page_slot *slots[AF_DISK_AHEAD]; /* of page p at p % AF_DISK_AHEAD */
} af_restore;

/* `model`: what tells it from others (gguf.h). AF_EUNSUPPORTED where the device gives no pages out. */
int af_disk_open(const struct af_engine *engine, const unsigned char model[AF_SHA256_BYTES], af_disk **out,
                 af_error *error);
void af_disk_close(af_disk *disk);
/* After a device was opened again: if it is another one, nothing on disk is of use to it. */
void af_disk_check(struct af_engine *engine);
af_page_stats af_disk_stats(const af_disk *disk);

/* A request that ends: of its text, what the first `done` positions fill is kept, and to be saved. */
void af_disk_note(af_disk *disk, const struct af_job *job, uint32_t done);
/* Copies at most so many pages of what is noted. True if something is left. */
bool af_disk_save(struct af_engine *engine, uint32_t most);
/* Waits a little for the disk. */
void af_disk_pause(af_disk *disk);
/* Saves what is noted, for a few seconds at the most. */
void af_disk_flush(struct af_engine *engine);

/* Takes what came of the pages that a request is to get, and asks for more. True if it waits for them in this step. */
bool af_disk_restore(struct af_engine *engine, struct af_job *job);
/* The request gets no more of them. */
void af_disk_leave(af_disk *disk, struct af_job *job);
/* It holds nothing any more, and nothing of it is looked for on disk. */
void af_disk_begin_anew(struct af_engine *engine, struct af_job *job);
/* True while pages are on their way to it. */
static inline bool af_disk_restores(const af_restore *restore) {
    return restore->at != restore->end;
}
/* Waits a little for the disk if a running request has nothing else to do. */
void af_disk_wait(struct af_engine *engine);

#endif

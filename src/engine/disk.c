/* disk.c - texts that were noted, saved page by page (disk.h). disk_restore.c is the way back. */
#include "engine/disk_internal.h"

#include "base/log.h"
#include "engine/disk_identity.h"
#include "engine/prefix_cache.h"

#include <stdlib.h>
#include <string.h>

#define MICROSECOND 1000
#define SECOND      INT64_C(1000000000)
#define FLUSH       (5 * SECOND)                        /* at the most */
#define PAUSE       (20 * MICROSECOND * UINT64_C(1000)) /* to wait for the disk before looking about again */
#define LOOKS       16                                  /* pages that are on disk already, for one that is copied */

/* ---- Open and close ---- */

int af_disk_open(const af_engine *engine, const unsigned char model[AF_SHA256_BYTES], af_disk **out, af_error *error) {
    af_page_kind kind;
    int status = af_disk_kind(engine, model, &kind, error);
    if (status != AF_OK) return status;
    const size_t pages = engine->ctx / AF_KV_PAGE + 1;
    af_disk *disk = calloc(1, sizeof *disk);
    if (disk) disk->groups = calloc(pages, sizeof *disk->groups);
    if (!disk || !disk->groups) {
        free(disk);
        return af_fail_memory(error, pages * sizeof *disk->groups, "the cache on disk");
    }
    memcpy(disk->model, model, sizeof disk->model);
    const af_engine_options *o = &engine->options;
    status = af_page_store_open(o->cache_dir, &kind, o->cache_disk, &disk->store, error);
    if (status != AF_OK) {
        af_disk_close(disk);
        return status == AF_ENOMEM ? status : af_fail_within(error, status, "cache_dir");
    }
    *out = disk;
    return AF_OK;
}

void af_disk_close(af_disk *disk) {
    if (!disk) return;
    for (size_t i = 0; i < AF_DISK_TEXTS; i++) free(disk->texts[i].ids);
    af_page_store_close(disk->store);
    free(disk->groups);
    free(disk);
}

void af_disk_check(af_engine *engine) {
    af_disk *disk = engine->disk;
    af_page_kind kind;
    if (!disk || disk->off) return;
    disk->off = af_disk_kind(engine, disk->model, &kind, NULL) != AF_OK ||
                memcmp(&kind, af_page_store_kind(disk->store), sizeof kind) != 0;
    if (disk->off) af_log(AF_LOG_WARNING, "nothing more is kept on disk: this is another device");
}

af_page_stats af_disk_stats(const af_disk *disk) {
    return disk ? af_page_store_stats(disk->store) : (af_page_stats){0};
}

/* ---- Texts to save ---- */

static af_disk_text *first_text(af_disk *disk) {
    return disk->text_count ? &disk->texts[disk->first_text % AF_DISK_TEXTS] : NULL;
}

static void drop_first(af_disk *disk) {
    af_disk_text *text = first_text(disk);
    free(text->ids);
    *text = (af_disk_text){0};
    disk->first_text++;
    disk->text_count--;
}

int64_t af_disk_now(void) {
    return af_os_unix_time() * SECOND;
}

/* Of many that wait to be saved the oldest is given up: its pages are the next to leave memory. */
void af_disk_note(af_disk *disk, const af_job *job, uint32_t done) {
    const uint32_t pages = done / AF_KV_PAGE;
    if (!disk || disk->off || pages == 0) return;
    int32_t *ids = malloc((size_t)pages * AF_KV_PAGE * sizeof *ids);
    if (!ids) return;
    memcpy(ids, job->tokens, (size_t)pages * AF_KV_PAGE * sizeof *ids);
    if (disk->text_count == AF_DISK_TEXTS) drop_first(disk);
    af_disk_text *text = &disk->texts[(disk->first_text + disk->text_count++) % AF_DISK_TEXTS];
    *text = (af_disk_text){.ids = ids, .pages = pages, .stamp = af_disk_now()};
    memcpy(text->name, af_page_store_kind(disk->store)->identity, sizeof text->name);
}

/* The pages of the text's page `at`, as they are kept; false if they are not any more. */
static bool kept_pages(const af_kv *kv, const af_disk_text *text, uint32_t pages[AF_PLAN_GROUPS]) {
    uint32_t node = AF_PREFIX_ROOT;
    for (uint32_t page = 0; page <= text->at && node != AF_KV_NONE; page++)
        node = af_kv_find(kv, node, text->ids + (size_t)page * AF_KV_PAGE, pages);
    return node != AF_KV_NONE;
}

static bool fill_slot(const af_engine *engine, const uint32_t pages[AF_PLAN_GROUPS], const af_page_slot *slot) {
    const af_page_kind *kind = af_page_store_kind(engine->disk->store);
    af_backend *backend = engine->backend;
    af_error error;
    for (uint32_t g = 0; g < engine->plan->group_count; g++) {
        if (!(slot->groups >> g & 1)) continue;
        unsigned char *to = slot->file + af_page_file_at(kind, slot->groups, g);
        if (backend->ops->read_page(backend, g, pages[g], to, &error) == AF_OK) continue;
        af_log(AF_LOG_WARNING, "%s: a text is not saved", error.text);
        return false;
    }
    return true;
}

typedef enum saved { NO_ROOM, NOT_KEPT, COPIED, THERE_ALREADY } saved;

static saved save_page(const af_engine *engine, const af_disk_text *text, const af_page_text *page) {
    af_page_store *store = engine->disk->store;
    uint32_t pages[AF_PLAN_GROUPS], groups = 0;
    if (!kept_pages(engine->kv, text, pages)) return NOT_KEPT;
    for (uint32_t g = 0; g < engine->plan->group_count; g++) groups |= (pages[g] != AF_KV_NONE ? 1u : 0u) << g;
    const uint32_t there = af_page_store_find(store, page->name);
    const bool has_all = (there & groups) == groups;
    af_page_slot *slot = af_page_store_slot_to_save(store);
    if (!slot) return NO_ROOM;
    slot->text = *page;
    slot->groups = has_all ? there : groups;
    slot->stamp = text->stamp - (int64_t)text->at * MICROSECOND;
    if (has_all) {
        af_page_store_touch(store, slot);
        return THERE_ALREADY;
    }
    if (!fill_slot(engine, pages, slot)) {
        af_page_store_give_back(store, slot);
        return NOT_KEPT;
    }
    af_page_store_save(store, slot);
    return COPIED;
}

bool af_disk_save(af_engine *engine, uint32_t most) {
    af_disk *disk = engine->disk;
    if (!disk) return false;
    while (!engine->backend && disk->text_count) drop_first(disk); /* what they were is gone */
    for (uint32_t copied = 0, looked = 0; disk->text_count && copied < most && looked < most * LOOKS; looked++) {
        af_disk_text *text = first_text(disk);
        af_page_text page;
        af_page_text_after(text->name, text->ids + (size_t)text->at * AF_KV_PAGE, &page);
        const saved how = save_page(engine, text, &page);
        if (how == NO_ROOM) break;
        copied += how == COPIED;
        memcpy(text->name, page.name, sizeof text->name);
        if (++text->at == text->pages || how == NOT_KEPT) drop_first(disk);
    }
    return disk->text_count > 0;
}

void af_disk_pause(af_disk *disk) {
    af_page_store_wait(disk->store, PAUSE);
}

void af_disk_flush(af_engine *engine) {
    const uint64_t start = af_os_nanoseconds();
    while (af_disk_save(engine, AF_PAGE_SLOTS)) {
        if (af_os_nanoseconds() - start > (uint64_t)FLUSH) {
            af_log(AF_LOG_WARNING, "the disk is too slow: %u texts are not saved", engine->disk->text_count);
            return;
        }
        af_disk_pause(engine->disk);
    }
}

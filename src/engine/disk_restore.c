/* disk_restore.c - pages on disk become a request's own (disk.h). */
#include "engine/disk_internal.h"

#include "base/log.h"
#include "engine/kv_pool.h"

#include <string.h>

#define MICROSECOND 1000

/* ---- What is there ---- */

/* The name of the text that the first pages of `tokens` make. */
static void name_text(const af_disk *disk, const int32_t *tokens, uint32_t pages, unsigned char name[AF_SHA256_BYTES]) {
    af_page_text text;
    memcpy(name, af_page_store_kind(disk->store)->identity, AF_SHA256_BYTES);
    for (uint32_t page = 0; page < pages; page++) {
        af_page_text_after(name, tokens + (size_t)page * AF_KV_PAGE, &text);
        memcpy(name, text.name, AF_SHA256_BYTES);
    }
}

static void look(const af_engine *engine, af_job *job) {
    const af_disk *disk = engine->disk;
    af_restore *r = &job->restore;
    const uint32_t first = job->done / AF_KV_PAGE, most = job->reusable / AF_KV_PAGE;
    uint32_t count = 0;
    *r = (af_restore){.looked = true, .at = first, .asked = first, .end = first, .stamp = af_disk_now()};
    if (job->done % AF_KV_PAGE != 0 || first >= most) return;
    name_text(disk, job->tokens, first, r->name);
    af_page_text text;
    memcpy(text.name, r->name, sizeof text.name);
    for (uint32_t page = first; page < most; page++, count++) {
        af_page_text_after(text.name, job->tokens + (size_t)page * AF_KV_PAGE, &text);
        disk->groups[count] = af_page_store_find(disk->store, text.name);
        if (!disk->groups[count]) break;
    }
    r->end = first + af_kv_reach(engine->kv, job->seq, disk->groups, count);
}

/* ---- Reading ---- */

static void ask_ahead(const af_disk *disk, const af_job *job, af_restore *r) {
    while (r->asked < r->end && r->asked < r->at + AF_DISK_AHEAD) {
        af_page_slot *slot = af_page_store_slot_to_load(disk->store);
        if (!slot) return;
        af_page_text_after(r->name, job->tokens + (size_t)r->asked * AF_KV_PAGE, &slot->text);
        memcpy(r->name, slot->text.name, sizeof r->name);
        slot->groups = af_page_store_find(disk->store, slot->text.name);
        slot->stamp = r->stamp - (int64_t)r->asked * MICROSECOND;
        if (!slot->groups) { /* removed meanwhile */
            af_page_store_give_back(disk->store, slot);
            r->end = r->asked;
            return;
        }
        af_page_store_load(disk->store, slot);
        r->slots[r->asked++ % AF_DISK_AHEAD] = slot;
    }
}

/* Puts a page that came into the sequence's own, which begin where it is. */
static bool put_in_place(const af_engine *engine, const af_job *job, const af_page_slot *slot) {
    const af_page_kind *kind = af_page_store_kind(engine->disk->store);
    const uint32_t page = job->restore.at, begin = page * AF_KV_PAGE;
    af_batch_seq own;
    af_error error;
    if (!af_kv_reserve(engine->kv, job->seq, begin, begin + AF_KV_PAGE)) return false;
    af_kv_view(job->seq, &own);
    for (uint32_t g = 0; g < engine->plan->group_count; g++) {
        if (!(slot->groups >> g & 1) || own.pages[g][page] == AF_KV_NONE) continue;
        const unsigned char *from = slot->file + af_page_file_at(kind, slot->groups, g);
        if (engine->backend->ops->write_page(engine->backend, g, own.pages[g][page], from, &error) == AF_OK) continue;
        af_log(AF_LOG_WARNING, "%s: a text is not restored", error.text);
        return false;
    }
    return true;
}

/* One more page, if it came. */
static af_page_load take_next(const af_engine *engine, af_job *job) {
    af_restore *r = &job->restore;
    af_page_slot **slot = &r->slots[r->at % AF_DISK_AHEAD];
    if (!*slot) return AF_PAGE_LOADING;
    af_page_load came = af_page_store_look(engine->disk->store, *slot);
    if (came == AF_PAGE_LOADING) return came;
    if (came == AF_PAGE_LOADED && !put_in_place(engine, job, *slot)) came = AF_PAGE_FAILED;
    af_page_store_give_back(engine->disk->store, *slot);
    *slot = NULL;
    if (came == AF_PAGE_LOADED) r->at++;
    return came;
}

/* ---- The end of it ---- */

void af_disk_leave(af_disk *disk, af_job *job) {
    af_restore *r = &job->restore;
    for (uint32_t i = 0; disk && i < AF_DISK_AHEAD; i++) {
        if (r->slots[i]) af_page_store_give_back(disk->store, r->slots[i]);
        r->slots[i] = NULL;
    }
    r->end = r->asked = r->at;
}

static bool has_windows(const af_plan *plan) {
    for (size_t g = 0; g < plan->group_count; g++)
        if (plan->groups[g].window) return true;
    return false;
}

/* The pages in place are the sequence's past from now on; of windows, those that it still sees. */
static void settle(af_engine *engine, af_job *job) {
    const uint32_t done = job->restore.at * AF_KV_PAGE;
    if (done == job->done) return;
    af_kv_reserve(engine->kv, job->seq, done, done);
    job->cached += done - job->done;
    job->done = done;
    af_kv_keep(engine->kv, job->seq, job->tokens, done);
}

void af_disk_begin_anew(af_engine *engine, af_job *job) {
    af_disk_leave(engine->disk, job);
    af_kv_seq_release(engine->kv, job->seq);
    job->seq = af_kv_seq_take(engine->kv);
    job->done = job->cached = 0;
}

/* Where one page could not be had, those after it are doubted too, and written anew when the prompt has run. */
static void doubt_the_rest(const af_disk *disk, const af_job *job, uint32_t end) {
    af_page_text text;
    name_text(disk, job->tokens, job->restore.at, text.name);
    for (uint32_t page = job->restore.at; page < end; page++) {
        af_page_text_after(text.name, job->tokens + (size_t)page * AF_KV_PAGE, &text);
        af_page_store_doubt(disk->store, text.name);
    }
}

/* Without windows what is in place is good; with them it may lack what is needed where it ends, and the next step looks
 * again what is in memory. */
static bool give_up(af_engine *engine, af_job *job, uint32_t end) {
    const bool anew = has_windows(engine->plan);
    doubt_the_rest(engine->disk, job, end);
    af_disk_leave(engine->disk, job);
    if (anew)
        af_disk_begin_anew(engine, job);
    else
        settle(engine, job);
    return anew;
}

bool af_disk_restore(af_engine *engine, af_job *job) {
    af_restore *r = &job->restore;
    if (!engine->disk || engine->disk->off) return false;
    if (!r->looked) look(engine, job);
    if (!af_disk_restores(r)) return false;
    const uint32_t end = r->end;
    af_page_load came = AF_PAGE_LOADED;
    while (came == AF_PAGE_LOADED && r->at < r->end) {
        ask_ahead(engine->disk, job, r);
        came = r->end == end ? take_next(engine, job) : AF_PAGE_FAILED;
    }
    if (came == AF_PAGE_LOADING) return true;
    if (came == AF_PAGE_FAILED) return give_up(engine, job, end);
    settle(engine, job);
    return false;
}

void af_disk_wait(af_engine *engine) {
    for (uint32_t i = 0; engine->disk && i < engine->running_count; i++) {
        if (!af_disk_restores(&engine->running[i]->restore)) continue;
        af_disk_pause(engine->disk);
        return;
    }
}

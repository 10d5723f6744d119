/* gpu_store.c - the folder's list in memory, its files read as they are asked for. */
#include "backend/webgpu/gpu_store.h"

#include "base/checksum.h"
#include "base/os.h"
#include "base/os_folder.h"
#include "base/sha256.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_VALUE (16u << 20)
#define NAME_BYTES (2 * AF_SHA256_BYTES + 1)
#define SECOND     1000000000ll

typedef struct header {
    char magic[8];
    uint64_t checksum;
} header;

static const char magic[8] = "AFpipe1\n";

typedef struct entry {
    char name[NAME_BYTES];
    uint64_t size; /* of the file */
    int64_t modified;
} entry;

struct af_gpu_store {
    af_folder *folder;
    af_mutex *mutex;
    entry entries[AF_GPU_STORE_FILES];
    size_t count;
    uint64_t bytes;
    int64_t latest;
    unsigned char *file; /* read last: Dawn asks for a size first, and then for the value */
    char file_name[NAME_BYTES];
    uint64_t file_size;
};

/* Rises with every use. */
static int64_t now(af_gpu_store *s) {
    const int64_t time = af_os_unix_time() * SECOND;
    s->latest = time > s->latest ? time : s->latest + 1;
    return s->latest;
}

/* ---- The folder ---- */

/* A server's sandbox allows the same two (base/os_sandbox_paths_linux.c). */
static af_folder *open_folder(void) {
    char path[4096];
    const char *asked = getenv("AIRFRAME_PIPELINE_CACHE");
    af_folder *folder = NULL;
    if (asked ? !*asked : !af_os_cache_path(AF_CACHE_PIPELINES, path, sizeof path)) return NULL;
    if (!asked) af_os_make_folders(path);
    return af_folder_open(asked ? asked : path, &folder, NULL) == AF_OK ? folder : NULL;
}

static bool is_ours(const char *name) {
    return strlen(name) == NAME_BYTES - 1 && strspn(name, "0123456789abcdef") == NAME_BYTES - 1;
}

static void forget(af_gpu_store *s, size_t at) {
    s->bytes -= s->entries[at].size;
    s->entries[at] = s->entries[--s->count];
}

static size_t oldest_of(const af_gpu_store *s) {
    size_t oldest = 0;
    for (size_t i = 1; i < s->count; i++)
        if (s->entries[i].modified < s->entries[oldest].modified) oldest = i;
    return oldest;
}

/* Room for one more of so many bytes; what was used last stays. */
static void make_room(af_gpu_store *s, uint64_t size) {
    while (s->count > 0 && (s->count == AF_GPU_STORE_FILES || s->bytes + size > AF_GPU_STORE_BYTES)) {
        const size_t oldest = oldest_of(s);
        af_folder_remove(s->folder, s->entries[oldest].name);
        forget(s, oldest);
    }
}

static void note(af_gpu_store *s, const char *name, uint64_t size, int64_t modified) {
    make_room(s, size);
    entry *e = &s->entries[s->count++];
    *e = (entry){.size = size, .modified = modified};
    memcpy(e->name, name, NAME_BYTES);
    s->bytes += size;
}

static void note_file(void *user, const af_folder_entry *found) {
    if (is_ours(found->name)) note(user, found->name, found->size, found->modified);
}

/* ---- Open and close ---- */

af_gpu_store *af_gpu_store_open(void) {
    af_folder *folder = open_folder();
    af_gpu_store *s = folder ? calloc(1, sizeof *s) : NULL;
    if (!s) {
        af_folder_close(folder);
        return NULL;
    }
    s->folder = folder;
    s->mutex = af_mutex_open();
    if (s->mutex && af_folder_list(folder, note_file, s, NULL) == AF_OK) return s;
    af_gpu_store_close(s);
    return NULL;
}

void af_gpu_store_close(af_gpu_store *s) {
    if (!s) return;
    if (s->mutex) af_mutex_close(s->mutex);
    af_folder_close(s->folder);
    free(s->file);
    free(s);
}

/* ---- Files ---- */

static void name_of(const void *key, size_t size, char name[NAME_BYTES]) {
    af_sha256 sha;
    unsigned char digest[AF_SHA256_BYTES];
    af_sha256_begin(&sha);
    af_sha256_add(&sha, key, size);
    af_sha256_end(&sha, digest);
    for (size_t i = 0; i < sizeof digest; i++) snprintf(name + 2 * i, 3, "%02x", digest[i]);
}

static size_t find(const af_gpu_store *s, const char *name) {
    size_t i = 0;
    while (i < s->count && strcmp(s->entries[i].name, name) != 0) i++;
    return i;
}

static bool is_whole(const unsigned char *file, uint64_t size) {
    header h;
    memcpy(&h, file, sizeof h);
    return memcmp(h.magic, magic, sizeof magic) == 0 && h.checksum == af_checksum(file + sizeof h, size - sizeof h);
}

/* Into s->file. A file that is no good is removed and forgotten. */
static bool read_file(af_gpu_store *s, size_t at) {
    entry *e = &s->entries[at];
    if (s->file && strcmp(s->file_name, e->name) == 0) return true;
    free(s->file);
    s->file = e->size > sizeof(header) && e->size <= sizeof(header) + MOST_VALUE ? malloc(e->size) : NULL;
    if (s->file && af_folder_read(s->folder, e->name, s->file, e->size, NULL) == AF_OK && is_whole(s->file, e->size)) {
        memcpy(s->file_name, e->name, NAME_BYTES);
        s->file_size = e->size;
        e->modified = now(s);
        af_folder_touch(s->folder, e->name, e->modified);
        return true;
    }
    free(s->file);
    s->file = NULL;
    af_folder_remove(s->folder, e->name);
    forget(s, at);
    return false;
}

size_t af_gpu_store_load(size_t key_size, const uint8_t *key, size_t value_size, uint8_t *value, void *store,
                         void *unused) {
    (void)unused;
    af_gpu_store *s = store;
    char name[NAME_BYTES];
    size_t size = 0;
    if (key_size > AF_GPU_STORE_KEY) return 0;
    name_of(key, key_size, name);
    af_mutex_lock(s->mutex);
    const size_t at = find(s, name);
    if (at < s->count && read_file(s, at)) {
        size = s->file_size - sizeof(header);
        if (value && value_size >= size) memcpy(value, s->file + sizeof(header), size);
    }
    af_mutex_unlock(s->mutex);
    return size;
}

static void write_file(af_gpu_store *s, const char *name, const void *value, size_t value_size) {
    const uint64_t size = sizeof(header) + value_size;
    unsigned char *file = malloc(size);
    if (!file) return;
    header h = {.checksum = af_checksum(value, value_size)};
    memcpy(h.magic, magic, sizeof magic);
    memcpy(file, &h, sizeof h);
    memcpy(file + sizeof h, value, value_size);
    const size_t at = find(s, name);
    if (at < s->count) forget(s, at);
    if (s->file && strcmp(s->file_name, name) == 0) *s->file_name = '\0';
    const int64_t time = now(s);
    if (af_folder_write(s->folder, name, file, size, time, NULL) == AF_OK) note(s, name, size, time);
    free(file);
}

void af_gpu_store_save(size_t key_size, const uint8_t *key, size_t value_size, const uint8_t *value, void *store,
                       void *unused) {
    (void)unused;
    af_gpu_store *s = store;
    char name[NAME_BYTES];
    if (key_size > AF_GPU_STORE_KEY || value_size == 0 || value_size > MOST_VALUE) return;
    name_of(key, key_size, name);
    af_mutex_lock(s->mutex);
    write_file(s, name, value, value_size);
    af_mutex_unlock(s->mutex);
}

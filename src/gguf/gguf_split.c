/* gguf_split.c - models split into several files NAME-00001-of-0000N.gguf.
 *
 * The opened shard's metadata says how many there are and which it is; its name must say the same, since the others'
 * names follow from it. Shards are numbered from 0 in split.no and from 1 in names.
 */
#include "gguf/gguf_internal.h"

#include <stdio.h>
#include <string.h>

#define SUFFIX_BYTES 20 /* "-00001-of-00003.gguf" */
#define SHARDS_MAX   99999

/* split.no and split.count; a file without them is the only one. */
static int read_split(const gguf_shard *shard, uint64_t *no, uint64_t *count, af_error *error) {
    *no = 0;
    *count = 1;
    const gguf_entry *stated_no = gguf_find(shard, "split.no"), *stated_count = gguf_find(shard, "split.count");
    if (!stated_count) return 0;
    if (!gguf_entry_u64(stated_count, count) || *count > SHARDS_MAX)
        return af_fail(error, AF_EFORMAT, "%s: key split.count: is not an integer from 0 to %d", shard->path,
                       SHARDS_MAX);
    if (*count <= 1) {
        *count = 1;
        return 0;
    }
    if (!stated_no || !gguf_entry_u64(stated_no, no) || *no >= *count)
        return af_fail(error, AF_EFORMAT, "%s: key split.no: is not an integer below split.count, which is %llu",
                       shard->path, (unsigned long long)*count);
    return 0;
}

static void suffix_of(uint64_t no, uint64_t count, char out[SUFFIX_BYTES + 1]) {
    snprintf(out, SUFFIX_BYTES + 1, "-%05u-of-%05u.gguf", (unsigned)(no + 1) % 100000, (unsigned)count % 100000);
}

static int check_name(const gguf_shard *shard, uint64_t no, uint64_t count, af_error *error) {
    char suffix[SUFFIX_BYTES + 1];
    suffix_of(no, count, suffix);
    size_t n = strlen(shard->path);
    if (n >= SUFFIX_BYTES && strcmp(shard->path + n - SUFFIX_BYTES, suffix) == 0) return 0;
    return af_fail(error, AF_EFORMAT, "%s: is shard %llu of %llu, so its name must end in \"%s\" to find the others",
                   shard->path, (unsigned long long)no + 1, (unsigned long long)count, suffix);
}

/* Opens shard `no` beside one that is open already, and checks that it says so itself. */
static int open_sibling(af_gguf *file, const char *sibling, uint64_t no, uint64_t count, af_error *error) {
    char suffix[SUFFIX_BYTES + 1];
    suffix_of(no, count, suffix);
    size_t n = strlen(sibling);
    char *path = af_arena_copy(file->arena, sibling, n);
    if (!path) return af_fail_memory(error, n, sibling);
    memcpy(path + n - SUFFIX_BYTES, suffix, SUFFIX_BYTES);
    if (af_os_stat(path).kind == AF_FILE_NONE)
        return af_fail(error, AF_EIO, "%s: is missing: shard %llu of the %llu that %s belongs to", path,
                       (unsigned long long)no + 1, (unsigned long long)count, sibling);
    gguf_shard *shard = &file->shards[no];
    int status = gguf_shard_open(path, file->arena, shard, error);
    uint64_t its_no = 0, its_count = 0;
    if (!status) status = read_split(shard, &its_no, &its_count, error);
    if (status || (its_no == no && its_count == count)) return status;
    return af_fail(error, AF_EFORMAT, "%s: says it is shard %llu of %llu, expected %llu of %llu", path,
                   (unsigned long long)its_no + 1, (unsigned long long)its_count, (unsigned long long)no + 1,
                   (unsigned long long)count);
}

/* split.tensors.count, where the first shard states it, against what was found. */
static int check_total(const af_gguf *file, af_error *error) {
    const gguf_entry *stated = gguf_find(&file->shards[0], "split.tensors.count");
    uint64_t expected, found = 0;
    if (!stated || file->shard_count == 1) return 0;
    for (uint32_t i = 0; i < file->shard_count; i++) found += file->shards[i].tensor_count;
    if (gguf_entry_u64(stated, &expected) && expected == found) return 0;
    return af_fail(error, AF_EFORMAT, "%s: key split.tensors.count: does not state the %llu tensors of the %u shards",
                   file->shards[0].path, (unsigned long long)found, file->shard_count);
}

int gguf_open_set(af_gguf *file, gguf_shard *opened, af_error *error) {
    uint64_t no, count;
    int status = read_split(opened, &no, &count, error);
    if (!status && count > 1) status = check_name(opened, no, count, error);
    if (status) goto fail;
    file->shards = af_arena_array(file->arena, count, sizeof *file->shards);
    if (!file->shards) {
        status = af_fail_memory(error, count * sizeof *file->shards, opened->path);
        goto fail;
    }
    file->shard_count = (uint32_t)count;
    file->shards[no] = *opened; /* from here on the file closes it */
    for (uint64_t i = 0; i < count && !status; i++)
        if (i != no) status = open_sibling(file, file->shards[no].path, i, count, error);
    return status ? status : check_total(file, error);
fail:
    gguf_shard_close(opened);
    return status;
}

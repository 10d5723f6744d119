/* gguf.c - opening a set of shards as one file, and looking its tensors up. The header states the layout and the
 * invariants; what checks them is gguf_shard.c (header), gguf_meta.c, gguf_tensors.c and gguf_split.c. */
#include "gguf/gguf_internal.h"

#include <stdlib.h>
#include <string.h>

/* One list of all shards' tensors, with names that are unique in the set. */
static int join_tensors(af_gguf *file, af_error *error) {
    size_t count = 0;
    for (uint32_t i = 0; i < file->shard_count; i++) count += file->shards[i].tensor_count;
    file->tensors = af_arena_array(file->arena, count, sizeof *file->tensors);
    file->names = af_map_open(count);
    if (!file->tensors || !file->names) return af_fail_memory(error, count * sizeof *file->tensors, "tensor names");
    for (uint32_t i = 0; i < file->shard_count; i++) {
        const gguf_shard *shard = &file->shards[i];
        for (uint64_t j = 0; j < shard->tensor_count; j++) {
            const af_tensor *t = &shard->tensors[j];
            if (!af_map_put(file->names, t->name, (uint32_t)file->tensor_count))
                return af_fail(error, AF_EFORMAT, "%s: tensor %.*s: is there twice", shard->path, (int)t->name.n,
                               t->name.p);
            file->tensors[file->tensor_count++] = *t;
        }
    }
    return 0;
}

int af_gguf_open(const char *path, af_gguf **out, af_error *error) {
    af_gguf *file = calloc(1, sizeof *file);
    if (!file) return af_fail_memory(error, sizeof *file, path);
    gguf_shard opened;
    file->arena = af_arena_open(0);
    int status =
        file->arena ? gguf_shard_open(path, file->arena, &opened, error) : af_fail_memory(error, sizeof *file, path);
    if (!status) status = gguf_open_set(file, &opened, error);
    if (!status) status = join_tensors(file, error);
    if (status)
        af_gguf_close(file);
    else
        *out = file;
    return status;
}

void af_gguf_close(af_gguf *file) {
    if (!file) return;
    for (uint32_t i = 0; i < file->shard_count; i++) gguf_shard_close(&file->shards[i]);
    af_map_close(file->names);
    af_arena_close(file->arena);
    free(file);
}

const char *af_gguf_path(const af_gguf *file) {
    return file->shards[0].path;
}

uint32_t af_gguf_version(const af_gguf *file) {
    return file->shards[0].version;
}

uint32_t af_gguf_shards(const af_gguf *file) {
    return file->shard_count;
}

uint64_t af_gguf_file_bytes(const af_gguf *file) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < file->shard_count; i++) bytes += file->shards[i].map.size;
    return bytes;
}

size_t af_gguf_tensor_count(const af_gguf *file) {
    return file->tensor_count;
}

const af_tensor *af_gguf_tensor_at(const af_gguf *file, size_t index) {
    return index < file->tensor_count ? &file->tensors[index] : NULL;
}

const af_tensor *af_gguf_tensor(const af_gguf *file, const char *name) {
    uint32_t index;
    return af_map_get(file->names, af_slice_text(name), &index) ? &file->tensors[index] : NULL;
}

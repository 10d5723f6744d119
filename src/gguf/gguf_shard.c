/* gguf_shard.c - one file: its header, then its parts. */
#include "gguf/gguf_internal.h"

#include <stdlib.h>
#include <string.h>

/* A big-endian file states its version with the bytes the other way round. */
static int check_version(const gguf_reader *r, uint32_t version) {
    if (version == 2 || version == 3) return 0;
    if (version && (version & 0xffff) == 0)
        return gguf_fail(r, AF_EUNSUPPORTED, "is a big-endian GGUF file; only little-endian ones are read");
    return gguf_fail(r, AF_EUNSUPPORTED, "GGUF version %u, allowed 2 and 3", version);
}

static int take_magic(gguf_reader *r) {
    const unsigned char *p;
    if (gguf_left(r) < 4 || memcmp(r->p, "GGUF", 4) != 0)
        return gguf_fail(r, AF_EFORMAT, "is not a GGUF file: begins with \"%.*s\", expected \"GGUF\"",
                         (int)(r->size < 4 ? r->size : 4), (const char *)r->p);
    return gguf_take(r, 4, "the magic", &p);
}

static int read_header(gguf_reader *r, gguf_shard *shard) {
    int status = take_magic(r);
    if (!status) status = gguf_take_u32(r, "the version", &shard->version);
    if (!status) status = check_version(r, shard->version);
    if (!status) status = gguf_take_u64(r, "the number of tensors", &shard->tensor_count);
    if (!status) status = gguf_take_u64(r, "the number of metadata keys", &shard->entry_count);
    return status;
}

int gguf_shard_open(const char *path, af_arena *arena, gguf_shard *out, af_error *error) {
    gguf_shard shard = {.path = af_arena_copy(arena, path, strlen(path))};
    if (!shard.path) return af_fail_memory(error, strlen(path), path);
    int status = af_os_map_file(path, &shard.map, error);
    if (status) return status;
    gguf_reader r = {.path = shard.path, .p = shard.map.p, .size = shard.map.size, .error = error};
    status = read_header(&r, &shard);
    if (!status) status = gguf_read_entries(&r, arena, &shard);
    if (!status) status = gguf_read_tensors(&r, arena, &shard);
    if (status)
        gguf_shard_close(&shard);
    else
        *out = shard;
    return status;
}

void gguf_shard_close(gguf_shard *shard) {
    af_map_close(shard->keys);
    af_os_unmap(&shard->map);
    *shard = (gguf_shard){0};
}

/* gguf_internal.h - what an open file consists of. Used inside src/gguf only.
 *
 * All arrays live in the file's arena; slices and values point into the mappings of the shards.
 */
#ifndef AF_GGUF_INTERNAL_H
#define AF_GGUF_INTERNAL_H

#include "base/map.h"
#include "base/os.h"
#include "gguf/gguf.h"
#include "gguf/gguf_reader.h"

struct af_gguf_array {
    af_gguf_type type; /* of the elements */
    size_t count;
    const unsigned char *p;  /* the first element */
    const uint32_t *offsets; /* of strings: where each one's length lies, from p */
};

typedef struct gguf_entry {
    af_slice key;
    af_gguf_type type;
    const unsigned char *value; /* of a number */
    af_slice string;
    const af_gguf_array *array;
} gguf_entry;

/* One file of the set. */
typedef struct gguf_shard {
    char *path;
    af_mapping map;
    uint32_t version;
    uint64_t entry_count, tensor_count; /* as the header states; bounded by the file's size */
    gguf_entry *entries;
    af_map *keys;       /* key -> index into entries */
    af_tensor *tensors; /* (tensor_count) */
} gguf_shard;

struct af_gguf {
    af_arena *arena;
    gguf_shard *shards; /* shards[0] has the metadata */
    uint32_t shard_count;
    af_tensor *tensors; /* of all shards, in order */
    size_t tensor_count;
    af_map *names; /* tensor name -> index into tensors */
};

/* gguf_meta.c: the entries, at the reader's place. */
int gguf_read_entries(gguf_reader *r, af_arena *arena, gguf_shard *shard);
/* gguf_tensors.c: the tensor list at the reader's place, checked against the file. */
int gguf_read_tensors(gguf_reader *r, af_arena *arena, gguf_shard *shard);
/* gguf_shard.c: maps one file and reads all of it; on failure it is closed. */
int gguf_shard_open(const char *path, af_arena *arena, gguf_shard *out, af_error *error);
void gguf_shard_close(gguf_shard *shard);
/* gguf_split.c: given the shard that was opened, opens the others of its set (if any) and orders them. */
int gguf_open_set(af_gguf *file, gguf_shard *opened, af_error *error);

/* gguf_value.c: lookup and widening for the above. */
const gguf_entry *gguf_find(const gguf_shard *shard, const char *key);
bool gguf_entry_u64(const gguf_entry *entry, uint64_t *out);
/* Bytes of a scalar of this type; 0 for strings, arrays and numbers that are no type. */
size_t gguf_scalar_bytes(uint32_t type);

#endif

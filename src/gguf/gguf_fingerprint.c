/* gguf_fingerprint.c - which model a file holds, for what is kept of it between runs.
 *
 * Hashing all weights would read gigabytes before the first answer. What is hashed is every byte before the tensors'
 * data (metadata and the list of tensors, of each shard), each shard's size and time of last change, and a few samples
 * of each tensor. Two models of one shape differ in their samples unless one was made from the other by changing a
 * little; then their times differ. A copy with another time counts as another model, which costs a cache and nothing
 * else.
 */
#include "gguf/gguf_internal.h"

#include "base/sha256.h"

#define SAMPLES      4
#define SAMPLE_BYTES 256u

static void add_u64(af_sha256 *sha, uint64_t value) {
    af_sha256_add(sha, &value, sizeof value);
}

static void add_samples(af_sha256 *sha, const af_tensor *t) {
    const uint64_t n = t->bytes < SAMPLE_BYTES ? t->bytes : SAMPLE_BYTES;
    for (uint64_t i = 0; i < SAMPLES; i++) af_sha256_add(sha, t->data + (t->bytes - n) / (SAMPLES - 1) * i, n);
}

/* Bytes of the shard before its first tensor's. */
static size_t head_bytes(const gguf_shard *shard) {
    size_t head = shard->map.size;
    for (uint64_t i = 0; i < shard->tensor_count; i++) {
        const size_t at = (size_t)(shard->tensors[i].data - shard->map.p);
        if (at < head) head = at;
    }
    return head;
}

void af_gguf_fingerprint(const af_gguf *file, unsigned char out[AF_SHA256_BYTES]) {
    af_sha256 sha;
    af_sha256_begin(&sha);
    for (uint32_t i = 0; i < file->shard_count; i++) {
        const gguf_shard *shard = &file->shards[i];
        add_u64(&sha, shard->map.size);
        add_u64(&sha, (uint64_t)af_os_stat(shard->path).modified);
        af_sha256_add(&sha, shard->map.p, head_bytes(shard));
        for (uint64_t t = 0; t < shard->tensor_count; t++) add_samples(&sha, &shard->tensors[t]);
    }
    af_sha256_end(&sha, out);
}

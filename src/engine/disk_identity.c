/* disk_identity.c - everything that decides over a page's bits, as one hash.
 *
 * The build is in it: what a page holds may change with any line of a kernel, and no number that somebody must remember
 * to raise is as sure. So a new build begins with an empty cache, and old files leave as the oldest. So is the model,
 * of which gguf_fingerprint.c says what is meant by it; what the plan makes of it that depends on more than the file
 * (the rotations, by the context); the settings; and of the device what it says itself.
 */
#include "engine/disk_identity.h"

#include <string.h>

#define FORM "airframe kv pages, 1" /* of what is hashed here */

static void add_u64(af_sha256 *sha, uint64_t value) {
    af_sha256_add(sha, &value, sizeof value);
}

static void add_ropes(af_sha256 *sha, const af_plan *plan) {
    for (size_t i = 0; i < plan->rope_count; i++) {
        const af_rope *rope = &plan->ropes[i];
        add_u64(sha, rope->rotated);
        add_u64(sha, rope->adjacent);
        af_sha256_add(sha, &rope->magnitude, sizeof rope->magnitude);
        af_sha256_add(sha, rope->inv_freq, rope->rotated / 2 * sizeof *rope->inv_freq);
    }
}

static void add_caches(af_sha256 *sha, const af_plan *plan) {
    for (size_t i = 0; i < plan->group_count; i++) add_u64(sha, plan->groups[i].window);
    for (size_t i = 0; i < plan->cache_count; i++) {
        const af_cache *c = &plan->caches[i];
        const uint64_t shape[] = {c->group, c->kv_heads, c->k_dim, c->v_dim, c->shared};
        af_sha256_add(sha, shape, sizeof shape);
    }
}

static void add_build(af_sha256 *sha, const unsigned char *id, size_t n) {
    af_sha256_add(sha, FORM, sizeof FORM);
    add_u64(sha, n);
    af_sha256_add(sha, id, n);
}

int af_disk_kind(const af_engine *engine, const unsigned char model[AF_SHA256_BYTES], af_page_kind *out,
                 af_error *error) {
    const af_backend_ops *ops = engine->backend->ops;
    unsigned char build[64];
    char device[2048];
    const size_t n = af_os_build_id(build, sizeof build);
    if (n == 0) return af_fail(error, AF_EUNSUPPORTED, "cache_dir: this build was linked without an id");
    if (!ops->page_bytes) return af_fail(error, AF_EUNSUPPORTED, "cache_dir: the device gives no pages out");
    ops->page_kind(engine->backend, device, sizeof device);
    af_sha256 sha;
    af_sha256_begin(&sha);
    add_build(&sha, build, n);
    af_sha256_add(&sha, model, AF_SHA256_BYTES);
    add_u64(&sha, (uint64_t)engine->options.kv);
    add_u64(&sha, engine->options.exact);
    af_sha256_add(&sha, device, strlen(device) + 1);
    add_caches(&sha, engine->plan);
    add_ropes(&sha, engine->plan);
    *out = (af_page_kind){0};
    for (uint32_t g = 0; g < engine->plan->group_count; g++) {
        out->bytes[g] = ops->page_bytes(engine->backend, g);
        add_u64(&sha, out->bytes[g]);
    }
    af_sha256_end(&sha, out->identity);
    return AF_OK;
}

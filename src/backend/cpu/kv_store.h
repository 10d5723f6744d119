/* kv_store.h - the memory of the KV cache: which bytes hold page p of a layer.
 *
 * For each layer, pages stand one after another; a page holds for each kv head
 *
 *     keys     (k_dim, 32)       transposed: the 32 keys of a page across, so that attention scores 16 keys a vector
 *     values   (32, v_stride)    v_stride is v_dim rounded up to whole vectors; the padding is never used
 *
 * of f16 or f32 elements. All layers share one allocation that becomes resident as pages are first written. Who holds
 * which page is the engine's business (engine/kv.h).
 */
#ifndef AF_CPU_KV_STORE_H
#define AF_CPU_KV_STORE_H

#include "airframe.h"
#include "plan/plan.h"

typedef struct af_kv_layer {
    size_t offset;     /* bytes from the start of the memory to page 0 */
    size_t head_bytes; /* of one kv head of one page */
    uint32_t pages, kv_heads, k_dim, v_dim, v_stride;
} af_kv_layer;

typedef struct af_kv_store {
    af_kv_type type;
    unsigned char *memory;
    size_t bytes;
    af_kv_layer *layers; /* one for each of plan->caches */
} af_kv_store;

int af_kv_store_open(af_kv_store *store, const af_plan *plan, af_kv_type type, const uint32_t pages[AF_PLAN_GROUPS],
                     af_error *error);
void af_kv_store_close(af_kv_store *store);

static inline void *af_kv_store_page(const af_kv_store *store, size_t cache, uint32_t page, uint32_t head) {
    const af_kv_layer *layer = &store->layers[cache];
    return store->memory + layer->offset + ((size_t)page * layer->kv_heads + head) * layer->head_bytes;
}

#endif

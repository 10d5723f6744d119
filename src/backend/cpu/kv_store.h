/* kv_store.h - the memory of the KV cache: which bytes hold page p of a layer.
 *
 * For each layer, pages stand one after another; a page holds for each kv head
 *
 *     keys          (k_dim, 32)           transposed: the 32 keys of a page across, so that attention scores 16 keys a
 *                                         vector
 *     key scales    (k_dim / 32, 32)      f16, of q8_0 alone; a last block may have fewer than 32 elements
 *     values        (32, v_stride)        the padding up to v_stride is never used
 *     value scales  (v_dim / 32, 32)      likewise
 *
 * of f16, f32 or int8 elements. Where values are part of the keys (plan.h, a shared cache), a page holds
 *
 *     keys          (32, k_stride)        a key a row, as attention adds up values; scores are dot products of rows
 *     key scales    (k_dim / 32, 32)
 *
 * A q8_0 element is its int8 times its block's scale, the largest magnitude of the block / 127 rounded to f16: 18 bits,
 * so a float holds it exactly. Strides are whole vectors. All layers share one allocation that becomes resident as
 * pages are first written. Who holds which page is the engine's business (engine/kv.h).
 */
#ifndef AF_CPU_KV_STORE_H
#define AF_CPU_KV_STORE_H

#include "airframe.h"
#include "plan/plan.h"

#define AF_KV_BLOCK 32u /* elements that share a scale */

/* How one kv head of one page is laid out. */
typedef struct af_kv_shape {
    af_kv_type type;
    bool shared;
    uint32_t k_dim, v_dim;
    uint32_t k_stride, v_stride;
} af_kv_shape;

/* Where the parts of a page lie, in bytes; keys come first. Shared values are the keys. */
typedef struct af_kv_parts {
    size_t key_scales, values, value_scales;
} af_kv_parts;

typedef struct af_kv_layer {
    size_t offset;     /* bytes from the start of the memory to page 0 */
    size_t head_bytes; /* of one kv head of one page */
    uint32_t pages, kv_heads;
    af_kv_shape shape;
} af_kv_layer;

typedef struct af_kv_store {
    unsigned char *memory;
    size_t bytes;
    af_kv_layer *layers; /* one for each of plan->caches */
} af_kv_store;

af_kv_shape af_kv_shape_of(const af_cache *cache, af_kv_type type);
size_t af_kv_head_bytes(const af_kv_shape *shape);

int af_kv_store_open(af_kv_store *store, const af_plan *plan, af_kv_type type, const uint32_t pages[AF_PLAN_GROUPS],
                     af_error *error);
void af_kv_store_close(af_kv_store *store);

static inline void *af_kv_store_page(const af_kv_store *store, size_t cache, uint32_t page, uint32_t head) {
    const af_kv_layer *layer = &store->layers[cache];
    return store->memory + layer->offset + ((size_t)page * layer->kv_heads + head) * layer->head_bytes;
}

static inline size_t af_kv_elem_bytes(af_kv_type type) {
    return type == AF_KV_F32 ? 4 : type == AF_KV_F16 ? 2 : 1;
}

/* Bytes of the scales of elements that are `dim` wide, for all slots. */
static inline size_t af_kv_scale_bytes(af_kv_type type, uint32_t dim) {
    return type == AF_KV_Q8_0 ? (size_t)((dim + AF_KV_BLOCK - 1) / AF_KV_BLOCK) * AF_KV_PAGE * sizeof(uint16_t) : 0;
}

static inline af_kv_parts af_kv_parts_of(const af_kv_shape *s) {
    const size_t elem = af_kv_elem_bytes(s->type);
    const size_t keys = (size_t)(s->shared ? s->k_stride : s->k_dim) * AF_KV_PAGE * elem;
    if (s->shared) return (af_kv_parts){.key_scales = keys, .values = 0, .value_scales = keys};
    const size_t values = keys + af_kv_scale_bytes(s->type, s->k_dim);
    return (af_kv_parts){
        .key_scales = keys, .values = values, .value_scales = values + (size_t)s->v_stride * AF_KV_PAGE * elem};
}

#endif

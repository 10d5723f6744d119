/* kv_store.c - sizes and allocates the KV cache (layout in kv_store.h). */
#include "backend/cpu/kv_store.h"

#include "base/os.h"

#include <stdlib.h>

#define VECTOR 16u /* elements */
/* Layers from here on ask for huge pages: a long context walks through more memory than a processor has translations
 * at hand. Each layer's first tokens then make 2 MB resident, which has to be little beside what it may come to. */
#define HUGE_LAYER ((size_t)4 << 20)

static uint32_t whole_vectors(uint32_t dim) {
    return (dim + VECTOR - 1) / VECTOR * VECTOR;
}

af_kv_shape af_kv_shape_of(const af_cache *cache, af_kv_type type) {
    return (af_kv_shape){.type = type,
                         .shared = cache->shared,
                         .k_dim = cache->k_dim,
                         .v_dim = cache->v_dim,
                         .k_stride = whole_vectors(cache->k_dim),
                         .v_stride = whole_vectors(cache->v_dim)};
}

size_t af_kv_head_bytes(const af_kv_shape *s) {
    const size_t elem = af_kv_elem_bytes(s->type), key_scales = af_kv_scale_bytes(s->type, s->k_dim);
    if (s->shared) return (size_t)s->k_stride * AF_KV_PAGE * elem + key_scales;
    return ((size_t)s->k_dim + s->v_stride) * AF_KV_PAGE * elem + key_scales + af_kv_scale_bytes(s->type, s->v_dim);
}

/* Lays out one layer at *end and moves *end past it; false if sizes overflow. */
static bool lay_out(af_kv_layer *layer, const af_cache *cache, uint32_t pages, af_kv_type type, size_t *end) {
    *layer = (af_kv_layer){
        .offset = *end, .pages = pages, .kv_heads = cache->kv_heads, .shape = af_kv_shape_of(cache, type)};
    layer->head_bytes = af_kv_head_bytes(&layer->shape);
    size_t heads, bytes;
    return !__builtin_mul_overflow((size_t)pages, (size_t)cache->kv_heads, &heads) &&
           !__builtin_mul_overflow(heads, layer->head_bytes, &bytes) && !__builtin_add_overflow(*end, bytes, end);
}

int af_kv_store_open(af_kv_store *store, const af_plan *plan, af_kv_type type, const uint32_t pages[AF_PLAN_GROUPS],
                     af_error *error) {
    *store = (af_kv_store){0};
    if (plan->cache_count == 0) return 0;
    const size_t table = plan->cache_count * sizeof *store->layers;
    store->layers = malloc(table);
    if (!store->layers) return af_fail_memory(error, table, "the KV cache's layout");
    for (size_t i = 0; i < plan->cache_count; i++) {
        const af_cache *cache = &plan->caches[i];
        if (!lay_out(&store->layers[i], cache, pages[cache->group], type, &store->bytes)) {
            store->bytes = 0;
            af_kv_store_close(store);
            return af_fail_memory(error, SIZE_MAX, "the KV cache");
        }
    }
    store->memory = af_os_pages(store->bytes, store->bytes / plan->cache_count >= HUGE_LAYER);
    /* Any thread may write and read any page: none of a machine's nodes of memory is nearer to it. */
    if (store->memory) af_os_interleave(store->memory, store->bytes);
    if (store->memory) return 0;
    const size_t bytes = store->bytes;
    af_kv_store_close(store);
    return af_fail_memory(error, bytes, "the KV cache");
}

void af_kv_store_close(af_kv_store *store) {
    if (store->memory) af_os_pages_free(store->memory, store->bytes);
    free(store->layers);
    *store = (af_kv_store){0};
}

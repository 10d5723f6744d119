/* cpu_pages.c - pages of the KV cache as bytes (backend.h): of each of a group's caches in turn, its heads as they lie
 * in memory. */
#include "backend/cpu/cpu.h"

#include <stdio.h>
#include <string.h>

static size_t bytes_of(const af_kv_layer *layer) {
    return layer->kv_heads * layer->head_bytes;
}

uint64_t af_cpu_page_bytes(const af_backend *backend, uint32_t group) {
    const af_cpu *cpu = (const af_cpu *)backend;
    uint64_t bytes = 0;
    for (size_t i = 0; i < cpu->plan->cache_count; i++)
        if (cpu->plan->caches[i].group == group) bytes += bytes_of(&cpu->kv.layers[i]);
    return bytes;
}

/* Neither instructions nor threads: no bit depends on them. */
void af_cpu_page_kind(const af_backend *backend, char *text, size_t size) {
    const af_cpu *cpu = (const af_cpu *)backend;
    snprintf(text, size, "cpu rounding %u", cpu->options.rounding);
}

int af_cpu_read_page(af_backend *backend, uint32_t group, uint32_t page, void *bytes, af_error *error) {
    (void)error;
    const af_cpu *cpu = (const af_cpu *)backend;
    unsigned char *to = bytes;
    for (size_t i = 0; i < cpu->plan->cache_count; i++) {
        if (cpu->plan->caches[i].group != group) continue;
        const size_t n = bytes_of(&cpu->kv.layers[i]);
        if (n) memcpy(to, af_kv_store_page(&cpu->kv, i, page, 0), n);
        to += n;
    }
    return AF_OK;
}

int af_cpu_write_page(af_backend *backend, uint32_t group, uint32_t page, const void *bytes, af_error *error) {
    (void)error;
    const af_cpu *cpu = (const af_cpu *)backend;
    const unsigned char *from = bytes;
    for (size_t i = 0; i < cpu->plan->cache_count; i++) {
        if (cpu->plan->caches[i].group != group) continue;
        const size_t n = bytes_of(&cpu->kv.layers[i]);
        if (n) memcpy(af_kv_store_page(&cpu->kv, i, page, 0), from, n);
        from += n;
    }
    return AF_OK;
}

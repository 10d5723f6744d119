/* gpu_pages.c - pages of the KV cache as bytes (backend.h): of each of a group's caches in turn, its keys and then its
 * values as they lie in the device's buffers. All of a page is copied into one buffer and mapped at once, after
 * whatever was submitted before. */
#include "backend/webgpu/gpu_backend.h"

#include <stdio.h>
#include <string.h>

/* Calls fn with each stretch of a page, in order: its buffer, where it begins there and in the page. */
typedef void (*stretch_fn)(void *user, WGPUBuffer buffer, uint64_t offset, uint64_t at, uint64_t bytes);

static uint64_t each_stretch(const af_gpu_backend *b, uint32_t group, uint32_t page, stretch_fn fn, void *user) {
    const af_kv_type kv = b->options.kv;
    uint64_t at = 0;
    for (size_t i = 0; i < b->plan->cache_count; i++) {
        const af_cache *c = &b->plan->caches[i];
        if (c->group != group) continue;
        const uint64_t slots = (uint64_t)AF_KV_PAGE * c->kv_heads;
        const uint64_t bytes[2] = {slots * af_gpu_row_bytes(af_gpu_key_row(c, kv), kv),
                                   c->shared ? 0 : slots * af_gpu_row_bytes(af_gpu_value_row(c, kv), kv)};
        const WGPUBuffer buffers[2] = {b->k_caches[i], b->v_caches[i]};
        for (size_t k = 0; k < 2; k++) {
            if (fn && bytes[k]) fn(user, buffers[k], page * bytes[k], at, bytes[k]);
            at += bytes[k];
        }
    }
    return at;
}

uint64_t af_gpu_page_bytes(const af_backend *backend, uint32_t group) {
    return each_stretch((const af_gpu_backend *)backend, group, 0, NULL, NULL);
}

void af_gpu_page_kind(const af_backend *backend, char *text, size_t size) {
    const af_gpu_backend *b = (const af_gpu_backend *)backend;
    snprintf(text, size, "gpu %s, %s, %s, %s, subgroups %d of %u, matrices %d", b->gpu->info.name, b->gpu->info.driver,
             b->gpu->info.backend, b->gpu->api->native ? "wgpu-native" : "Dawn", b->gpu->use_subgroups,
             b->gpu->subgroup_size, (int)b->gpu->matrices);
}

typedef struct copy {
    const af_gpu_backend *b;
    WGPUCommandEncoder encoder;
    const unsigned char *from;
} copy;

static void copy_out(void *user, WGPUBuffer buffer, uint64_t offset, uint64_t at, uint64_t bytes) {
    const copy *c = user;
    c->b->gpu->api->wgpuCommandEncoderCopyBufferToBuffer(c->encoder, buffer, offset, c->b->page, at, bytes);
}

static void copy_in(void *user, WGPUBuffer buffer, uint64_t offset, uint64_t at, uint64_t bytes) {
    const copy *c = user;
    af_gpu_write(c->b->gpu, buffer, offset, c->from + at, bytes);
}

/* Made when first needed, for the largest page. */
static int need_page(af_gpu_backend *b, af_error *error) {
    uint64_t most = 0;
    for (uint32_t g = 0; g < b->plan->group_count; g++) {
        const uint64_t bytes = each_stretch(b, g, 0, NULL, NULL);
        if (bytes > most) most = bytes;
    }
    if (!b->page) b->page = af_gpu_buffer(b->gpu, most, AF_GPU_READBACK, "a page of the KV cache", error);
    return b->page ? AF_OK : AF_ENOMEM;
}

int af_gpu_read_page(af_backend *backend, uint32_t group, uint32_t page, void *bytes, af_error *error) {
    af_gpu_backend *b = (af_gpu_backend *)backend;
    const af_gpu_api *api = b->gpu->api;
    const int status = need_page(b, error);
    if (status != AF_OK) return status;
    b->gpu->doing = "reading a page of the KV cache";
    copy c = {.b = b, .encoder = api->wgpuDeviceCreateCommandEncoder(b->gpu->device, NULL)};
    const uint64_t n = each_stretch(b, group, page, copy_out, &c);
    WGPUCommandBuffer commands = api->wgpuCommandEncoderFinish(c.encoder, NULL);
    const uint64_t submission = af_gpu_submit_commands(b->gpu, commands);
    api->wgpuCommandBufferRelease(commands);
    api->wgpuCommandEncoderRelease(c.encoder);
    af_error why = {0};
    const void *mapped = n ? af_gpu_map(b->gpu, b->page, n, submission, &b->page_mapped, &why) : NULL;
    if (mapped) {
        memcpy(bytes, mapped, n);
        api->wgpuBufferUnmap(b->page);
    }
    if (!mapped && n && error) *error = why;
    return why.code;
}

int af_gpu_write_page(af_backend *backend, uint32_t group, uint32_t page, const void *bytes, af_error *error) {
    af_gpu_backend *b = (af_gpu_backend *)backend;
    b->gpu->doing = "writing a page of the KV cache";
    copy c = {.b = b, .from = bytes};
    each_stretch(b, group, page, copy_in, &c);
    return af_gpu_check(b->gpu, error);
}

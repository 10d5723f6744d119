/* gpu_backend.c - opening and closing the WebGPU backend: its device, its buffers, its place in the table of backends. */
#include "backend/webgpu/gpu_backend.h"

#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN 256

static uint32_t larger(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

/* ---- Subgroups ---- */

/* Runs probe.wgsl; 0 where subgroups are not to be used. A width that does not divide a workgroup is not used either. */
static int probe_subgroups(af_gpu_backend *b, af_error *error) {
    af_gpu *gpu = b->gpu;
    if (!gpu->use_subgroups) return AF_OK;
    const af_gpu_pipeline *p;
    int status = af_gpu_kernel(b->kernels, "probe", NULL, 0, &p, error);
    if (status != AF_OK) return status;
    WGPUBuffer out = af_gpu_buffer(gpu, 16, AF_GPU_STORAGE, "a probe", error);
    if (!out) return AF_ENOMEM;
    WGPUBindGroup bind = af_gpu_bind(gpu, p, &(af_gpu_binding){.buffer = out}, 1);
    WGPUCommandEncoder encoder = gpu->api->wgpuDeviceCreateCommandEncoder(gpu->device, NULL);
    WGPUComputePassEncoder pass = gpu->api->wgpuCommandEncoderBeginComputePass(encoder, NULL);
    gpu->api->wgpuComputePassEncoderSetPipeline(pass, p->pipeline);
    gpu->api->wgpuComputePassEncoderSetBindGroup(pass, 0, bind, 0, NULL);
    gpu->api->wgpuComputePassEncoderDispatchWorkgroups(pass, 1, 1, 1);
    gpu->api->wgpuComputePassEncoderEnd(pass);
    WGPUCommandBuffer commands = gpu->api->wgpuCommandEncoderFinish(encoder, NULL);
    gpu->api->wgpuQueueSubmit(gpu->queue, 1, &commands);
    status = af_gpu_read(gpu, out, 0, &gpu->subgroup_size, sizeof gpu->subgroup_size, error);
    gpu->api->wgpuCommandBufferRelease(commands);
    gpu->api->wgpuComputePassEncoderRelease(pass);
    gpu->api->wgpuCommandEncoderRelease(encoder);
    gpu->api->wgpuBindGroupRelease(bind);
    af_gpu_buffer_free(gpu, out);
    gpu->use_subgroups = gpu->subgroup_size >= 16 && gpu->subgroup_size <= 128 && 128 % gpu->subgroup_size == 0;
    return status;
}

/* ---- Buffers ---- */

static void make(af_gpu_backend *b, WGPUBuffer *out, uint64_t bytes, const char *what, int *status, af_error *error) {
    if (*status != AF_OK) return;
    *out = af_gpu_buffer(b->gpu, bytes < 256 ? 256 : bytes, AF_GPU_STORAGE, what, error);
    if (!*out) *status = AF_ENOMEM;
}

/* The value that shares a buffer with v: the k stored beside it. AF_NO_VALUE for others. */
static af_value partner_of(const af_plan *plan, af_value v) {
    for (size_t i = 0; i < plan->op_count; i++)
        if (plan->ops[i].kind == AF_OP_ROPE_STORE && plan->ops[i].u.rope_store.v == v) return plan->ops[i].u.rope_store.k;
    return AF_NO_VALUE;
}

static uint64_t value_bytes(const af_gpu_backend *b, af_value v) {
    const uint64_t bytes = (uint64_t)b->options.max_tokens * b->plan->widths[v] * sizeof(float);
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* Values that stand alone, then those that share: each k is made with room for its v behind it. */
static void open_values(af_gpu_backend *b, int *status, af_error *error) {
    const af_plan *plan = b->plan;
    for (af_value v = 0; v < plan->value_count; v++) {
        uint64_t bytes = value_bytes(b, v);
        for (af_value other = 0; other < plan->value_count; other++)
            if (partner_of(plan, other) == v) bytes += value_bytes(b, other);
        if (partner_of(plan, v) == AF_NO_VALUE) make(b, &b->values[v], bytes, "activations", status, error);
    }
    for (af_value v = 0; v < plan->value_count; v++) {
        const af_value partner = partner_of(plan, v);
        if (partner == AF_NO_VALUE) continue;
        b->values[v] = b->values[partner];
        b->value_offsets[v] = value_bytes(b, partner);
    }
}

static void widest(const af_plan *plan, uint32_t *in, uint32_t *raw) {
    *in = 32;
    *raw = 1;
    for (size_t i = 0; i < plan->op_count; i++) {
        if (plan->ops[i].kind == AF_OP_HEAD) *in = larger(*in, plan->ops[i].u.head.w.cols);
        if (plan->ops[i].kind != AF_OP_LINEAR) continue;
        uint32_t rows = 0;
        for (uint32_t k = 0; k < plan->ops[i].u.linear.part_count; k++) rows += plan->ops[i].u.linear.parts[k].w.rows;
        *raw = larger(*raw, rows);
        *in = larger(*in, plan->ops[i].u.linear.parts[0].w.cols);
    }
}

static void open_caches(af_gpu_backend *b, int *status, af_error *error) {
    const uint64_t element = b->options.kv == AF_KV_F32 ? 4 : 2;
    for (size_t i = 0; i < b->plan->cache_count && *status == AF_OK; i++) {
        const af_cache *c = &b->plan->caches[i];
        const uint64_t slots = (uint64_t)b->options.pages[c->group] * AF_KV_PAGE * c->kv_heads * element;
        const uint64_t largest = slots * larger(c->k_dim, c->v_dim);
        if (largest > b->gpu->binding_limit) {
            *status = af_fail(error, AF_ENOMEM,
                              "gpu: a layer's KV cache takes %.0f MB, %s binds at most %.0f MB: lower --ctx or --parallel",
                              (double)largest / 1e6, b->gpu->info.name, (double)b->gpu->binding_limit / 1e6);
            return;
        }
        make(b, &b->k_caches[i], slots * c->k_dim, "the KV cache", status, error);
        make(b, &b->v_caches[i], slots * c->v_dim, "the KV cache", status, error);
        b->kv_bytes += slots * (c->k_dim + c->v_dim);
    }
}

static void open_buffers(af_gpu_backend *b, int *status, af_error *error) {
    const af_plan *plan = b->plan;
    const uint64_t tokens = larger(b->options.max_tokens, b->options.max_rows);
    uint32_t in, raw;
    widest(plan, &in, &raw);
    b->raw_stride = raw;
    const af_op_head *head = &plan->ops[plan->op_count - 1].u.head;
    const uint64_t logits = (uint64_t)b->options.max_rows * plan->vocabulary * sizeof(float);
    const bool head_tail = head->bias || head->scale != 1.0f || head->softcap != 0.0f;
    uint64_t raw_bytes = tokens * raw * sizeof(float);
    if (head_tail && logits > raw_bytes) raw_bytes = logits;
    for (size_t i = 0; i < plan->rope_count; i++) b->turn_pairs += plan->ropes[i].rotated / 2;
    open_values(b, status, error);
    open_caches(b, status, error);
    make(b, &b->normed, tokens * in * sizeof(float), "activations", status, error);
    make(b, &b->acts, tokens * in, "activations", status, error);
    make(b, &b->act_scales, tokens * (in / 32 + 1) * 16, "activations", status, error);
    make(b, &b->raw, raw_bytes, "activations", status, error);
    make(b, &b->logits, logits, "logits", status, error);
    make(b, &b->choices, (uint64_t)AF_GPU_IN_FLIGHT * b->options.max_rows * 4, "choices", status, error);
    make(b, &b->batch, tokens * 16, "a batch", status, error);
    make(b, &b->pages, (uint64_t)b->max_seqs * plan->group_count * b->table_pages * 4, "page tables", status, error);
    make(b, &b->turns, tokens * b->turn_pairs * 8, "rotations", status, error);
    make(b, &b->rows, (uint64_t)b->options.max_rows * 4, "rows", status, error);
}

static void *table(size_t count, size_t size, int *status, af_error *error) {
    void *p = *status == AF_OK ? calloc(count ? count : 1, size) : NULL;
    if (!p && *status == AF_OK) *status = af_fail_memory(error, count * size, "the GPU backend's tables");
    return p;
}

static void open_tables(af_gpu_backend *b, int *status, af_error *error) {
    const af_plan *plan = b->plan;
    b->max_seqs = b->options.max_tokens;
    for (size_t i = 0; i < plan->group_count; i++) b->table_pages = larger(b->table_pages, b->options.pages[i]);
    const uint32_t context_pages = (plan->context + AF_KV_PAGE - 1) / AF_KV_PAGE;
    b->table_pages = larger(b->table_pages, 1);
    if (context_pages && context_pages < b->table_pages) b->table_pages = context_pages; /* 0: the file does not say */
    if (b->max_seqs > 256) b->max_seqs = 256;
    b->values = table(plan->value_count, sizeof *b->values, status, error);
    b->value_offsets = table(plan->value_count, sizeof *b->value_offsets, status, error);
    b->k_caches = table(plan->cache_count, sizeof *b->k_caches, status, error);
    b->v_caches = table(plan->cache_count, sizeof *b->v_caches, status, error);
    b->host_batch = table(b->options.max_tokens, 16, status, error);
    b->host_pages = table((size_t)b->max_seqs * plan->group_count * b->table_pages, 4, status, error);
    b->host_rows = table(b->options.max_rows, 4, status, error);
    b->result_ids = table(b->options.max_rows, sizeof *b->result_ids, status, error);
    b->result_rows = table(b->options.max_rows, sizeof *b->result_rows, status, error);
    for (size_t i = 0; i < AF_GPU_IN_FLIGHT; i++)
        b->tickets[i].choose = table(b->options.max_rows, sizeof *b->tickets[i].choose, status, error);
}

static void open_results(af_gpu_backend *b, int *status, af_error *error) {
    uint32_t pairs = b->turn_pairs;
    b->host_turns = table((size_t)b->options.max_tokens * (pairs ? pairs : 1), 8, status, error);
    b->result_bytes = (uint64_t)b->options.max_rows * b->plan->vocabulary * sizeof(float);
    b->result_logits = *status == AF_OK ? af_os_pages(b->result_bytes, false) : NULL;
    if (*status == AF_OK && !b->result_logits) *status = af_fail_memory(error, b->result_bytes, "logits");
}

/* ---- The backend ---- */

static void release_buffers(af_gpu_backend *b) {
    af_gpu *gpu = b->gpu;
    WGPUBuffer *const single[] = {&b->small,   &b->normed, &b->acts,  &b->act_scales, &b->raw, &b->logits,
                                  &b->choices, &b->batch,  &b->pages, &b->turns,      &b->rows};
    for (size_t i = 0; i < sizeof single / sizeof *single; i++) af_gpu_buffer_free(gpu, *single[i]);
    for (af_value v = 0; b->values && v < b->plan->value_count; v++)
        if (partner_of(b->plan, v) == AF_NO_VALUE) af_gpu_buffer_free(gpu, b->values[v]);
    for (size_t i = 0; b->k_caches && b->v_caches && i < b->plan->cache_count; i++) {
        af_gpu_buffer_free(gpu, b->k_caches[i]);
        af_gpu_buffer_free(gpu, b->v_caches[i]);
    }
    for (size_t i = 0; i < AF_GPU_IN_FLIGHT; i++) af_gpu_buffer_free(gpu, b->tickets[i].readback);
    for (size_t i = 0; i < b->step_count; i++)
        if (b->steps[i].bind) gpu->api->wgpuBindGroupRelease(b->steps[i].bind);
}

static void gpu_close(af_backend *backend) {
    af_gpu_backend *b = (af_gpu_backend *)backend;
    if (b->gpu) {
        af_gpu_poll(b->gpu, true);
        release_buffers(b);
    }
    af_gpu_weights_close(b->weights);
    af_gpu_kernels_close(b->kernels);
    af_gpu_close(b->gpu);
    if (b->result_logits) af_os_pages_free(b->result_logits, b->result_bytes);
    void *const tables[] = {b->steps,      b->values,    b->value_offsets, b->k_caches,   b->v_caches,   b->host_batch,
                            b->host_pages, b->host_rows, b->host_turns,    b->result_ids, b->result_rows};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) free(tables[i]);
    for (size_t i = 0; i < AF_GPU_IN_FLIGHT; i++) free(b->tickets[i].choose);
    free(b);
}

static void gpu_describe(const af_backend *backend, char *text, size_t size) {
    const af_gpu_backend *b = (const af_gpu_backend *)backend;
    snprintf(text, size, "%s (%s, %s%s)", b->gpu->info.name, b->gpu->info.backend, b->gpu->api->native ? "wgpu-native" : "Dawn",
             b->options.exact ? ", exact" : "");
}

static uint32_t gpu_threads(const af_backend *backend) {
    (void)backend;
    return 0;
}

static uint64_t gpu_kv_bytes(const af_backend *backend) {
    return ((const af_gpu_backend *)backend)->kv_bytes;
}

static const af_backend_ops gpu_ops = {.name = "gpu",
                                       .submit = af_gpu_submit,
                                       .collect = af_gpu_collect,
                                       .describe = gpu_describe,
                                       .threads = gpu_threads,
                                       .kv_bytes = gpu_kv_bytes,
                                       .decode = af_gpu_decode,
                                       .close = gpu_close};

int af_webgpu_open(const char *device, const af_plan *plan, const af_backend_options *options, af_backend **out,
                   af_error *error) {
    af_gpu_backend *b = calloc(1, sizeof *b);
    if (!b) return af_fail_memory(error, sizeof *b, "the GPU backend");
    b->base.ops = &gpu_ops;
    b->plan = plan;
    b->options = *options;
    int status = af_gpu_open(device, &b->gpu, error);
    if (status == AF_OK) status = af_gpu_kernels_open(b->gpu, &b->kernels, error);
    if (status == AF_OK) status = af_gpu_weights_open(b->gpu, options->exact, &b->weights, error);
    if (status == AF_OK) status = probe_subgroups(b, error);
    open_tables(b, &status, error);
    if (status == AF_OK) open_buffers(b, &status, error);
    open_results(b, &status, error);
    if (status == AF_OK) status = af_gpu_compile(b, error);
    if (status != AF_OK) {
        gpu_close(&b->base);
        return status;
    }
    *out = &b->base;
    return AF_OK;
}

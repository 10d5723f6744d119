/* gpu_backend.c - opening and closing the WebGPU backend: its device, its buffers, its place in the table of backends.
 */
#include "backend/webgpu/gpu_profile.h"

#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN 256

static uint32_t larger(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

/* ---- Subgroups ---- */

/* Our matrices are laid out for them. */
static void need_subgroups_of_32(af_gpu *gpu) {
    if (gpu->matrices == AF_GPU_MATRICES_SUBGROUP && (!gpu->use_subgroups || gpu->subgroup_size != 32))
        gpu->matrices = AF_GPU_MATRICES_NONE;
}

/* Runs probe.wgsl; 0 where subgroups are not to be used. A width that does not divide a workgroup is not used either.
 */
static int probe_subgroups(af_gpu_backend *b, af_error *error) {
    af_gpu *gpu = b->gpu;
    if (!gpu->use_subgroups) {
        need_subgroups_of_32(gpu);
        return AF_OK;
    }
    const af_gpu_pipeline *p;
    int status = af_gpu_kernel(b->kernels, "probe", NULL, 0, &p, error);
    if (status == AF_OK) status = af_gpu_kernels_make(b->kernels, error);
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
    af_gpu_submit_commands(gpu, commands);
    status = af_gpu_read(gpu, out, 0, &gpu->subgroup_size, sizeof gpu->subgroup_size, error);
    gpu->api->wgpuCommandBufferRelease(commands);
    gpu->api->wgpuComputePassEncoderRelease(pass);
    gpu->api->wgpuCommandEncoderRelease(encoder);
    gpu->api->wgpuBindGroupRelease(bind);
    af_gpu_buffer_free(gpu, out);
    need_subgroups_of_32(gpu);
    gpu->use_subgroups = gpu->subgroup_size >= 32 && gpu->subgroup_size <= 128 && 128 % gpu->subgroup_size == 0;
    return status;
}

/* ---- Buffers ---- */

static bool binds(const af_gpu_backend *b, uint64_t bytes, uint64_t limit, const char *what, int *status,
                  af_error *error) {
    if (bytes <= limit) return true;
    *status = af_fail(error, AF_EUNSUPPORTED,
                      "gpu: %s: %.1f MB, %s binds at most %.1f MB: lower --ctx, --parallel or --prefill-chunk", what,
                      (double)bytes / 1e6, b->gpu->info.name, (double)limit / 1e6);
    return false;
}

/* Without a device the buffer is only counted. */
static void make(af_gpu_backend *b, WGPUBuffer *out, uint64_t bytes, const char *what, int *status, af_error *error) {
    if (*status != AF_OK) return;
    b->buffer_bytes += bytes;
    if (!b->gpu || !binds(b, bytes, b->gpu->info.binding_bytes, what, status, error)) return;
    *out = af_gpu_buffer(b->gpu, bytes < 256 ? 256 : bytes, AF_GPU_STORAGE, what, error);
    if (!*out) *status = AF_ENOMEM;
}

/* A cache's, which is held against the limit that tests lower. */
static void make_cache(af_gpu_backend *b, WGPUBuffer *out, uint64_t bytes, const char *what, int *status,
                       af_error *error) {
    if (*status != AF_OK || (b->gpu && !binds(b, bytes, b->gpu->binding_limit, what, status, error))) return;
    make(b, out, bytes, what, status, error);
}

/* The q that a k or v stands beside; AF_NO_VALUE for other values. */
static af_value partner_of(const af_plan *plan, af_value v) {
    for (size_t i = 0; i < plan->op_count; i++) {
        const af_op_rope_store *r = &plan->ops[i].u.rope_store;
        if (plan->ops[i].kind == AF_OP_ROPE_STORE && (r->k == v || r->v == v)) return r->q;
    }
    return AF_NO_VALUE;
}

static af_value owner_of(const af_plan *plan, af_value v) {
    const af_value partner = partner_of(plan, v);
    return partner == AF_NO_VALUE ? v : partner;
}

/* k and v stand behind their q in the rows of one buffer, so that one product may write all three. */
static void open_values(af_gpu_backend *b, int *status, af_error *error) {
    const af_plan *plan = b->plan;
    for (af_value v = 0; v < plan->value_count; v++) {
        const af_value owner = owner_of(plan, v);
        b->values[v].shared = owner != v;
        if (owner == v) b->values[v].stride = plan->widths[v];
    }
    for (af_value v = 0; v < plan->value_count; v++) {
        const af_value owner = owner_of(plan, v);
        if (owner == v) continue;
        b->values[v].first = b->values[owner].stride;
        b->values[owner].stride += plan->widths[v];
    }
    for (af_value v = 0; v < plan->value_count; v++)
        if (!b->values[v].shared)
            make(b, &b->values[v].buffer, (uint64_t)b->options.max_tokens * b->values[v].stride * sizeof(float),
                 "activations", status, error);
    for (af_value v = 0; v < plan->value_count; v++) {
        b->values[v].stride = b->values[owner_of(plan, v)].stride;
        b->values[v].buffer = b->values[owner_of(plan, v)].buffer;
    }
}

static void widest(const af_plan *plan, uint32_t *in, uint32_t *raw) {
    *in = 32;
    *raw = 1;
    for (size_t i = 0; i < plan->op_count; i++) {
        if (plan->ops[i].kind == AF_OP_HEAD) *in = larger(*in, plan->ops[i].u.head.w.cols);
        if (plan->ops[i].kind == AF_OP_ROUTE) *raw = larger(*raw, plan->ops[i].u.route.w.rows);
        if (plan->ops[i].kind == AF_OP_EXPERTS) { /* pairs of a token and an expert, each a packet of its own */
            const af_op_experts *e = &plan->ops[i].u.experts;
            const uint32_t used = plan->widths[e->ids];
            *raw = larger(*raw, used * 2 * e->up.w.rows);
            *in = larger(*in, larger(e->up.w.cols, used * (e->up.w.rows + 32)));
        }
        if (plan->ops[i].kind != AF_OP_LINEAR) continue;
        uint32_t rows = 0;
        for (uint32_t k = 0; k < plan->ops[i].u.linear.part_count; k++) rows += plan->ops[i].u.linear.parts[k].w.rows;
        *raw = larger(*raw, rows);
        *in = larger(*in, plan->ops[i].u.linear.parts[0].w.cols);
    }
}

static void open_caches(af_gpu_backend *b, int *status, af_error *error) {
    const af_kv_type kv = b->options.kv;
    for (size_t i = 0; i < b->plan->cache_count && *status == AF_OK; i++) {
        const af_cache *c = &b->plan->caches[i];
        const uint64_t slots = (uint64_t)b->options.pages[c->group] * AF_KV_PAGE * c->kv_heads;
        const uint64_t keys = slots * af_gpu_row_bytes(af_gpu_key_row(c, kv), kv);
        const uint64_t values = c->shared ? 0 : slots * af_gpu_row_bytes(af_gpu_value_row(c, kv), kv);
        make_cache(b, &b->k_caches[i], keys, "a layer's KV cache", status, error);
        if (!c->shared) make_cache(b, &b->v_caches[i], values, "a layer's KV cache", status, error);
        b->kv_bytes += keys + values;
    }
}

/* decode_attend.wgsl's parts: (token, head, stretch) of a maximum, a sum and a head's values. Of a token here. */
static uint64_t token_parts(const af_gpu_backend *b) {
    const af_plan *plan = b->plan;
    uint64_t most = 0;
    for (size_t i = 0; i < plan->op_count; i++) {
        if (plan->ops[i].kind != AF_OP_ATTEND) continue;
        const af_op_attend *a = &plan->ops[i].u.attend;
        const uint64_t floats = (uint64_t)a->heads * b->stretches * (plan->caches[a->cache].v_dim + 2u);
        if (floats > most) most = floats;
    }
    return most * sizeof(float);
}

/* Each token of a decode step is another sequence's and gives a row. Where a device does not bind the parts of so many,
 * larger steps take the general list: with other bits, then. */
static void open_parts(af_gpu_backend *b, int *status, af_error *error) {
    const uint64_t each = token_parts(b);
    b->decode_tokens = b->options.max_rows < b->max_seqs ? b->options.max_rows : b->max_seqs;
    if (b->gpu && each * b->decode_tokens > b->gpu->info.binding_bytes)
        b->decode_tokens = (uint32_t)(b->gpu->info.binding_bytes / each);
    make(b, &b->parts, each * b->decode_tokens, "attention", status, error);
}

/* Lays out the parts of batch_info. */
static uint64_t info_bytes(af_gpu_backend *b) {
    b->rows_at = 4 * b->options.max_tokens;
    b->states_at = b->rows_at + b->options.max_rows;
    b->tiles_at = b->states_at + b->options.max_tokens;
    b->wide_tiles_at = b->tiles_at + AF_GPU_TILE_WORDS * b->options.max_tokens;
    b->pages_at = b->wide_tiles_at + AF_GPU_TILE_WORDS * b->options.max_tokens;
    const uint64_t runs = (uint64_t)b->pages_at + (uint64_t)b->max_seqs * b->plan->group_count * b->table_pages;
    const uint64_t turns = runs + (b->plan->carry_count ? 3ull * b->options.max_tokens : 0);
    b->runs_at = (uint32_t)runs;
    b->turns_at = (uint32_t)((turns + 1) / 2 * 2);
    return 4 * ((uint64_t)b->turns_at + 2ull * b->options.max_tokens * b->turn_pairs);
}

static void open_carries(af_gpu_backend *b, int *status, af_error *error) {
    for (size_t i = 0; i < b->plan->carry_count && *status == AF_OK; i++) {
        const uint64_t bytes = (uint64_t)b->plan->carries[i].floats * sizeof(float) * b->options.carries;
        if (b->plan->carries[i].floats == 0) continue; /* another part's */
        if (bytes == 0) *status = af_fail(error, AF_EINVAL, "recurrent states: none are reserved, the plan has such");
        make_cache(b, &b->carries[i], bytes, "a layer's recurrent states", status, error);
        b->kv_bytes += bytes;
    }
}

static void open_buffers(af_gpu_backend *b, int *status, af_error *error) {
    const af_plan *plan = b->plan;
    const uint64_t tokens = larger(b->options.max_tokens, b->options.max_rows);
    uint32_t in, raw;
    widest(plan, &in, &raw);
    const af_op_head *head = af_plan_head(plan);
    const uint64_t logits = head ? (uint64_t)b->options.max_rows * plan->vocabulary * sizeof(float) : 0;
    const uint64_t states = af_plan_state(plan) ? (uint64_t)b->options.max_tokens * plan->width * sizeof(float) : 0;
    const bool head_tail = head && (head->bias || head->scale != 1.0f || head->softcap != 0.0f);
    uint64_t raw_bytes = tokens * raw * sizeof(float);
    if (head_tail && logits > raw_bytes) raw_bytes = logits;
    for (size_t i = 0; i < plan->rope_count; i++) b->turn_pairs += plan->ropes[i].rotated / 2;
    open_values(b, status, error);
    open_caches(b, status, error);
    open_carries(b, status, error);
    const uint64_t packets = tokens * af_gpu_packet(in) * 16;
    make(b, &b->normed, tokens * in * sizeof(float), "what norms give", status, error);
    make(b, &b->packets, packets, "activations in eight bits", status, error);
    make(b, &b->attended_packets, packets, "activations in eight bits", status, error);
    make(b, &b->hidden_packets, packets, "activations in eight bits", status, error);
    if (!b->gpu || b->gpu->matrices) { /* without a device what may be needed is counted */
        make(b, &b->halves, tokens * in * 2, "activations in half floats", status, error);
        make(b, &b->factors, tokens * sizeof(float), "activations in half floats", status, error);
    }
    make(b, &b->raw, raw_bytes, "what products give", status, error);
    make(b, &b->logits, logits, "logits", status, error);
    make(b, &b->states, states, "states", status, error);
    make(b, &b->bests, (uint64_t)b->options.max_rows * AF_GPU_ARGMAX_PARTS * 8, "choices", status, error);
    make(b, &b->tops, af_gpu_tops_bytes(b, b->options.max_rows), "choices", status, error);
    make(b, &b->draws, (uint64_t)b->options.max_rows * AF_GPU_DRAW_WORDS * 4, "choices", status, error);
    make(b, &b->spreads, (uint64_t)b->options.max_rows * 2 * AF_GPU_SPREAD_BINS * 4, "choices", status, error);
    make(b, &b->weighed, (uint64_t)b->options.max_rows * AF_GPU_ARGMAX_PARTS * 4, "choices", status, error);
    make(b, &b->choices, (uint64_t)AF_GPU_IN_FLIGHT * b->options.max_rows * 4, "choices", status, error);
    open_parts(b, status, error);
    make(b, &b->batch_info, info_bytes(b), "a batch", status, error);
    for (size_t i = 0; i < 2; i++) make(b, &b->unused[i], 256, "nothing", status, error);
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
    const uint32_t units =
        (uint32_t)(((uint64_t)b->table_pages * AF_KV_PAGE + AF_GPU_STRETCH_UNIT - 1) / AF_GPU_STRETCH_UNIT);
    b->stretches = units < AF_GPU_STRETCHES ? units : AF_GPU_STRETCHES;
    if (b->max_seqs > AF_GPU_SEQUENCES) b->max_seqs = AF_GPU_SEQUENCES;
    b->values = table(plan->value_count, sizeof *b->values, status, error);
    b->k_caches = table(plan->cache_count, sizeof *b->k_caches, status, error);
    b->v_caches = table(plan->cache_count, sizeof *b->v_caches, status, error);
    b->host_batch = table(b->options.max_tokens, 16, status, error);
    b->host_rows = table(b->options.max_rows, 4, status, error);
    b->host_draws = table(b->options.max_rows, AF_GPU_DRAW_WORDS * 4, status, error);
    b->host_states = table(b->options.max_tokens, 4, status, error);
    b->host_tiles = table(b->options.max_tokens, 8 * AF_GPU_TILE_WORDS, status, error);
    b->host_runs = table(b->options.max_tokens, 12, status, error);
    b->carries = table(plan->carry_count, sizeof *b->carries, status, error);
    b->result_ids = table(b->options.max_rows, sizeof *b->result_ids, status, error);
    b->result_rows = table(b->options.max_rows, sizeof *b->result_rows, status, error);
    b->result_states = table(b->options.max_tokens, sizeof *b->result_states, status, error);
    for (size_t i = 0; i < AF_GPU_IN_FLIGHT; i++)
        b->tickets[i].choose = table(b->options.max_rows, sizeof *b->tickets[i].choose, status, error);
}

static void open_results(af_gpu_backend *b, int *status, af_error *error) {
    uint32_t pairs = b->turn_pairs;
    b->host_turns = table((size_t)b->options.max_tokens * (pairs ? pairs : 1), 8, status, error);
    b->result_bytes = (uint64_t)b->options.max_rows * b->plan->vocabulary * sizeof(float);
    b->result_logits = *status == AF_OK ? af_os_pages(b->result_bytes, false) : NULL;
    if (*status == AF_OK && !b->result_logits) *status = af_fail_memory(error, b->result_bytes, "logits");
    b->result_state_bytes = (uint64_t)b->options.max_tokens * b->plan->width * sizeof(float);
    b->result_state_memory = *status == AF_OK ? af_os_pages(b->result_state_bytes, false) : NULL;
    if (*status == AF_OK && !b->result_state_memory) *status = af_fail_memory(error, b->result_state_bytes, "states");
}

/* ---- The backend ---- */

static void release_buffers(af_gpu_backend *b) {
    af_gpu *gpu = b->gpu;
    WGPUBuffer *const single[] = {
        &b->small,   &b->normed,    &b->packets,   &b->attended_packets, &b->hidden_packets, &b->raw,
        &b->logits,  &b->states,    &b->bests,     &b->choices,          &b->parts,          &b->batch_info,
        &b->tops,    &b->unused[0], &b->unused[1], &b->crossing,         &b->page,           &b->halves,
        &b->factors, &b->draws,     &b->spreads,   &b->weighed};
    for (size_t i = 0; i < sizeof single / sizeof *single; i++) af_gpu_buffer_free(gpu, *single[i]);
    for (af_value v = 0; b->values && v < b->plan->value_count; v++)
        if (!b->values[v].shared) af_gpu_buffer_free(gpu, b->values[v].buffer);
    for (size_t i = 0; b->k_caches && b->v_caches && i < b->plan->cache_count; i++) {
        af_gpu_buffer_free(gpu, b->k_caches[i]);
        af_gpu_buffer_free(gpu, b->v_caches[i]);
    }
    for (size_t i = 0; i < AF_GPU_IN_FLIGHT; i++) {
        af_gpu_buffer_free(gpu, b->tickets[i].readback);
        af_gpu_buffer_free(gpu, b->tickets[i].state_readback);
    }
    af_gpu_close_carries(b);
    const af_gpu_steps *const lists[] = {&b->general, &b->decode, &b->prompt};
    for (size_t k = 0; k < 3; k++)
        for (size_t i = 0; i < lists[k]->count; i++)
            if (lists[k]->p[i].bind) gpu->api->wgpuBindGroupRelease(lists[k]->p[i].bind);
}

static void gpu_close(af_backend *backend) {
    af_gpu_backend *b = (af_gpu_backend *)backend;
    if (b->gpu) {
        af_gpu_wait(b->gpu, 0);
        af_gpu_profile_close(b->profile);
        af_gpu_forget_commands(b);
        release_buffers(b);
    }
    af_gpu_weights_close(b->weights);
    af_gpu_kernels_close(b->kernels);
    af_gpu_close(b->gpu);
    if (b->result_logits) af_os_pages_free(b->result_logits, b->result_bytes);
    if (b->result_state_memory) af_os_pages_free(b->result_state_memory, b->result_state_bytes);
    void *const tables[] = {b->general.p,  b->prompt.p,  b->decode.p,    b->values,     b->k_caches,      b->v_caches,
                            b->host_batch, b->host_rows, b->host_states, b->host_draws, b->result_states, b->host_tiles,
                            b->host_runs,  b->carries,   b->host_turns,  b->result_ids, b->result_rows};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) free(tables[i]);
    for (size_t i = 0; i < AF_GPU_IN_FLIGHT; i++) free(b->tickets[i].choose);
    free(b);
}

static void gpu_describe(const af_backend *backend, char *text, size_t size) {
    const af_gpu_backend *b = (const af_gpu_backend *)backend;
    snprintf(text, size, "%s (%s, %s%s)", b->gpu->info.name, b->gpu->info.backend,
             b->gpu->api->native ? "wgpu-native" : "Dawn", b->options.exact ? ", exact" : "");
}

static uint32_t gpu_threads(const af_backend *backend) {
    (void)backend;
    return 0;
}

static uint64_t gpu_kv_bytes(const af_backend *backend) {
    return ((const af_gpu_backend *)backend)->kv_bytes;
}

static bool gpu_lost(const af_backend *backend) {
    return ((const af_gpu_backend *)backend)->gpu->lost;
}

static const af_backend_ops gpu_ops = {.name = "gpu",
                                       .rounding = 16,
                                       .in_flight = AF_GPU_IN_FLIGHT - 1, /* one more holds what is being collected */
                                       .submit = af_gpu_submit,
                                       .begin = af_gpu_begin,
                                       .run_span = af_gpu_run_span,
                                       .end = af_gpu_end,
                                       .prepare = af_gpu_prepare,
                                       .start = af_gpu_start,
                                       .collect = af_gpu_collect,
                                       .describe = gpu_describe,
                                       .threads = gpu_threads,
                                       .kv_bytes = gpu_kv_bytes,
                                       .page_bytes = af_gpu_page_bytes,
                                       .page_kind = af_gpu_page_kind,
                                       .read_page = af_gpu_read_page,
                                       .write_page = af_gpu_write_page,
                                       .decode = af_gpu_decode,
                                       .lost = gpu_lost,
                                       .close = gpu_close};

uint64_t af_gpu_need(const af_plan *plan, const af_backend_options *options) {
    af_gpu_backend *b = calloc(1, sizeof *b);
    if (!b) return 0;
    b->base.ops = &gpu_ops;
    b->plan = plan;
    b->options = *options;
    int status = AF_OK;
    open_tables(b, &status, NULL);
    if (status == AF_OK) open_buffers(b, &status, NULL);
    const uint64_t bytes = b->buffer_bytes + af_gpu_weights_need(plan, options->exact);
    gpu_close(&b->base);
    return status == AF_OK ? bytes : 0;
}

int af_webgpu_open(const char *device, const af_plan *plan, const af_backend_options *options, af_backend **out,
                   af_error *error) {
    if (options->carries > AF_GPU_SEQUENCES)
        return af_fail(error, AF_EINVAL, "gpu: parallel: %u requests together, a GPU takes at most %d",
                       options->carries, AF_GPU_SEQUENCES);
    af_gpu_backend *b = calloc(1, sizeof *b);
    if (!b) return af_fail_memory(error, sizeof *b, "the GPU backend");
    b->base.ops = &gpu_ops;
    b->plan = plan;
    b->options = *options;
    int status = af_gpu_open(device, &b->gpu, error);
    b->top_room = af_gpu_top_room();
    if (status == AF_OK) af_gpu_pace_open(&b->pace, b->gpu);
    if (status == AF_OK) status = af_gpu_check_room(b->gpu, plan, options, error);
    if (status == AF_OK) status = af_gpu_kernels_open(b->gpu, &b->kernels, error);
    if (status == AF_OK) status = af_gpu_weights_open(b->gpu, options->exact, options->threads, &b->weights, error);
    if (status == AF_OK) af_gpu_weights_expect(b->weights, af_gpu_weights_need(plan, options->exact));
    if (status == AF_OK) status = probe_subgroups(b, error);
    open_tables(b, &status, error);
    if (status == AF_OK) open_buffers(b, &status, error);
    open_results(b, &status, error);
    if (status == AF_OK) status = af_gpu_compile(b, error);
    b->base.draws_top = af_gpu_lists_top(b);
    b->base.draws_whole = true;
    b->base.half_attention = b->prompt.count > 0;
    if (status != AF_OK) {
        gpu_close(&b->base);
        return status;
    }
    *out = &b->base;
    return AF_OK;
}

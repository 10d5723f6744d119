/* gpu_run.c - a batch through the compiled steps: one command buffer, one submit; results through a readback buffer. */
#include "backend/webgpu/gpu_profile.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define CHOSEN        UINT32_MAX /* shaders/batch.wgsl */
#define STRETCH_BLOCK 64         /* positions that decode_attend.wgsl takes at a time */

/* ---- The batch for the shaders ---- */

static uint32_t choice_slot(const af_gpu_backend *b, af_ticket ticket) {
    return (uint32_t)(ticket % AF_GPU_IN_FLIGHT) * b->options.max_rows;
}

static void write_info(af_gpu_backend *b, uint32_t at, const void *from, size_t count) {
    if (count) af_gpu_write(b->gpu, b->batch_info, (uint64_t)at * 4, from, count * 4);
}

static void write_tokens(af_gpu_backend *b, const af_batch *batch) {
    for (uint32_t t = 0; t < batch->token_count; t++) {
        const af_batch_token *token = &batch->tokens[t];
        uint32_t *out = b->host_batch + 4 * (size_t)t;
        const bool chosen = token->id < 0;
        out[0] = chosen ? CHOSEN : (uint32_t)token->id;
        out[1] = chosen ? choice_slot(b, token->from) + token->from_row : 0;
        out[2] = token->position;
        out[3] = b->pages_at + token->seq * (uint32_t)b->plan->group_count * b->table_pages;
    }
    write_info(b, 0, b->host_batch, 4 * (size_t)batch->token_count);
}

/* Page tables reach up to each sequence's last position in this batch. */
static void write_pages(af_gpu_backend *b, const af_batch *batch) {
    const uint32_t groups = (uint32_t)b->plan->group_count;
    for (uint32_t t = 0; t < batch->token_count; t++) {
        const af_batch_token *token = &batch->tokens[t];
        if (t + 1 < batch->token_count && batch->tokens[t + 1].seq == token->seq) continue;
        for (uint32_t g = 0; g < groups; g++)
            write_info(b, b->pages_at + (token->seq * groups + g) * b->table_pages, batch->seqs[token->seq].pages[g],
                       token->position / AF_KV_PAGE + 1);
    }
}

/* (cos, sin) of every rope, token and pair: rope by rope, each (tokens, pairs). */
static void write_turns(af_gpu_backend *b, const af_batch *batch) {
    float *out = b->host_turns;
    for (size_t r = 0; r < b->plan->rope_count; r++) {
        const af_rope *rope = &b->plan->ropes[r];
        for (uint32_t t = 0; t < batch->token_count; t++) {
            for (uint32_t i = 0; i < rope->rotated / 2; i++) {
                const double angle = (double)batch->tokens[t].position * (double)rope->inv_freq[i];
                *out++ = (float)(cos(angle) * (double)rope->magnitude);
                *out++ = (float)(sin(angle) * (double)rope->magnitude);
            }
        }
    }
    write_info(b, b->turns_at, b->host_turns, (size_t)(out - b->host_turns));
}

static void write_rows(af_gpu_backend *b, const af_batch *batch, af_gpu_ticket *ticket) {
    ticket->row_count = ticket->state_count = 0;
    ticket->any_logits = false;
    for (uint32_t t = 0; t < batch->token_count; t++) {
        if (batch->tokens[t].choose == AF_CHOOSE_STATE) b->host_states[ticket->state_count++] = t;
        if (!af_choose_wants_row(batch->tokens[t].choose)) continue;
        assert(ticket->row_count < b->options.max_rows);
        b->host_rows[ticket->row_count] = t;
        ticket->choose[ticket->row_count++] = batch->tokens[t].choose;
        ticket->any_logits |= batch->tokens[t].choose == AF_CHOOSE_LOGITS;
    }
    write_info(b, b->rows_at, b->host_rows, ticket->row_count);
    write_info(b, b->states_at, b->host_states, ticket->state_count);
}

/* Positions that the sequence of token t has when the batch is through. */
static uint32_t positions_of(const af_batch *batch, uint32_t t) {
    while (t + 1 < batch->token_count && batch->tokens[t + 1].seq == batch->tokens[t].seq) t++;
    return batch->tokens[t].position + 1;
}

/* Tiles of neighbouring tokens of one sequence, for attention. */
static uint32_t write_tiles(af_gpu_backend *b, const af_batch *batch) {
    uint32_t count = 0, positions = 0;
    for (uint32_t t = 0, n; t < batch->token_count; t += n) {
        n = 1;
        if (t == 0 || batch->tokens[t].seq != batch->tokens[t - 1].seq) positions = positions_of(batch, t);
        while (n < AF_GPU_TILE && t + n < batch->token_count && batch->tokens[t + n].seq == batch->tokens[t].seq) n++;
        uint32_t *tile = b->host_tiles + AF_GPU_TILE_WORDS * (size_t)count++;
        tile[0] = t;
        tile[1] = n;
        tile[2] = positions;
    }
    write_info(b, b->tiles_at, b->host_tiles, AF_GPU_TILE_WORDS * (size_t)count);
    return count;
}

static uint32_t write_runs(af_gpu_backend *b, const af_batch *batch) {
    const uint32_t count = af_gpu_runs_of(b, batch, b->host_runs);
    write_info(b, b->runs_at, b->host_runs, 3 * (size_t)count);
    return count;
}

/* The shape of a batch, from which grids follow. */
static af_gpu_shape shape_of(const af_batch *batch, const af_gpu_ticket *ticket, uint32_t first_choice) {
    af_gpu_shape shape = {.tokens = batch->token_count,
                          .rows = ticket->row_count,
                          .states = ticket->state_count,
                          .first_choice = first_choice};
    uint32_t last = 0;
    for (uint32_t t = 0; t < batch->token_count; t++)
        if (batch->tokens[t].position > last) last = batch->tokens[t].position;
    const uint32_t blocks = last / STRETCH_BLOCK + 1;
    shape.stretch = (blocks + AF_GPU_STRETCHES - 1) / AF_GPU_STRETCHES * STRETCH_BLOCK;
    shape.stretches = last / shape.stretch + 1;
    return shape;
}

/* The decode list stores a token's key while others attend: no two tokens may be of one sequence. */
static bool is_decode(const af_gpu_backend *b, const af_batch *batch) {
    if (batch->token_count > AF_GPU_DECODE || b->decode.count == 0) return false;
    for (uint32_t t = 1; t < batch->token_count; t++)
        if (batch->tokens[t].seq == batch->tokens[t - 1].seq) return false;
    return true;
}

/* ---- Encoding ---- */

typedef struct grid {
    uint32_t x, y, z;
} grid;

static void dispatch(const af_gpu_backend *b, WGPUComputePassEncoder pass, const af_gpu_step *s,
                     const af_gpu_pipeline *pipeline, const uint32_t *params, grid g) {
    const af_gpu_api *api = b->gpu->api;
    api->wgpuComputePassEncoderSetPipeline(pass, pipeline->pipeline);
    api->wgpuComputePassEncoderSetBindGroup(pass, 0, s->bind, 0, NULL);
    if (s->param_count) api->wgpuComputePassEncoderSetImmediates(pass, 0, params, s->param_count * sizeof *params);
    api->wgpuComputePassEncoderDispatchWorkgroups(pass, g.x, g.y, g.z);
}

/* Workgroups along x; what is over the limit of one dimension goes to y. */
static grid wide(uint32_t groups) {
    const uint32_t most = 32768;
    return groups > most ? (grid){most, (groups + most - 1) / most, 1} : (grid){groups, 1, 1};
}

/* Index of the kernel for the most tokens at a time that `count` fills, or, `up`, the fewest that hold it. */
static uint32_t portion_for(uint32_t count, bool up) {
    uint32_t i = 0;
    while (i + 1 < AF_GPU_PORTIONS && (up ? 1u << i < count : 2u << i <= count)) i++;
    return i;
}

/* Portions of 8, 4, 2 and 1 tokens until all are done. */
static void encode_portions(const af_gpu_backend *b, WGPUComputePassEncoder pass, const af_gpu_step *s,
                            uint32_t *params, uint32_t count, uint32_t rows_a_group) {
    const grid g = wide((s->x + rows_a_group - 1) / rows_a_group);
    for (uint32_t done = 0; done < count;) {
        const uint32_t i = portion_for(count - done, false);
        params[s->portion_at] = done;
        dispatch(b, pass, s, s->pipelines[i], params, g);
        done += 1u << i;
    }
}

#define TILE           64
#define TILED_FROM     24 /* tokens from which the tiled kernel is the faster one */
#define DECODE_OUTPUTS 16 /* rows a workgroup of decode_linear.wgsl makes */

static void set_shape(const af_gpu_step *s, const af_gpu_shape *shape, uint32_t count, uint32_t *params) {
    memcpy(params, s->params, sizeof s->params);
    if (s->count_at >= 0) params[s->count_at] = count;
    if (s->scaled_at >= 0) params[s->scaled_at] = s->scaled_plus + s->scaled_by * shape->tokens;
    if (s->stretch_at >= 0) params[s->stretch_at] = shape->stretch;
    if (s->stretches_at >= 0) params[s->stretches_at] = shape->stretches;
    if (s->choice_at >= 0) params[s->choice_at] = shape->first_choice;
}

void af_gpu_encode_step(const af_gpu_backend *b, WGPUComputePassEncoder pass, const af_gpu_step *s,
                        const af_gpu_shape *shape) {
    const uint32_t count = s->per_row ? shape->rows : s->per_state ? shape->states : shape->tokens;
    if (count == 0) return;
    uint32_t params[AF_GPU_PARAMS];
    set_shape(s, shape, count, params);
    const uint32_t teams = 128 / (b->gpu->use_subgroups ? b->gpu->subgroup_size : 32);
    const af_gpu_pipeline *p = s->pipelines[0];
    switch (s->grid) {
    case AF_GPU_GRID_ROWS:
        dispatch(b, pass, s, p, params, (grid){count, 1, 1});
        return;
    case AF_GPU_GRID_HEADS:
        dispatch(b, pass, s, p, params, (grid){s->x, count, 1});
        return;
    case AF_GPU_GRID_TILES:
        dispatch(b, pass, s, p, params, (grid){s->x, shape->tiles, s->parts});
        return;
    case AF_GPU_GRID_RUNS:
        dispatch(b, pass, s, p, params, (grid){s->x, shape->runs, 1});
        return;
    case AF_GPU_GRID_STRETCH:
        dispatch(b, pass, s, p, params, (grid){shape->stretches, s->x, count});
        return;
    case AF_GPU_GRID_FLOAT:
        encode_portions(b, pass, s, params, count, teams);
        return;
    case AF_GPU_GRID_DECODE:
        p = s->pipelines[portion_for(count, true)];
        dispatch(b, pass, s, p, params, wide((s->x + DECODE_OUTPUTS - 1) / DECODE_OUTPUTS));
        return;
    case AF_GPU_GRID_LINEAR:
        if (count < TILED_FROM) {
            encode_portions(b, pass, s, params, count, 2 * teams);
            return;
        }
        p = s->pipelines[AF_GPU_PORTIONS];
        dispatch(b, pass, s, p, params, (grid){(s->x + TILE - 1) / TILE, (count + TILE - 1) / TILE, 1});
        return;
    }
}

static uint64_t choices_bytes(uint32_t rows) {
    return ((uint64_t)rows * 4 + 15) / 16 * 16;
}

static uint64_t states_bytes(const af_gpu_backend *b, uint32_t states) {
    return (uint64_t)states * b->plan->width * 4;
}

static void encode_pass(const af_gpu_backend *b, WGPUCommandEncoder encoder, const af_gpu_steps *steps,
                        const af_gpu_shape *shape) {
    const af_gpu_api *api = b->gpu->api;
    WGPUComputePassEncoder pass = api->wgpuCommandEncoderBeginComputePass(encoder, NULL);
    for (size_t i = 0; i < steps->count; i++) af_gpu_encode_step(b, pass, &steps->p[i], shape);
    api->wgpuComputePassEncoderEnd(pass);
    api->wgpuComputePassEncoderRelease(pass);
}

static WGPUCommandBuffer encode(af_gpu_backend *b, const af_gpu_steps *steps, const af_gpu_shape *shape,
                                const af_gpu_ticket *ticket) {
    const af_gpu_api *api = b->gpu->api;
    WGPUCommandEncoder encoder = api->wgpuDeviceCreateCommandEncoder(b->gpu->device, NULL);
    if (b->profile)
        af_gpu_profile_encode(b->profile, b, encoder, steps, shape);
    else if (!af_backend_hooked(&b->options)) /* those ran in af_gpu_run_hooked */
        encode_pass(b, encoder, steps, shape);
    if (ticket->row_count)
        api->wgpuCommandEncoderCopyBufferToBuffer(encoder, b->choices, shape->first_choice * 4ull, ticket->readback, 0,
                                                  ticket->row_count * 4ull);
    if (ticket->any_logits)
        api->wgpuCommandEncoderCopyBufferToBuffer(encoder, b->logits, 0, ticket->readback,
                                                  choices_bytes(b->options.max_rows),
                                                  (uint64_t)ticket->row_count * b->plan->vocabulary * 4);
    if (ticket->state_count)
        api->wgpuCommandEncoderCopyBufferToBuffer(encoder, b->states, 0, ticket->state_readback, 0,
                                                  states_bytes(b, ticket->state_count));
    WGPUCommandBuffer commands = api->wgpuCommandEncoderFinish(encoder, NULL);
    api->wgpuCommandEncoderRelease(encoder);
    return commands;
}

/* A readback buffer is made at a ticket slot's first use: most programs never have more than one in flight. */
static int need_readback(af_gpu_backend *b, af_gpu_ticket *ticket, af_error *error) {
    if (ticket->state_count && !ticket->state_readback) {
        ticket->state_readback =
            af_gpu_buffer(b->gpu, states_bytes(b, b->options.max_tokens), AF_GPU_READBACK, "states", error);
        if (!ticket->state_readback) return AF_ENOMEM;
    }
    if (ticket->readback || ticket->row_count == 0) return AF_OK;
    const uint64_t bytes = choices_bytes(b->options.max_rows) + (uint64_t)b->options.max_rows * b->plan->vocabulary * 4;
    ticket->readback = af_gpu_buffer(b->gpu, bytes, AF_GPU_READBACK, "logits", error);
    return ticket->readback ? AF_OK : AF_ENOMEM;
}

int af_gpu_submit(af_backend *backend, const af_batch *batch, af_ticket *out, af_error *error) {
    af_gpu_backend *b = (af_gpu_backend *)backend;
    assert(batch->token_count > 0 && batch->token_count <= b->options.max_tokens);
    assert(batch->seq_count <= b->max_seqs);
    const af_ticket id = b->last_ticket + 1;
    af_gpu_ticket *ticket = &b->tickets[id % AF_GPU_IN_FLIGHT];
    assert(ticket->ticket == 0 && "collect before submitting a further one");
    b->gpu->doing = "running a batch";
    write_tokens(b, batch);
    write_pages(b, batch);
    write_turns(b, batch);
    write_rows(b, batch, ticket);
    af_gpu_shape shape = shape_of(batch, ticket, choice_slot(b, id));
    shape.decode = is_decode(b, batch);
    shape.tiles = write_tiles(b, batch);
    shape.runs = write_runs(b, batch);
    const af_gpu_steps *steps = shape.decode ? &b->decode : &b->general;
    int status = need_readback(b, ticket, error);
    if (status == AF_OK && af_backend_hooked(&b->options)) status = af_gpu_run_hooked(b, &shape, error);
    if (status != AF_OK) return status;
    WGPUCommandBuffer commands = encode(b, steps, &shape, ticket);
    ticket->submission = af_gpu_submit_commands(b->gpu, commands);
    b->gpu->api->wgpuCommandBufferRelease(commands);
    if (b->profile) af_gpu_profile_collect(b->profile, steps, &shape);
    status = af_gpu_check(b->gpu, error);
    if (status != AF_OK) return status;
    ticket->ticket = b->last_ticket = id;
    *out = id;
    return AF_OK;
}

/* ---- Collecting ---- */

static int collect_states(af_gpu_backend *b, af_gpu_ticket *ticket, af_result *result, af_error *error) {
    const uint64_t bytes = states_bytes(b, ticket->state_count);
    result->state_count = ticket->state_count;
    result->states = b->result_states;
    if (ticket->state_count == 0) return AF_OK;
    af_error why = {0};
    const void *mapped =
        af_gpu_map(b->gpu, ticket->state_readback, bytes, ticket->submission, &ticket->state_mapped, &why);
    if (!mapped) {
        if (error) *error = why;
        return why.code;
    }
    memcpy(b->result_state_memory, mapped, bytes);
    b->gpu->api->wgpuBufferUnmap(ticket->state_readback);
    for (uint32_t i = 0; i < ticket->state_count; i++)
        b->result_states[i] = b->result_state_memory + (size_t)i * b->plan->width;
    return AF_OK;
}

int af_gpu_collect(af_backend *backend, af_ticket id, af_result *result, af_error *error) {
    af_gpu_backend *b = (af_gpu_backend *)backend;
    af_gpu_ticket *ticket = &b->tickets[id % AF_GPU_IN_FLIGHT];
    assert(ticket->ticket == id);
    ticket->ticket = 0;
    *result = (af_result){.row_count = ticket->row_count, .ids = b->result_ids, .logits = b->result_rows};
    const int status = collect_states(b, ticket, result, error);
    if (status != AF_OK || ticket->row_count == 0) return status;
    const uint64_t row_bytes = (uint64_t)b->plan->vocabulary * 4, first_row = choices_bytes(b->options.max_rows);
    const uint64_t bytes =
        ticket->any_logits ? first_row + ticket->row_count * row_bytes : choices_bytes(ticket->row_count);
    af_error why = {0};
    const void *mapped = af_gpu_map(b->gpu, ticket->readback, bytes, ticket->submission, &ticket->mapped, &why);
    if (!mapped) {
        if (error) *error = why;
        return why.code;
    }
    const uint32_t *choices = mapped;
    for (uint32_t r = 0; r < ticket->row_count; r++) {
        const bool greedy = ticket->choose[r] == AF_CHOOSE_GREEDY;
        float *row = b->result_logits + (size_t)r * b->plan->vocabulary;
        b->result_ids[r] = greedy ? (int32_t)choices[r] : -1;
        b->result_rows[r] = greedy ? NULL : row;
        if (!greedy) memcpy(row, (const char *)mapped + first_row + r * row_bytes, row_bytes);
    }
    b->gpu->api->wgpuBufferUnmap(ticket->readback);
    return AF_OK;
}

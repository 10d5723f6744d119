/* gpu_submit.c - a batch through the compiled steps: begun, run span by span, ended, collected.
 *
 * Spans are encoded into one command buffer as long as nothing has to leave or reach the device between them: a plan
 * that is not cut is one submit. Results come back through a ticket's readback buffer, values that are carried to
 * another backend through one of their own.
 */
#include "backend/webgpu/gpu_profile.h"

#include "base/log.h"
#include "base/os.h"

#include <assert.h>
#include <string.h>

static uint64_t choices_bytes(uint32_t rows) {
    return ((uint64_t)rows * 4 + 15) / 16 * 16;
}

/* In a ticket's readback: choices, tops, logits. */
static uint64_t tops_at(const af_gpu_backend *b) {
    return choices_bytes(b->options.max_rows);
}

static uint64_t logits_at(const af_gpu_backend *b) {
    return tops_at(b) + (af_gpu_tops_bytes(b, b->options.max_rows) + 15) / 16 * 16;
}

static uint64_t states_bytes(const af_gpu_backend *b, uint32_t states) {
    return (uint64_t)states * b->plan->width * 4;
}

/* ---- Commands ---- */

static WGPUCommandEncoder encoder_of(af_gpu_backend *b) {
    if (!b->now.encoder) b->now.encoder = b->gpu->api->wgpuDeviceCreateCommandEncoder(b->gpu->device, NULL);
    return b->now.encoder;
}

void af_gpu_forget_commands(af_gpu_backend *b) {
    if (b->now.encoder) b->gpu->api->wgpuCommandEncoderRelease(b->now.encoder);
    if (b->now.prepared) b->gpu->api->wgpuCommandBufferRelease(b->now.prepared);
    b->now.encoder = NULL;
    b->now.prepared = NULL;
}

static void finish(af_gpu_backend *b) {
    WGPUCommandBuffer commands = b->gpu->api->wgpuCommandEncoderFinish(encoder_of(b), NULL);
    af_gpu_forget_commands(b);
    b->now.prepared = commands;
}

static uint64_t submit_prepared(af_gpu_backend *b) {
    const uint64_t submission = af_gpu_submit_commands(b->gpu, b->now.prepared);
    b->pace.submits++;
    af_gpu_forget_commands(b);
    return submission;
}

/* Submits what is encoded. */
static uint64_t submit(af_gpu_backend *b) {
    finish(b);
    return submit_prepared(b);
}

static void encode(af_gpu_backend *b, const af_gpu_step *first, const af_gpu_step *end) {
    const af_gpu_api *api = b->gpu->api;
    if (first == end) return;
    WGPUComputePassEncoder pass = api->wgpuCommandEncoderBeginComputePass(encoder_of(b), NULL);
    for (const af_gpu_step *s = first; s < end; s++) af_gpu_encode_step(b, pass, s, &b->now.shape);
    api->wgpuComputePassEncoderEnd(pass);
    api->wgpuComputePassEncoderRelease(pass);
}

/* Submit after submit, each waited for and timed; what is left of the last stays encoded. */
static void encode_paced(af_gpu_backend *b, const af_gpu_step *first, const af_gpu_step *end) {
    const uint32_t tokens = b->now.shape.tokens;
    while (first < end) {
        const uint32_t count = af_gpu_pace_next(&b->pace, (uint32_t)(end - first), tokens);
        encode(b, first, first + count);
        first += count;
        if (first == end || b->gpu->lost) return;
        const uint64_t start = af_os_nanoseconds();
        af_gpu_wait(b->gpu, submit(b));
        af_gpu_pace_took(&b->pace, tokens, af_os_nanoseconds() - start);
    }
}

/* ---- Values to and from another backend ---- */

static void cross_in(af_gpu_backend *b, const af_crossing *c) {
    const af_gpu_value *v = &b->values[c->value];
    const size_t width = b->plan->widths[c->value];
    const uint32_t tokens = b->now.shape.tokens;
    if (b->now.encoder) submit(b); /* what is encoded may still read the value as it was */
    if (v->stride == width) {
        af_gpu_write(b->gpu, v->buffer, 0, c->rows, tokens * width * sizeof *c->rows);
        return;
    }
    for (uint32_t t = 0; t < tokens; t++)
        af_gpu_write(b->gpu, v->buffer, ((uint64_t)t * v->stride + v->first) * sizeof *c->rows, c->rows + t * width,
                     width * sizeof *c->rows);
}

/* Whole rows of the buffer that holds a value, which may stand beside others. */
static uint64_t bytes_of_rows(const af_gpu_backend *b, const af_crossing *c, uint32_t tokens) {
    return (uint64_t)tokens * b->values[c->value].stride * sizeof(float);
}

/* Made at the first batch that needs it, for the largest that may come. */
static int need_crossing(af_gpu_backend *b, const af_span *span, af_error *error) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < span->out_count; i++) bytes += bytes_of_rows(b, &span->out[i], b->options.max_tokens);
    if (bytes <= b->crossing_bytes) return AF_OK;
    af_gpu_buffer_free(b->gpu, b->crossing);
    b->crossing_bytes = 0;
    b->crossing = af_gpu_buffer(b->gpu, bytes, AF_GPU_READBACK, "values for another device", error);
    if (!b->crossing) return AF_ENOMEM;
    b->crossing_bytes = bytes;
    return AF_OK;
}

static void take_rows(const af_gpu_backend *b, const af_crossing *c, const float *from) {
    const af_gpu_value *v = &b->values[c->value];
    const size_t width = b->plan->widths[c->value];
    for (uint32_t t = 0; t < b->now.shape.tokens; t++)
        memcpy(c->rows + t * width, from + (size_t)t * v->stride + v->first, width * sizeof *from);
}

static int cross_out(af_gpu_backend *b, const af_span *span, af_error *error) {
    const af_gpu_api *api = b->gpu->api;
    int status = need_crossing(b, span, error);
    if (status != AF_OK) return status;
    uint64_t at = 0;
    for (uint32_t i = 0; i < span->out_count; i++) {
        const uint64_t bytes = bytes_of_rows(b, &span->out[i], b->now.shape.tokens);
        api->wgpuCommandEncoderCopyBufferToBuffer(encoder_of(b), b->values[span->out[i].value].buffer, 0, b->crossing,
                                                  at, bytes);
        at += bytes;
    }
    af_error why = {0};
    const float *mapped = af_gpu_map(b->gpu, b->crossing, at, submit(b), &b->crossing_mapped, &why);
    if (!mapped) {
        if (error) *error = why;
        return why.code;
    }
    for (uint32_t i = 0; i < span->out_count; i++) {
        take_rows(b, &span->out[i], mapped);
        mapped += bytes_of_rows(b, &span->out[i], b->now.shape.tokens) / sizeof *mapped;
    }
    api->wgpuBufferUnmap(b->crossing);
    return AF_OK;
}

/* ---- A batch ---- */

/* Choices are kept for as many tickets as may be in flight. */
static int check_sources(const af_gpu_backend *b, const af_batch *batch, af_error *error) {
    for (uint32_t t = 0; t < batch->token_count; t++) {
        const af_batch_token *token = &batch->tokens[t];
        if (token->id >= 0 || (token->from <= b->last_ticket && token->from + AF_GPU_IN_FLIGHT > b->last_ticket + 1))
            continue;
        return af_fail(error, AF_EINVAL, "ticket %llu: its choices are not kept, the last ticket is %llu",
                       (unsigned long long)token->from, (unsigned long long)b->last_ticket);
    }
    return AF_OK;
}

int af_gpu_begin(af_backend *backend, const af_batch *batch, af_error *error) {
    af_gpu_backend *b = (af_gpu_backend *)backend;
    const int status = check_sources(b, batch, error);
    if (status != AF_OK) return status;
    assert(batch->token_count > 0 && batch->token_count <= b->options.max_tokens);
    assert(batch->seq_count <= b->max_seqs);
    const af_ticket id = b->last_ticket + 1;
    af_gpu_ticket *ticket = &b->tickets[id % AF_GPU_IN_FLIGHT];
    assert(ticket->ticket == 0 && "collect before submitting a further one");
    b->gpu->doing = "running a batch";
    af_gpu_count_batch(b->gpu);
    af_gpu_forget_commands(b);
    b->pace.submits = 0;
    b->now.ticket = ticket;
    b->now.shape = af_gpu_write_batch(b, batch, id, ticket);
    b->now.steps = af_gpu_steps_for(b, &b->now.shape);
    return AF_OK;
}

/* The first step of an operation from `from` on. */
static const af_gpu_step *step_from(const af_gpu_steps *steps, size_t op) {
    const af_gpu_step *s = steps->p, *const end = steps->p + steps->count;
    while (s < end && s->op < op) s++;
    return s;
}

int af_gpu_run_span(af_backend *backend, const af_span *span, af_error *error) {
    af_gpu_backend *b = (af_gpu_backend *)backend;
    const af_gpu_step *first = step_from(b->now.steps, span->first), *end = step_from(b->now.steps, span->end);
    int status = AF_OK;
    for (uint32_t i = 0; i < span->in_count; i++) cross_in(b, &span->in[i]);
    if (af_backend_hooked(&b->options))
        status = af_gpu_run_hooked(b, span->first, span->end, error);
    else if (b->profile)
        af_gpu_profile_encode(b->profile, b, encoder_of(b), first, end);
    else if (b->pace.budget && b->now.shape.tokens > AF_GPU_UNPACED)
        encode_paced(b, first, end);
    else
        encode(b, first, end);
    if (status == AF_OK && span->out_count) status = cross_out(b, span, error);
    return status;
}

/* A readback buffer is made at a ticket slot's first use: most programs never have more than one in flight. */
static int need_readback(af_gpu_backend *b, af_gpu_ticket *ticket, af_error *error) {
    if (ticket->state_count && !ticket->state_readback) {
        ticket->state_readback =
            af_gpu_buffer(b->gpu, states_bytes(b, b->options.max_tokens), AF_GPU_READBACK, "states", error);
        if (!ticket->state_readback) return AF_ENOMEM;
    }
    if (ticket->readback || ticket->row_count == 0) return AF_OK;
    const uint64_t bytes = logits_at(b) + (uint64_t)b->options.max_rows * b->plan->vocabulary * 4;
    ticket->readback = af_gpu_buffer(b->gpu, bytes, AF_GPU_READBACK, "logits", error);
    return ticket->readback ? AF_OK : AF_ENOMEM;
}

static void copy_results(af_gpu_backend *b, const af_gpu_ticket *ticket) {
    const af_gpu_api *api = b->gpu->api;
    if (ticket->row_count)
        api->wgpuCommandEncoderCopyBufferToBuffer(encoder_of(b), b->choices, b->now.shape.first_choice * 4ull,
                                                  ticket->readback, 0, ticket->row_count * 4ull);
    if (ticket->any_top)
        api->wgpuCommandEncoderCopyBufferToBuffer(encoder_of(b), b->tops, 0, ticket->readback, tops_at(b),
                                                  af_gpu_tops_bytes(b, ticket->row_count));
    if (ticket->any_logits)
        api->wgpuCommandEncoderCopyBufferToBuffer(encoder_of(b), b->logits, 0, ticket->readback, logits_at(b),
                                                  (uint64_t)ticket->row_count * b->plan->vocabulary * 4);
    if (ticket->state_count)
        api->wgpuCommandEncoderCopyBufferToBuffer(encoder_of(b), b->states, 0, ticket->state_readback, 0,
                                                  states_bytes(b, ticket->state_count));
}

/* The last of a batch's commands. */
static int encode_end(af_gpu_backend *b, af_error *error) {
    const int status = need_readback(b, b->now.ticket, error);
    if (status != AF_OK) return status;
    copy_results(b, b->now.ticket);
    if (b->profile) af_gpu_profile_resolve(b->profile, encoder_of(b), b->now.steps);
    finish(b);
    return AF_OK;
}

static int submit_end(af_gpu_backend *b, af_ticket *out, af_error *error) {
    af_gpu_ticket *ticket = b->now.ticket;
    ticket->submission = submit_prepared(b);
    if (b->pace.trace) af_trace("gpu: %u tokens in %u submits", b->now.shape.tokens, b->pace.submits);
    if (b->profile) af_gpu_profile_collect(b->profile, b->now.steps, &b->now.shape);
    const int status = af_gpu_check(b->gpu, error);
    if (status != AF_OK) return status;
    *out = ticket->ticket = ++b->last_ticket;
    return AF_OK;
}

int af_gpu_end(af_backend *backend, af_ticket *ticket, af_error *error) {
    af_gpu_backend *b = (af_gpu_backend *)backend;
    const int status = encode_end(b, error);
    return status == AF_OK ? submit_end(b, ticket, error) : status;
}

int af_gpu_submit(af_backend *backend, const af_batch *batch, af_ticket *ticket, af_error *error) {
    return af_backend_submit(backend, ((const af_gpu_backend *)backend)->plan, batch, ticket, error);
}

/* ---- In two halves ---- */

/* Not where parts of it are submitted while it is encoded. */
int af_gpu_prepare(af_backend *backend, const af_batch *batch, af_error *error) {
    af_gpu_backend *b = (af_gpu_backend *)backend;
    if (af_backend_hooked(&b->options) || b->profile) return 1;
    if (b->pace.budget && batch->token_count > AF_GPU_UNPACED) return 1;
    int status = af_gpu_begin(backend, batch, error);
    if (status == AF_OK) status = af_gpu_run_span(backend, &(af_span){.end = b->plan->op_count}, error);
    return status == AF_OK ? encode_end(b, error) : status;
}

int af_gpu_start(af_backend *backend, const af_batch *batch, af_ticket *ticket, af_error *error) {
    af_gpu_backend *b = (af_gpu_backend *)backend;
    af_gpu_write_tokens(b, batch);
    return submit_end(b, ticket, error);
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

/* What a ticket's readback is mapped of. */
static uint64_t read_bytes(const af_gpu_backend *b, const af_gpu_ticket *ticket) {
    if (ticket->any_logits) return logits_at(b) + (uint64_t)ticket->row_count * b->plan->vocabulary * 4;
    return ticket->any_top ? logits_at(b) : choices_bytes(ticket->row_count);
}

/* A list without room for all is made up for by the row itself, as long as no later batch wrote its own there. */
static int take_top(af_gpu_backend *b, const char *mapped, uint32_t r, bool last, af_error *error) {
    const uint64_t row_bytes = (uint64_t)b->plan->vocabulary * 4;
    const uint32_t *tops = (const uint32_t *)(const void *)(mapped + tops_at(b));
    float *row = b->result_logits + (size_t)r * b->plan->vocabulary;
    const bool held = af_gpu_tops_hold(b, tops, r);
    b->result_rows[r] = held || last ? row : NULL;
    if (held)
        af_gpu_take_top(b, tops, r, row);
    else if (last)
        return af_gpu_read(b->gpu, b->logits, r * row_bytes, row, row_bytes, error);
    return AF_OK;
}

static int take_row(af_gpu_backend *b, const af_gpu_ticket *ticket, const char *mapped, uint32_t r, bool last,
                    af_error *error) {
    const uint64_t row_bytes = (uint64_t)b->plan->vocabulary * 4;
    float *row = b->result_logits + (size_t)r * b->plan->vocabulary;
    memcpy(&b->result_ids[r], mapped + r * sizeof(uint32_t), sizeof *b->result_ids);
    b->result_rows[r] = NULL;
    if (ticket->choose[r] == AF_CHOOSE_TOP) return take_top(b, mapped, r, last, error);
    if (ticket->choose[r] == AF_CHOOSE_GREEDY) return AF_OK;
    b->result_rows[r] = memcpy(row, mapped + logits_at(b) + r * row_bytes, row_bytes);
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
    const uint64_t bytes = read_bytes(b, ticket);
    af_error why = {0};
    const void *mapped = af_gpu_map(b->gpu, ticket->readback, bytes, ticket->submission, &ticket->mapped, &why);
    if (!mapped) {
        if (error) *error = why;
        return why.code;
    }
    for (uint32_t r = 0; r < ticket->row_count && why.code == AF_OK; r++)
        take_row(b, ticket, mapped, r, id == b->last_ticket, &why);
    b->gpu->api->wgpuBufferUnmap(ticket->readback);
    if (why.code && error) *error = why;
    return why.code;
}

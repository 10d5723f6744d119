/* gpu_batch.c - what a batch tells the shaders (shaders/batch.wgsl), and its shape. */
#include "backend/webgpu/gpu_backend.h"

#include <assert.h>
#include <math.h>

#define CHOSEN      UINT32_MAX /* shaders/batch.wgsl */
#define PROMPT_FROM 32         /* tokens from which the prompt list is the faster one */

static uint32_t choice_slot(const af_gpu_backend *b, af_ticket ticket) {
    return (uint32_t)(ticket % AF_GPU_IN_FLIGHT) * b->options.max_rows;
}

static void write_info(af_gpu_backend *b, uint32_t at, const void *from, size_t count) {
    if (count) af_gpu_write(b->gpu, b->batch_info, (uint64_t)at * 4, from, count * 4);
}

void af_gpu_write_tokens(af_gpu_backend *b, const af_batch *batch) {
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

static af_choose choice_of(const af_gpu_backend *b, af_choose asked) {
    return asked == AF_CHOOSE_TOP && !af_gpu_lists_top(b) ? AF_CHOOSE_LOGITS : asked;
}

/* A row that comes whole because it is small is not drawn from its best. */
static const af_draw *draw_of(const af_batch_token *token, af_choose choose) {
    return token->draw && (token->draw->top_k > 0) == (choose == AF_CHOOSE_TOP) ? token->draw : NULL;
}

static void write_rows(af_gpu_backend *b, const af_batch *batch, af_gpu_ticket *ticket) {
    ticket->row_count = ticket->state_count = 0;
    ticket->any_logits = ticket->any_top = ticket->any_draw = ticket->any_whole = ticket->any_cut = false;
    if (!af_plan_head(b->plan) && !af_plan_state(b->plan)) return; /* another part of the plan gives them */
    for (uint32_t t = 0; t < batch->token_count; t++) {
        if (batch->tokens[t].choose == AF_CHOOSE_STATE) b->host_states[ticket->state_count++] = t;
        if (!af_choose_wants_row(batch->tokens[t].choose)) continue;
        assert(ticket->row_count < b->options.max_rows);
        b->host_rows[ticket->row_count] = t;
        const af_choose choose = choice_of(b, batch->tokens[t].choose);
        const af_draw *draw = draw_of(&batch->tokens[t], choose);
        af_gpu_note_draw(b, ticket->row_count, draw);
        ticket->any_draw |= draw && choose == AF_CHOOSE_TOP;
        ticket->any_whole |= draw && choose == AF_CHOOSE_LOGITS;
        ticket->any_cut |= draw && choose == AF_CHOOSE_LOGITS && draw->top_p < 1;
        ticket->choose[ticket->row_count++] = choose;
        ticket->any_logits |= choose == AF_CHOOSE_LOGITS;
        ticket->any_top |= choose == AF_CHOOSE_TOP;
    }
    write_info(b, b->rows_at, b->host_rows, ticket->row_count);
    write_info(b, b->states_at, b->host_states, ticket->state_count);
    if (ticket->any_top) af_gpu_clear_tops(b, ticket->row_count);
    if (ticket->any_draw || ticket->any_whole) af_gpu_write_draws(b, ticket->row_count);
}

/* Positions that the sequence of token t has when the batch is through. */
static uint32_t positions_of(const af_batch *batch, uint32_t t) {
    while (t + 1 < batch->token_count && batch->tokens[t + 1].seq == batch->tokens[t].seq) t++;
    return batch->tokens[t].position + 1;
}

/* Tiles of up to `most` neighbouring tokens of one sequence, for attention. */
static uint32_t write_tiles(af_gpu_backend *b, const af_batch *batch, uint32_t most, uint32_t at) {
    uint32_t count = 0, positions = 0, *tiles = b->host_tiles + (at - b->tiles_at);
    for (uint32_t t = 0, n; t < batch->token_count; t += n) {
        n = 1;
        if (t == 0 || batch->tokens[t].seq != batch->tokens[t - 1].seq) positions = positions_of(batch, t);
        while (n < most && t + n < batch->token_count && batch->tokens[t + n].seq == batch->tokens[t].seq) n++;
        uint32_t *tile = tiles + AF_GPU_TILE_WORDS * (size_t)count++;
        tile[0] = t;
        tile[1] = n;
        tile[2] = positions;
    }
    write_info(b, at, tiles, AF_GPU_TILE_WORDS * (size_t)count);
    return count;
}

static uint32_t write_runs(af_gpu_backend *b, const af_batch *batch) {
    const uint32_t count = af_gpu_runs_of(b, batch, b->host_runs);
    write_info(b, b->runs_at, b->host_runs, 3 * (size_t)count);
    return count;
}

/* Of a token's context, as decode_attend.wgsl cuts it. */
static uint32_t stretches_of(const af_gpu_backend *b, uint32_t position) {
    const uint32_t units = position / AF_GPU_STRETCH_UNIT + 1, each = (units + b->stretches - 1) / b->stretches;
    return (units + each - 1) / each;
}

/* The shape of a batch, from which grids follow. */
static af_gpu_shape shape_of(const af_gpu_backend *b, const af_batch *batch, const af_gpu_ticket *ticket,
                             uint32_t first_choice) {
    af_gpu_shape shape = {.tokens = batch->token_count,
                          .rows = ticket->row_count,
                          .top_rows = ticket->any_top ? ticket->row_count : 0,
                          .draw_rows = ticket->any_draw ? ticket->row_count : 0,
                          .whole_rows = ticket->any_whole ? ticket->row_count : 0,
                          .cut_rows = ticket->any_cut ? ticket->row_count : 0,
                          .states = ticket->state_count,
                          .first_choice = first_choice};
    for (uint32_t t = 0; t < batch->token_count; t++) {
        const uint32_t stretches = stretches_of(b, batch->tokens[t].position);
        if (stretches > shape.stretches) shape.stretches = stretches;
    }
    return shape;
}

/* The decode list stores a token's key while others attend: no two tokens may be of one sequence. */
static bool is_decode(const af_gpu_backend *b, const af_batch *batch) {
    if (batch->prompt || batch->token_count > b->decode_tokens || b->decode.count == 0) return false;
    for (uint32_t t = 1; t < batch->token_count; t++)
        if (batch->tokens[t].seq == batch->tokens[t - 1].seq) return false;
    return true;
}

af_gpu_shape af_gpu_write_batch(af_gpu_backend *b, const af_batch *batch, af_ticket id, af_gpu_ticket *ticket) {
    af_gpu_write_tokens(b, batch);
    write_pages(b, batch);
    write_turns(b, batch);
    write_rows(b, batch, ticket);
    af_gpu_shape shape = shape_of(b, batch, ticket, choice_slot(b, id));
    shape.decode = is_decode(b, batch);
    shape.many = batch->prompt;
    shape.prompt = !shape.decode && b->prompt.count > 0 && (batch->prompt || batch->token_count >= PROMPT_FROM);
    shape.tiles = write_tiles(b, batch, AF_GPU_TILE, b->tiles_at);
    if (shape.prompt) shape.wide_tiles = write_tiles(b, batch, AF_GPU_PROMPT_TILE, b->wide_tiles_at);
    shape.runs = write_runs(b, batch);
    return shape;
}

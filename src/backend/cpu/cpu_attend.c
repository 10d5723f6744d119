/* cpu_attend.c - which queries meet which pages of the cache, and on which thread.
 *
 * A unit is a tile of queries: a block of consecutive tokens of one sequence, times the query heads of one kv head (or
 * 16 of them, where there are more), so that a page is read once for all. A context is cut into splits of SPLIT_PAGES
 * pages at absolute positions; a split is summed on its own and splits are merged in rising order. That is always done,
 * so a long context of few queries can be spread over threads by splits, one of many queries by units, with equal
 * results.
 */
#include "backend/cpu/cpu.h"

#include <assert.h>
#include <float.h>
#include <string.h>

#define SPLIT_PAGES    8u
#define LITTLE_WORK    100000u            /* products that take less time than waking a thread */
#define PARTIAL_BYTES  ((size_t)16 << 20) /* of states when splits are spread; resident only as far as used */
#define UNITS_A_THREAD 4u                 /* from here on units alone keep the threads busy */

typedef struct attend {
    af_cpu *cpu;
    const af_op_attend *op;
    const af_kv_layer *layer;
    uint32_t group, window;
    uint32_t heads_a_unit, head_parts; /* of one kv head */
    uint32_t block_count;
    uint32_t splits;     /* the most of any block */
    uint32_t rows;       /* the most of any tile */
    size_t state_floats; /* of a tile of so many rows */
} attend;

typedef struct unit {
    const af_cpu_run *block;
    uint32_t kv_head, first_head; /* first_head among all query heads */
    uint32_t begin, end;          /* pages that any of its tokens sees */
} unit;

static uint32_t heads_of(const attend *a) {
    return a->op->heads / a->layer->kv_heads;
}

/* Query heads of one unit: the largest divisor of the group that fits a tile. */
static uint32_t unit_heads(uint32_t group) {
    uint32_t heads = group < AF_ATTEND_ROWS ? group : AF_ATTEND_ROWS;
    while (group % heads) heads--;
    return heads;
}

static uint32_t first_visible(const attend *a, uint32_t position) {
    return a->window && position >= a->window ? position - a->window + 1 : 0;
}

/* The end of the positions that a token of the block at `position` sees. */
static uint32_t end_seen(const attend *a, const af_cpu_run *block, uint32_t position) {
    return a->op->both ? block->end : position + 1;
}

static unit unit_at(const attend *a, uint32_t index) {
    const uint32_t a_block = a->layer->kv_heads * a->head_parts;
    const af_cpu_run *block = &a->cpu->blocks[index / a_block];
    const uint32_t head_part = index % a_block;
    const uint32_t first = a->cpu->batch->tokens[block->first].position;
    return (unit){.block = block,
                  .kv_head = head_part / a->head_parts,
                  .first_head = head_part * a->heads_a_unit,
                  .begin = first_visible(a, first) / AF_KV_PAGE,
                  .end = (end_seen(a, block, first + block->count - 1) - 1) / AF_KV_PAGE + 1};
}

static uint32_t unit_count(const attend *a) {
    return a->block_count * a->layer->kv_heads * a->head_parts;
}

static af_attend_tile tile_of(const attend *a, const unit *u, const af_cpu_worker *worker) {
    return (af_attend_tile){.tokens = u->block->count,
                            .heads = a->heads_a_unit,
                            .kv = &a->layer->shape,
                            .scale = a->op->scale,
                            .softcap = a->op->softcap,
                            .q = worker->q,
                            .w = worker->w,
                            .page_bytes = a->layer->head_bytes};
}

/* Puts a query into a tile: as a column, or, for keys that are rows, as a row. */
static void load_query(const af_attend_tile *tile, uint32_t row, const float *q) {
    const af_kv_shape *kv = tile->kv;
    if (!kv->shared) {
        for (uint32_t d = 0; d < kv->k_dim; d++) tile->q[d * AF_ATTEND_ROWS + row] = q[d];
        return;
    }
    float *const to = tile->q + (size_t)row * kv->k_stride;
    memcpy(to, q, kv->k_dim * sizeof *to);
    memset(to + kv->k_dim, 0, (kv->k_stride - kv->k_dim) * sizeof *to);
}

static void load_queries(const attend *a, const unit *u, const af_attend_tile *tile) {
    const size_t pitch = a->op->q_pitch ? a->op->q_pitch : tile->kv->k_dim;
    for (uint32_t t = 0; t < tile->tokens; t++) {
        const float *q = af_cpu_row(&a->cpu->values[a->op->q], u->block->first + t) + u->first_head * pitch;
        for (uint32_t h = 0; h < tile->heads; h++, q += pitch) load_query(tile, t * tile->heads + h, q);
    }
}

static void start_state(const af_attend_tile *tile, float *state) {
    const size_t floats = af_attend_state_floats(tile->tokens * tile->heads, tile->kv->v_stride);
    for (uint32_t r = 0; r < AF_ATTEND_ROWS; r++) state[r] = -FLT_MAX;
    memset(state + AF_ATTEND_ROWS, 0, (floats - AF_ATTEND_ROWS) * sizeof *state);
}

static uint8_t slot_in_page(uint32_t position, uint32_t page) {
    const uint32_t start = page * AF_KV_PAGE;
    if (position <= start) return 0;
    return (uint8_t)(position - start < AF_KV_PAGE ? position - start : AF_KV_PAGE);
}

/* Sums one split of a unit into `state`. */
static void run_split(const attend *a, const unit *u, af_attend_tile *tile, uint32_t split, float *state) {
    const af_batch *batch = a->cpu->batch;
    const uint32_t *pages = batch->seqs[u->block->seq].pages[a->group];
    const uint32_t position = batch->tokens[u->block->first].position;
    const uint32_t first = split * SPLIT_PAGES, last = first + SPLIT_PAGES;
    start_state(tile, state);
    for (uint32_t page = first < u->begin ? u->begin : first; page < last && page < u->end; page++) {
        for (uint32_t t = 0; t < tile->tokens; t++) {
            tile->begin[t] = slot_in_page(first_visible(a, position + t), page);
            tile->end[t] = slot_in_page(end_seen(a, u->block, position + t), page);
        }
        assert(pages[page] < a->layer->pages);
        const bool more = page + 1 < u->end;
        tile->next = more ? af_kv_store_page(&a->cpu->kv, a->op->cache, pages[page + 1], u->kv_head) : NULL;
        const void *memory = af_kv_store_page(&a->cpu->kv, a->op->cache, pages[page], u->kv_head);
        a->cpu->kernels->attend_page[tile->kv->type](tile, state, memory);
    }
}

static void finish_unit(const attend *a, const unit *u, const af_attend_tile *tile, const float *state) {
    const af_cpu_rows *out = &a->cpu->values[a->op->out];
    a->cpu->kernels->attend_finish(tile, state, a->op->sinks ? a->op->sinks + u->first_head : NULL,
                                   af_cpu_row(out, u->block->first) + (size_t)u->first_head * tile->kv->v_dim,
                                   out->stride);
}

/* A whole unit, split after split. Late positions see most: they go first, so that threads end together. */
static void run_unit(void *user, uint32_t task, uint32_t worker) {
    const attend *a = user;
    const af_cpu_worker *memory = &a->cpu->workers[worker];
    const unit u = unit_at(a, unit_count(a) - 1 - task);
    af_attend_tile tile = tile_of(a, &u, memory);
    load_queries(a, &u, &tile);
    start_state(&tile, memory->total);
    for (uint32_t split = u.begin / SPLIT_PAGES; split * SPLIT_PAGES < u.end; split++) {
        run_split(a, &u, &tile, split, memory->part);
        a->cpu->kernels->attend_merge(&tile, memory->total, memory->part);
    }
    finish_unit(a, &u, &tile, memory->total);
}

/* One split of a unit, into its own state among the partials; splits are counted from the unit's first. */
static void run_one_split(void *user, uint32_t task, uint32_t worker) {
    const attend *a = user;
    const unit u = unit_at(a, task / a->splits);
    const uint32_t split = u.begin / SPLIT_PAGES + task % a->splits;
    if (split * SPLIT_PAGES >= u.end) return;
    af_attend_tile tile = tile_of(a, &u, &a->cpu->workers[worker]);
    load_queries(a, &u, &tile);
    run_split(a, &u, &tile, split, a->cpu->partials.p + task * a->state_floats);
}

static void merge_splits(const attend *a) {
    float *total = a->cpu->workers[0].total;
    for (uint32_t i = 0; i < unit_count(a); i++) {
        const unit u = unit_at(a, i);
        const af_attend_tile tile = tile_of(a, &u, &a->cpu->workers[0]);
        const float *part = a->cpu->partials.p + (size_t)i * a->splits * a->state_floats;
        start_state(&tile, total);
        for (uint32_t split = u.begin / SPLIT_PAGES; split * SPLIT_PAGES < u.end; split++, part += a->state_floats)
            a->cpu->kernels->attend_merge(&tile, total, part);
        finish_unit(a, &u, &tile, total);
    }
}

static void cut_blocks(attend *a) {
    const uint32_t most = AF_ATTEND_ROWS / a->heads_a_unit;
    for (uint32_t r = 0; r < a->cpu->run_count; r++) {
        const af_cpu_run *run = &a->cpu->runs[r];
        for (uint32_t done = 0; done < run->count; done += most) {
            const uint32_t left = run->count - done;
            a->cpu->blocks[a->block_count++] =
                (af_cpu_run){run->first + done, left < most ? left : most, run->seq, run->end};
        }
    }
}

/* Products of the whole operation; and, by the way, the most splits and rows of a unit. */
static uint64_t measure(attend *a) {
    uint64_t rows = 0;
    for (uint32_t i = 0; i < unit_count(a); i += a->layer->kv_heads * a->head_parts) {
        const unit u = unit_at(a, i);
        const uint32_t splits = (u.end - 1) / SPLIT_PAGES + 1 - u.begin / SPLIT_PAGES;
        const uint32_t tile_rows = u.block->count * a->heads_a_unit;
        if (splits > a->splits) a->splits = splits;
        if (tile_rows > a->rows) a->rows = tile_rows;
        rows += (uint64_t)u.block->count * (u.end - u.begin) * AF_KV_PAGE;
    }
    return rows * a->op->heads * (a->layer->shape.k_dim + (uint64_t)a->layer->shape.v_dim);
}

void af_cpu_attend(af_cpu *cpu, const af_cpu_op *op) {
    const af_op_attend *o = &op->op->u.attend;
    attend a = {.cpu = cpu, .op = o, .layer = &cpu->kv.layers[o->cache], .group = cpu->plan->caches[o->cache].group};
    a.window = cpu->plan->groups[a.group].window;
    a.heads_a_unit = unit_heads(heads_of(&a));
    a.head_parts = heads_of(&a) / a.heads_a_unit;
    cut_blocks(&a);
    const uint64_t work = measure(&a);
    a.state_floats = af_attend_state_floats(a.rows, a.layer->shape.v_stride);
    const uint32_t units = unit_count(&a);
    if (cpu->threads == 1 || work <= LITTLE_WORK) {
        for (uint32_t i = 0; i < units; i++) run_unit(&a, i, 0);
        return;
    }
    const size_t parts = (size_t)units * a.splits;
    if (units >= cpu->threads * UNITS_A_THREAD || parts * a.state_floats * sizeof(float) > cpu->partials.bytes) {
        af_pool_run(cpu->pool, run_unit, &a, units);
        return;
    }
    af_pool_run(cpu->pool, run_one_split, &a, (uint32_t)parts);
    merge_splits(&a);
}

af_cpu_attend_needs af_cpu_attend_sizes(const af_plan *plan) {
    af_cpu_attend_needs needs = {.w = (size_t)AF_ATTEND_ROWS * AF_KV_PAGE};
    for (size_t i = 0; i < plan->cache_count; i++) {
        const af_kv_shape shape = af_kv_shape_of(&plan->caches[i], AF_KV_F16); /* any type: floats only are counted */
        const size_t q = (size_t)shape.k_stride * AF_ATTEND_ROWS;
        const size_t state = af_attend_state_floats(AF_ATTEND_ROWS, shape.v_stride);
        if (q > needs.q) needs.q = q;
        if (state > needs.state) needs.state = state;
    }
    needs.partials = plan->cache_count ? PARTIAL_BYTES / sizeof(float) : 0;
    return needs;
}

/* split.c - runs the parts of a cut plan on two backends in turn.
 *
 * A batch is begun on both sides, so each knows its tokens and pages, and then goes from segment to segment: what the
 * last one left that the next one reads passes through the host's memory. One batch is in flight at a time, since a
 * side waits for the other.
 */
#include "backend/split.h"

#include "base/os.h"
#include "plan/plan_cut.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct rows { /* of a value that crosses: (max_tokens, width) */
    float *p;
    size_t bytes;
} rows;

typedef struct split {
    af_backend base;
    const af_plan *plan;
    af_plan_cut *cut;
    af_backend *sides[AF_PLAN_SIDES];
    uint32_t head; /* the side that has it */
    rows *values;  /* (value_count) */
    af_crossing *in, *out;
    af_batch batches[AF_PLAN_SIDES];       /* the one that runs, for each side */
    af_batch_token *tokens[AF_PLAN_SIDES]; /* (max_tokens): its own, with the choices of the ticket before put in */
    int32_t *chosen;                       /* (max_rows): by that ticket, as it was collected */
    uint32_t chosen_count;
    af_ticket last, last_of_head;
    void (*progress)(void *user, double fraction);
    void *progress_user;
    double progress_from, progress_share;
} split;

/* ---- A batch ---- */

/* The side without the head is asked for no rows: it has none to give. */
static void resolve(split *s, const af_batch *batch, uint32_t side) {
    af_batch_token *tokens = s->tokens[side];
    for (uint32_t t = 0; t < batch->token_count; t++) {
        tokens[t] = batch->tokens[t];
        if (side != s->head) tokens[t].choose = AF_CHOOSE_NONE;
        if (batch->tokens[t].id >= 0) continue;
        assert(batch->tokens[t].from == s->last && batch->tokens[t].from_row < s->chosen_count);
        tokens[t].id = s->chosen[batch->tokens[t].from_row];
    }
    s->batches[side] = *batch;
    s->batches[side].tokens = tokens;
}

static int split_begin(af_backend *backend, const af_batch *batch, af_error *error) {
    split *s = (split *)backend;
    int status = AF_OK;
    for (uint32_t i = 0; i < AF_PLAN_SIDES && status == AF_OK; i++) {
        resolve(s, batch, i);
        status = s->sides[i]->ops->begin(s->sides[i], &s->batches[i], error);
    }
    return status;
}

static void fill_crossings(const split *s, const af_plan_segment *segment, af_crossing *out) {
    for (uint32_t i = 0; i < segment->crossing_count; i++)
        out[i] = (af_crossing){segment->crossing[i], s->values[segment->crossing[i]].p};
}

static int run_segments(split *s, af_error *error) {
    int status = AF_OK;
    for (size_t i = 0; i < s->cut->segment_count && status == AF_OK; i++) {
        const af_plan_segment *now = &s->cut->segments[i];
        const af_plan_segment *next = i + 1 < s->cut->segment_count ? now + 1 : NULL;
        af_span span = {.first = now->first,
                        .end = now->end,
                        .in = s->in,
                        .out = s->out,
                        .in_count = now->crossing_count,
                        .out_count = next ? next->crossing_count : 0};
        fill_crossings(s, now, s->in);
        if (next) fill_crossings(s, next, s->out);
        status = s->sides[now->side]->ops->run_span(s->sides[now->side], &span, error);
    }
    return status;
}

static int split_end(af_backend *backend, af_ticket *ticket, af_error *error) {
    split *s = (split *)backend;
    int status = AF_OK;
    for (uint32_t i = 0; i < AF_PLAN_SIDES && status == AF_OK; i++) {
        af_ticket of_side = 0;
        af_result nothing;
        const af_backend_ops *ops = s->sides[i]->ops;
        status = ops->end(s->sides[i], &of_side, error);
        if (i == s->head)
            s->last_of_head = of_side;
        else if (status == AF_OK)
            status = ops->collect(s->sides[i], of_side, &nothing, error);
    }
    if (status == AF_OK) *ticket = ++s->last;
    return status;
}

static int split_submit(af_backend *backend, const af_batch *batch, af_ticket *ticket, af_error *error) {
    split *s = (split *)backend;
    int status = split_begin(backend, batch, error);
    if (status == AF_OK) status = run_segments(s, error);
    return status == AF_OK ? split_end(backend, ticket, error) : status;
}

static int split_collect(af_backend *backend, af_ticket ticket, af_result *result, af_error *error) {
    split *s = (split *)backend;
    if (ticket != s->last)
        return af_fail(error, AF_EINVAL, "ticket %llu: no longer kept, the last is %llu", (unsigned long long)ticket,
                       (unsigned long long)s->last);
    const int status = s->sides[s->head]->ops->collect(s->sides[s->head], s->last_of_head, result, error);
    if (status != AF_OK) return status;
    s->chosen_count = result->row_count;
    memcpy(s->chosen, result->ids, result->row_count * sizeof *s->chosen);
    return AF_OK;
}

/* ---- The backend ---- */

static uint32_t layers_of(const af_plan *part) {
    uint32_t count = 0;
    for (size_t i = 0; i < part->op_count; i++) {
        const bool first = i == 0 || part->ops[i].layer != part->ops[i - 1].layer;
        count += first && part->ops[i].layer >= 0;
    }
    return count;
}

/* Layers that are the GPU's but for their experts. */
static uint32_t experts_lent(const split *s) {
    const af_plan *gpu = &s->cut->parts[AF_SIDE_GPU], *cpu = &s->cut->parts[AF_SIDE_CPU];
    uint32_t count = 0;
    for (size_t i = 0; i < cpu->op_count; i++) {
        if (cpu->ops[i].kind != AF_OP_EXPERTS) continue;
        size_t k = 0;
        while (k < gpu->op_count && gpu->ops[k].layer != cpu->ops[i].layer) k++;
        count += k < gpu->op_count;
    }
    return count;
}

static void split_describe(const af_backend *backend, char *text, size_t size) {
    const split *s = (const split *)backend;
    char gpu[128], cpu[128];
    const af_backend *const *sides = (const af_backend *const *)s->sides;
    sides[AF_SIDE_GPU]->ops->describe(sides[AF_SIDE_GPU], gpu, sizeof gpu);
    sides[AF_SIDE_CPU]->ops->describe(sides[AF_SIDE_CPU], cpu, sizeof cpu);
    const int written = snprintf(text, size, "%s with %u of %u layers, %s", gpu, layers_of(&s->cut->parts[AF_SIDE_GPU]),
                                 s->plan->layers, cpu);
    const uint32_t experts = experts_lent(s);
    if (experts && written >= 0 && (size_t)written < size)
        snprintf(text + written, size - (size_t)written, " with the experts of %u", experts);
}

static uint32_t split_threads(const af_backend *backend) {
    const af_backend *cpu = ((const split *)backend)->sides[AF_SIDE_CPU];
    return cpu->ops->threads(cpu);
}

static uint64_t split_kv_bytes(const af_backend *backend) {
    const split *s = (const split *)backend;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < AF_PLAN_SIDES; i++) bytes += s->sides[i]->ops->kv_bytes(s->sides[i]);
    return bytes;
}

/* ---- Pages: the GPU's part, then the CPU's ---- */

static uint64_t split_page_bytes(const af_backend *backend, uint32_t group) {
    const split *s = (const split *)backend;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < AF_PLAN_SIDES; i++) bytes += s->sides[i]->ops->page_bytes(s->sides[i], group);
    return bytes;
}

static void split_page_kind(const af_backend *backend, char *text, size_t size) {
    const split *s = (const split *)backend;
    char kinds[AF_PLAN_SIDES][512];
    for (uint32_t i = 0; i < AF_PLAN_SIDES; i++) s->sides[i]->ops->page_kind(s->sides[i], kinds[i], sizeof kinds[i]);
    snprintf(text, size, "%u layers, without the experts of %u, on %s; %s", layers_of(&s->cut->parts[AF_SIDE_GPU]),
             experts_lent(s), kinds[AF_SIDE_GPU], kinds[AF_SIDE_CPU]);
}

static int split_read_page(af_backend *backend, uint32_t group, uint32_t page, void *bytes, af_error *error) {
    const split *s = (const split *)backend;
    unsigned char *to = bytes;
    int status = AF_OK;
    for (uint32_t i = 0; i < AF_PLAN_SIDES && status == AF_OK; i++) {
        status = s->sides[i]->ops->read_page(s->sides[i], group, page, to, error);
        to += s->sides[i]->ops->page_bytes(s->sides[i], group);
    }
    return status;
}

static int split_write_page(af_backend *backend, uint32_t group, uint32_t page, const void *bytes, af_error *error) {
    const split *s = (const split *)backend;
    const unsigned char *from = bytes;
    int status = AF_OK;
    for (uint32_t i = 0; i < AF_PLAN_SIDES && status == AF_OK; i++) {
        status = s->sides[i]->ops->write_page(s->sides[i], group, page, from, error);
        from += s->sides[i]->ops->page_bytes(s->sides[i], group);
    }
    return status;
}

static bool split_lost(const af_backend *backend) {
    const af_backend *gpu = ((const split *)backend)->sides[AF_SIDE_GPU];
    return gpu->ops->lost && gpu->ops->lost(gpu);
}

static void split_close(af_backend *backend) {
    split *s = (split *)backend;
    for (uint32_t i = 0; i < AF_PLAN_SIDES; i++)
        if (s->sides[i]) s->sides[i]->ops->close(s->sides[i]);
    for (size_t v = 0; s->values && v < s->plan->value_count; v++)
        if (s->values[v].p) af_os_pages_free(s->values[v].p, s->values[v].bytes);
    af_plan_cut_close(s->cut);
    free(s->values);
    free(s->in);
    free(s->out);
    for (uint32_t i = 0; i < AF_PLAN_SIDES; i++) free(s->tokens[i]);
    free(s->chosen);
    free(s);
}

static const af_backend_ops split_ops = {.name = "split",
                                         .rounding = 16, /* as the GPU's; `verify` takes each side by itself */
                                         .submit = split_submit,
                                         .collect = split_collect,
                                         .describe = split_describe,
                                         .threads = split_threads,
                                         .kv_bytes = split_kv_bytes,
                                         .page_bytes = split_page_bytes,
                                         .page_kind = split_page_kind,
                                         .read_page = split_read_page,
                                         .write_page = split_write_page,
                                         .lost = split_lost,
                                         .close = split_close};

static int open_values(split *s, const af_backend_options *options, af_error *error) {
    const size_t values = s->plan->value_count;
    s->values = calloc(values, sizeof *s->values);
    s->in = calloc(values, sizeof *s->in);
    s->out = calloc(values, sizeof *s->out);
    for (uint32_t i = 0; i < AF_PLAN_SIDES; i++) s->tokens[i] = calloc(options->max_tokens, sizeof *s->tokens[i]);
    s->chosen = calloc(options->max_rows, sizeof *s->chosen);
    if (!s->values || !s->in || !s->out || !s->tokens[0] || !s->tokens[1] || !s->chosen)
        return af_fail_memory(error, options->max_tokens * sizeof **s->tokens, "a split plan");
    for (size_t v = 0; v < values; v++) {
        if (!s->cut->crosses[v]) continue;
        rows *r = &s->values[v];
        r->bytes = (size_t)options->max_tokens * s->plan->widths[v] * sizeof *r->p;
        r->p = af_os_pages(r->bytes, false);
        if (!r->p) return af_fail_memory(error, r->bytes, "values that cross between devices");
    }
    return AF_OK;
}

static void forward_progress(void *user, double fraction) {
    const split *s = user;
    s->progress(s->progress_user, s->progress_from + fraction * s->progress_share);
}

static int open_side(split *s, uint32_t side, const char *device, const af_backend_options *asked, af_error *error) {
    const af_plan *part = &s->cut->parts[side];
    af_backend_options options = *asked;
    s->progress_share = (double)part->op_count / (double)s->plan->op_count;
    if (s->progress) {
        options.progress = forward_progress;
        options.progress_user = s;
    }
    const int status =
        af_backend_open_part(side == AF_SIDE_CPU ? "cpu" : device, part, &options, &s->sides[side], error);
    s->progress_from += s->progress_share;
    return status;
}

int af_split_open(const char *device, const af_plan *plan, const uint8_t *sides, const af_backend_options *options,
                  af_backend **out, af_error *error) {
    split *s = calloc(1, sizeof *s);
    if (!s) return af_fail_memory(error, sizeof *s, "a split plan");
    s->base.ops = &split_ops;
    s->plan = plan;
    s->head = sides[plan->op_count - 1];
    s->progress = options->progress;
    s->progress_user = options->progress_user;
    int status = af_plan_cut_open(plan, sides, &s->cut, error);
    if (status == AF_OK) status = open_values(s, options, error);
    for (uint32_t i = 0; i < AF_PLAN_SIDES && status == AF_OK; i++) status = open_side(s, i, device, options, error);
    if (status != AF_OK) {
        split_close(&s->base);
        return status;
    }
    *out = &s->base;
    return AF_OK;
}

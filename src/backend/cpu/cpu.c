/* cpu.c - opens the CPU backend: packs a plan's matrices, reserves its memory; and closes it. */
#include "backend/cpu/cpu_linear.h"
#include "backend/cpu/cpu_profile.h"

#include "base/log.h"
#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VECTOR      16u /* floats */
#define LINE        64u /* bytes */
#define MOST_TOKENS (1u << 20)
#define MOST_PAGES  (1u << 30)
#define HUGE_BYTES  ((size_t)4 << 20) /* from here on large pages waste little */

/* ---- Matrices ---- */

/* The matrices that are packed, but experts'; an embedding's table is read from the file. Returns how many. */
static uint32_t matrices_of(const af_op *op, const af_matrix *out[AF_OP_MATRICES]) {
    return op->kind == AF_OP_EMBED ? 0 : af_op_matrices(op, out);
}

/* The place of w in cpu->matrices, put at their end if it is new: a matrix that is used twice is packed once. */
static size_t place_of(af_cpu *cpu, const af_matrix *w) {
    size_t i = 0;
    for (; i < cpu->matrix_count; i++) {
        const af_matrix *have = &cpu->matrices[i];
        if (have->data == w->data && have->rows == w->rows && have->cols == w->cols && have->format == w->format)
            return i;
    }
    cpu->matrices[cpu->matrix_count++] = *w;
    return i;
}

/* What attention or a recurrence starts from. */
static bool enters(const af_op *op, af_value value) {
    const af_op_rope_store *s = &op->u.rope_store;
    if (op->kind == AF_OP_ROPE_STORE) return value == s->q || value == s->k || value == s->v;
    if (op->kind == AF_OP_PER_HEAD) return value == op->u.per_head.in;
    if (op->kind == AF_OP_DELTA) return value == op->u.delta.step || value == op->u.delta.strength;
    return op->kind == AF_OP_CONV && value == op->u.conv.in;
}

/* What ends attention, but for the way out. */
static bool leaves(const af_op *op) {
    return op->kind == AF_OP_ATTEND || op->kind == AF_OP_GATE || op->kind == AF_OP_PER_HEAD;
}

/* Experts' matrices stand in the order that a token reads them; none is used twice. */
static void place_experts(af_cpu *cpu, size_t i) {
    const af_op_experts *e = &cpu->plan->ops[i].u.experts;
    const af_stack *const stacks[] = {&e->gate, &e->up, &e->down};
    cpu->ops[i].experts = cpu->matrix_count;
    for (uint32_t expert = 0; expert < e->experts; expert++)
        for (int s = 0; s < 3; s++) cpu->matrices[cpu->matrix_count++] = af_stack_at(stacks[s], expert);
}

/* Nor is a head's. */
static void place_heads(af_cpu *cpu, size_t i) {
    const af_op_per_head *p = &cpu->plan->ops[i].u.per_head;
    cpu->ops[i].stack = cpu->matrix_count;
    for (uint32_t head = 0; head < p->heads; head++) cpu->matrices[cpu->matrix_count++] = af_stack_at(&p->w, head);
}

/* The most matrices that a plan can have. */
static size_t matrix_room(const af_plan *plan) {
    size_t room = plan->op_count * AF_PLAN_PARTS;
    for (size_t i = 0; i < plan->op_count; i++) {
        if (plan->ops[i].kind == AF_OP_EXPERTS) room += (size_t)plan->ops[i].u.experts.experts * 3;
        if (plan->ops[i].kind == AF_OP_PER_HEAD) room += plan->ops[i].u.per_head.heads;
    }
    return room;
}

/* Where the rounding of activations to 8 bits is felt most for its cost, they take 11: before the head, and on both
 * sides of attention. Divergence from exact over 640 tokens of SmolLM2: 0.0036 with none of it, 0.0023 with the head,
 * 0.0015 with q, k and v too, a seventh of all products, 0.0013 with the way out as well, another tenth; the rest,
 * three quarters of the products, would halve it once more. */
static bool wants_fine(const af_plan *plan, size_t i) {
    const af_op *op = &plan->ops[i];
    if (op->kind != AF_OP_LINEAR)
        return op->kind == AF_OP_HEAD || op->kind == AF_OP_ROUTE || op->kind == AF_OP_PER_HEAD;
    if (i > 0 && leaves(&plan->ops[i - 1])) return true;
    const af_value out = op->u.linear.parts[0].out;
    while (++i < plan->op_count && plan->ops[i].layer == op->layer)
        if (enters(&plan->ops[i], out)) return true;
    return false;
}

static int pack_all(af_cpu *cpu, af_error *error) {
    const af_plan *plan = cpu->plan;
    const af_matrix *w[AF_OP_MATRICES];
    for (size_t i = 0; i < plan->op_count; i++) {
        for (uint32_t j = 0, n = matrices_of(&plan->ops[i], w); j < n; j++) place_of(cpu, w[j]);
        if (plan->ops[i].kind == AF_OP_EXPERTS) place_experts(cpu, i);
        if (plan->ops[i].kind == AF_OP_PER_HEAD) place_heads(cpu, i);
    }
    const int status = af_packed_set_open(cpu->pool, cpu->matrices, cpu->matrix_count, cpu->options.exact, cpu->isa,
                                          cpu->options.progress, cpu->options.progress_user, &cpu->packed, error);
    for (size_t i = 0; i < plan->op_count && !status; i++) {
        cpu->ops[i].op = &plan->ops[i];
        cpu->ops[i].fine = wants_fine(plan, i);
        for (uint32_t j = 0, n = matrices_of(&plan->ops[i], w); j < n; j++)
            cpu->ops[i].packed[j] = af_packed_at(cpu->packed, place_of(cpu, w[j]));
    }
    for (size_t i = 0; i < plan->op_count && !status; i++) cpu->ops[i].chained = af_cpu_is_chained(cpu, i);
    return status;
}

/* What a thread packs lies in the memory near it. */
static int pack_in_place(af_cpu *cpu, af_error *error) {
    af_pool_take_place(cpu->pool);
    const int status = pack_all(cpu, error);
    af_pool_leave_place(cpu->pool);
    return status;
}

/* ---- Memory ---- */

int af_cpu_open_rows(af_cpu_rows *rows, size_t count, size_t width, const char *what, af_error *error) {
    rows->stride = (width + VECTOR - 1) / VECTOR * VECTOR;
    rows->bytes = count * rows->stride * sizeof(float); /* both below 2^32, checked by check_options and the plan */
    rows->p = rows->bytes ? af_os_pages(rows->bytes, rows->bytes >= HUGE_BYTES) : NULL;
    return rows->p || !rows->bytes ? 0 : af_fail_memory(error, rows->bytes, what);
}

void af_cpu_close_rows(af_cpu_rows *rows) {
    if (rows->p) af_os_pages_free(rows->p, rows->bytes);
}

static uint32_t larger(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

/* The widest input and output of all products but those of stacks. */
static void widest(const af_plan *plan, uint32_t *in, uint32_t *out) {
    const af_matrix *w[AF_OP_MATRICES];
    *in = *out = 0;
    for (size_t i = 0; i < plan->op_count; i++)
        for (uint32_t j = 0, n = matrices_of(&plan->ops[i], w); j < n; j++) {
            *in = larger(*in, w[j]->cols);
            if (plan->ops[i].kind != AF_OP_HEAD) *out = larger(*out, w[j]->rows);
        }
}

static int open_values(af_cpu *cpu, af_error *error) {
    const af_plan *plan = cpu->plan;
    const uint32_t tokens = cpu->options.max_tokens, rows = cpu->options.max_rows;
    uint32_t in, out;
    widest(plan, &in, &out);
    int status = 0;
    for (size_t i = 0; i < plan->value_count && !status; i++)
        status = af_cpu_open_rows(&cpu->values[i], tokens, plan->widths[i], "activations", error);
    if (!status) status = af_cpu_open_rows(&cpu->normed, larger(tokens, rows), in, "activations", error);
    if (!status) status = af_cpu_open_rows(&cpu->product, tokens, out, "activations", error);
    const af_op_head *head = af_plan_head(plan);
    if (!status && head) status = af_cpu_open_rows(&cpu->logits, rows, head->w.rows, "logits", error);
    if (!status && af_plan_state(plan)) status = af_cpu_open_rows(&cpu->states, tokens, plan->width, "states", error);
    if (!status) status = af_acts_open(2 * larger(tokens, rows), in, &cpu->acts, error);
    if (!status) status = af_acts_open(2 * larger(tokens, rows), in, &cpu->chained, error);
    if (!status) status = af_cpu_experts_open(plan, tokens, &cpu->experts, error);
    if (!status) status = af_cpu_per_head_open(plan, tokens, &cpu->per_head, error);
    for (size_t i = 0; i < plan->rope_count && !status; i++) {
        status = af_cpu_open_rows(&cpu->turns[i].cosines, tokens, plan->ropes[i].rotated, "rotations", error);
        if (!status)
            status = af_cpu_open_rows(&cpu->turns[i].sines, tokens, plan->ropes[i].rotated, "rotations", error);
    }
    return status;
}

static size_t whole_lines(size_t bytes) {
    return (bytes + LINE - 1) / LINE * LINE;
}

static int open_workers(af_cpu *cpu, af_error *error) {
    const af_cpu_attend_needs needs = af_cpu_attend_sizes(cpu->plan);
    size_t linear = 0;
    for (size_t i = 0; i < cpu->matrix_count; i++) {
        const size_t bytes = whole_lines(af_linear_scratch_bytes(af_packed_at(cpu->packed, i)));
        if (bytes > linear) linear = bytes;
    }
    const size_t q = whole_lines(needs.q * sizeof(float)), w = whole_lines(needs.w * sizeof(float));
    const size_t state = whole_lines(needs.state * sizeof(float)), aside = AF_CPU_ASIDE * sizeof(float);
    const size_t one = linear + q + w + 2 * state + aside;
    cpu->worker_bytes = one * cpu->threads;
    cpu->worker_memory = af_os_pages(cpu->worker_bytes, false);
    if (!cpu->worker_memory) return af_fail_memory(error, cpu->worker_bytes, "threads' scratch");
    for (uint32_t i = 0; i < cpu->threads; i++) {
        unsigned char *p = cpu->worker_memory + i * one;
        cpu->workers[i] = (af_cpu_worker){.linear = p,
                                          .q = (float *)(void *)(p + linear),
                                          .w = (float *)(void *)(p + linear + q),
                                          .part = (float *)(void *)(p + linear + q + w),
                                          .total = (float *)(void *)(p + linear + q + w + state),
                                          .aside = (float *)(void *)(p + linear + q + w + 2 * state)};
    }
    return af_cpu_open_rows(&cpu->partials, 1, needs.partials, "attention", error);
}

static void *table(size_t count, size_t size, int *status, af_error *error) {
    void *p = *status ? NULL : calloc(count ? count : 1, size);
    if (!p && !*status) *status = af_fail_memory(error, count * size, "the CPU backend's tables");
    return p;
}

static int open_tables(af_cpu *cpu, af_error *error) {
    const af_plan *plan = cpu->plan;
    const uint32_t tokens = cpu->options.max_tokens, rows = cpu->options.max_rows;
    int status = 0;
    cpu->ops = table(plan->op_count, sizeof *cpu->ops, &status, error);
    cpu->matrices = table(matrix_room(plan), sizeof *cpu->matrices, &status, error);
    cpu->workers = table(cpu->threads, sizeof *cpu->workers, &status, error);
    cpu->values = table(plan->value_count, sizeof *cpu->values, &status, error);
    cpu->turns = table(plan->rope_count, sizeof *cpu->turns, &status, error);
    cpu->ids = table(tokens, sizeof *cpu->ids, &status, error);
    cpu->wanted = table(rows, sizeof *cpu->wanted, &status, error);
    cpu->stated = table(tokens, sizeof *cpu->stated, &status, error);
    cpu->state_rows = table(tokens, sizeof *cpu->state_rows, &status, error);
    cpu->runs = table(tokens, sizeof *cpu->runs, &status, error);
    cpu->blocks = table(tokens, sizeof *cpu->blocks, &status, error);
    for (int i = 0; i < AF_CPU_TICKETS; i++) {
        cpu->choices[i].ids = table(rows, sizeof *cpu->choices[i].ids, &status, error);
        cpu->choices[i].logits = table(rows, sizeof *cpu->choices[i].logits, &status, error);
    }
    return status;
}

/* ---- The backend ---- */

static void cpu_close(af_backend *backend) {
    af_cpu *cpu = (af_cpu *)backend;
    af_cpu_profile_close(cpu->profile);
    af_packed_set_close(cpu->packed);
    for (size_t i = 0; cpu->values && i < cpu->plan->value_count; i++) af_cpu_close_rows(&cpu->values[i]);
    for (size_t i = 0; cpu->turns && i < cpu->plan->rope_count; i++) {
        af_cpu_close_rows(&cpu->turns[i].cosines);
        af_cpu_close_rows(&cpu->turns[i].sines);
    }
    af_cpu_close_rows(&cpu->normed);
    af_cpu_close_rows(&cpu->product);
    af_cpu_close_rows(&cpu->logits);
    af_cpu_close_rows(&cpu->states);
    af_cpu_close_rows(&cpu->partials);
    af_acts_close(cpu->acts);
    af_acts_close(cpu->chained);
    af_cpu_experts_close(cpu->experts);
    af_cpu_per_head_close(cpu->per_head);
    af_kv_store_close(&cpu->kv);
    af_carry_store_close(&cpu->carries);
    if (cpu->worker_memory) af_os_pages_free(cpu->worker_memory, cpu->worker_bytes);
    for (int i = 0; i < AF_CPU_TICKETS; i++) {
        free(cpu->choices[i].ids);
        free(cpu->choices[i].logits);
    }
    void *const tables[] = {cpu->ops,    cpu->matrices, cpu->workers,    cpu->values, cpu->turns, cpu->ids,
                            cpu->wanted, cpu->stated,   cpu->state_rows, cpu->runs,   cpu->blocks};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) free(tables[i]);
    af_pool_close(cpu->pool);
    free(cpu);
}

static void cpu_describe(const af_backend *backend, char *text, size_t size) {
    const af_cpu *cpu = (const af_cpu *)backend;
    snprintf(text, size, "cpu (%s, %u thread%s%s)", af_isa_name(cpu->isa), cpu->threads, cpu->threads == 1 ? "" : "s",
             cpu->options.exact ? ", exact" : "");
}

static uint32_t cpu_threads(const af_backend *backend) {
    return ((const af_cpu *)backend)->threads;
}

static uint64_t cpu_kv_bytes(const af_backend *backend) {
    const af_cpu *cpu = (const af_cpu *)backend;
    return cpu->kv.bytes + cpu->carries.bytes;
}

static int cpu_submit(af_backend *backend, const af_batch *batch, af_ticket *ticket, af_error *error) {
    return af_backend_submit(backend, ((const af_cpu *)backend)->plan, batch, ticket, error);
}

static const af_backend_ops cpu_backend_ops = {.name = "cpu",
                                               .same_in_any_batch = true,
                                               .rounding = 32,
                                               .submit = cpu_submit,
                                               .begin = af_cpu_begin,
                                               .run_span = af_cpu_run_span,
                                               .end = af_cpu_end,
                                               .collect = af_cpu_collect,
                                               .describe = cpu_describe,
                                               .threads = cpu_threads,
                                               .kv_bytes = cpu_kv_bytes,
                                               .page_bytes = af_cpu_page_bytes,
                                               .page_kind = af_cpu_page_kind,
                                               .read_page = af_cpu_read_page,
                                               .write_page = af_cpu_write_page,
                                               .close = cpu_close};

static int check_count(const char *what, uint32_t found, uint32_t most, af_error *error) {
    if (found >= 1 && found <= most) return 0;
    return af_fail(error, AF_EINVAL, "%s: %u, allowed 1 to %u", what, found, most);
}

static int check_options(const af_plan *plan, const af_backend_options *o, af_error *error) {
    if (!plan->part && !af_plan_head(plan) && !af_plan_state(plan))
        return af_fail(error, AF_EINVAL, "plan: has no head or state as its last operation");
    if ((unsigned)o->kv >= AF_KV_TYPES)
        return af_fail(error, AF_EINVAL, "KV cache type: %d, allowed f16, f32 and q8_0", (int)o->kv);
    int status = check_count("tokens in a batch", o->max_tokens, MOST_TOKENS, error);
    if (!status) status = check_count("rows in a batch", o->max_rows, MOST_TOKENS, error);
    for (size_t i = 0; i < plan->group_count && !status; i++)
        status = check_count("pages of the KV cache", o->pages[i], MOST_PAGES, error);
    return status;
}

static int open_pool(af_cpu *cpu, af_error *error) {
    af_core *cores = malloc(AF_CPUS_MAX * sizeof *cores);
    if (!cores) return af_fail_memory(error, AF_CPUS_MAX * sizeof *cores, "thread pool");
    const af_pool_places places = {
        .cores = cores, .count = af_os_core_list(cores, AF_CPUS_MAX), .pin = cpu->options.pin_threads};
    const int status = af_pool_open_on(&places, cpu->threads, &cpu->pool, error);
    free(cores);
    return status;
}

int af_cpu_open(const af_plan *plan, const af_backend_options *options, af_backend **out, af_error *error) {
    int status = check_options(plan, options, error);
    if (status) return status;
    af_cpu *cpu = calloc(1, sizeof *cpu);
    if (!cpu) return af_fail_memory(error, sizeof *cpu, "the CPU backend");
    cpu->base.ops = &cpu_backend_ops;
    cpu->plan = plan;
    cpu->options = *options;
    cpu->threads = options->threads ? options->threads : af_os_cores();
    cpu->isa = af_cpu_isa();
    cpu->kernels = af_lane_kernels_of(cpu->isa);
    status = open_pool(cpu, error);
    if (!status) status = open_tables(cpu, error);
    if (!status) status = af_kv_store_open(&cpu->kv, plan, options->kv, options->pages, error);
    if (!status) status = af_carry_store_open(&cpu->carries, plan, options->carries, error);
    if (!status) status = open_values(cpu, error);
    if (!status) status = pack_in_place(cpu, error);
    if (!status) status = open_workers(cpu, error);
    if (!status) status = af_cpu_profile_open(&cpu->profile, error);
    if (status) {
        cpu_close(&cpu->base);
        return status;
    }
    *out = &cpu->base;
    return 0;
}

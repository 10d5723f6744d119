/* cpu_profile.c - times of operations, added up by kind and shape. */
#include "backend/cpu/cpu_profile.h"

#include "base/log.h"
#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>

#define KINDS 128 /* that are told apart; what comes later goes to the last */

typedef struct kind {
    af_op_kind op;
    bool prompt;
    const char *format; /* of its matrix; NULL: none */
    uint32_t rows, cols;
    uint64_t calls, nanoseconds, bytes, products;
} kind;

struct af_cpu_profile {
    kind kinds[KINDS];
    uint32_t count;
};

int af_cpu_profile_open(af_cpu_profile **out, af_error *error) {
    *out = NULL;
    if (!af_env_flag("AIRFRAME_CPU_PROFILE")) return AF_OK;
    *out = calloc(1, sizeof **out);
    return *out ? AF_OK : af_fail_memory(error, sizeof **out, "a profile");
}

/* ---- What an operation has to do ---- */

/* Matrices that every row of the batch passes once; rows are those of all of them. */
static void count_matrices(const af_cpu *cpu, const af_cpu_op *op, kind *k) {
    const af_matrix *w[AF_OP_MATRICES];
    const uint64_t tokens = op->op->kind == AF_OP_HEAD ? cpu->row_count : cpu->batch->token_count;
    for (uint32_t i = 0, n = af_op_matrices(op->op, w); i < n && op->packed[i]; i++) {
        k->format = w[i]->format->name;
        k->rows += w[i]->rows;
        k->cols = w[i]->cols;
        k->bytes += tokens ? af_packed_bytes(op->packed[i]) : 0;
        k->products += tokens * w[i]->rows * w[i]->cols;
    }
}

/* Bytes are those of the experts that a batch can reach at the most. */
static void count_experts(const af_cpu *cpu, const af_cpu_op *op, kind *k) {
    const af_op_experts *e = &op->op->u.experts;
    const uint64_t pairs = (uint64_t)cpu->batch->token_count * cpu->plan->widths[e->ids];
    const uint64_t reached = pairs < e->experts ? pairs : e->experts;
    k->format = e->up.w.format->name;
    k->rows = e->up.w.rows;
    k->cols = e->up.w.cols;
    k->products = pairs * 3 * k->rows * k->cols;
    for (int i = 0; i < 3; i++)
        k->bytes += reached * af_packed_bytes(af_packed_at(cpu->packed, op->experts + (size_t)i));
}

/* The cache of each sequence is read once; rows and cols: query heads and the width of a key. */
static void count_attend(const af_cpu *cpu, const af_cpu_op *op, kind *k) {
    const af_op_attend *a = &op->op->u.attend;
    const af_kv_layer *layer = &cpu->kv.layers[a->cache];
    const uint32_t window = cpu->plan->groups[cpu->plan->caches[a->cache].group].window;
    uint64_t seen = 0;
    k->rows = a->heads;
    k->cols = layer->shape.k_dim;
    for (uint32_t r = 0; r < cpu->run_count; r++) {
        const af_cpu_run *run = &cpu->runs[r];
        const uint32_t all = window && run->end > window + run->count ? window + run->count : run->end;
        k->bytes += (uint64_t)all * layer->kv_heads * layer->head_bytes / AF_KV_PAGE;
        for (uint32_t t = 0; t < run->count; t++) {
            const uint32_t positions = cpu->batch->tokens[run->first + t].position + 1;
            seen += window && positions > window ? window : positions;
        }
    }
    k->products = seen * a->heads * (layer->shape.k_dim + layer->shape.v_dim);
}

static kind measure(const af_cpu *cpu, const af_cpu_op *op) {
    kind k = {.op = op->op->kind, .prompt = cpu->batch->token_count > cpu->batch->seq_count};
    if (k.op == AF_OP_EXPERTS)
        count_experts(cpu, op, &k);
    else if (k.op == AF_OP_ATTEND)
        count_attend(cpu, op, &k);
    else
        count_matrices(cpu, op, &k);
    return k;
}

/* ---- Adding up ---- */

static kind *find(af_cpu_profile *p, const kind *like) {
    for (uint32_t i = 0; i < p->count; i++) {
        kind *k = &p->kinds[i];
        if (k->op == like->op && k->prompt == like->prompt && k->format == like->format && k->rows == like->rows &&
            k->cols == like->cols)
            return k;
    }
    if (p->count == KINDS) return &p->kinds[KINDS - 1];
    kind *k = &p->kinds[p->count++];
    *k = (kind){like->op, like->prompt, like->format, like->rows, like->cols, 0, 0, 0, 0};
    return k;
}

void af_cpu_profile_add(af_cpu *cpu, const af_cpu_op *op, uint64_t nanoseconds) {
    const kind one = measure(cpu, op);
    kind *k = find(cpu->profile, &one);
    k->calls++;
    k->nanoseconds += nanoseconds;
    k->bytes += one.bytes;
    k->products += one.products;
}

/* ---- The table ---- */

static int by_time(const void *a, const void *b) {
    const kind *x = a, *y = b;
    return (x->nanoseconds < y->nanoseconds) - (x->nanoseconds > y->nanoseconds);
}

static void print_kind(const kind *k) {
    char shape[32] = "", rates[64] = "";
    const double ns = k->nanoseconds ? (double)k->nanoseconds : 1;
    if (k->rows) snprintf(shape, sizeof shape, "%ux%u", k->rows, k->cols);
    if (k->products)
        snprintf(rates, sizeof rates, "%10.2f %8.1f %8.1f", (double)k->bytes / (double)k->calls / 1e6,
                 (double)k->bytes / ns, (double)k->products / ns);
    af_trace("%-12s %-14s %-8s %-7s %8llu %10.2f %10.2f %s", af_op_kind_name(k->op), shape, k->format ? k->format : "",
             k->prompt ? "prompt" : "decode", (unsigned long long)k->calls, ns / 1e6, ns / 1e3 / (double)k->calls,
             rates);
}

void af_cpu_profile_close(af_cpu_profile *p) {
    if (!p) return;
    qsort(p->kinds, p->count, sizeof *p->kinds, by_time);
    af_trace("%-12s %-14s %-8s %-7s %8s %10s %10s %10s %8s %8s", "operation", "rows x cols", "format", "batch", "calls",
             "total ms", "us each", "MB each", "GB/s", "GMAC/s");
    for (uint32_t i = 0; i < p->count; i++) print_kind(&p->kinds[i]);
    free(p);
}

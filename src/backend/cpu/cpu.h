/* cpu.h - what the files of the CPU backend share: the compiled plan and the batch that is running.
 *
 * cpu.c compiles a plan and frees it, cpu_batch.c takes a batch through the operations, cpu_ops.c, cpu_linear.c,
 * cpu_attend.c, cpu_route.c and cpu_experts.c run them, cpu_recur.c those of recurrent layers.
 *
 * Invariants
 *   1. nothing is allocated after af_cpu_open;
 *   2. work falls to threads along outputs that do not depend on each other, so their number changes no result;
 *   3. a value's row t belongs to the batch's token t alone until attention reads the cache.
 */
#ifndef AF_CPU_H
#define AF_CPU_H

#include "backend/backend.h"
#include "backend/cpu/carry_store.h"
#include "backend/cpu/kv_store.h"
#include "backend/cpu/lane_kernels.h"
#include "backend/cpu/linear.h"
#include "base/pool.h"

#define AF_CPU_TICKETS 4 /* batches whose choices later batches may name */

/* A block of rows in memory of the system's own: resident only as far as it was used. */
typedef struct af_cpu_rows {
    float *p; /* (rows, stride) */
    size_t stride, bytes;
} af_cpu_rows;

static inline float *af_cpu_row(const af_cpu_rows *rows, size_t row) {
    return rows->p + row * rows->stride;
}

/* An operation with its matrices packed. */
typedef struct af_cpu_op {
    const af_op *op;
    const af_packed *packed[AF_PLAN_PARTS];
    bool fine;      /* its activations take 11 bits */
    bool chained;   /* af_cpu_is_chained */
    size_t experts; /* of EXPERTS: where in cpu->packed expert 0's gate, up and down are, then expert 1's, ... */
    size_t stack;   /* of PER_HEAD: where in cpu->packed head 0's matrix is, then head 1's, ... */
} af_cpu_op;

typedef struct af_cpu_experts af_cpu_experts;   /* memory of EXPERTS, cpu_experts.c */
typedef struct af_cpu_per_head af_cpu_per_head; /* of PER_HEAD, cpu_per_head.c */
typedef struct af_cpu_profile af_cpu_profile;   /* cpu_profile.c */

/* Memory of one thread of the pool. */
typedef struct af_cpu_worker {
    void *linear;        /* for af_packed_multiply */
    float *aside;        /* products on their way, cpu_linear.h */
    float *q, *w;        /* of af_attend_tile */
    float *part, *total; /* attention states */
} af_cpu_worker;

/* Cosines and sines of one rope for each token of the batch. */
typedef struct af_cpu_turns {
    af_cpu_rows cosines, sines;
} af_cpu_turns;

/* Tokens of one sequence that stand together in the batch. */
typedef struct af_cpu_run {
    uint32_t first, count, seq;
    uint32_t end; /* positions of the sequence that are there when all of the batch is */
} af_cpu_run;

/* What a batch chose, kept for tokens of later batches. */
typedef struct af_cpu_choices {
    af_ticket ticket; /* 0: none */
    uint32_t row_count;
    int32_t *ids;         /* (max_rows) */
    const float **logits; /* (max_rows); NULL where an id was chosen */
    uint32_t state_count;
} af_cpu_choices;

typedef struct af_cpu {
    af_backend base;
    const af_plan *plan;
    af_backend_options options;
    af_isa isa;
    const af_lane_kernels *kernels;
    af_pool *pool;
    uint32_t threads;

    af_cpu_op *ops;      /* one for each of plan->ops */
    af_matrix *matrices; /* each once */
    size_t matrix_count;
    af_packed_set *packed;  /* of all of them */
    af_cpu_worker *workers; /* one for each thread */
    unsigned char *worker_memory;
    size_t worker_bytes;

    af_cpu_rows *values;       /* one for each of the plan's, max_tokens rows */
    af_cpu_rows normed;        /* the input of a linear operation after its norm */
    af_cpu_rows product;       /* what is not yet an operation's output: before a residual, a GLU's second part */
    af_cpu_rows logits;        /* (max_rows, vocabulary) */
    af_cpu_rows states;        /* (max_tokens, the plan's width) */
    af_cpu_rows partials;      /* attention states of one batch, a row of floats */
    af_acts *acts, *chained;   /* of the operation that runs, and of the next where it is chained to it */
    bool chain, taken;         /* whether the next one runs in this span; whether its activations are there */
    af_cpu_experts *experts;   /* NULL: the plan has none */
    af_cpu_per_head *per_head; /* likewise */
    af_cpu_profile *profile;   /* NULL: none is wanted */
    af_cpu_turns *turns;       /* one for each of plan->ropes */
    af_kv_store kv;
    af_carry_store carries;
    uint32_t rows_embedded; /* since the embedding's pages were last let go */

    /* The batch. */
    const af_batch *batch;
    int32_t *ids;     /* (max_tokens): of the batch's tokens, resolved */
    uint32_t *wanted; /* (max_rows): tokens whose logits are wanted */
    uint32_t row_count;
    uint32_t *stated;         /* (max_tokens): tokens whose states are wanted */
    const float **state_rows; /* (max_tokens): where those are */
    uint32_t state_count;
    af_cpu_run *runs; /* (max_tokens) */
    uint32_t run_count;
    af_cpu_run *blocks; /* (max_tokens): runs cut into tiles, by attention */
    af_ticket last;
    af_cpu_choices choices[AF_CPU_TICKETS]; /* of ticket t at t % AF_CPU_TICKETS */
} af_cpu;

int af_cpu_begin(af_backend *backend, const af_batch *batch, af_error *error);
int af_cpu_run_span(af_backend *backend, const af_span *span, af_error *error);
int af_cpu_end(af_backend *backend, af_ticket *ticket, af_error *error);
int af_cpu_collect(af_backend *backend, af_ticket ticket, af_result *result, af_error *error);

/* cpu_pages.c: of the table's names. */
uint64_t af_cpu_page_bytes(const af_backend *backend, uint32_t group);
void af_cpu_page_kind(const af_backend *backend, char *text, size_t size);
int af_cpu_read_page(af_backend *backend, uint32_t group, uint32_t page, void *bytes, af_error *error);
int af_cpu_write_page(af_backend *backend, uint32_t group, uint32_t page, const void *bytes, af_error *error);

/* Calls fn for ranges of rows that make up 0 .. rows - 1: at once on this thread where `width` floats a row are little
 * work, else on the pool. */
typedef void (*af_cpu_range_fn)(af_cpu *cpu, const void *job, uint32_t begin, uint32_t end);
void af_cpu_ranges(af_cpu *cpu, af_cpu_range_fn fn, const void *job, uint32_t rows, size_t width);
/* The same for those who use a worker's memory. */
typedef void (*af_cpu_worker_fn)(af_cpu *cpu, const void *job, uint32_t begin, uint32_t end, uint32_t worker);
void af_cpu_worker_ranges(af_cpu *cpu, af_cpu_worker_fn fn, const void *job, uint32_t rows, size_t width);

/* Fills the tables of every rope for the batch's positions. */
void af_cpu_turn(af_cpu *cpu);

/* The operations. */
void af_cpu_embed(af_cpu *cpu, const af_cpu_op *op);
void af_cpu_norm(af_cpu *cpu, const af_cpu_op *op);
void af_cpu_linear(af_cpu *cpu, const af_cpu_op *op);
void af_cpu_rope_store(af_cpu *cpu, const af_cpu_op *op);
void af_cpu_attend(af_cpu *cpu, const af_cpu_op *op);
void af_cpu_head(af_cpu *cpu, const af_cpu_op *op);
void af_cpu_state(af_cpu *cpu, const af_cpu_op *op);
void af_cpu_conv(af_cpu *cpu, const af_cpu_op *op);
void af_cpu_delta(af_cpu *cpu, const af_cpu_op *op);
void af_cpu_gate(af_cpu *cpu, const af_cpu_op *op);

/* Notes how far the batch takes each sequence's recurrent states; asserts that they stand where it begins. */
void af_cpu_reach(af_cpu *cpu);
void af_cpu_route(af_cpu *cpu, const af_cpu_op *op);
void af_cpu_mix(af_cpu *cpu, const af_cpu_op *op); /* EXPERTS */

int af_cpu_experts_open(const af_plan *plan, uint32_t max_tokens, af_cpu_experts **out, af_error *error);
void af_cpu_experts_close(af_cpu_experts *experts);
void af_cpu_run_per_head(af_cpu *cpu, const af_cpu_op *op);
int af_cpu_per_head_open(const af_plan *plan, uint32_t max_tokens, af_cpu_per_head **out, af_error *error);
void af_cpu_per_head_close(af_cpu_per_head *per_head);

/* Rows of `width` floats, each from a whole vector on. */
int af_cpu_open_rows(af_cpu_rows *rows, size_t count, size_t width, const char *what, af_error *error);
void af_cpu_close_rows(af_cpu_rows *rows);

/* Floats that cpu_attend.c wants of `partials`, and of a worker's q, w and states, for a plan. */
typedef struct af_cpu_attend_needs {
    size_t q, w, state, partials;
} af_cpu_attend_needs;
af_cpu_attend_needs af_cpu_attend_sizes(const af_plan *plan);

#endif

/* cpu_linear.h - the two halves of a linear operation, for those that are made of them: rows taken in (normed,
 * quantized), and a pool job that multiplies matrices with them. cpu_linear.c says how they go together.
 */
#ifndef AF_CPU_LINEAR_OP_H
#define AF_CPU_LINEAR_OP_H

#include "backend/cpu/cpu.h"

/* ---- Before the product ---- */

typedef struct af_cpu_intake {
    const af_norm *norm;
    const af_cpu_rows *in;
    const uint32_t *rows; /* of in; NULL: all of them */
    uint32_t width;
    bool fill;             /* rows are normed or gathered, into cpu->normed where floats are wanted */
    bool quantize, floats; /* what the matrices multiply */
    bool fine;
    uint32_t needs;    /* af_acts_need */
    uint32_t rounding; /* af_backend_options.rounding where it applies; 0: none */
} af_cpu_intake;

/* Fills cpu->acts with `count` rows. */
void af_cpu_take_in(af_cpu *cpu, const af_cpu_intake *take, uint32_t count);

/* A row as if it had been rounded to eight bits, `columns` together, and read back. */
void af_cpu_round_row(float *row, uint32_t width, uint32_t columns);
/* The rounding that was asked for, where an operation's weights are in blocks; 0: none. */
uint32_t af_cpu_rounding(const af_cpu *cpu, const af_matrix *w);

/* ---- The product ---- */

/* What one call of `finish` works on: columns begin .. end - 1 of tokens first .. last - 1 of a part; of a GLU both. */
typedef struct af_cpu_piece {
    uint32_t part, begin, end, first, last;
    float *y[2]; /* token `first`'s row of the part (and of part 1), from column `begin` on */
    size_t stride;
} af_cpu_piece;

static inline float *af_cpu_piece_row(const af_cpu_piece *piece, uint32_t which, uint32_t token) {
    return piece->y[which] + (token - piece->first) * piece->stride;
}

/* One pool job: the products of up to AF_PLAN_PARTS matrices with the rows in cpu->acts. */
typedef struct af_cpu_product {
    af_cpu *cpu;
    const af_cpu_op *op;
    uint32_t tokens;
    uint32_t part_count; /* walked one after another; a GLU's two parts are walked together, as one */
    uint32_t panels_a_task;
    uint32_t tasks[AF_PLAN_PARTS]; /* of each part */
    /* Products go to a worker's own memory, which stays in its cache, and `finish` takes them from there; else they go
     * straight to `to`. */
    bool aside;
    af_cpu_rows to[AF_PLAN_PARTS];
    void (*finish)(const struct af_cpu_product *p, const af_cpu_piece *piece);
} af_cpu_product;

#define AF_CPU_ASIDE                                                                                                   \
    ((size_t)1 << 16) /* floats of a worker's memory for it: 256 KB, a part of its second-level cache */

void af_cpu_run_product(af_cpu_product *p);

/* Whether operation i's output goes nowhere but, as int8, into the next one, so that it is never written as floats. */
bool af_cpu_is_chained(const af_cpu *cpu, size_t i);

#endif

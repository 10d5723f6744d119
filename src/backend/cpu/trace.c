/* trace.c - SHIMMY_DEBUG_RAW: after each operation, a line with what it wrote: shape, smallest, largest, mean, and the
 * first values. For eyes; tests compare through logits. */
#include "backend/cpu/cpu.h"

#include "base/log.h"

#include <math.h>
#include <stdio.h>

#define FIRST_VALUES 6

static void trace_rows(const af_op *op, const af_cpu_rows *rows, uint32_t count, uint32_t width) {
    if (count == 0) return;
    float least = INFINITY, most = -INFINITY;
    double sum = 0;
    for (uint32_t t = 0; t < count; t++)
        for (uint32_t i = 0; i < width; i++) {
            const float v = af_cpu_row(rows, t)[i];
            least = fminf(least, v);
            most = fmaxf(most, v);
            sum += (double)v;
        }
    char first[FIRST_VALUES * 16] = "";
    size_t length = 0;
    for (uint32_t i = 0; i < FIRST_VALUES && i < width; i++)
        length += (size_t)snprintf(first + length, sizeof first - length, " %.6g", (double)rows->p[i]);
    af_trace("raw: %s %s (%u, %u) min %.6g max %.6g mean %.6g first%s", af_op_kind_name(op->kind), op->name, count,
             width, (double)least, (double)most, sum / ((double)count * width), first);
}

static void trace_value(const af_cpu *cpu, const af_op *op, af_value value) {
    trace_rows(op, &cpu->values[value], cpu->batch->token_count, cpu->plan->widths[value]);
}

void af_cpu_trace(const af_cpu *cpu, const af_op *op) {
    switch (op->kind) {
    case AF_OP_EMBED:
        trace_value(cpu, op, op->u.embed.out);
        break;
    case AF_OP_NORM:
        trace_value(cpu, op, op->u.norm.out);
        break;
    case AF_OP_LINEAR:
        for (uint32_t i = 0; i < op->u.linear.part_count; i++)
            if (i == 0 || op->u.linear.combine != AF_COMBINE_GLU) trace_value(cpu, op, op->u.linear.parts[i].out);
        break;
    case AF_OP_ROPE_STORE:
        trace_value(cpu, op, op->u.rope_store.q);
        trace_value(cpu, op, op->u.rope_store.k);
        break;
    case AF_OP_ATTEND:
        trace_value(cpu, op, op->u.attend.out);
        break;
    case AF_OP_HEAD:
        trace_rows(op, &cpu->logits, cpu->row_count, op->u.head.w.rows);
        break;
    }
}

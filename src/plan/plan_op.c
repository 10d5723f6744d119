/* plan_op.c - what an operation reads, writes and multiplies with, for those that need not know which one it is. */
#include "plan/plan.h"

static uint32_t one(af_value value, af_value out[AF_PLAN_PARTS]) {
    out[0] = value;
    return 1;
}

static uint32_t linear_written(const af_op_linear *l, af_value out[AF_PLAN_PARTS]) {
    if (l->combine == AF_COMBINE_GLU) return one(l->parts[0].out, out);
    for (uint32_t i = 0; i < l->part_count; i++) out[i] = l->parts[i].out;
    return l->part_count;
}

uint32_t af_op_written(const af_op *op, af_value out[AF_PLAN_PARTS]) {
    switch (op->kind) {
    case AF_OP_EMBED:
        return one(op->u.embed.out, out);
    case AF_OP_NORM:
        return one(op->u.norm.out, out);
    case AF_OP_LINEAR:
        return linear_written(&op->u.linear, out);
    case AF_OP_ROPE_STORE:
        return one(op->u.rope_store.q, out);
    case AF_OP_ATTEND:
        return one(op->u.attend.out, out);
    case AF_OP_HEAD:
    case AF_OP_STATE:
        return one(AF_NO_VALUE, out);
    case AF_OP_CONV:
        return one(op->u.conv.out, out);
    case AF_OP_DELTA:
        return one(op->u.delta.out, out);
    case AF_OP_GATE:
        return one(op->u.gate.v, out);
    case AF_OP_ROUTE:
        out[0] = op->u.route.ids;
        out[1] = op->u.route.weights;
        return 2;
    case AF_OP_EXPERTS:
        return one(op->u.experts.out, out);
    case AF_OP_PER_HEAD:
        return one(op->u.per_head.out, out);
    }
    return 0;
}

static uint32_t linear_reads(const af_op_linear *l, af_value out[AF_OP_READS]) {
    const uint32_t count = one(l->in, out);
    if (l->residual == AF_NO_VALUE || l->residual == l->in) return count;
    out[count] = l->residual;
    return count + 1;
}

static uint32_t experts_reads(const af_op_experts *e, af_value out[AF_OP_READS]) {
    out[0] = e->in;
    out[1] = e->ids;
    out[2] = e->weights;
    out[3] = e->residual;
    return e->residual == AF_NO_VALUE ? 3 : 4;
}

uint32_t af_op_reads(const af_op *op, af_value out[AF_OP_READS]) {
    switch (op->kind) {
    case AF_OP_EMBED:
        return 0;
    case AF_OP_NORM:
        return one(op->u.norm.in, out);
    case AF_OP_LINEAR:
        return linear_reads(&op->u.linear, out);
    case AF_OP_ROPE_STORE:
        out[0] = op->u.rope_store.q;
        out[1] = op->u.rope_store.k;
        out[2] = op->u.rope_store.v;
        return op->u.rope_store.v == AF_NO_VALUE ? 2 : 3; /* a shared cache takes k alone */
    case AF_OP_ATTEND:
        return one(op->u.attend.q, out);
    case AF_OP_HEAD:
        return one(op->u.head.in, out);
    case AF_OP_STATE:
        return one(op->u.state.in, out);
    case AF_OP_CONV:
        return one(op->u.conv.in, out);
    case AF_OP_DELTA:
        out[0] = op->u.delta.in;
        out[1] = op->u.delta.step;
        out[2] = op->u.delta.strength;
        return 3;
    case AF_OP_GATE:
        out[0] = op->u.gate.v;
        out[1] = op->u.gate.gate;
        return 2;
    case AF_OP_ROUTE:
        return one(op->u.route.in, out);
    case AF_OP_EXPERTS:
        return experts_reads(&op->u.experts, out);
    case AF_OP_PER_HEAD:
        return one(op->u.per_head.in, out);
    }
    return 0;
}

bool af_plan_reads_later(const af_plan *plan, size_t i, af_value value) {
    af_value values[AF_OP_READS > AF_PLAN_PARTS ? AF_OP_READS : AF_PLAN_PARTS];
    for (; i < plan->op_count; i++) {
        for (uint32_t k = 0, n = af_op_reads(&plan->ops[i], values); k < n; k++)
            if (values[k] == value) return true;
        for (uint32_t k = 0, n = af_op_written(&plan->ops[i], values); k < n; k++)
            if (values[k] == value) return false;
    }
    return false;
}

uint32_t af_op_matrices(const af_op *op, const af_matrix *out[AF_OP_MATRICES]) {
    switch (op->kind) {
    case AF_OP_EMBED:
        out[0] = &op->u.embed.table;
        return 1;
    case AF_OP_LINEAR:
        for (uint32_t i = 0; i < op->u.linear.part_count; i++) out[i] = &op->u.linear.parts[i].w;
        return op->u.linear.part_count;
    case AF_OP_HEAD:
        out[0] = &op->u.head.w;
        return 1;
    case AF_OP_ROUTE:
        out[0] = &op->u.route.w;
        return 1;
    case AF_OP_EXPERTS:
    case AF_OP_PER_HEAD:
    case AF_OP_NORM:
    case AF_OP_ROPE_STORE:
    case AF_OP_ATTEND:
    case AF_OP_STATE:
    case AF_OP_CONV:
    case AF_OP_DELTA:
    case AF_OP_GATE:
        return 0;
    }
    return 0;
}

/* hook.c - what hooks may see of an operation, and the hook of SHIMMY_DEBUG_RAW: for eyes; tests compare numbers. */
#include "backend/backend.h"

#include "base/log.h"

#include <math.h>
#include <stdio.h>

#define FIRST_NUMBERS 6

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
    }
    return 0;
}

static bool print_rows(void *user, const af_op *op, af_value value, float *rows, size_t stride, uint32_t count,
                       uint32_t width) {
    (void)user, (void)value;
    if (count == 0) return false;
    float least = INFINITY, most = -INFINITY;
    double sum = 0;
    for (uint32_t t = 0; t < count; t++)
        for (uint32_t i = 0; i < width; i++) {
            const float v = rows[t * stride + i];
            least = fminf(least, v);
            most = fmaxf(most, v);
            sum += (double)v;
        }
    char first[FIRST_NUMBERS * 16] = "";
    size_t length = 0;
    for (uint32_t i = 0; i < FIRST_NUMBERS && i < width; i++)
        length += (size_t)snprintf(first + length, sizeof first - length, " %.6g", (double)rows[i]);
    af_trace("raw: %s %s (%u, %u) min %.6g max %.6g mean %.6g first%s", af_op_kind_name(op->kind), op->name, count,
             width, (double)least, (double)most, sum / ((double)count * width), first);
    return false;
}

const af_backend_hook af_raw_trace = {.wrote = print_rows};

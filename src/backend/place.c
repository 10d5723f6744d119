/* place.c - which side of a split plan each operation is on. */
#include "backend/split.h"

/* The last layers are the GPU's: the batch then crosses once, on its way in, and the head chooses tokens there. */
static bool in_gpu_layers(const af_plan *plan, const af_placement *p, size_t i) {
    if (!p->layers_given || p->gpu_layers >= plan->layers) return true;
    if (p->gpu_layers == 0) return false;
    while (i > 0 && plan->ops[i].layer < 0 && plan->ops[i].kind != AF_OP_EMBED) i--; /* behind the last layer: its */
    return plan->ops[i].layer >= (int32_t)(plan->layers - p->gpu_layers);
}

/* Experts that are chosen from: most of a large model's bytes and few of a token's. One that all tokens share stays. */
static bool is_cpu_moe(const af_placement *p, const af_op *op) {
    return op->kind == AF_OP_EXPERTS && op->u.experts.experts > 1 && (uint32_t)op->layer < p->cpu_moe;
}

bool af_place(const af_plan *plan, const af_placement *placement, uint8_t *sides) {
    bool split = false;
    for (size_t i = 0; i < plan->op_count; i++) {
        const bool gpu = in_gpu_layers(plan, placement, i) && !is_cpu_moe(placement, &plan->ops[i]);
        sides[i] = gpu ? AF_SIDE_GPU : AF_SIDE_CPU;
        split |= sides[i] != AF_SIDE_GPU;
    }
    return split;
}

/* gpu_room.c - what a plan needs of a device's memory, and what there is.
 *
 * Needs are counted before anything is opened: buffers by the code that makes them (af_gpu_need), matrices by their
 * packed sizes. What a driver keeps for itself is a guess.
 */
#include "backend/split.h"
#include "backend/webgpu/gpu_backend.h"
#include "backend/webgpu/gpu_memory.h"
#include "plan/plan_cut.h"

#include <stdlib.h>

#define DRIVER_BYTES (192ull << 20) /* pipelines, descriptors, command buffers; while weights come in, their ring */

/* ---- Matrices ---- */

static uint64_t matrix_bytes(const af_matrix *w, bool exact) {
    const uint64_t bytes = af_gpu_streams_of(af_gpu_layout_for(w->format, exact), w->rows, w->cols).bytes;
    return (bytes + 255) & ~255ull;
}

static uint64_t experts_bytes(const af_op_experts *e, bool exact) {
    return e->experts *
           (matrix_bytes(&e->gate.w, exact) + matrix_bytes(&e->up.w, exact) + matrix_bytes(&e->down.w, exact));
}

/* An embedding's table is often the head's matrix too. */
static bool is_table_of_head(const af_plan *plan, const af_op *op) {
    const af_op_head *head = af_plan_head(plan);
    return op->kind == AF_OP_EMBED && head && head->w.data == op->u.embed.table.data;
}

uint64_t af_gpu_weights_need(const af_plan *plan, bool exact) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < plan->op_count; i++) {
        const af_op *op = &plan->ops[i];
        const af_matrix *w[AF_OP_MATRICES];
        if (is_table_of_head(plan, op)) continue;
        for (uint32_t k = 0, n = af_op_matrices(op, w); k < n; k++) bytes += matrix_bytes(w[k], exact);
        if (op->kind == AF_OP_PER_HEAD) bytes += op->u.per_head.heads * matrix_bytes(&op->u.per_head.w.w, exact);
        if (op->kind == AF_OP_EXPERTS) bytes += experts_bytes(&op->u.experts, exact);
    }
    return bytes;
}

/* ---- Room ---- */

/* Bytes that are free; UINT64_MAX where that is not known. */
static uint64_t unused_of(const af_gpu_adapter_info *info) {
    const char *stated = getenv("AIRFRAME_GPU_MEMORY");
    if (stated && *stated) return strtoull(stated, NULL, 10);
    uint64_t total, unused;
    if (info->class == AF_GPU_SOFTWARE || !af_gpu_memory(info->name, &total, &unused) || total == 0) return UINT64_MAX;
    return unused ? unused : total; /* a driver that does not say what is used */
}

static bool fits(uint64_t need, uint64_t unused) {
    return unused == UINT64_MAX || need + DRIVER_BYTES <= unused;
}

int af_gpu_check_room(const af_gpu *gpu, const af_plan *plan, const af_backend_options *options, af_error *error) {
    const uint64_t need = af_gpu_need(plan, options), unused = unused_of(&gpu->info);
    if (fits(need, unused)) return AF_OK;
    return af_fail(error, AF_ENOMEM,
                   "gpu: %s has %.1f MB free, %.1f MB are needed (weights %.1f MB, then KV cache and activations): "
                   "fewer --gpu-layers, or a lower --ctx, --parallel or --prefill-chunk",
                   gpu->info.name, (double)unused / 1e6, (double)(need + DRIVER_BYTES) / 1e6,
                   (double)af_gpu_weights_need(plan, options->exact) / 1e6);
}

/* Whether the GPU's part of a plan with so many layers there fits; an error where there is no memory for the question.
 */
static int part_fits(const af_plan *plan, const af_backend_options *options, uint32_t layers, uint64_t unused,
                     uint8_t *sides, bool *out, af_error *error) {
    af_placement placement = options->placement;
    placement.layers_given = true;
    placement.gpu_layers = layers;
    af_place(plan, &placement, sides);
    af_plan_cut *cut;
    const int status = af_plan_cut_open(plan, sides, &cut, error);
    if (status != AF_OK) return status;
    *out = fits(af_gpu_need(&cut->parts[AF_SIDE_GPU], options), unused);
    af_plan_cut_close(cut);
    return AF_OK;
}

int af_webgpu_layers(const char *device, const af_plan *plan, const af_backend_options *options, uint32_t *layers,
                     af_error *error) {
    af_gpu_adapter_info info;
    int status = af_gpu_find(device, &info, error);
    if (status != AF_OK) return status;
    uint8_t *sides = calloc(plan->op_count, sizeof *sides);
    if (!sides) return af_fail_memory(error, plan->op_count, "a plan's places");
    const uint64_t unused = unused_of(&info);
    bool found = false;
    *layers = plan->layers;
    while (status == AF_OK && *layers > 0 && !found) {
        status = part_fits(plan, options, *layers, unused, sides, &found, error);
        if (!found) --*layers;
    }
    free(sides);
    return status;
}

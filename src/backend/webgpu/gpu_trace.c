/* gpu_trace.c - a batch operation by operation, its values shown to the hook; and matrices decoded as kernels see them.
 *
 * For `shimmy verify` and SHIMMY_DEBUG_RAW. Every operation is a submit of its own and is waited for; the steps are
 * those that gpu_run.c would run, in their order. In a hooked backend the decode list leaves no packets from operation
 * to operation (gpu_decode.c), so that each starts from what the hook left in its values.
 */
#include "backend/webgpu/gpu_backend.h"

#include <assert.h>
#include <stdlib.h>

/* ---- One operation after another ---- */

static int run_steps(af_gpu_backend *b, const af_gpu_step *first, const af_gpu_step *end, const af_gpu_shape *shape,
                     af_error *error) {
    const af_gpu_api *api = b->gpu->api;
    WGPUCommandEncoder encoder = api->wgpuDeviceCreateCommandEncoder(b->gpu->device, NULL);
    WGPUComputePassEncoder pass = api->wgpuCommandEncoderBeginComputePass(encoder, NULL);
    for (const af_gpu_step *s = first; s < end; s++) af_gpu_encode_step(b, pass, s, shape);
    api->wgpuComputePassEncoderEnd(pass);
    api->wgpuComputePassEncoderRelease(pass);
    WGPUCommandBuffer commands = api->wgpuCommandEncoderFinish(encoder, NULL);
    api->wgpuCommandEncoderRelease(encoder);
    af_gpu_submit_commands(b->gpu, commands);
    api->wgpuCommandBufferRelease(commands);
    return af_gpu_check(b->gpu, error);
}

/* Rows of a value, which may stand beside another's in the buffer: whole buffer rows are read and written. */
static int show(af_gpu_backend *b, const af_op *op, af_value value, uint32_t count, float *rows, af_error *error) {
    const bool logits = op->kind == AF_OP_HEAD, states = op->kind == AF_OP_STATE;
    const uint32_t width = logits ? b->plan->vocabulary : states ? b->plan->width : b->plan->widths[value];
    const af_gpu_value at =
        logits || states ? (af_gpu_value){.buffer = logits ? b->logits : b->states, .stride = width} : b->values[value];
    const size_t bytes = (size_t)count * at.stride * sizeof *rows;
    if (count == 0) return AF_OK;
    const int status = af_gpu_read(b->gpu, at.buffer, 0, rows, bytes, error);
    const af_backend_hook *hook = b->options.hook;
    if (status == AF_OK && hook->wrote(hook->user, op, value, rows + at.first, at.stride, count, width))
        af_gpu_write(b->gpu, at.buffer, 0, rows, bytes);
    return status;
}

static uint32_t rows_written(const af_op *op, const af_gpu_shape *shape) {
    if (op->kind == AF_OP_HEAD) return shape->rows;
    return op->kind == AF_OP_STATE ? shape->states : shape->tokens;
}

static size_t largest_value(const af_gpu_backend *b, uint32_t tokens, uint32_t rows) {
    size_t most = (size_t)rows * b->plan->vocabulary, states = (size_t)tokens * b->plan->width;
    if (states > most) most = states;
    for (size_t v = 0; v < b->plan->value_count; v++)
        if ((size_t)tokens * b->values[v].stride > most) most = (size_t)tokens * b->values[v].stride;
    return most;
}

static int show_all(af_gpu_backend *b, const af_op *op, float *rows, af_error *error) {
    af_value values[AF_PLAN_PARTS];
    int status = AF_OK;
    for (uint32_t k = 0, n = af_op_written(op, values); k < n && status == AF_OK; k++)
        status = show(b, op, values[k], rows_written(op, &b->now.shape), rows, error);
    return status;
}

int af_gpu_run_hooked(af_gpu_backend *b, size_t first_op, size_t end_op, af_error *error) {
    const af_gpu_shape *shape = &b->now.shape;
    const size_t most = largest_value(b, shape->tokens, shape->rows);
    float *copy = malloc(most * sizeof *copy);
    if (!copy) return af_fail_memory(error, most * sizeof *copy, "a traced operation");
    const af_gpu_step *step = b->now.steps->p, *const last = step + b->now.steps->count;
    int status = AF_OK;
    while (step < last && step->op < first_op) step++;
    for (size_t i = first_op; i < end_op && status == AF_OK; i++) {
        const af_gpu_step *const first = step;
        while (step < last && step->op == i) step++;
        if (step == first) continue; /* folded into the next operation: its values are not written */
        status = run_steps(b, first, step, shape, error);
        if (status == AF_OK) status = show_all(b, &b->plan->ops[i], copy, error);
    }
    free(copy);
    return status;
}

/* ---- Matrices ---- */

/* The ids of the rows, as the embedding's kernel takes them. */
static int write_ids(af_gpu_backend *b, WGPUBuffer batch, uint32_t row_begin, uint32_t row_count, af_error *error) {
    uint32_t *ids = calloc(row_count, 16);
    if (!ids) return af_fail_memory(error, (size_t)row_count * 16, "a traced matrix");
    for (uint32_t r = 0; r < row_count; r++) ids[4 * (size_t)r] = row_begin + r;
    af_gpu_write(b->gpu, batch, 0, ids, (size_t)row_count * 16);
    free(ids);
    return AF_OK;
}

/* The embedding's kernel reads any matrix: it unpacks blocks with the functions that the products use. Its steps are
 * put behind the plan's and taken away again. */
int af_gpu_decode(af_backend *backend, const af_matrix *w, uint32_t row_begin, uint32_t row_count, float *out,
                  af_error *error) {
    af_gpu_backend *b = (af_gpu_backend *)backend;
    const size_t first = b->general.count, bytes = (size_t)row_count * w->cols * sizeof *out;
    assert(row_begin + row_count <= w->rows);
    WGPUBuffer decoded = NULL, batch = af_gpu_buffer(b->gpu, (uint64_t)row_count * 16, AF_GPU_STORAGE, "ids", error);
    if (batch) decoded = af_gpu_buffer(b->gpu, bytes, AF_GPU_STORAGE, "a decoded matrix", error);
    int status = decoded ? write_ids(b, batch, row_begin, row_count, error) : AF_ENOMEM;
    if (status == AF_OK) status = af_gpu_compile_decode(b, w, batch, decoded, error);
    if (status == AF_OK)
        status = run_steps(b, b->general.p + first, b->general.p + b->general.count,
                           &(af_gpu_shape){.tokens = row_count}, error);
    if (status == AF_OK) status = af_gpu_read(b->gpu, decoded, 0, out, bytes, error);
    while (b->general.count > first) {
        WGPUBindGroup bind = b->general.p[--b->general.count].bind;
        if (bind) b->gpu->api->wgpuBindGroupRelease(bind);
    }
    af_gpu_buffer_free(b->gpu, batch);
    af_gpu_buffer_free(b->gpu, decoded);
    return status;
}

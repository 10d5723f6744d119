/* gpu_run.c - a step to dispatches: its grid and its parameters for the batch at hand. */
#include "backend/webgpu/gpu_backend.h"

#include <string.h>

typedef struct grid {
    uint32_t x, y, z;
} grid;

static void dispatch(const af_gpu_backend *b, WGPUComputePassEncoder pass, const af_gpu_step *s,
                     const af_gpu_pipeline *pipeline, const uint32_t *params, grid g) {
    const af_gpu_api *api = b->gpu->api;
    api->wgpuComputePassEncoderSetPipeline(pass, pipeline->pipeline);
    api->wgpuComputePassEncoderSetBindGroup(pass, 0, s->bind, 0, NULL);
    if (s->param_count) api->wgpuComputePassEncoderSetImmediates(pass, 0, params, s->param_count * sizeof *params);
    api->wgpuComputePassEncoderDispatchWorkgroups(pass, g.x, g.y, g.z);
}

static uint32_t pieces(uint32_t count, uint32_t size) {
    return (count + size - 1) / size;
}

/* Workgroups along x; what is over the limit of one dimension goes to y. */
static grid wide(uint32_t groups) {
    const uint32_t most = 32768;
    return groups > most ? (grid){most, pieces(groups, most), 1} : (grid){groups, 1, 1};
}

/* Index of the kernel for the most tokens at a time that `count` fills, or, `up`, the fewest that hold it. */
static uint32_t portion_for(uint32_t count, bool up) {
    uint32_t i = 0;
    while (i + 1 < AF_GPU_PORTIONS && (up ? 1u << i < count : 2u << i <= count)) i++;
    return i;
}

/* Portions of 8, 4, 2 and 1 tokens until all are done. */
static void encode_portions(const af_gpu_backend *b, WGPUComputePassEncoder pass, const af_gpu_step *s,
                            uint32_t *params, uint32_t count, uint32_t rows_a_group) {
    const grid g = wide(pieces(s->x, rows_a_group));
    for (uint32_t done = 0; done < count;) {
        const uint32_t i = portion_for(count - done, false);
        params[s->portion_at] = done;
        dispatch(b, pass, s, s->pipelines[i], params, g);
        done += 1u << i;
    }
}

#define TILE         64
#define TILED_FROM   24 /* tokens from which the tiled kernel is faster than portions */
#define FEW_ROWS     16 /* rows and tokens of linear_few.wgsl's tiles */
#define FEW_TOKENS   8
#define FEW_MOST     32 /* tokens up to which it is faster than the tiled kernel */
#define DECODE_TEAMS 8  /* of a workgroup of decode_linear.wgsl */

#define PROMPT_ROWS   128 /* of prompt_linear.wgsl's tiles; tokens: as many, or half */
#define PROMPT_FEW    32  /* rows and tokens of prompt_few.wgsl's tiles */
#define ENOUGH_GROUPS 160 /* of large tiles: fewer leave a large GPU idle */
#define ENOUGH_HALVES 48  /* of those of 64 tokens */

/* Workgroups that keep a device busy; the few cores of one in software are so with any. */
static bool enough(const af_gpu_backend *b, uint32_t groups, uint32_t wanted) {
    return groups >= wanted || b->gpu->info.class == AF_GPU_SOFTWARE;
}

/* The largest tiles that tokens fill and of which there are enough: sums are the same in all. */
static void encode_prompt(const af_gpu_backend *b, WGPUComputePassEncoder pass, const af_gpu_step *s,
                          const uint32_t *params, uint32_t count) {
    const uint32_t rows = pieces(s->x, PROMPT_ROWS), wide_tiles = pieces(count, 128), halves = pieces(count, 64);
    if (count > 64 && enough(b, rows * wide_tiles, ENOUGH_GROUPS)) {
        dispatch(b, pass, s, s->pipelines[0], params, (grid){wide_tiles, rows, 1});
    } else if (count > PROMPT_FEW && enough(b, rows * halves, ENOUGH_HALVES)) {
        dispatch(b, pass, s, s->pipelines[1], params, (grid){halves, rows, 1});
    } else {
        const grid few = {pieces(count, PROMPT_FEW), pieces(s->x, PROMPT_FEW), 1};
        dispatch(b, pass, s, s->pipelines[2], params, few);
    }
}

/* Portions of any size add in one order; so do the tiled kernel and the one for a few, in another. Which of the two
 * does not follow from `count`, where it must not: decoded tokens and a prompt's wanted rows, few as a rule, are
 * portions. */
static bool takes_portions(const af_gpu_step *s, const af_gpu_shape *shape, uint32_t count) {
    if (shape->many) return s->which == AF_GPU_ROWS;
    return shape->decode || count < TILED_FROM;
}

static void encode_linear(const af_gpu_backend *b, WGPUComputePassEncoder pass, const af_gpu_step *s, uint32_t *params,
                          uint32_t count, const af_gpu_shape *shape, uint32_t rows_a_group) {
    if (takes_portions(s, shape, count)) {
        encode_portions(b, pass, s, params, count, rows_a_group);
    } else if (shape->many && count <= FEW_MOST) {
        grid g = wide(pieces(s->x, FEW_ROWS));
        g.z = pieces(count, FEW_TOKENS);
        dispatch(b, pass, s, s->pipelines[AF_GPU_FEW], params, g);
    } else {
        const grid g = {pieces(s->x, TILE), pieces(count, TILE), 1};
        dispatch(b, pass, s, s->pipelines[AF_GPU_TILED], params, g);
    }
}

/* Tokens in groups that stand beside each other in the order of workgroups, so that a row's weights are loaded once. */
static void encode_decode(const af_gpu_backend *b, WGPUComputePassEncoder pass, const af_gpu_step *s,
                          const uint32_t *params, uint32_t count) {
    const uint32_t i = portion_for(count, true), outputs = DECODE_TEAMS * af_gpu_decode_rows[i];
    const grid rows = wide(pieces(s->x, outputs));
    if (count == 1) {
        dispatch(b, pass, s, s->pipelines[0], params, rows);
        return;
    }
    dispatch(b, pass, s, s->pipelines[i], params, (grid){pieces(count, 1u << i), rows.x, rows.y});
}

static void set_shape(const af_gpu_step *s, const af_gpu_shape *shape, uint32_t count, uint32_t *params) {
    memcpy(params, s->params, sizeof s->params);
    if (s->count_at >= 0) params[s->count_at] = count;
    if (s->scaled_at >= 0) params[s->scaled_at] = s->scaled_plus + s->scaled_by * shape->tokens;
    if (s->stretches_at >= 0) params[s->stretches_at] = shape->stretches;
    if (s->choice_at >= 0) params[s->choice_at] = shape->first_choice;
}

void af_gpu_encode_step(const af_gpu_backend *b, WGPUComputePassEncoder pass, const af_gpu_step *s,
                        const af_gpu_shape *shape) {
    const uint32_t count = af_gpu_count_of(s, shape);
    if (count == 0) return;
    uint32_t params[AF_GPU_PARAMS];
    set_shape(s, shape, count, params);
    const uint32_t teams = 128 / (b->gpu->use_subgroups ? b->gpu->subgroup_size : 32);
    const af_gpu_pipeline *p = s->pipelines[0];
    switch (s->grid) {
    case AF_GPU_GRID_ROWS:
        dispatch(b, pass, s, p, params, (grid){count, 1, 1});
        return;
    case AF_GPU_GRID_HEADS:
        dispatch(b, pass, s, p, params, (grid){s->x, count, 1});
        return;
    case AF_GPU_GRID_TILES:
        dispatch(b, pass, s, p, params, (grid){s->x, shape->tiles, s->parts});
        return;
    case AF_GPU_GRID_WIDE:
        dispatch(b, pass, s, p, params, (grid){s->x, shape->wide_tiles, 1});
        return;
    case AF_GPU_GRID_PROMPT:
        encode_prompt(b, pass, s, params, count);
        return;
    case AF_GPU_GRID_RUNS:
        dispatch(b, pass, s, p, params, (grid){s->x, shape->runs, 1});
        return;
    case AF_GPU_GRID_STRETCH:
        dispatch(b, pass, s, p, params, (grid){shape->stretches, s->x, count});
        return;
    case AF_GPU_GRID_FLOAT:
        encode_portions(b, pass, s, params, count, teams);
        return;
    case AF_GPU_GRID_DECODE:
        encode_decode(b, pass, s, params, count);
        return;
    case AF_GPU_GRID_LINEAR:
        encode_linear(b, pass, s, params, count, shape, 2 * teams);
        return;
    }
}

/* gpu_upload.c - a segment's rows, a ring's buffer at a time: cut into runs, filled in by all threads, taken over by
 * the device. Nothing of a whole tensor is ever held twice.
 */
#include "backend/webgpu/gpu_upload.h"

#include "backend/webgpu/gpu_repack.h"
#include "backend/webgpu/gpu_ring.h"
#include "base/os.h"
#include "base/pool.h"
#include "quant/blocks.h"

#include <stdlib.h>
#include <string.h>

#define MOST_BYTES   (32u << 20) /* of a ring's buffer */
#define LEAST_BYTES  (2u << 20)
#define RUN_BYTES    (1u << 20) /* that a thread fills at a time */
#define MOST_RUNS    64u
#define MOST_THREADS 32u

/* Rows of one matrix at their place in a ring's buffer. */
typedef struct run {
    const af_matrix *from;
    const af_gpu_layout *layout;
    uint32_t first, begin, rows; /* first: in the segment; begin: in the matrix */
    uint64_t at, bytes;
    unsigned char *to, *aside;
    bool packed; /* by the host, in `aside` */
} run;

struct af_gpu_upload {
    af_gpu *gpu;
    af_pool *pool;
    af_gpu_ring ring;
    bool device_packs;
    af_gpu_kernels *kernels; /* of its own: they are made at once, the plan's all together at the end */
    WGPUBuffer blocks;       /* as the file has them, on the device */
    unsigned char *aside;    /* (ring.bytes), where the host packs: a mapped buffer's memory can be slow to read */
    run runs[MOST_RUNS];     /* of the buffer at hand */
    uint32_t run_count;
    uint64_t used;
};

static uint32_t smaller(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static bool device_packs(const af_gpu *gpu) {
    const char *asked = getenv("AIRFRAME_GPU_PACK");
    if (asked && strcmp(asked, "device") == 0) return true;
    if (asked && strcmp(asked, "host") == 0) return false;
    return gpu->info.class != AF_GPU_SOFTWARE;
}

int af_gpu_upload_open(af_gpu *gpu, uint32_t threads, uint64_t expected, af_gpu_upload **out, af_error *error) {
    af_gpu_upload *u = calloc(1, sizeof *u);
    if (!u) return af_fail_memory(error, sizeof *u, "GPU weights");
    u->gpu = gpu;
    u->ring.gpu = gpu;
    u->ring.bytes = expected < LEAST_BYTES  ? LEAST_BYTES
                    : expected < MOST_BYTES ? (expected + 15) & ~15ull
                                            : MOST_BYTES;
    u->device_packs = device_packs(gpu);
    u->aside = malloc(u->ring.bytes);
    int status = u->aside ? AF_OK : af_fail_memory(error, u->ring.bytes, "GPU weights");
    if (status == AF_OK)
        status = af_pool_open(smaller(threads ? threads : af_os_cores(), MOST_THREADS), &u->pool, error);
    if (status == AF_OK) status = af_gpu_kernels_open(gpu, &u->kernels, error);
    if (status != AF_OK) {
        af_gpu_upload_close(u);
        return status;
    }
    *out = u;
    return AF_OK;
}

void af_gpu_upload_close(af_gpu_upload *u) {
    if (!u) return;
    af_gpu_ring_close(&u->ring);
    af_gpu_buffer_free(u->gpu, u->blocks);
    af_gpu_kernels_close(u->kernels);
    af_pool_close(u->pool);
    free(u->aside);
    free(u);
}

/* ---- Filling a buffer ---- */

/* Row `row` of a stack of matrices: which of them it is in, and how many rows of it follow. */
static const af_matrix *part_of(const af_matrix *const *parts, uint32_t *row, uint32_t *left) {
    while (*row >= (*parts)->rows) *row -= (*parts++)->rows;
    *left = (*parts)->rows - *row;
    return *parts;
}

static uint64_t bytes_of(const run *r, uint32_t rows) {
    if (r->packed) return af_gpu_streams_of(r->layout, rows, r->from->cols).bytes;
    return ((uint64_t)rows * af_row_bytes(r->from->format, r->from->cols) + 15) & ~15ull;
}

/* The run that begins at row `first` of the segment. */
static run run_at(const af_gpu_upload *u, const af_matrix *const *parts, const af_gpu_matrix *m,
                  const af_gpu_segment *s, uint32_t first) {
    uint32_t begin = s->row_begin + first, left;
    const af_matrix *from = part_of(parts, &begin, &left);
    run r = {.from = from, .layout = m->layout, .first = first, .begin = begin, .at = u->used};
    r.packed = !u->device_packs || !af_gpu_repacks(m->layout, from->format);
    const uint64_t rows = RUN_BYTES / bytes_of(&r, 1);
    r.rows = smaller(smaller(left, s->rows - first), rows ? (uint32_t)rows : 1);
    r.bytes = bytes_of(&r, r.rows);
    return r;
}

/* As many runs as the buffer holds, from row *first on; none: not even a row has room. */
static void next_runs(af_gpu_upload *u, const af_matrix *const *parts, const af_gpu_matrix *m, const af_gpu_segment *s,
                      uint32_t *first, unsigned char *memory) {
    u->run_count = 0;
    u->used = 0;
    while (u->run_count < MOST_RUNS && *first < s->rows) {
        run r = run_at(u, parts, m, s, *first);
        if (u->used + r.bytes > u->ring.bytes) return;
        r.to = memory + r.at;
        r.aside = u->aside + r.at;
        u->used += r.bytes;
        *first += r.rows;
        u->runs[u->run_count++] = r;
    }
}

static void fill_run(void *user, uint32_t task, uint32_t worker) {
    (void)worker;
    const run *r = (const run *)user + task;
    const size_t row_bytes = af_row_bytes(r->from->format, r->from->cols);
    if (r->packed) {
        af_gpu_pack(r->layout, r->from, r->begin, r->begin + r->rows, r->aside);
        memcpy(r->to, r->aside, r->bytes);
    } else {
        memcpy(r->to, (const unsigned char *)r->from->data + r->begin * row_bytes, r->rows * row_bytes);
    }
}

/* ---- Taking it over ---- */

/* Where in its chunk a run's streams begin: those of a segment lie one after another. */
static af_gpu_streams place_of(const run *r, const af_gpu_matrix *m, const af_gpu_segment *s) {
    const af_gpu_streams whole = af_gpu_streams_of(m->layout, s->rows, m->cols);
    af_gpu_streams before = af_gpu_streams_of(m->layout, r->first, m->cols);
    before.low = s->offset + before.low_bytes;
    before.high = s->offset + whole.high + before.high_bytes;
    before.scale = s->offset + whole.scale + before.scale_bytes;
    return before;
}

static void copy_stream(const af_gpu_upload *u, WGPUCommandEncoder encoder, uint64_t from, WGPUBuffer chunk,
                        uint64_t to, uint64_t bytes) {
    if (bytes)
        u->gpu->api->wgpuCommandEncoderCopyBufferToBuffer(encoder, af_gpu_ring_taken(&u->ring), from, chunk, to, bytes);
}

static void copy_runs(const af_gpu_upload *u, WGPUCommandEncoder encoder, const af_gpu_matrix *m,
                      const af_gpu_segment *s) {
    for (const run *r = u->runs; r < u->runs + u->run_count; r++) {
        const af_gpu_streams to = place_of(r, m, s), part = af_gpu_streams_of(m->layout, r->rows, m->cols);
        copy_stream(u, encoder, r->at, s->chunk, to.low, part.low_bytes);
        copy_stream(u, encoder, r->at + part.high, s->chunk, to.high, part.high_bytes);
        copy_stream(u, encoder, r->at + part.scale, s->chunk, to.scale, part.scale_bytes);
    }
}

static int need_blocks(af_gpu_upload *u, const af_gpu_layout *layout, const af_gpu_pipeline **pipeline,
                       af_error *error) {
    if (!u->blocks)
        u->blocks =
            af_gpu_buffer(u->gpu, u->ring.bytes + AF_GPU_REPACK_ROOM, AF_GPU_STORAGE, "weights on their way", error);
    if (!u->blocks) return AF_ENOMEM;
    const int status = af_gpu_repack_kernel(u->kernels, layout, pipeline, error);
    return status == AF_OK ? af_gpu_kernels_make(u->kernels, error) : status;
}

static int pack_runs(af_gpu_upload *u, WGPUCommandEncoder encoder, const af_gpu_matrix *m, const af_gpu_segment *s,
                     af_error *error) {
    const af_gpu_api *api = u->gpu->api;
    const af_gpu_pipeline *pipeline;
    const int status = need_blocks(u, m->layout, &pipeline, error);
    if (status != AF_OK) return status;
    copy_stream(u, encoder, 0, u->blocks, 0, u->used);
    WGPUBindGroup bind =
        af_gpu_bind(u->gpu, pipeline, (af_gpu_binding[]){{.buffer = u->blocks}, {.buffer = s->chunk}}, 2);
    WGPUComputePassEncoder pass = api->wgpuCommandEncoderBeginComputePass(encoder, NULL);
    api->wgpuComputePassEncoderSetPipeline(pass, pipeline->pipeline);
    api->wgpuComputePassEncoderSetBindGroup(pass, 0, bind, 0, NULL);
    for (const run *r = u->runs; r < u->runs + u->run_count; r++) {
        const af_gpu_streams to = place_of(r, m, s);
        af_gpu_repack_encode(u->gpu, pass,
                             &(af_gpu_repack){.from = r->at,
                                              .low = to.low,
                                              .high = to.high,
                                              .scale = to.scale,
                                              .blocks = r->rows * (m->cols / AF_BLOCK)});
    }
    api->wgpuComputePassEncoderEnd(pass);
    api->wgpuComputePassEncoderRelease(pass);
    api->wgpuBindGroupRelease(bind);
    return AF_OK;
}

/* What lies in the ring's buffer goes into the chunk. */
static int take_over(af_gpu_upload *u, const af_gpu_matrix *m, const af_gpu_segment *s, af_error *error) {
    const af_gpu_api *api = u->gpu->api;
    WGPUCommandEncoder encoder = api->wgpuDeviceCreateCommandEncoder(u->gpu->device, NULL);
    int status = AF_OK;
    if (u->runs[0].packed)
        copy_runs(u, encoder, m, s);
    else
        status = pack_runs(u, encoder, m, s, error);
    WGPUCommandBuffer commands = status == AF_OK ? api->wgpuCommandEncoderFinish(encoder, NULL) : NULL;
    api->wgpuCommandEncoderRelease(encoder);
    if (!commands) return status;
    af_gpu_ring_submit(&u->ring, commands);
    api->wgpuCommandBufferRelease(commands);
    return af_gpu_check(u->gpu, error);
}

int af_gpu_upload_segment(af_gpu_upload *u, const af_matrix *const *parts, const af_gpu_matrix *m,
                          const af_gpu_segment *s, af_error *error) {
    int status = AF_OK;
    for (uint32_t first = 0; status == AF_OK && first < s->rows;) {
        unsigned char *memory;
        status = af_gpu_ring_take(&u->ring, &memory, error);
        if (status != AF_OK) return status;
        next_runs(u, parts, m, s, &first, memory);
        if (u->run_count == 0)
            return af_fail(error, AF_EUNSUPPORTED, "tensor %s: a row of %u columns is longer than %.1f MB",
                           parts[0]->name, m->cols, (double)u->ring.bytes / 1e6);
        af_pool_run(u->pool, fill_run, u->runs, u->run_count);
        status = take_over(u, m, s, error);
    }
    return status;
}

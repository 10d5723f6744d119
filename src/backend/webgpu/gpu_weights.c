/* gpu_weights.c - places matrices in chunks no larger than one binding, cut by rows where they do not fit; how they get
 * there is gpu_upload.c.
 */
#include "backend/webgpu/gpu_upload.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES  (1024ull << 20) /* a chunk's size where the limit allows */
#define MOST_WIDENED 16              /* more than there are formats without a layout */

typedef struct chunk {
    WGPUBuffer buffer;
    uint64_t used, size;
    struct chunk *next;
} chunk;

typedef struct stored {
    af_gpu_matrix matrix;
    struct stored *next;
} stored;

struct af_gpu_weights {
    af_gpu *gpu;
    bool exact;
    chunk *chunks;
    stored *matrices;
    uint64_t bytes;
    bool expects;
    uint64_t expected; /* bytes that have yet to come, where that is known */
    uint32_t threads;
    af_gpu_upload *upload;                  /* NULL: nothing is coming in */
    const af_format *widened[MOST_WIDENED]; /* formats that became F16 */
    uint64_t widened_from, widened_to;      /* bytes */
    bool told;                              /* the line about it is out */
};

int af_gpu_weights_open(af_gpu *gpu, bool exact, uint32_t threads, af_gpu_weights **out, af_error *error) {
    af_gpu_weights *w = calloc(1, sizeof *w);
    if (!w) return af_fail_memory(error, sizeof *w, "GPU weights");
    w->gpu = gpu;
    w->exact = exact;
    w->threads = threads;
    *out = w;
    return AF_OK;
}

static void note_widened(af_gpu_weights *w, const af_format *format, uint32_t rows, uint32_t cols) {
    size_t i = 0;
    while (i < MOST_WIDENED && w->widened[i] && w->widened[i] != format) i++;
    if (i < MOST_WIDENED) w->widened[i] = format;
    w->widened_from += (uint64_t)rows * af_row_bytes(format, cols);
    w->widened_to += (uint64_t)rows * cols * 2;
}

static void tell_widened(af_gpu_weights *w) {
    char names[160] = "";
    size_t used = 0;
    for (size_t i = 0; i < MOST_WIDENED && w->widened[i] && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", w->widened[i]->name);
    if (used && !w->told)
        af_log(AF_LOG_WARNING, "%s weights are widened to F16 on the GPU: %.1f MB become %.1f MB", names,
               (double)w->widened_from / 1e6, (double)w->widened_to / 1e6);
    w->told = true;
}

void af_gpu_weights_done(af_gpu_weights *w) {
    tell_widened(w);
    af_gpu_upload_close(w->upload);
    w->upload = NULL;
}

void af_gpu_weights_close(af_gpu_weights *w) {
    if (!w) return;
    af_gpu_weights_done(w);
    while (w->chunks) {
        chunk *c = w->chunks;
        w->chunks = c->next;
        af_gpu_buffer_free(w->gpu, c->buffer);
        free(c);
    }
    while (w->matrices) {
        stored *s = w->matrices;
        w->matrices = s->next;
        free(s->matrix.segments);
        free(s);
    }
    free(w);
}

void af_gpu_weights_expect(af_gpu_weights *w, uint64_t bytes) {
    w->expects = true;
    w->expected = bytes;
}

uint64_t af_gpu_weights_bytes(const af_gpu_weights *w) {
    return w->bytes;
}

static uint64_t chunk_limit(const af_gpu_weights *w) {
    uint64_t limit =
        w->gpu->weight_limit < w->gpu->info.buffer_bytes ? w->gpu->weight_limit : w->gpu->info.buffer_bytes;
    return limit < CHUNK_BYTES ? limit : CHUNK_BYTES;
}

/* A chunk with room for all `wanted` bytes, so that a matrix is cut only if it is larger than a chunk can be; for such
 * a one, `least` bytes will do. */
static chunk *chunk_for(af_gpu_weights *w, uint64_t least, uint64_t wanted, const char *name, af_error *error) {
    const uint64_t need = wanted <= chunk_limit(w) ? wanted : least;
    for (chunk *c = w->chunks; c; c = c->next)
        if (c->size - c->used >= need) return c;
    chunk *c = calloc(1, sizeof *c);
    if (!c) {
        af_fail_memory(error, sizeof *c, name);
        return NULL;
    }
    c->size = chunk_limit(w);
    if (w->expects && w->expected < c->size) c->size = ((w->expected > need ? w->expected : need) + 255) & ~255ull;
    c->buffer = af_gpu_buffer(w->gpu, c->size, AF_GPU_STORAGE, name, error);
    if (!c->buffer) {
        free(c);
        return NULL;
    }
    c->next = w->chunks;
    w->chunks = c;
    return c;
}

/* The most rows whose streams fit into `room` bytes. */
static uint32_t rows_that_fit(const af_gpu_layout *layout, uint32_t rows, uint32_t cols, uint64_t room) {
    uint32_t low = 0, high = rows;
    while (low < high) {
        const uint32_t middle = high - (high - low) / 2;
        if (af_gpu_streams_of(layout, middle, cols).bytes <= room)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static int place(af_gpu_weights *w, const af_matrix *const *parts, af_gpu_matrix *m, af_error *error) {
    const char *name = parts[0]->name;
    const uint64_t one = af_gpu_streams_of(m->layout, 16, m->cols).bytes;
    for (uint32_t row = 0; row < m->rows;) {
        const uint64_t wanted = af_gpu_streams_of(m->layout, m->rows - row, m->cols).bytes;
        chunk *c = chunk_for(w, one < wanted ? one : wanted, wanted, name, error);
        if (!c) return AF_ENOMEM;
        uint32_t rows = rows_that_fit(m->layout, m->rows - row, m->cols, c->size - c->used);
        if (row + rows < m->rows) rows = rows / 16 * 16;
        if (rows == 0)
            return af_fail(error, AF_EUNSUPPORTED,
                           "tensor %s: a row of %u columns does not fit a binding of %llu bytes", name, m->cols,
                           (unsigned long long)w->gpu->weight_limit);
        af_gpu_segment *grown = realloc(m->segments, (m->segment_count + 1) * sizeof *grown);
        if (!grown) return af_fail_memory(error, sizeof *grown, name);
        m->segments = grown;
        af_gpu_segment *s = &grown[m->segment_count++];
        *s = (af_gpu_segment){.chunk = c->buffer, .offset = c->used, .row_begin = row, .rows = rows};
        const uint64_t bytes = af_gpu_streams_of(m->layout, rows, m->cols).bytes;
        c->used += (bytes + 255) & ~255ull;
        if (c->used > c->size) c->used = c->size;
        w->bytes += bytes;
        w->expected -= bytes < w->expected ? bytes : w->expected;
        const int status = af_gpu_upload_segment(w->upload, parts, m, s, error);
        if (status != AF_OK) return status;
        row += rows;
    }
    return AF_OK;
}

int af_gpu_weights_add(af_gpu_weights *w, const af_matrix *const *parts, size_t count, const af_gpu_matrix **out,
                       af_error *error) {
    for (const stored *s = w->matrices; s; s = s->next) {
        if (s->matrix.source != parts[0]->data || s->matrix.stacked != count) continue;
        *out = &s->matrix;
        return AF_OK;
    }
    if (!w->upload) {
        const int status = af_gpu_upload_open(w->gpu, w->threads, w->expected, &w->upload, error);
        if (status != AF_OK) return status;
    }
    stored *s = calloc(1, sizeof *s);
    if (!s) return af_fail_memory(error, sizeof *s, parts[0]->name);
    s->matrix = (af_gpu_matrix){.source = parts[0]->data,
                                .stacked = count,
                                .layout = af_gpu_layout_for(parts[0]->format, w->exact),
                                .cols = parts[0]->cols};
    for (size_t i = 0; i < count; i++) s->matrix.rows += parts[i]->rows;
    if (!w->exact && s->matrix.layout->type != parts[0]->format->type)
        note_widened(w, parts[0]->format, s->matrix.rows, s->matrix.cols);
    s->next = w->matrices;
    w->matrices = s;
    *out = &s->matrix;
    return place(w, parts, &s->matrix, error);
}

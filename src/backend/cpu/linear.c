/* linear.c - packed matrices and their product: memory, packing by the pool, the loops over panels and tokens. */
#include "backend/cpu/linear.h"

#include "backend/cpu/kernels.h"
#include "base/os.h"

#include <assert.h>
#include <stdlib.h>

/* A chunk of strands goes through all panels before the next: it then stays in the second-level cache. */
#define CHUNK_BYTES ((size_t)768 << 10)
/* Source bytes that a packing task takes: small enough for an even share and a short double residence. */
#define TASK_BYTES ((size_t)512 << 10)

struct af_packed {
    af_matrix w;
    af_panel_kind kind;
    bool exact;
    af_panel_fn multiply;
    unsigned char *memory; /* panels; NULL in exact mode */
    size_t panel_bytes, bytes;
    uint32_t task_panels;
};

uint32_t af_packed_panels(const af_packed *packed) {
    return (uint32_t)(((uint64_t)packed->w.rows + AF_PANEL - 1) / AF_PANEL);
}

uint64_t af_packed_bytes(const af_packed *packed) {
    return packed->bytes;
}

bool af_packed_wants_int8(const af_packed *packed) {
    return !packed->exact && packed->kind < AF_PANEL_F32;
}

size_t af_linear_scratch_bytes(const af_packed *packed) {
    return packed->exact ? (size_t)packed->w.cols * AF_PANEL * sizeof(float) : 0;
}

static uint32_t panel_rows(const af_packed *p, uint32_t panel) {
    uint32_t first = panel * AF_PANEL;
    return p->w.rows - first < AF_PANEL ? p->w.rows - first : AF_PANEL;
}

static const unsigned char *panel_source(const af_packed *p, uint32_t panel, size_t *row_bytes) {
    *row_bytes = af_row_bytes(p->w.format, p->w.cols);
    return (const unsigned char *)p->w.data + (size_t)panel * AF_PANEL * *row_bytes;
}

static void pack_task(void *user, uint32_t task, uint32_t worker) {
    (void)worker;
    af_packed *p = user;
    uint32_t begin = task * p->task_panels, end = begin + p->task_panels, panels = af_packed_panels(p);
    if (end > panels) end = panels;
    size_t row_bytes, rows = 0;
    const unsigned char *source = panel_source(p, begin, &row_bytes);
    for (uint32_t i = begin; i < end; i++, rows += AF_PANEL) {
        af_pack_panel(p->kind, source + rows * row_bytes, row_bytes, panel_rows(p, i), p->w.cols,
                      p->memory + i * p->panel_bytes);
    }
    size_t last = (size_t)(end - 1) * AF_PANEL + panel_rows(p, end - 1) - (size_t)begin * AF_PANEL;
    af_os_release(source, last * row_bytes);
}

static int pack(af_pool *pool, af_packed *p, af_error *error) {
    uint32_t panels = af_packed_panels(p);
    p->panel_bytes = af_panel_bytes(p->kind, p->w.cols);
    if (p->panel_bytes > SIZE_MAX / panels) return af_fail_memory(error, SIZE_MAX, p->w.name);
    p->bytes = p->panel_bytes * panels;
    p->memory = af_os_pages(p->bytes, p->bytes >= AF_HUGE_BYTES);
    if (!p->memory) return af_fail_memory(error, p->bytes, p->w.name);
    p->task_panels = (uint32_t)(TASK_BYTES / p->panel_bytes);
    if (!p->task_panels) p->task_panels = 1;
    af_pool_run(pool, pack_task, p, (panels + p->task_panels - 1) / p->task_panels);
    af_os_release(p->w.data,
                  (size_t)p->w.rows * af_row_bytes(p->w.format, p->w.cols)); /* pages that two tasks shared */
    return 0;
}

int af_packed_open(af_pool *pool, const af_matrix *w, bool exact, af_isa isa, af_packed **out, af_error *error) {
    assert(w->data && w->rows && w->cols && w->cols % w->format->block_elems == 0);
    af_packed *p = calloc(1, sizeof *p);
    if (!p) return af_fail_memory(error, sizeof *p, w->name);
    p->w = *w;
    p->exact = exact;
    p->kind = exact ? AF_PANEL_F32 : af_panel_kind_of(w->format->type);
    p->multiply = af_kernels_of(isa)->multiply[p->kind];
    int status = exact ? 0 : pack(pool, p, error);
    if (status) {
        af_packed_close(p);
        return status;
    }
    *out = p;
    return 0;
}

void af_packed_close(af_packed *packed) {
    if (!packed) return;
    af_os_pages_free(packed->memory, packed->bytes);
    free(packed);
}

/* Strands (or tokens in floats) that stay in cache together: a multiple of AF_LANES. */
static uint32_t chunk_of(const af_packed *p) {
    size_t row = (size_t)p->w.cols * (af_packed_wants_int8(p) ? 1 : sizeof(float));
    size_t tokens = CHUNK_BYTES / row / AF_LANES * AF_LANES;
    return tokens < AF_LANES ? AF_LANES : tokens > UINT32_MAX / 2 ? UINT32_MAX / 2 + 1 : (uint32_t)tokens;
}

static const unsigned char *panel_of(const af_packed *p, uint32_t panel, void *scratch) {
    if (!p->exact) return p->memory + panel * p->panel_bytes;
    size_t row_bytes;
    const unsigned char *source = panel_source(p, panel, &row_bytes);
    af_decode_panel(p->w.format, source, row_bytes, panel_rows(p, panel), p->w.cols, scratch);
    return scratch;
}

void af_packed_multiply(const af_packed *packed, const af_acts *acts, uint32_t panel_begin, uint32_t panel_end,
                        float *out, size_t stride, void *scratch) {
    assert(acts->width == packed->w.cols && panel_end <= af_packed_panels(packed));
    /* Decoding costs more than fetching activations again: in exact mode all tokens pass a panel at once. */
    uint32_t count = af_packed_wants_int8(packed) ? acts->strands : acts->tokens;
    uint32_t chunk = packed->exact ? count : chunk_of(packed);
    for (uint32_t t = 0; t < count; t += chunk) {
        uint32_t end = count - t < chunk ? count : t + chunk;
        for (uint32_t i = panel_begin; i < panel_end; i++) {
            packed->multiply(&(af_panel_job){
                .panel = panel_of(packed, i, scratch),
                .acts = acts,
                .cols = packed->w.cols,
                .rows = panel_rows(packed, i),
                .begin = t,
                .end = end,
                .out = out + (size_t)i * AF_PANEL,
                .stride = stride,
            });
        }
    }
}

/* linear.c - packed matrices and their product: memory, packing by the pool, the loops over panels and tokens. */
#include "backend/cpu/linear.h"

#include "backend/cpu/kernels.h"
#include "base/os.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

/* A chunk of tokens goes through all panels before the next: it then stays in the second-level cache. */
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
};

struct af_packed_set {
    size_t count;
    unsigned char *memory; /* NULL in exact mode */
    size_t bytes;
    af_packed packed[];
};

uint32_t af_packed_rows(const af_packed *packed) {
    return packed->w.rows;
}

uint32_t af_packed_panels(const af_packed *packed) {
    return (uint32_t)(((uint64_t)packed->w.rows + AF_PANEL - 1) / AF_PANEL);
}

uint64_t af_packed_bytes(const af_packed *packed) {
    return packed->bytes;
}

bool af_packed_wants_int8(const af_packed *packed) {
    return !packed->exact && packed->kind < AF_PANEL_F32;
}

uint32_t af_packed_needs(const af_packed *packed) {
    if (packed->exact) return 0;
    switch (packed->kind) {
#define X(name, TYPE, ...)                                                                                             \
    case AF_PANEL_##TYPE:                                                                                              \
        return af_layout_needs((af_layout){__VA_ARGS__});
        AF_LAYOUTS(X)
#undef X
    default:
        return 0;
    }
}

size_t af_linear_scratch_bytes(const af_packed *packed) {
    if (packed->exact) return (size_t)packed->w.cols * AF_PANEL * sizeof(float);
    return af_packed_wants_int8(packed) ? (size_t)(packed->w.cols / AF_BLOCK) * AF_SCRATCH_BLOCK : 0;
}

static uint32_t panel_rows(const af_packed *p, uint32_t panel) {
    uint32_t first = panel * AF_PANEL;
    return p->w.rows - first < AF_PANEL ? p->w.rows - first : AF_PANEL;
}

static const unsigned char *panel_source(const af_packed *p, uint32_t panel, size_t *row_bytes) {
    *row_bytes = af_row_bytes(p->w.format, p->w.cols);
    return (const unsigned char *)p->w.data + (size_t)panel * AF_PANEL * *row_bytes;
}

/* ---- Packing ---- */

/* Some panels of a matrix, packed by one thread at a time. */
typedef struct task {
    const af_packed *packed;
    uint32_t begin, end;
} task;

typedef struct packing {
    task *tasks;
    uint32_t *counts; /* of each matrix's tasks */
    uint32_t task_count;
    _Atomic uint32_t done;
    void (*progress)(void *user, double fraction);
    void *user;
} packing;

static uint64_t source_bytes(const af_packed *p) {
    return (uint64_t)p->w.rows * af_row_bytes(p->w.format, p->w.cols);
}

static void pack_panels(const af_packed *p, uint32_t begin, uint32_t end) {
    size_t row_bytes, rows = 0;
    const unsigned char *source = panel_source(p, begin, &row_bytes);
    for (uint32_t i = begin; i < end; i++, rows += AF_PANEL)
        af_pack_panel(p->kind, source + rows * row_bytes, row_bytes, panel_rows(p, i), p->w.cols,
                      p->memory + i * p->panel_bytes);
    size_t last = (size_t)(end - 1) * AF_PANEL + panel_rows(p, end - 1) - (size_t)begin * AF_PANEL;
    if (!p->w.held) af_os_release(source, last * row_bytes);
}

static void pack_task(void *user, uint32_t index, uint32_t worker) {
    packing *k = user;
    const task *t = &k->tasks[index];
    pack_panels(t->packed, t->begin, t->end);
    uint32_t done = atomic_fetch_add(&k->done, 1) + 1;
    if (k->progress && worker == 0) k->progress(k->user, (double)done / k->task_count); /* 0: the calling thread */
}

static uint32_t task_panels(const af_packed *p) {
    size_t panels = TASK_BYTES / p->panel_bytes, all = af_packed_panels(p);
    return (uint32_t)(panels < 1 ? 1 : panels < all ? panels : all);
}

static void list_tasks(const af_packed_set *set, packing *k) {
    for (size_t i = 0; i < set->count; i++) {
        const af_packed *p = &set->packed[i];
        uint32_t panels = af_packed_panels(p), step = task_panels(p);
        if (k->counts) k->counts[i] = (panels + step - 1) / step;
        for (uint32_t begin = 0; begin < panels; begin += step) {
            uint32_t end = panels - begin < step ? panels : begin + step;
            if (k->tasks) k->tasks[k->task_count] = (task){p, begin, end};
            k->task_count++;
        }
    }
}

static int pack(af_pool *pool, const af_packed_set *set, packing *k, af_error *error) {
    list_tasks(set, k);
    const size_t bytes = k->task_count * sizeof *k->tasks + set->count * sizeof *k->counts;
    k->tasks = malloc(bytes);
    if (!k->tasks) return af_fail_memory(error, bytes, "packing");
    k->counts = (uint32_t *)(void *)(k->tasks + k->task_count);
    k->task_count = 0;
    list_tasks(set, k);
    /* Each node of memory gets the share of every matrix that its threads will multiply. */
    af_pool_run_parts(pool, pack_task, k, k->counts, (uint32_t)set->count);
    free(k->tasks);
    for (size_t i = 0; i < set->count; i++) /* pages that two tasks shared */
        if (!set->packed[i].w.held) af_os_release(set->packed[i].w.data, source_bytes(&set->packed[i]));
    return 0;
}

static int describe(af_packed *p, const af_matrix *w, bool exact, af_isa isa, af_error *error) {
    assert(w->data && w->rows && w->cols && w->cols % w->format->block_elems == 0);
    p->w = *w;
    p->exact = exact;
    p->kind = exact ? AF_PANEL_F32 : af_panel_kind_of(w->format->type);
    p->multiply = af_kernels_of(isa)->multiply[p->kind];
    if (exact) return 0;
    p->panel_bytes = af_panel_bytes(p->kind, w->cols);
    if (p->panel_bytes > SIZE_MAX / 2 / af_packed_panels(p)) return af_fail_memory(error, SIZE_MAX, w->name);
    p->bytes = p->panel_bytes * af_packed_panels(p);
    return 0;
}

/* Memory for all matrices, each from a cache line on. */
static int reserve(af_packed_set *set, af_error *error) {
    for (size_t i = 0; i < set->count; i++) {
        size_t bytes = (set->packed[i].bytes + AF_VECTOR - 1) / AF_VECTOR * AF_VECTOR;
        if (bytes > SIZE_MAX - set->bytes) return af_fail_memory(error, SIZE_MAX, "packed weights");
        set->bytes += bytes;
    }
    set->memory = af_os_pages(set->bytes, set->bytes >= AF_HUGE_BYTES);
    if (!set->memory) return af_fail_memory(error, set->bytes, "packed weights");
    unsigned char *p = set->memory;
    for (size_t i = 0; i < set->count; i++) {
        set->packed[i].memory = p;
        p += (set->packed[i].bytes + AF_VECTOR - 1) / AF_VECTOR * AF_VECTOR;
    }
    return 0;
}

int af_packed_set_open(af_pool *pool, const af_matrix *w, size_t count, bool exact, af_isa isa,
                       void (*progress)(void *user, double fraction), void *user, af_packed_set **out,
                       af_error *error) {
    af_packed_set *set = calloc(1, sizeof *set + count * sizeof *set->packed);
    if (!set) return af_fail_memory(error, sizeof *set + count * sizeof *set->packed, "packed weights");
    set->count = count;
    int status = 0;
    for (size_t i = 0; i < count && !status; i++) status = describe(&set->packed[i], &w[i], exact, isa, error);
    if (!status && !exact) status = reserve(set, error);
    if (!status && !exact) status = pack(pool, set, &(packing){.progress = progress, .user = user}, error);
    if (status) {
        af_packed_set_close(set);
        return status;
    }
    if (progress) progress(user, 1.0);
    *out = set;
    return 0;
}

void af_packed_set_close(af_packed_set *set) {
    if (!set) return;
    af_os_pages_free(set->memory, set->bytes);
    free(set);
}

const af_packed *af_packed_at(const af_packed_set *set, size_t i) {
    assert(i < set->count);
    return &set->packed[i];
}

/* ---- Multiplying ---- */

/* Tokens that stay in cache together: a multiple of AF_LANES. */
static uint32_t chunk_of(const af_packed *p, const af_acts *acts) {
    size_t row = (size_t)p->w.cols * (!af_packed_wants_int8(p) ? sizeof(float) : acts->fine ? 2 : 1);
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

void af_packed_multiply_some(const af_packed *packed, const af_acts *acts, uint32_t begin, uint32_t end,
                             uint32_t panel_begin, uint32_t panel_end, const af_product_place *to, void *scratch) {
    assert(acts->width == packed->w.cols && panel_end <= af_packed_panels(packed) && begin % AF_LANES == 0);
    /* Decoding costs more than fetching activations again: in exact mode all tokens pass a panel at once. */
    const uint32_t chunk = packed->exact ? end - begin : chunk_of(packed, acts);
    for (uint32_t t = begin, last; t < end; t = last) {
        last = end - t < chunk ? end : t + chunk;
        for (uint32_t i = panel_begin; i < panel_end; i++) {
            packed->multiply(&(af_panel_job){
                .panel = panel_of(packed, i, scratch),
                .panel_bytes = packed->panel_bytes,
                .acts = acts,
                .cols = packed->w.cols,
                .rows = panel_rows(packed, i),
                .begin = t,
                .end = last,
                .out = to->out + (size_t)(i - to->panel) * AF_PANEL,
                .stride = to->stride,
                .first = to->first,
                .scratch = scratch,
            });
        }
    }
}

void af_packed_multiply(const af_packed *packed, const af_acts *acts, uint32_t panel_begin, uint32_t panel_end,
                        float *out, size_t stride, void *scratch) {
    const af_product_place to = {.out = out, .stride = stride};
    af_packed_multiply_some(packed, acts, 0, acts->tokens, panel_begin, panel_end, &to, scratch);
}

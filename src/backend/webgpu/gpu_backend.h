/* gpu_backend.h - the compiled plan: what the compiler (gpu_compiler.h) makes at load and gpu_run.c runs for every
 * batch.
 *
 * A plan becomes a list of steps, each one dispatch: pipeline, bind group and parameters are fixed at load; what a
 * batch changes is the number of tokens or rows, from which the grid follows. Buffers are made once:
 *
 *     weights   chunks of at most the adapter's binding limit; a matrix lies in one or, cut by rows, in several
 *     small     norm weights and biases, each 256-byte aligned
 *     values    one a value of the plan (tokens, width) f32; q, k and v of a layer share one, side by side in a row
 *     packets   int8 activations (shaders/block.wgsl), for the operation at hand or the next
 *     caches    k and v of each layer
 *     states    of recurrent layers, a slot for each sequence
 *     batch     tokens, rows, page tables, angles (shaders/batch.wgsl): written by the host each step
 *
 * There are three lists of steps. The general one serves every batch; the prompt list, where subgroups multiply
 * matrices, those of many tokens (shaders/prompt_*.wgsl); the decode list, for tokens of as many sequences, has norms,
 * residuals and quantization folded into the products (shaders/decode_*.wgsl): six dispatches a layer of a dense model,
 * where a dispatch that waits for another costs two microseconds. What it makes of a token does not depend on the
 * others, nor on how many there are.
 */
#ifndef AF_GPU_BACKEND_H
#define AF_GPU_BACKEND_H

#include "backend/backend.h"
#include "backend/webgpu/gpu_kernel.h"
#include "backend/webgpu/gpu_pace.h"
#include "backend/webgpu/gpu_pack.h"

#define AF_GPU_TOP_ROOM     1024 /* logits that top.wgsl lists of a row; draw.wgsl has it too */
#define AF_GPU_IN_FLIGHT    4    /* tickets that may be uncollected */
#define AF_GPU_SEQUENCES    256  /* of a batch */
#define AF_GPU_PARAMS       (AF_GPU_IMMEDIATE_BYTES / 4)
#define AF_GPU_UNPACED      8  /* tokens: batches as small as that are never cut into submits */
#define AF_GPU_TILE         8  /* tokens of a tile of attend.wgsl */
#define AF_GPU_PROMPT_TILE  64 /* tokens of a tile of prompt_attend.wgsl */
#define AF_GPU_TILE_WORDS   3  /* that describe one: its first token, how many, positions of its sequence */
#define AF_GPU_STRETCHES    64 /* parts a context is cut into for decoding, at most */
#define AF_GPU_STRETCH_UNIT 64 /* positions; a stretch is a whole number of them (decode_attend.wgsl) */
#define AF_GPU_ARGMAX_PARTS 64
#define AF_GPU_SPREAD_BINS  1024 /* cut.wgsl */

/* ---- Weights ---- */

typedef struct af_gpu_segment { /* rows of a matrix in one chunk */
    WGPUBuffer chunk;
    uint64_t offset; /* bytes */
    uint32_t row_begin, rows;
} af_gpu_segment;

typedef struct af_gpu_matrix {
    const void *source; /* af_matrix.data of the first, so that a tensor used twice is stored once */
    size_t stacked;     /* how many matrices of the plan it joins */
    const af_gpu_layout *layout;
    uint32_t rows, cols;
    af_gpu_segment *segments;
    size_t segment_count;
} af_gpu_matrix;

typedef struct af_gpu_weights af_gpu_weights;
int af_gpu_weights_open(af_gpu *gpu, bool exact, uint32_t threads, af_gpu_weights **out, af_error *error);
/* How much will come, so that the last chunk is no larger than needed. */
void af_gpu_weights_expect(af_gpu_weights *weights, uint64_t bytes);
/* Frees what only uploading needs; a later af_gpu_weights_add makes it again. */
void af_gpu_weights_done(af_gpu_weights *weights);
void af_gpu_weights_close(af_gpu_weights *weights);
/* Uploads matrices of one format and width, stacked as one, unless they are there. */
int af_gpu_weights_add(af_gpu_weights *weights, const af_matrix *const *parts, size_t count, const af_gpu_matrix **out,
                       af_error *error);
uint64_t af_gpu_weights_bytes(const af_gpu_weights *weights);

/* ---- Steps ---- */

typedef enum af_gpu_grid {
    AF_GPU_GRID_ROWS,   /* x = count */
    AF_GPU_GRID_HEADS,  /* x fixed, y = count */
    AF_GPU_GRID_TILES,  /* x fixed, y = tiles of neighbouring tokens, z = parts of a tile */
    AF_GPU_GRID_WIDE,   /* x fixed, y = wide tiles */
    AF_GPU_GRID_RUNS,   /* x fixed, y = runs of tokens of one sequence */
    AF_GPU_GRID_LINEAR, /* by the number of tokens: vec kernels in portions, the one for a few, or the tiled one */
    AF_GPU_GRID_FLOAT,  /* float matrices in portions of tokens */
    AF_GPU_GRID_PROMPT, /* tiles of 128 or 64 tokens by 128 rows, or of 32 by 32 */
    AF_GPU_GRID_DECODE, /* x = groups of up to eight tokens, y and z = outputs by what a workgroup makes; of a single
                           token x and y are */
    AF_GPU_GRID_STRETCH /* x = stretches of the longest context, y = x of the step, z = count */
} af_gpu_grid;

/* What of a batch a step is for: all its tokens; the wanted rows; the wanted states; the wanted rows, where one's best
 * are; where one is drawn from these; where one is drawn from all of its row; and where top_p cuts that. */
typedef enum af_gpu_which {
    AF_GPU_ALL,
    AF_GPU_ROWS,
    AF_GPU_STATES,
    AF_GPU_TOPS,
    AF_GPU_DRAWS,
    AF_GPU_WHOLE,
    AF_GPU_CUT
} af_gpu_which;

#define AF_GPU_PORTIONS 4                     /* kernels for 1, 2, 4 and 8 tokens at a time */
#define AF_GPU_TILED    AF_GPU_PORTIONS       /* where the kernel for many tokens stands behind them */
#define AF_GPU_FEW      (AF_GPU_PORTIONS + 1) /* ... and that of the same bits for a few */

typedef struct af_gpu_step {
    const char *name;   /* of the plan's operation */
    const char *kernel; /* of the kernel table */
    af_gpu_grid grid;
    const af_gpu_pipeline *pipelines[AF_GPU_FEW + 1]; /* one, or by portion and then the others */
    WGPUBindGroup bind;
    uint32_t params[AF_GPU_PARAMS];
    uint32_t param_count;
    int32_t count_at;   /* parameter that holds the number of tokens or rows; -1: none */
    int32_t portion_at; /* parameter that holds the first token of a portion; -1: none */
    int32_t scaled_at;  /* parameter that holds scaled_plus + scaled_by * tokens; -1: none */
    uint32_t scaled_by, scaled_plus;
    int32_t stretches_at; /* parameter that holds the most stretches a token's context has; -1: none */
    int32_t choice_at;    /* parameter that holds where this batch's choices go; -1: none */
    uint32_t x;           /* AF_GPU_GRID_HEADS: workgroups; else rows of the segment */
    uint32_t parts;       /* AF_GPU_GRID_TILES: of a tile */
    size_t op;            /* of the plan; rises from step to step */
    uint64_t bytes;       /* of weights that it reads; 0: none */
    af_gpu_which which;   /* it counts */
} af_gpu_step;

/* What a batch changes in the steps. */
typedef struct af_gpu_shape {
    uint32_t tokens, rows, top_rows, draw_rows, whole_rows, cut_rows, states, tiles, wide_tiles, runs;
    uint32_t stretches; /* of a context, in decode; the most that a token has */
    uint32_t first_choice;
    bool decode, prompt; /* that list runs; neither: the general one */
    bool many;           /* products add as those of many tokens do, however few there are */
} af_gpu_shape;

static inline uint32_t af_gpu_count_of(const af_gpu_step *step, const af_gpu_shape *shape) {
    switch (step->which) {
    case AF_GPU_ROWS:
        return shape->rows;
    case AF_GPU_STATES:
        return shape->states;
    case AF_GPU_TOPS:
        return shape->top_rows;
    case AF_GPU_DRAWS:
        return shape->draw_rows;
    case AF_GPU_WHOLE:
        return shape->whole_rows;
    case AF_GPU_CUT:
        return shape->cut_rows;
    case AF_GPU_ALL:
        break;
    }
    return shape->tokens;
}

typedef struct af_gpu_steps {
    af_gpu_step *p;
    size_t count, capacity;
} af_gpu_steps;

typedef struct af_gpu_value { /* row t begins at element t * stride + first of the buffer */
    WGPUBuffer buffer;
    uint32_t first, stride;
    bool shared; /* the buffer is another value's too */
} af_gpu_value;

typedef struct af_gpu_ticket {
    af_ticket ticket;    /* 0: free */
    uint64_t submission; /* of wgpu-native, to wait for this one alone */
    uint32_t row_count;
    af_choose *choose;                                      /* (max_rows) */
    WGPUBuffer readback;                                    /* choices, then tops, then logits rows */
    int mapped;                                             /* af_gpu_map */
    bool any_logits, any_top, any_draw, any_whole, any_cut; /* rows: drawn from its list; from all; from top_p of all */
    uint32_t state_count;
    WGPUBuffer state_readback; /* states, made when some are first wanted */
    int state_mapped;
} af_gpu_ticket;

typedef struct af_gpu_backend {
    af_backend base;
    const af_plan *plan;
    af_backend_options options;
    af_gpu *gpu;
    af_gpu_kernels *kernels;
    af_gpu_weights *weights;
    af_gpu_steps general, decode, prompt;
    af_gpu_pace pace;
    struct af_gpu_profile *profile; /* NULL: not asked for */

    WGPUBuffer small;
    uint64_t small_used, small_size;
    af_gpu_value *values; /* (plan->value_count) */
    WGPUBuffer normed, raw, logits, states, choices, bests, tops, draws, spreads, weighed, parts, unused[2];
    WGPUBuffer packets, attended_packets, hidden_packets;
    WGPUBuffer halves, factors;      /* activations for prompt_linear.wgsl */
    WGPUBuffer *k_caches, *v_caches; /* (plan->cache_count) */
    WGPUBuffer *carries;             /* (plan->carry_count): (slot, floats) */
    WGPUBuffer batch_info;
    uint32_t rows_at, states_at, tiles_at, wide_tiles_at, pages_at, runs_at, turns_at; /* parts of batch_info, in u32 */
    uint32_t table_pages; /* entries of a group's page table for one sequence */
    uint32_t turn_pairs;  /* of all ropes together, a token */
    uint32_t max_seqs;
    uint32_t decode_tokens;          /* the most of a batch that the decode list takes */
    uint32_t stretches;              /* places that `parts` has for a token's head */
    uint64_t kv_bytes, buffer_bytes; /* of caches and states; of all buffers but weights */

    /* host side of a batch */
    uint32_t *host_batch, *host_rows, *host_states, *host_tiles, *host_runs; /* host_tiles: the wide ones last */
    uint32_t *host_draws; /* (max_rows, 8) for draw.wgsl and pick.wgsl */
    float *host_turns;
    struct {
        af_gpu_ticket *ticket;
        af_gpu_shape shape;
        const af_gpu_steps *steps;
        WGPUCommandEncoder encoder; /* what is not yet submitted; NULL: nothing */
        WGPUCommandBuffer prepared; /* the whole batch, but for its ids; NULL: none is */
    } now;                          /* the batch between begin and end */
    WGPUBuffer crossing;            /* values on their way to another backend; NULL: none ever went */
    uint64_t crossing_bytes;
    int crossing_mapped; /* af_gpu_map */
    WGPUBuffer page;     /* of the KV cache, on its way out; NULL: none ever went */
    int page_mapped;     /* likewise */
    af_gpu_ticket tickets[AF_GPU_IN_FLIGHT];
    af_ticket last_ticket;
    uint32_t top_room;           /* longer lists are not used */
    int32_t *result_ids;         /* (max_rows) */
    const float **result_rows;   /* (max_rows) */
    float *result_logits;        /* (max_rows, vocabulary), touched as used */
    const float **result_states; /* (max_tokens) */
    float *result_state_memory;  /* (max_tokens, width), likewise */
    uint64_t result_bytes, result_state_bytes;
} af_gpu_backend;

/* device: "auto", "gpu", "gpu:N" or part of an adapter's name (gpu.h). */
int af_webgpu_open(const char *device, const af_plan *plan, const af_backend_options *options, af_backend **out,
                   af_error *error);

/* gpu_room.c: bytes of device memory that a plan takes, of its matrices alone, and whether there are so many. A device
 * whose memory is not known has room; so has one in software, whose memory is everybody's. AIRFRAME_GPU_MEMORY (bytes)
 * stands in for what is free, for tests. */
uint64_t af_gpu_need(const af_plan *plan, const af_backend_options *options);
uint64_t af_gpu_weights_need(const af_plan *plan, bool exact);
int af_gpu_check_room(const af_gpu *gpu, const af_plan *plan, const af_backend_options *options, af_error *error);
/* The most of the plan's last layers that a device has room for; AF_EUNSUPPORTED where there is no such device. */
int af_webgpu_layers(const char *device, const af_plan *plan, const af_backend_options *options, uint32_t *layers,
                     af_error *error);

/* Length of a packet of `cols` columns, in vec4 of four bytes each: int8, scales, sums of squares. */
static inline uint32_t af_gpu_packet(uint32_t cols) {
    const uint32_t blocks = cols / 32;
    return 3 * blocks + (blocks + 1) / 2;
}

/* Elements of a row of the cache, for keys and for values (shaders/cache.wgsl): shaders load eight of a key at a time,
 * and q8_0 has a scale for every 32. Those past the head's are zeros. Of a shared cache a value's row is its key's. */
static inline uint32_t af_gpu_key_row(const af_cache *c, af_kv_type type) {
    const uint32_t unit = type == AF_KV_Q8_0 ? 32 : 8;
    return (c->k_dim + unit - 1) / unit * unit;
}
static inline uint32_t af_gpu_value_row(const af_cache *c, af_kv_type type) {
    if (c->shared) return af_gpu_key_row(c, type);
    return type == AF_KV_Q8_0 ? (c->v_dim + 31u) / 32 * 32 : c->v_dim;
}
static inline uint64_t af_gpu_row_bytes(uint32_t row, af_kv_type type) {
    const uint32_t scales = type == AF_KV_Q8_0 ? (row / 32 + 1) / 2 * 4 : 0; /* whole words */
    return (uint64_t)row * af_kv_cost_of(type).elem + scales;
}

extern const uint32_t af_gpu_decode_rows[AF_GPU_PORTIONS]; /* gpu_decode.c: ROWS of decode_linear.wgsl, by portion */

/* The list that a batch of this shape runs. */
static inline const af_gpu_steps *af_gpu_steps_for(const af_gpu_backend *b, const af_gpu_shape *shape) {
    return shape->decode ? &b->decode : shape->prompt ? &b->prompt : &b->general;
}

/* gpu_top.c: rows of which only the best are wanted: `tops` holds counts, then what top.wgsl listed of each row. */
uint32_t af_gpu_top_room(void);                 /* AF_GPU_TOP_ROOM; AIRFRAME_GPU_TOP lowers it, for tests */
bool af_gpu_lists_top(const af_gpu_backend *b); /* small rows are not listed, but come whole */
uint64_t af_gpu_tops_bytes(const af_gpu_backend *b, uint32_t rows);
void af_gpu_clear_tops(af_gpu_backend *b, uint32_t rows);
/* Whether they hold all that is wanted of a row. */
bool af_gpu_tops_hold(const af_gpu_backend *b, const uint32_t *tops, uint32_t row);
/* Fills a result's row from the tops that were read back. */
void af_gpu_take_top(const af_gpu_backend *b, const uint32_t *tops, uint32_t row, float *out);
#define AF_GPU_DRAW_WORDS 8u /* of a row (shaders/draw.wgsl) */
/* How a row is to be drawn; NULL: not. */
void af_gpu_note_draw(af_gpu_backend *b, uint32_t row, const af_draw *draw);
void af_gpu_write_draws(af_gpu_backend *b, uint32_t rows);

int af_gpu_compile(af_gpu_backend *b, af_error *error);
/* Appends the steps that decode rows of a matrix, chosen by the ids in `batch`, to `out` (ids, cols) f32. */
int af_gpu_compile_decode(af_gpu_backend *b, const af_matrix *w, WGPUBuffer batch, WGPUBuffer out, af_error *error);
/* Writes what the shaders read of a batch; fills the ticket's rows. */
af_gpu_shape af_gpu_write_batch(af_gpu_backend *b, const af_batch *batch, af_ticket id, af_gpu_ticket *ticket);
/* Its tokens alone: of the batch that was written last, with other ids. */
void af_gpu_write_tokens(af_gpu_backend *b, const af_batch *batch);
int af_gpu_begin(af_backend *backend, const af_batch *batch, af_error *error);
int af_gpu_run_span(af_backend *backend, const af_span *span, af_error *error);
int af_gpu_end(af_backend *backend, af_ticket *ticket, af_error *error);
int af_gpu_prepare(af_backend *backend, const af_batch *batch, af_error *error);
int af_gpu_start(af_backend *backend, const af_batch *batch, af_ticket *ticket, af_error *error);
void af_gpu_forget_commands(af_gpu_backend *b); /* those not submitted */
int af_gpu_submit(af_backend *backend, const af_batch *batch, af_ticket *ticket, af_error *error);
int af_gpu_collect(af_backend *backend, af_ticket ticket, af_result *result, af_error *error);
void af_gpu_encode_step(const af_gpu_backend *b, WGPUComputePassEncoder pass, const af_gpu_step *s,
                        const af_gpu_shape *shape);

/* gpu_recur.c: the states of recurrent layers; and a batch's runs, where there are such layers: three words a run
 * (shaders/runs.wgsl), their number. */
void af_gpu_close_carries(af_gpu_backend *b);
uint32_t af_gpu_runs_of(const af_gpu_backend *b, const af_batch *batch, uint32_t *out);

/* gpu_pages.c: of the table's names (backend.h). */
uint64_t af_gpu_page_bytes(const af_backend *backend, uint32_t group);
void af_gpu_page_kind(const af_backend *backend, char *text, size_t size);
int af_gpu_read_page(af_backend *backend, uint32_t group, uint32_t page, void *bytes, af_error *error);
int af_gpu_write_page(af_backend *backend, uint32_t group, uint32_t page, const void *bytes, af_error *error);

/* gpu_trace.c: operations of a batch one by one, each one's values shown to the hook. */
int af_gpu_run_hooked(af_gpu_backend *b, size_t first, size_t end, af_error *error);
int af_gpu_decode(af_backend *backend, const af_matrix *w, uint32_t row_begin, uint32_t row_count, float *out,
                  af_error *error);

#endif

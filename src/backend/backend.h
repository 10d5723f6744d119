/* backend.h - the one-page interface between the engine and whatever runs a plan.
 *
 * A backend compiles a plan once and then runs it over batches. A batch is a list of tokens, each with its sequence and
 * position: one token of one sequence, a 512-token prompt chunk and thirty sequences of a token each are the same call
 * with other numbers. The interface is asynchronous: submit returns a ticket, collect waits for it. The CPU completes
 * inside submit; a GPU may have several tickets in flight, because an input token may be "what row r of ticket t
 * chose".
 *
 * Guarantees a CPU backend keeps (design.md, promise 1): a row's logits depend on the sequence's tokens up to it and on
 * nothing else, bit for bit: not on the batch, the chunking, or the number of threads.
 *
 * A backend that is not same_in_any_batch keeps it for each of two kinds of batches, as far as its compiler allows:
 * those of prompts' tokens, and those of one token a sequence that decodes (af_batch.prompt). Who mixes them gets other
 * bits.
 *
 * A backend knows plans and quantized matrices. It never sees a file, a family or a tokenizer.
 */
#ifndef AF_BACKEND_H
#define AF_BACKEND_H

#include "airframe.h"
#include "plan/plan.h"

/* What each type of KV cache costs. */
static inline af_kv_cost af_kv_cost_of(af_kv_type type) {
    static const af_kv_cost costs[AF_KV_TYPES] = {[AF_KV_F16] = {2, 0}, [AF_KV_F32] = {4, 0}, [AF_KV_Q8_0] = {1, 2}};
    return costs[type];
}

typedef struct af_backend af_backend;
typedef uint64_t af_ticket;

/* Sees what each operation of a batch wrote, for `shimmy verify` and SHIMMY_DEBUG_RAW. `wrote` is called on submit's
 * thread after each operation of the plan, once for each of af_op_written(): `count` rows of `width` floats, `stride`
 * apart; `value` AF_NO_VALUE is the logits, or of a STATE the states. It may change the rows and then returns true:
 * what follows reads the changed ones. A device is waited for after every operation, so a hooked backend is slow;
 * `wrote` NULL turns it off between batches. What an operation left in the KV cache is not shown, the attention that
 * reads it is; an operation that a backend folds into the next one is passed over. */
typedef struct af_backend_hook {
    bool (*wrote)(void *user, const af_op *op, af_value value, float *rows, size_t stride, uint32_t count,
                  uint32_t width);
    void *user;
} af_backend_hook;

/* What of a plan the CPU takes where the device is a GPU (split.h). All zeros: nothing, as far as the GPU has room. */
typedef struct af_placement {
    bool layers_given;   /* else as many as fit */
    uint32_t gpu_layers; /* the GPU's: the last so many, and the head */
    uint32_t cpu_moe;    /* of the first so many layers the experts are the CPU's even so */
} af_placement;

typedef struct af_backend_options {
    uint32_t threads; /* 0: the physical cores this process may use */
    bool pin_threads; /* af_engine_options.pin_threads */
    bool exact;       /* af_engine_options.exact */
    af_kv_type kv;
    uint32_t pages[AF_PLAN_GROUPS]; /* pages to reserve for each cache group */
    uint32_t carries;               /* sequences to reserve recurrent states for, where the plan has such */
    uint32_t max_tokens;            /* the most tokens in one batch */
    uint32_t max_rows;              /* the most choices and logits wanted in one batch; any token's state may be */
    void (*progress)(void *user, double fraction);
    void *progress_user;
    const af_backend_hook *hook; /* NULL: none; outlives the backend */
    af_placement placement;
    uint32_t rounding; /* the CPU's exact mode alone: what is multiplied with weights in blocks is rounded
                          to eight bits first, as a backend of that `rounding` does; 0: it is not */
} af_backend_options;

static inline bool af_backend_hooked(const af_backend_options *options) {
    return options->hook && options->hook->wrote;
}

/* A sequence as the backend sees it for one batch: page tables. Position p of group g lies in page
 * pages[g][p / AF_KV_PAGE], slot p % AF_KV_PAGE. Entries of pages wholly outside a window may be UINT32_MAX.
 * Its recurrent states are those in slot `carry` < options.carries. They begin as zeros with the token at position 0,
 * whatever was there before, and move on by every token that is run: a sequence's tokens are run once, in order. */
typedef struct af_batch_seq {
    const uint32_t *pages[AF_PLAN_GROUPS];
    uint32_t carry;
} af_batch_seq;

typedef enum af_choose {
    AF_CHOOSE_NONE,   /* nothing is wanted of this token */
    AF_CHOOSE_LOGITS, /* the whole row */
    AF_CHOOSE_GREEDY, /* the id of the largest logit (the lowest such id) */
    AF_CHOOSE_STATE,  /* what the plan's STATE gives; no row of logits */
    AF_CHOOSE_TOP     /* a row in which the AF_TOP_MOST best logits and all that equal them stand; others may be -inf.
                         A device may have to be asked again for the row: such a batch is collected before the next,
                         unless its tokens have a draw */
} af_choose;

#define AF_TOP_MOST 64

/* How a token is drawn of a row: weights are exp((logit - best) * scale); of the top_k largest, those stay that
 * together make up top_p of the sum, then those of at least min_p; the token at `unit` (in [0, 1]) of what is left is
 * drawn, in order of ids. weights.h says it at length. */
typedef struct af_draw {
    float scale;    /* 1 / temperature */
    uint32_t top_k; /* of a TOP row: 1 to AF_TOP_MOST; of a LOGITS row: 0, all of it */
    float top_p, min_p, unit;
} af_draw;

/* Whether it is one of the head's rows. */
static inline bool af_choose_wants_row(af_choose choose) {
    return choose != AF_CHOOSE_NONE && choose != AF_CHOOSE_STATE;
}

typedef struct af_batch_token {
    int32_t id; /* of the token; or -1: what row `from_row` of ticket `from` chose */
    uint32_t from_row;
    af_ticket from;
    uint32_t seq; /* index into af_batch.seqs */
    uint32_t position;
    af_choose choose;
    const af_draw *draw; /* where a later batch of the flight takes a TOP or LOGITS row's token; NULL: none does */
} af_batch_token;

/* Tokens of one sequence stand in rising order of position, without gaps; their pages are already assigned. */
typedef struct af_batch {
    const af_batch_token *tokens;
    uint32_t token_count;
    const af_batch_seq *seqs;
    uint32_t seq_count;
    bool prompt; /* of tokens whose sequences' texts were there before; else each is its sequence's next word */
} af_batch;

/* What a batch gave: a row for each token that wanted a choice or logits, and a state for each that wanted that, both
 * in the batch's order. Lives until the next submit. */
typedef struct af_result {
    uint32_t row_count;
    const int32_t *ids;         /* (rows): the choice of GREEDY rows; of rows with a draw what the device drew, in
                                   arithmetic of its own: who has the row draws again; others: -1 or any token */
    const float *const *logits; /* (rows): the row of LOGITS and TOP rows; NULL for GREEDY rows, and for a TOP row with
                                   a draw that the device would have had to be asked for again */
    uint32_t state_count;
    const float *const *states; /* (states), each of the plan's width */
} af_result;

/* A run of a plan's operations for the batch that was begun. `in` is taken before it, `out` holds what it left; both
 * are rows of the batch's tokens (tokens, width) in the host's memory, and `out` is there when run_span returns. */
typedef struct af_crossing {
    af_value value;
    float *rows;
} af_crossing;
typedef struct af_span {
    size_t first, end; /* operations */
    const af_crossing *in, *out;
    uint32_t in_count, out_count;
} af_span;

/* A backend is a struct that begins with this table. submit is begin, the whole plan as one span, and end; a plan that
 * is cut between backends (split.c) runs span by span. Where a plan is cut, the operation before says so (af_op.cut).
 * After a failure nothing needs to be ended. */
typedef struct af_backend_ops {
    const char *name;
    uint32_t rounding;      /* columns that share a scale, where the fast mode rounds activations to eight bits */
    bool same_in_any_batch; /* promise 1: a token's logits do not depend on what else a batch holds, nor on whether it
                               is one of a prompt's, bit for bit */
    uint32_t in_flight;     /* tickets that may be uncollected at once; 0 and 1: each is collected before the next */
    int (*submit)(af_backend *backend, const af_batch *batch, af_ticket *ticket, af_error *error);
    int (*begin)(af_backend *backend, const af_batch *batch, af_error *error); /* the batch lives until end */
    int (*run_span)(af_backend *backend, const af_span *span, af_error *error);
    int (*end)(af_backend *backend, af_ticket *ticket, af_error *error);
    int (*collect)(af_backend *backend, af_ticket ticket, af_result *result, af_error *error);
    /* submit in two halves, where a device can still be busy with the batch before: prepare takes all of a batch but
     * its tokens' ids, which are not looked at; then the batch before is collected; then start takes the same batch
     * with its ids and submits it. A prepared batch that is not started is forgotten by whatever is submitted next.
     * prepare gives 1 where it has to see the ids: the batch is submitted as usual then. NULL, both, where nothing is
     * won. */
    int (*prepare)(af_backend *backend, const af_batch *batch, af_error *error);
    int (*start)(af_backend *backend, const af_batch *batch, af_ticket *ticket, af_error *error);
    void (*describe)(const af_backend *backend, char *text, size_t size); /* "cpu (avx512-vnni, 2 threads)" */
    uint32_t (*threads)(const af_backend *backend);
    uint64_t (*kv_bytes)(const af_backend *backend);
    /* Rows row_begin .. of a matrix of the plan, as this backend's kernels read them, to out (row_count, cols) f32.
     * NULL where a backend has no such way. */
    int (*decode)(af_backend *backend, const af_matrix *w, uint32_t row_begin, uint32_t row_count, float *out,
                  af_error *error);
    /* Whole pages of the KV cache as bytes, to be kept elsewhere, between batches alone; what is written is what was
     * read. page_bytes is the size of a group's; page_kind says what of the device decides over their bits, beside the
     * plan and the options. NULL, all four, where a backend has no such way. */
    uint64_t (*page_bytes)(const af_backend *backend, uint32_t group);
    void (*page_kind)(const af_backend *backend, char *text, size_t size);
    int (*read_page)(af_backend *backend, uint32_t group, uint32_t page, void *bytes, af_error *error);
    int (*write_page)(af_backend *backend, uint32_t group, uint32_t page, const void *bytes, af_error *error);
    /* Whether the device is gone for good, after a call failed: nothing but close makes sense then. NULL: never. */
    bool (*lost)(const af_backend *backend);
    void (*close)(af_backend *backend);
} af_backend_ops;

struct af_backend {
    const af_backend_ops *ops;
    bool draws_top;      /* a TOP row's token about as af_draw says, so that steps may be in flight */
    bool draws_whole;    /* a LOGITS row's */
    bool half_attention; /* the fast mode multiplies queries, keys, weights and values as half floats (sums are f32) */
};

/* Opens a backend by device name (backend.c) for a plan, which must outlive it. AF_EUNSUPPORTED names the device and
 * those there are. Where SHIMMY_DEBUG_RAW is set and there is no hook, one that prints is put in. */
int af_backend_open(const char *device, const af_plan *plan, const af_backend_options *options, af_backend **out,
                    af_error *error);

/* The same for a plan that stays whole on the device, whatever the placement; "auto" is the best GPU and nothing else.
 */
int af_backend_open_part(const char *device, const af_plan *plan, const af_backend_options *options, af_backend **out,
                         af_error *error);

/* The hook of SHIMMY_DEBUG_RAW: a line for each value written, with shape, smallest, largest, mean and first numbers.
 */
extern const af_backend_hook af_raw_trace;

/* A batch whole: for backends' tables. */
int af_backend_submit(af_backend *backend, const af_plan *plan, const af_batch *batch, af_ticket *ticket,
                      af_error *error);

/* Each backend's own constructor. */
int af_cpu_open(const af_plan *plan, const af_backend_options *options, af_backend **out, af_error *error);

#endif

/* verify.h - the parts of af_verify, for the files that make it up and for a test that breaks an operation on purpose.
 *
 *     verify.c        opening and closing, a mode after the other
 *     verify_run.c    the batches, what is shown to whom, what is compared
 *     verify_choice.c tokens that the device chooses
 *     verify_table.c  the table: errors of rows, what is allowed, where the worst one was
 */
#ifndef AF_VERIFY_H
#define AF_VERIFY_H

#include "backend/backend.h"
#include "engine/kv.h"
#include "engine/rng.h"

/* ---- The table ---- */

#define AF_VERIFY_ROWS 64 /* more than operations and formats together can give */

typedef struct af_verify_entry {
    af_verify_row row;
    char where[96];
} af_verify_entry;

typedef struct af_verify_table {
    bool exact; /* the mode of what is added */
    bool half;  /* by a device of half_attention (backend.h) */
    af_verify_entry entries[AF_VERIFY_ROWS];
    size_t count;
} af_verify_table;

/* What is compared. `format` NULL: no weights. */
typedef struct af_verify_subject {
    const char *what;
    const af_format *format;
    const char *name; /* of the operation or the tensor */
    uint32_t tokens;  /* in the batch; 0: not in one */
} af_verify_subject;

/* A row and what it should be. */
typedef struct af_verify_numbers {
    const float *found, *expected;
    const float *rounded; /* expected where activations are rounded to eight bits; NULL: not known */
    const float *before;  /* the residual that was added to; NULL: none */
    uint32_t width;
} af_verify_numbers;

/* Adds a row. Its error is from `expected` or from `rounded`, whichever is nearer. */
void af_verify_compare(af_verify_table *table, const af_verify_subject *subject, const af_verify_numbers *row);
/* Adds one choice. */
void af_verify_choice(af_verify_table *table, const af_verify_subject *subject, bool right);

/* ---- The run ---- */

#define AF_VERIFY_SEQUENCES 8
#define AF_VERIFY_BATCHES   11
#define AF_VERIFY_TOKENS    72 /* of a batch */
#define AF_VERIFY_LOGITS    8  /* rows of logits of a batch */

typedef struct af_verifier {
    const af_plan *plan;
    const af_verify_options *options;
    af_verify_table *table;
    af_backend *reference, *rounded,
        *device; /* CPU exact; the same with activations rounded, or NULL; and what is compared with them */
    af_backend_hook reference_hook, rounded_hook, device_hook;
    af_kv *kv;
    af_kv_seq *seqs[AF_VERIFY_SEQUENCES];
    uint32_t reach[AF_VERIFY_SEQUENCES]; /* positions run */
    af_rng rng;
    uint32_t tokens; /* of the batch at hand */

    /* What the reference's operations wrote in this batch, one after another. */
    float *record;
    float *rounded_record; /* the same of `rounded`, each operation started from `record` */
    size_t record_bytes, at;
    size_t *written;      /* (op_count): where in the record each operation's values begin */
    const float **before; /* (op_count): what the value that it adds to held before */
    const float **latest; /* (value_count): what each value was last given */

    /* The logits of a whole pass, or where the plan has no head the states. */
    uint32_t row_width;
    const float *logits[AF_VERIFY_BATCHES]; /* the reference's, (rows, row_width) */
    float *logits_memory;
    size_t logits_bytes;
    int32_t chosen[AF_VERIFY_BATCHES]; /* by the device, in the batch's first row */
    float *own;                        /* (rows, row_width): the logits that the device's head wrote in this batch */
} af_verifier;

/* Positions that the longest sequence reaches, at most the plan's context. */
uint32_t af_verify_context(const af_plan *plan);
void af_verify_set_hooks(af_verifier *v);
bool af_verify_rounds(const af_plan *plan); /* some weights are in blocks, so activations may be rounded */

/* Whether the device is asked for this row's best logits; else for its best token. */
bool af_verify_chooses_top(uint32_t row);
/* Whether in `found` stand the AF_TOP_MOST best of a row and all that equal them, and otherwise -inf or what the row
 * has.
 */
bool af_verify_holds_top(const float *found, const float *row, uint32_t width);
/* Adds the choices of a batch; reference: its logits by the reference. */
void af_verify_choices(af_verifier *v, const af_result *result, const float *reference);

/* The three comparisons. Logits are those of compare_operations, which runs before on the same tokens. */
int af_verify_matrices(af_verifier *v, af_error *error);
int af_verify_operations(af_verifier *v, af_error *error);
int af_verify_logits(af_verifier *v, af_error *error);

/* Opens the backend under test; af_backend_open but for tests. */
typedef struct af_verify_opener {
    int (*open)(void *user, const char *device, const af_plan *plan, const af_backend_options *options,
                af_backend **out, af_error *error);
    void *user;
} af_verify_opener;

int af_verify_plan(const af_plan *plan, const af_verify_options *options, const af_verify_opener *opener,
                   void (*on_row)(void *user, const af_verify_row *row), void *user, af_verify_result *result,
                   af_error *error);

#endif

/* verify.h - the parts of af_verify, for the files that make it up and for a test that breaks an operation on purpose.
 *
 *     verify.c        the run: which batches, what is shown to whom
 *     verify_table.c  the table: errors of rows, what is allowed, where the worst one was
 */
#ifndef AF_VERIFY_H
#define AF_VERIFY_H

#include "backend/backend.h"

/* ---- The table ---- */

#define AF_VERIFY_ROWS 64 /* more than operations and formats together can give */

typedef struct af_verify_entry {
    af_verify_row row;
    char where[96];
} af_verify_entry;

typedef struct af_verify_table {
    bool exact; /* the mode of what is added */
    bool alone; /* fast, and there is no reference that rounds activations too */
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

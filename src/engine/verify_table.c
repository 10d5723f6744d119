/* verify_table.c - errors of rows, gathered by operation and format, and what is allowed of each.
 *
 * The scale of an error is the RMS of what the operation made of the row: of the row itself, less the residual it was
 * added to, which in later layers is so large that a wrong product would not show beside it. Two measures, because each
 * misses what the other sees: the RMS of a row's differences shows what is a little wrong everywhere, the largest
 * difference a single wrong element of a wide row.
 */
#include "engine/verify.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ROUNDING 1e-6 /* of a number itself: a few units in the last place, which are no error */

/* ---- What is allowed ---- */

enum {
    EXACT = 1, /* mode */
    FAST = 2,
    BOTH = EXACT | FAST,
    HALF = 8,   /* fast, attention in half floats */
    PLAIN = 1,  /* weights: none, or plain numbers */
    SCALED = 2, /* blocks with one scale of their own: a device can hold them as they are */
    SUPER = 4,  /* superblocks, whose products of scales a device may round to half floats */
    BLOCKS = SCALED | SUPER,
    ANY = PLAIN | BLOCKS
};

/* The first line that fits counts. Beside a reference that rounds activations as the device does, what is left of that
 * error is what falls to the other side; in logits of a whole pass all of it is left. */
static const struct {
    const char *what;
    unsigned modes, weights;
    double rms, largest;
} allowances[] = {
    {"choice", BOTH, ANY, 0, 0},
    {"decode", FAST, SUPER, 2e-3, 1e-2},
    {"decode", BOTH, ANY, 0, 0},
    {"embed", FAST, SUPER, 2e-3, 1e-2},
    {"embed", BOTH, ANY, 1e-6, 1e-6},
    {"attend", HALF, ANY, 1e-2,
     1e-1}, /* a factor rounded by 2^-11 moves a score, and so its weight, by so much of it */
    {"attend", BOTH, ANY, 1e-3, 1e-2}, /* an f16 cache rounds a key that differs in its last bit either way */
    {"linear", FAST, BLOCKS, 2e-2, 2e-1},
    {"head", FAST, BLOCKS, 2e-2, 2e-1},
    {"experts", FAST, BLOCKS, 2e-2, 2e-1},
    {"route", FAST, BLOCKS, 2e-2, 2e-1},
    {"routed", FAST, BLOCKS, 1, 10},   /* logits where rounding may choose another expert: no chance hit, no more */
    {"routed", HALF, ANY, 2e-2, 2e-1}, /* attention's, carried on past a choice of experts */
    {"routed", BOTH, ANY, 2e-3, 2e-2},
    {"logits", FAST, BLOCKS, 0.25, 2.5},
    {"logits", BOTH, ANY, 2e-3, 2e-2},
    {"states", FAST, BLOCKS, 0.25, 2.5},
    {"states", BOTH, ANY, 2e-3, 2e-2},
    {NULL, BOTH, ANY, 1e-4, 1e-3},
};

static unsigned weights_of(const af_format *format) {
    if (!format || format->block_elems == 1) return PLAIN;
    return format->block_elems == 32 ? SCALED : SUPER;
}

static void allow(af_verify_row *row, const af_verify_table *table, const af_format *format) {
    const unsigned mode = table->exact ? EXACT : table->half ? FAST | HALF : FAST, weights = weights_of(format);
    size_t i = 0;
    while (allowances[i].what && (strcmp(allowances[i].what, row->what) != 0 || !(allowances[i].modes & mode) ||
                                  !(allowances[i].weights & weights)))
        i++;
    row->rms_allowed = allowances[i].rms;
    row->largest_allowed = allowances[i].largest;
}

/* ---- The table ---- */

static af_verify_entry *entry_of(af_verify_table *table, const af_verify_subject *subject) {
    const char *format = subject->format ? subject->format->name : "";
    for (size_t i = 0; i < table->count; i++) {
        const af_verify_row *row = &table->entries[i].row;
        if (strcmp(row->what, subject->what) == 0 && strcmp(row->format, format) == 0) return &table->entries[i];
    }
    if (table->count == AF_VERIFY_ROWS) return &table->entries[AF_VERIFY_ROWS - 1];
    af_verify_entry *e = &table->entries[table->count++];
    *e = (af_verify_entry){
        .row = {.mode = table->exact ? "exact" : "fast", .what = subject->what, .format = format, .where = e->where}};
    allow(&e->row, table, subject->format);
    return e;
}

static void note(af_verify_entry *e, const af_verify_subject *subject, double rms, double largest, uint32_t count) {
    e->row.compared += count;
    if (rms > e->row.rms) e->row.rms = rms;
    if (largest > e->row.largest || !*e->where) {
        e->row.largest = largest > e->row.largest ? largest : e->row.largest;
        if (subject->tokens)
            snprintf(e->where, sizeof e->where, "%.64s, %u token%s", subject->name, subject->tokens,
                     subject->tokens == 1 ? "" : "s");
        else
            snprintf(e->where, sizeof e->where, "%.64s", subject->name);
    }
    e->row.excess = e->row.rms > e->row.rms_allowed || e->row.largest > e->row.largest_allowed;
}

/* How far found is from expected beyond rounding; infinite where only one of them is a number. */
static double difference(float found, float expected) {
    if (found == expected || (isnan(found) && isnan(expected))) return 0;
    const double d = fabs((double)found - (double)expected);
    if (!isfinite(d)) return INFINITY;
    const double beyond = d - ROUNDING * fabs((double)expected);
    return beyond > 0 ? beyond : 0;
}

/* RMS of what the operation made of the row; a row of zeros allows no difference. */
static double scale_of(const af_verify_numbers *row) {
    double sum = 0;
    for (uint32_t i = 0; i < row->width; i++) {
        const double made = (double)row->expected[i] - (row->before ? (double)row->before[i] : 0);
        sum += made * made;
    }
    const double rms = sqrt(sum / row->width);
    return isfinite(rms) && rms > 0 ? rms : 1e-30;
}

typedef struct errors {
    double rms, largest;
} errors;

static errors errors_of(const float *found, const float *expected, uint32_t width, double scale) {
    double sum = 0, largest = 0;
    for (uint32_t i = 0; i < width; i++) {
        const double d = difference(found[i], expected[i]);
        sum += d * d;
        if (d > largest) largest = d;
    }
    return (errors){sqrt(sum / width) / scale, largest / scale};
}

void af_verify_compare(af_verify_table *table, const af_verify_subject *subject, const af_verify_numbers *row) {
    const double scale = scale_of(row);
    errors e = errors_of(row->found, row->expected, row->width, scale);
    if (row->rounded) {
        const errors other = errors_of(row->found, row->rounded, row->width, scale);
        if (other.rms < e.rms) e = other;
    }
    note(entry_of(table, subject), subject, e.rms, e.largest, row->width);
}

void af_verify_choice(af_verify_table *table, const af_verify_subject *subject, bool right) {
    note(entry_of(table, subject), subject, right ? 0 : 1, right ? 0 : 1, 1);
}

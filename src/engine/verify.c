/* verify.c - af_verify: a device beside the CPU, over the same batches.
 *
 * For every batch the CPU in exact mode runs first and what each operation wrote is recorded. Then the device runs it:
 * its hook compares each value with the record and puts the record in its place, so that every operation starts from
 * the reference's values and answers for itself alone. Only what lies in the KV cache is the device's own (rotated keys
 * are thus compared by the attention that reads them). Afterwards the same batches run on the device without a hook,
 * and their logits are compared: errors as they add up.
 *
 * In fast mode a device may round activations to eight bits, an error that depends on the model and can be large. So
 * that it hides nothing the CPU's own fast mode runs too, from the same inputs, and the device has to be near one of
 * the two: near the exact product, or near the product of rounded activations.
 *
 * The batches are two sequences of random tokens in portions that reach every kernel: long ones, a few tokens, one,
 * both sequences at once; past the 128 keys that attention takes at a time, and over several pages. In the last one the
 * token is not given but what the batch before chose.
 */
#include "engine/verify.h"

#include "base/os.h"
#include "engine/kv.h"
#include "engine/model_internal.h"
#include "engine/rng.h"
#include "engine/weights.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define SEQUENCES   2
#define MOST_TOKENS 72 /* of a batch */
#define MOST_ROWS   8
#define ALL_ROWS    8 /* batches of so many tokens want the logits of all */
#define BATCHES     (sizeof shapes / sizeof *shapes)
#define DECODED     (1u << 22) /* numbers that are decoded at a time */

static const struct {
    uint8_t tokens[SEQUENCES]; /* each sequence's, one after another */
} shapes[] = {{{40, 0}}, {{1, 3}}, {{64, 0}}, {{1, 1}}, {{0, 33}}, {{31, 15}}, {{7, 1}}, {{0, 1}}, {{1, 0}}};

/* ---- State ---- */

/* A batch as both backends are given it. */
typedef struct prepared {
    af_batch_token tokens[MOST_TOKENS];
    af_batch_seq seqs[SEQUENCES];
    af_batch batch;
    uint32_t rows;
} prepared;

typedef struct verifier {
    const af_plan *plan;
    const af_verify_options *options;
    af_backend *reference, *rounded, *device; /* CPU exact, CPU fast or NULL, and what is compared with them */
    af_backend_hook reference_hook, rounded_hook, device_hook;
    af_verify_table *table;
    af_kv *kv;
    af_kv_seq *seqs[SEQUENCES];
    uint32_t reach[SEQUENCES]; /* positions run */
    af_rng rng;

    /* What the reference's operations wrote in this batch, one after another. */
    float *record;
    float *rounded_record; /* the same of `rounded`, each operation started from `record` */
    size_t record_bytes, at;
    const float **latest; /* (value_count): in the record, what each value held before the operation at hand */

    const float *logits[BATCHES]; /* the reference's, (rows, vocabulary) */
    float *logits_memory;
    size_t logits_bytes;
    int32_t chosen[BATCHES]; /* by the device, in the batch's first row */
    int32_t best[MOST_ROWS]; /* of the logits that the device's head wrote */
    uint32_t tokens;         /* of the batch at hand */
} verifier;

/* ---- Hooks ---- */

static bool record_value(void *user, const af_op *op, af_value value, float *rows, size_t stride, uint32_t count,
                         uint32_t width) {
    (void)op, (void)value;
    verifier *v = user;
    assert((v->at + (size_t)count * width) * sizeof *rows <= v->record_bytes);
    for (uint32_t t = 0; t < count; t++, v->at += width)
        memcpy(v->record + v->at, rows + t * stride, width * sizeof *rows);
    return false;
}

/* Keeps what the rounding reference wrote, and lets it go on from what the exact one did. */
static bool record_rounded(void *user, const af_op *op, af_value value, float *rows, size_t stride, uint32_t count,
                           uint32_t width) {
    (void)op, (void)value;
    verifier *v = user;
    for (uint32_t t = 0; t < count; t++, v->at += width) {
        memcpy(v->rounded_record + v->at, rows + t * stride, width * sizeof *rows);
        memcpy(rows + t * stride, v->record + v->at, width * sizeof *rows);
    }
    return true;
}

/* The format of the weights that made this value; NULL: none. */
static const af_format *format_of(const af_op *op, af_value value) {
    if (op->kind == AF_OP_EMBED) return op->u.embed.table.format;
    if (op->kind == AF_OP_HEAD) return op->u.head.w.format;
    if (op->kind != AF_OP_LINEAR) return NULL;
    const af_op_linear *l = &op->u.linear;
    uint32_t part = 0;
    while (part + 1 < l->part_count && l->parts[part].out != value) part++;
    return l->parts[part].w.format;
}

static bool compare_value(void *user, const af_op *op, af_value value, float *rows, size_t stride, uint32_t count,
                          uint32_t width) {
    verifier *v = user;
    const bool logits = value == AF_NO_VALUE;
    const bool added = op->kind == AF_OP_LINEAR && op->u.linear.residual == value;
    const af_verify_subject subject = {
        .what = af_op_kind_name(op->kind), .format = format_of(op, value), .name = op->name, .tokens = v->tokens};
    const float *const expected = v->record + v->at, *const before = added ? v->latest[value] : NULL;
    for (size_t t = 0, at = 0; t < count; t++, at += width) {
        float *found = rows + t * stride;
        if (logits) v->best[t] = af_best_token(found, width);
        const af_verify_numbers row = {.found = found,
                                       .expected = expected + at,
                                       .rounded = v->rounded ? v->rounded_record + v->at + at : NULL,
                                       .before = before ? before + at : NULL,
                                       .width = width};
        af_verify_compare(v->table, &subject, &row);
        memcpy(found, expected + at, width * sizeof *found);
    }
    if (!logits) v->latest[value] = expected;
    v->at += (size_t)count * width;
    return true;
}

/* ---- Batches ---- */

static void add_tokens(verifier *v, prepared *p, uint32_t seq, uint32_t count, bool all_rows, af_choose choose) {
    for (uint32_t i = 0; i < count; i++) {
        const bool wanted = all_rows || i + 1 == count;
        p->tokens[p->batch.token_count++] =
            (af_batch_token){.id = (int32_t)(af_rng_next(&v->rng) % v->plan->vocabulary),
                             .seq = seq,
                             .position = v->reach[seq] + i,
                             .choose = wanted ? choose : AF_CHOOSE_NONE};
        p->rows += wanted;
    }
    v->reach[seq] += count;
}

static bool fits(const verifier *v, size_t batch) {
    for (uint32_t s = 0; s < SEQUENCES; s++)
        if (v->plan->context && v->reach[s] + shapes[batch].tokens[s] > v->plan->context) return false;
    return true;
}

static void prepare(verifier *v, size_t batch, af_choose choose, prepared *p) {
    *p = (prepared){.batch = {.tokens = p->tokens, .seqs = p->seqs, .seq_count = SEQUENCES}};
    uint32_t all = 0;
    for (uint32_t s = 0; s < SEQUENCES; s++) all += shapes[batch].tokens[s];
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        const uint32_t count = shapes[batch].tokens[s], begin = v->reach[s];
        const bool room = af_kv_reserve(v->kv, v->seqs[s], begin, begin + count);
        assert(room), (void)room;
        af_kv_view(v->seqs[s], &p->seqs[s]);
        add_tokens(v, p, s, count, all <= ALL_ROWS, choose);
    }
    v->tokens = p->batch.token_count;
}

/* Both sequences from their beginning, with the same tokens each time. */
static int rewind_all(verifier *v, af_error *error) {
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        if (v->seqs[s]) af_kv_seq_release(v->kv, v->seqs[s]);
        v->seqs[s] = af_kv_seq_take(v->kv);
        v->reach[s] = 0;
        if (!v->seqs[s]) return af_fail(error, AF_ENOMEM, "verify: no sequence is free");
    }
    af_rng_seed(&v->rng, 1);
    return AF_OK;
}

static int run_on(af_backend *backend, const prepared *p, af_ticket *ticket, af_result *result, af_error *error) {
    const int status = backend->ops->submit(backend, &p->batch, ticket, error);
    return status == AF_OK ? backend->ops->collect(backend, *ticket, result, error) : status;
}

static void set_choose(prepared *p, af_choose choose) {
    for (uint32_t t = 0; t < p->batch.token_count; t++)
        if (p->tokens[t].choose != AF_CHOOSE_NONE) p->tokens[t].choose = choose;
}

static int run_references(verifier *v, size_t batch, prepared *p, af_error *error) {
    af_ticket ticket;
    af_result result;
    v->at = 0;
    set_choose(p, AF_CHOOSE_LOGITS);
    const int status = run_on(v->reference, p, &ticket, &result, error);
    if (status != AF_OK) return status;
    v->at = 0;
    float *kept = v->logits_memory + batch * MOST_ROWS * v->plan->vocabulary;
    v->logits[batch] = kept;
    for (uint32_t r = 0; r < p->rows; r++)
        memcpy(kept + (size_t)r * v->plan->vocabulary, result.logits[r], v->plan->vocabulary * sizeof *kept);
    return v->rounded ? run_on(v->rounded, p, &ticket, &result, error) : AF_OK;
}

static int run_device(verifier *v, prepared *p, af_ticket *ticket, int32_t *chosen, af_error *error) {
    af_result result;
    v->at = 0;
    set_choose(p, AF_CHOOSE_GREEDY);
    const int status = run_on(v->device, p, ticket, &result, error);
    if (status != AF_OK) return status;
    const af_verify_subject subject = {.what = "choice", .name = "the best token", .tokens = v->tokens};
    for (uint32_t r = 0; r < p->rows; r++) af_verify_choice(v->table, &subject, result.ids[r] == v->best[r]);
    *chosen = result.ids[0];
    return AF_OK;
}

/* ---- The three parts ---- */

/* Each operation by itself. The last batch's token is what the device chose in the one before. */
static int compare_operations(verifier *v, af_error *error) {
    af_ticket ticket = 0;
    int status = rewind_all(v, error);
    v->device_hook = (af_backend_hook){.wrote = compare_value, .user = v};
    for (size_t i = 0; i < BATCHES && status == AF_OK && fits(v, i); i++) {
        prepared p;
        prepare(v, i, AF_CHOOSE_LOGITS, &p);
        const bool chained =
            i + 1 == BATCHES && v->chosen[i - 1] >= 0 && (uint32_t)v->chosen[i - 1] < v->plan->vocabulary;
        if (chained) p.tokens[0].id = v->chosen[i - 1];
        status = run_references(v, i, &p, error);
        if (chained) {
            p.tokens[0].id = -1;
            p.tokens[0].from = ticket;
            p.tokens[0].from_row = 0;
        }
        if (status == AF_OK) status = run_device(v, &p, &ticket, &v->chosen[i], error);
    }
    return status;
}

static int compare_logits(verifier *v, af_error *error) {
    int status = rewind_all(v, error);
    v->device_hook.wrote = NULL;
    const af_op *head = &v->plan->ops[v->plan->op_count - 1];
    for (size_t i = 0; i < BATCHES && status == AF_OK && fits(v, i); i++) {
        prepared p;
        af_ticket ticket;
        af_result result;
        prepare(v, i, AF_CHOOSE_LOGITS, &p);
        if (i + 1 == BATCHES) p.tokens[0].id = v->chosen[i - 1];
        status = run_on(v->device, &p, &ticket, &result, error);
        const af_verify_subject subject = {
            .what = "logits", .format = head->u.head.w.format, .name = "a whole pass", .tokens = v->tokens};
        for (uint32_t r = 0; r < p.rows && status == AF_OK; r++)
            af_verify_compare(v->table, &subject,
                              &(af_verify_numbers){.found = result.logits[r],
                                                   .expected = v->logits[i] + (size_t)r * v->plan->vocabulary,
                                                   .width = v->plan->vocabulary});
    }
    return status;
}

static int decode_rows(verifier *v, const af_matrix *w, uint32_t begin, uint32_t count, float *found, float *expected,
                       af_error *error) {
    const af_verify_subject subject = {.what = "decode", .format = w->format, .name = w->name};
    const size_t row_bytes = af_row_bytes(w->format, w->cols);
    const int status = v->device->ops->decode(v->device, w, begin, count, found, error);
    for (uint32_t r = 0; r < count && status == AF_OK; r++) {
        w->format->decode((const unsigned char *)w->data + (begin + r) * row_bytes, expected, w->cols);
        af_verify_compare(
            v->table, &subject,
            &(af_verify_numbers){.found = found + (size_t)r * w->cols, .expected = expected, .width = w->cols});
    }
    return status;
}

static int compare_matrix(verifier *v, const af_matrix *w, af_error *error) {
    const uint32_t portion = w->cols < DECODED ? DECODED / w->cols : 1;
    const uint32_t most = portion < w->rows ? portion : w->rows;
    float *found = malloc(((size_t)most + 1) * w->cols * sizeof *found);
    if (!found) return af_fail_memory(error, ((size_t)most + 1) * w->cols * sizeof *found, w->name);
    float *expected = found + (size_t)most * w->cols;
    int status = AF_OK;
    for (uint32_t begin = 0; begin < w->rows && status == AF_OK; begin += most)
        status = decode_rows(v, w, begin, w->rows - begin < most ? w->rows - begin : most, found, expected, error);
    free(found);
    return status;
}

static uint32_t matrices_of(const af_op *op, const af_matrix *out[AF_PLAN_PARTS]) {
    out[0] = op->kind == AF_OP_EMBED ? &op->u.embed.table : &op->u.head.w;
    if (op->kind == AF_OP_EMBED || op->kind == AF_OP_HEAD) return 1;
    if (op->kind != AF_OP_LINEAR) return 0;
    for (uint32_t i = 0; i < op->u.linear.part_count; i++) out[i] = &op->u.linear.parts[i].w;
    return op->u.linear.part_count;
}

/* Every matrix, a shared one each time it is used. */
static int compare_matrices(verifier *v, af_error *error) {
    int status = AF_OK;
    for (size_t i = 0; i < v->plan->op_count && status == AF_OK && v->device->ops->decode; i++) {
        const af_matrix *w[AF_PLAN_PARTS];
        for (uint32_t k = 0, n = matrices_of(&v->plan->ops[i], w); k < n && status == AF_OK; k++)
            status = compare_matrix(v, w[k], error);
    }
    return status;
}

/* ---- Opening and closing ---- */

static size_t record_room(const af_plan *plan) {
    size_t numbers = (size_t)MOST_ROWS * plan->vocabulary;
    for (size_t i = 0; i < plan->op_count; i++) {
        af_value values[AF_PLAN_PARTS];
        for (uint32_t k = 0, n = af_op_written(&plan->ops[i], values); k < n; k++)
            if (values[k] != AF_NO_VALUE) numbers += (size_t)MOST_TOKENS * plan->widths[values[k]];
    }
    return numbers * sizeof(float);
}

static uint32_t context_of(const af_plan *plan) {
    uint32_t tokens[SEQUENCES] = {0}, most = 0;
    for (size_t i = 0; i < BATCHES; i++)
        for (uint32_t s = 0; s < SEQUENCES; s++) tokens[s] += shapes[i].tokens[s];
    for (uint32_t s = 0; s < SEQUENCES; s++)
        if (tokens[s] > most) most = tokens[s];
    return plan->context && plan->context < most ? plan->context : most;
}

static af_backend_options options_of(const verifier *v, bool exact, const af_backend_hook *hook) {
    af_backend_options o = {.threads = v->options->threads,
                            .exact = exact,
                            .kv = v->options->kv,
                            .max_tokens = MOST_TOKENS,
                            .max_rows = MOST_ROWS,
                            .hook = hook};
    af_kv_sizes(v->plan, context_of(v->plan), SEQUENCES, MOST_TOKENS, o.pages);
    return o;
}

static int open_verifier(verifier *v, af_error *error) {
    v->record_bytes = record_room(v->plan);
    v->logits_bytes = BATCHES * MOST_ROWS * (size_t)v->plan->vocabulary * sizeof(float);
    v->record = af_os_pages(v->record_bytes, false);
    v->logits_memory = af_os_pages(v->logits_bytes, false);
    v->latest = calloc(v->plan->value_count, sizeof *v->latest);
    v->table = calloc(1, sizeof *v->table);
    v->rounded_record = af_os_pages(v->record_bytes, false); /* not resident unless used */
    if (!v->record || !v->rounded_record || !v->logits_memory || !v->latest || !v->table)
        return af_fail_memory(error, 2 * v->record_bytes + v->logits_bytes, "verify's record");
    v->reference_hook = (af_backend_hook){.wrote = record_value, .user = v};
    v->rounded_hook = (af_backend_hook){.wrote = record_rounded, .user = v};
    const af_backend_options exact = options_of(v, true, &v->reference_hook);
    const int status = af_kv_open(v->plan, exact.pages, context_of(v->plan), SEQUENCES, &v->kv, error);
    return status == AF_OK ? af_cpu_open(v->plan, &exact, &v->reference, error) : status;
}

static void close_verifier(verifier *v) {
    if (v->reference) v->reference->ops->close(v->reference);
    for (uint32_t s = 0; s < SEQUENCES; s++)
        if (v->seqs[s]) af_kv_seq_release(v->kv, v->seqs[s]);
    af_kv_close(v->kv);
    if (v->record) af_os_pages_free(v->record, v->record_bytes);
    if (v->rounded_record) af_os_pages_free(v->rounded_record, v->record_bytes);
    if (v->logits_memory) af_os_pages_free(v->logits_memory, v->logits_bytes);
    free(v->latest);
    free(v->table);
}

/* ---- The run ---- */

static void give_rows(const verifier *v, void (*on_row)(void *user, const af_verify_row *row), void *user,
                      af_verify_result *result) {
    for (size_t i = 0; i < v->table->count; i++) {
        result->excesses += v->table->entries[i].row.excess;
        if (on_row) on_row(user, &v->table->entries[i].row);
    }
}

static bool is_cpu(const af_backend *backend) {
    return strcmp(backend->ops->name, "cpu") == 0;
}

static bool any_blocks(const af_plan *plan) {
    for (size_t i = 0; i < plan->op_count; i++) {
        const af_matrix *w[AF_PLAN_PARTS];
        for (uint32_t k = 0, n = matrices_of(&plan->ops[i], w); k < n; k++)
            if (w[k]->format->block_elems > 1) return true;
    }
    return false;
}

/* The CPU's fast mode is what rounds as a device may; by itself it has only the exact reference. Activations are
 * rounded only for weights in blocks. */
static int open_rounded(verifier *v, af_error *error) {
    v->table->alone = !v->table->exact && is_cpu(v->device);
    if (v->table->exact || v->table->alone || !any_blocks(v->plan)) return AF_OK;
    const af_backend_options fast = options_of(v, false, &v->rounded_hook);
    return af_cpu_open(v->plan, &fast, &v->rounded, error);
}

static int compare_all(verifier *v, af_error *error) {
    int status = open_rounded(v, error);
    if (status == AF_OK) status = compare_matrices(v, error);
    if (status == AF_OK) status = compare_operations(v, error);
    if (status == AF_OK) status = compare_logits(v, error);
    if (v->rounded) v->rounded->ops->close(v->rounded);
    v->rounded = NULL;
    return status;
}

/* Weights widened to f32 may be more than the device holds; then that mode is passed over and said to be. */
static int run_mode(verifier *v, const af_verify_opener *opener, bool exact, af_verify_result *result,
                    af_error *error) {
    const af_backend_options options = options_of(v, exact, &v->device_hook);
    *v->table = (af_verify_table){.exact = exact};
    v->device_hook = (af_backend_hook){0};
    af_error why = {0};
    int status = opener->open(opener->user, v->options->device, v->plan, &options, &v->device, &why);
    if (status == AF_ENOMEM && exact) {
        memcpy(result->passed, why.text, sizeof why.text);
        return AF_OK;
    }
    if (status != AF_OK) {
        if (error) *error = why;
        return status;
    }
    if (!exact || !is_cpu(v->device)) status = compare_all(v, error);
    v->device->ops->describe(v->device, result->device, sizeof result->device);
    v->device->ops->close(v->device);
    return status;
}

int af_verify_plan(const af_plan *plan, const af_verify_options *options, const af_verify_opener *opener,
                   void (*on_row)(void *user, const af_verify_row *row), void *user, af_verify_result *result,
                   af_error *error) {
    verifier v = {.plan = plan, .options = options};
    *result = (af_verify_result){0};
    int status = open_verifier(&v, error);
    for (int exact = 1; exact >= 0 && status == AF_OK; exact--) {
        status = run_mode(&v, opener, exact, result, error);
        if (status == AF_OK) give_rows(&v, on_row, user, result);
    }
    close_verifier(&v);
    return status;
}

static int open_by_name(void *user, const char *device, const af_plan *plan, const af_backend_options *options,
                        af_backend **out, af_error *error) {
    (void)user;
    return af_backend_open(device, plan, options, out, error);
}

af_verify_options af_verify_options_default(void) {
    return (af_verify_options){.device = "auto", .kv = AF_KV_F16};
}

int af_verify(const af_model *model, const af_verify_options *asked, void (*on_row)(void *user, const af_verify_row *),
              void *user, af_verify_result *result, af_error *error) {
    const af_verify_options options = asked ? *asked : af_verify_options_default();
    const af_plan *plan = af_model_plan_of(model);
    af_verify_result unused;
    if (!plan) return af_fail(error, AF_EUNSUPPORTED, "verify: the model was opened without its plan");
    return af_verify_plan(plan, &options, &(af_verify_opener){.open = open_by_name}, on_row, user,
                          result ? result : &unused, error);
}

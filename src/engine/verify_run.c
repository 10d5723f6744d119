/* verify_run.c - the batches that af_verify runs, and what is compared of them.
 *
 * For every batch the CPU in exact mode runs first and what each operation wrote is recorded. Then the device runs it:
 * its hook compares each value with the record and puts the record in its place, so that every operation starts from
 * the reference's values and answers for itself alone. Only what lies in the KV cache is the device's own (rotated keys
 * are thus compared by the attention that reads them). Afterwards the same batches run on the device without a hook,
 * and their logits are compared: errors as they add up, and what a device folds together when nobody looks.
 *
 * In fast mode a device may round activations to eight bits, an error that depends on the model and can be large. So
 * that it hides nothing the reference runs a second time from the same inputs with its activations rounded likewise,
 * and the device has to be near one of the two: near the exact product, or near the product of rounded activations.
 *
 * The batches are sequences of random tokens in portions that reach every kernel: long ones, a few tokens, one, two and
 * more sequences at once, each with one token or with many; past the 128 keys that attention takes at a time, and over
 * several pages. In the last one the token is not given but what the batch before chose. A plan that takes sequences
 * whole begins them anew in every batch. Tokens whose logits are not wanted give their states; where a plan has no
 * head, states stand for logits.
 */
#include "engine/verify.h"

#include "engine/weights.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define DECODED (1u << 22) /* numbers that are decoded at a time */
#define SETTLED 8u         /* position from which a text's logits are compared in fast mode */

/* ---- Hooks ---- */

/* Whether the operation adds to what the value held. */
static bool adds_to(const af_op *op, af_value value) {
    if (value == AF_NO_VALUE) return false;
    return (op->kind == AF_OP_LINEAR && op->u.linear.residual == value) ||
           (op->kind == AF_OP_EXPERTS && op->u.experts.residual == value);
}

static bool record_value(void *user, const af_op *op, af_value value, float *rows, size_t stride, uint32_t count,
                         uint32_t width) {
    af_verifier *v = user;
    const size_t index = (size_t)(op - v->plan->ops);
    const bool logits = value == AF_NO_VALUE, added = adds_to(op, value);
    assert((v->at + (size_t)count * width) * sizeof *rows <= v->record_bytes);
    af_value values[AF_PLAN_PARTS];
    if (af_op_written(op, values) && value == values[0]) v->written[index] = v->at;
    v->before[index] = added ? v->latest[value] : NULL;
    if (!logits) v->latest[value] = v->record + v->at;
    for (uint32_t t = 0; t < count; t++, v->at += width)
        memcpy(v->record + v->at, rows + t * stride, width * sizeof *rows);
    return false;
}

/* Where in the record a value of an operation is. */
static size_t place_of(const af_verifier *v, const af_op *op, af_value value) {
    af_value values[AF_PLAN_PARTS];
    size_t at = v->written[op - v->plan->ops];
    af_op_written(op, values);
    for (uint32_t k = 0; values[k] != value; k++) at += (size_t)v->tokens * v->plan->widths[values[k]];
    return at;
}

/* Keeps what the rounding reference wrote, and lets it go on from what the exact one did. */
static bool record_rounded(void *user, const af_op *op, af_value value, float *rows, size_t stride, uint32_t count,
                           uint32_t width) {
    (void)op, (void)value;
    af_verifier *v = user;
    for (uint32_t t = 0; t < count; t++, v->at += width) {
        memcpy(v->rounded_record + v->at, rows + t * stride, width * sizeof *rows);
        memcpy(rows + t * stride, v->record + v->at, width * sizeof *rows);
    }
    return true;
}

/* The format of the weights that made this value, the rougher one of a GLU's two; NULL: none. */
static const af_format *format_of(const af_op *op, af_value value) {
    if (op->kind == AF_OP_EMBED) return op->u.embed.table.format;
    if (op->kind == AF_OP_HEAD) return op->u.head.w.format;
    if (op->kind == AF_OP_ROUTE) return op->u.route.w.format;
    if (op->kind == AF_OP_EXPERTS) return op->u.experts.down.w.format;
    if (op->kind == AF_OP_PER_HEAD) return op->u.per_head.w.w.format;
    if (op->kind != AF_OP_LINEAR) return NULL;
    const af_op_linear *l = &op->u.linear;
    uint32_t part = 0;
    while (part + 1 < l->part_count && l->parts[part].out != value) part++;
    const bool other = l->combine == AF_COMBINE_GLU && l->parts[0].w.format->block_elems == 1;
    return l->parts[other ? 1 : part].w.format;
}

static bool compare_value(void *user, const af_op *op, af_value value, float *rows, size_t stride, uint32_t count,
                          uint32_t width) {
    af_verifier *v = user;
    const af_verify_subject subject = {
        .what = af_op_kind_name(op->kind), .format = format_of(op, value), .name = op->name, .tokens = v->tokens};
    const size_t place = place_of(v, op, value);
    const float *const expected = v->record + place, *const before = v->before[op - v->plan->ops];
    for (size_t t = 0, at = 0; t < count; t++, at += width) {
        float *found = rows + t * stride;
        if (op->kind == AF_OP_HEAD) memcpy(v->own + at, found, width * sizeof *found);
        const af_verify_numbers row = {.found = found,
                                       .expected = expected + at,
                                       .rounded = v->rounded ? v->rounded_record + place + at : NULL,
                                       .before = before ? before + at : NULL,
                                       .width = width};
        af_verify_compare(v->table, &subject, &row);
        memcpy(found, expected + at, width * sizeof *found);
    }
    return true;
}

void af_verify_set_hooks(af_verifier *v) {
    v->reference_hook = (af_backend_hook){.wrote = record_value, .user = v};
    v->rounded_hook = (af_backend_hook){.wrote = record_rounded, .user = v};
    v->device_hook = (af_backend_hook){.wrote = compare_value, .user = v};
}

/* ---- Batches ---- */

#define ALL_ROWS 8 /* batches of so many tokens want the logits of all */

/* A batch as both backends are given it. */
typedef struct prepared {
    af_batch_token tokens[AF_VERIFY_TOKENS];
    af_batch_seq seqs[AF_VERIFY_SEQUENCES];
    af_batch batch;
    uint32_t rows;
} prepared;

static const struct {
    uint8_t tokens[AF_VERIFY_SEQUENCES]; /* each sequence's, one after another */
} shapes[AF_VERIFY_BATCHES] = {{{40}},         {{1, 3}},   {{64}},   {{1, 1}},
                               {{0, 33}},      {{31, 15}}, {{7, 1}}, {{1, 1, 1, 1, 1, 1, 1, 1}},
                               {{1, 0, 1, 1}}, {{0, 1}},   {{1}}};

static bool has_head(const af_verifier *v) {
    return af_plan_head(v->plan) != NULL;
}

/* Whether a whole pass is compared by this token's logits, or its state where there are none. */
static bool is_compared(const af_verifier *v, const af_batch_token *token) {
    return has_head(v) ? af_choose_wants_row(token->choose) : token->choose == AF_CHOOSE_STATE;
}

static af_choose choice_of(const af_verifier *v, bool wanted, af_choose choose) {
    if (!has_head(v)) return wanted ? AF_CHOOSE_STATE : AF_CHOOSE_NONE;
    return wanted ? choose : af_plan_state(v->plan) ? AF_CHOOSE_STATE : AF_CHOOSE_NONE;
}

static void add_tokens(af_verifier *v, prepared *p, uint32_t seq, uint32_t count, bool all_rows, af_choose choose) {
    for (uint32_t i = 0; i < count; i++) {
        const bool wanted = all_rows || i + 1 == count;
        p->tokens[p->batch.token_count++] =
            (af_batch_token){.id = (int32_t)(af_rng_next(&v->rng) % v->plan->vocabulary),
                             .seq = seq,
                             .position = v->reach[seq] + i,
                             .choose = choice_of(v, wanted, choose)};
        p->rows += wanted;
    }
    v->reach[seq] += count;
}

/* Where a sequence goes on in the next batch. */
static uint32_t begin_of(const af_verifier *v, uint32_t seq) {
    return v->plan->whole ? 0 : v->reach[seq];
}

static bool fits(const af_verifier *v, size_t batch) {
    for (uint32_t s = 0; s < AF_VERIFY_SEQUENCES; s++)
        if (v->plan->context && begin_of(v, s) + shapes[batch].tokens[s] > v->plan->context) return false;
    return true;
}

/* There are as many sequences as are ever taken. */
static void restart(af_verifier *v, uint32_t seq) {
    if (v->seqs[seq]) af_kv_seq_release(v->kv, v->seqs[seq]);
    v->seqs[seq] = af_kv_seq_take(v->kv);
    v->reach[seq] = 0;
    assert(v->seqs[seq]);
}

static void prepare(af_verifier *v, size_t batch, af_choose choose, prepared *p) {
    *p = (prepared){.batch = {.tokens = p->tokens, .seqs = p->seqs, .seq_count = AF_VERIFY_SEQUENCES}};
    uint32_t all = 0;
    for (uint32_t s = 0; s < AF_VERIFY_SEQUENCES; s++) {
        all += shapes[batch].tokens[s];
        p->batch.prompt |= shapes[batch].tokens[s] > 1;
    }
    for (uint32_t s = 0; s < AF_VERIFY_SEQUENCES; s++) {
        const uint32_t count = shapes[batch].tokens[s], begin = begin_of(v, s);
        if (v->plan->whole) restart(v, s);
        const bool room = af_kv_reserve(v->kv, v->seqs[s], begin, begin + count);
        assert(room), (void)room;
        af_kv_view(v->seqs[s], &p->seqs[s]);
        add_tokens(v, p, s, count, all <= ALL_ROWS, choose);
    }
    v->tokens = p->batch.token_count;
}

/* Both sequences from their beginning, with the same tokens each time. */
static void rewind_all(af_verifier *v) {
    for (uint32_t s = 0; s < AF_VERIFY_SEQUENCES; s++) restart(v, s);
    af_rng_seed(&v->rng, 1);
}

static int run_on(af_backend *backend, const prepared *p, af_ticket *ticket, af_result *result, af_error *error) {
    const int status = backend->ops->submit(backend, &p->batch, ticket, error);
    return status == AF_OK ? backend->ops->collect(backend, *ticket, result, error) : status;
}

static const float *const *rows_of(const af_verifier *v, const af_result *result) {
    return has_head(v) ? result->logits : result->states;
}

static int run_references(af_verifier *v, size_t batch, prepared *p, af_error *error) {
    af_ticket ticket;
    af_result result;
    v->at = 0;
    const int status = run_on(v->reference, p, &ticket, &result, error);
    if (status != AF_OK) return status;
    v->at = 0;
    const float *const *rows = rows_of(v, &result);
    float *kept = v->logits_memory + batch * AF_VERIFY_LOGITS * v->row_width;
    v->logits[batch] = kept;
    for (uint32_t r = 0; r < p->rows; r++)
        memcpy(kept + (size_t)r * v->row_width, rows[r], v->row_width * sizeof *kept);
    return v->rounded ? run_on(v->rounded, p, &ticket, &result, error) : AF_OK;
}

static void ask_for_choices(prepared *p) {
    uint32_t row = 0;
    for (uint32_t t = 0; t < p->batch.token_count; t++)
        if (af_choose_wants_row(p->tokens[t].choose))
            p->tokens[t].choose = af_verify_chooses_top(row++) ? AF_CHOOSE_TOP : AF_CHOOSE_GREEDY;
}

static int run_device(af_verifier *v, size_t batch, prepared *p, af_ticket *ticket, af_error *error) {
    af_result result;
    ask_for_choices(p);
    const int status = run_on(v->device, p, ticket, &result, error);
    if (status != AF_OK) return status;
    v->chosen[batch] = has_head(v) ? result.ids[0] : -1;
    if (has_head(v)) af_verify_choices(v, &result, v->logits[batch]);
    return AF_OK;
}

/* ---- The three parts ---- */

/* Each operation by itself. The last batch's token is what the device chose in the one before. */
int af_verify_operations(af_verifier *v, af_error *error) {
    af_ticket ticket = 0;
    int status = AF_OK;
    rewind_all(v);
    for (size_t i = 0; i < AF_VERIFY_BATCHES && status == AF_OK && fits(v, i); i++) {
        prepared p;
        prepare(v, i, AF_CHOOSE_LOGITS, &p);
        const bool chained =
            i + 1 == AF_VERIFY_BATCHES && v->chosen[i - 1] >= 0 && (uint32_t)v->chosen[i - 1] < v->plan->vocabulary;
        if (chained) p.tokens[0].id = v->chosen[i - 1];
        status = run_references(v, i, &p, error);
        if (chained) {
            p.tokens[0].id = -1;
            p.tokens[0].from = ticket;
            p.tokens[0].from_row = 0;
        }
        if (status == AF_OK) status = run_device(v, i, &p, &ticket, error);
    }
    return status;
}

/* The first tokens of a text are what attention rests on when it has nothing to say; the few huge activations that make
 * them so cost eight bits more than anything else, and say nothing about a device. */
static bool is_settled(const af_verifier *v, const af_batch_token *token) {
    return v->table->exact || token->position >= SETTLED || v->plan->whole;
}

static uint32_t matrices_of(const af_op *op, const af_matrix *out[AF_OP_MATRICES]) {
    if (op->kind == AF_OP_PER_HEAD) {
        out[0] = &op->u.per_head.w.w; /* one head stands for all */
        return 1;
    }
    if (op->kind != AF_OP_EXPERTS) return af_op_matrices(op, out);
    out[0] = &op->u.experts.gate.w; /* so does one expert */
    out[1] = &op->u.experts.up.w;
    out[2] = &op->u.experts.down.w;
    return 3;
}

/* The format that says what is allowed of a whole pass: the head's or, without one, the embedding's; the first one in
 * blocks where those are plain numbers. */
static const af_format *format_of_results(const af_plan *plan) {
    const af_op_head *head = af_plan_head(plan);
    const af_format *format = head ? head->w.format : plan->ops[0].u.embed.table.format;
    for (size_t i = 0; i < plan->op_count && format->block_elems == 1; i++) {
        const af_matrix *w[AF_PLAN_PARTS];
        for (uint32_t k = 0, n = matrices_of(&plan->ops[i], w); k < n; k++)
            if (w[k]->format->block_elems > 1) return w[k]->format;
    }
    return format;
}

static const char *what_results_are(const af_plan *plan) {
    for (size_t i = 0; i < plan->op_count; i++)
        if (plan->ops[i].kind == AF_OP_ROUTE && plan->ops[i].u.route.w.rows > plan->widths[plan->ops[i].u.route.ids])
            return "routed";
    return af_plan_head(plan) ? "logits" : "states";
}

static void compare_rows(af_verifier *v, size_t batch, const prepared *p, const af_result *result) {
    const af_verify_subject subject = {.what = what_results_are(v->plan),
                                       .format = format_of_results(v->plan),
                                       .name = "a whole pass",
                                       .tokens = v->tokens};
    const float *expected = v->logits[batch];
    for (uint32_t t = 0, r = 0; t < p->batch.token_count; t++) {
        if (!is_compared(v, &p->tokens[t])) continue;
        const af_verify_numbers row = {.found = rows_of(v, result)[r++], .expected = expected, .width = v->row_width};
        if (is_settled(v, &p->tokens[t])) af_verify_compare(v->table, &subject, &row);
        expected += v->row_width;
    }
}

int af_verify_logits(af_verifier *v, af_error *error) {
    int status = AF_OK;
    rewind_all(v);
    for (size_t i = 0; i < AF_VERIFY_BATCHES && status == AF_OK && fits(v, i); i++) {
        prepared p;
        af_ticket ticket;
        af_result result;
        prepare(v, i, AF_CHOOSE_LOGITS, &p);
        if (i + 1 == AF_VERIFY_BATCHES && v->chosen[i - 1] >= 0) p.tokens[0].id = v->chosen[i - 1];
        status = run_on(v->device, &p, &ticket, &result, error);
        if (status == AF_OK) compare_rows(v, i, &p, &result);
    }
    return status;
}

static int decode_rows(af_verifier *v, const af_matrix *w, uint32_t begin, uint32_t count, float *found,
                       float *expected, af_error *error) {
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

static int compare_matrix(af_verifier *v, const af_matrix *w, af_error *error) {
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

/* Every matrix, a shared one each time it is used. */
int af_verify_matrices(af_verifier *v, af_error *error) {
    int status = AF_OK;
    for (size_t i = 0; i < v->plan->op_count && status == AF_OK && v->device->ops->decode; i++) {
        const af_matrix *w[AF_OP_MATRICES];
        for (uint32_t k = 0, n = matrices_of(&v->plan->ops[i], w); k < n && status == AF_OK; k++)
            status = compare_matrix(v, w[k], error);
    }
    return status;
}

uint32_t af_verify_context(const af_plan *plan) {
    uint32_t tokens[AF_VERIFY_SEQUENCES] = {0}, most = 0;
    for (size_t i = 0; i < AF_VERIFY_BATCHES; i++)
        for (uint32_t s = 0; s < AF_VERIFY_SEQUENCES; s++) tokens[s] += shapes[i].tokens[s];
    for (uint32_t s = 0; s < AF_VERIFY_SEQUENCES; s++)
        if (tokens[s] > most) most = tokens[s];
    return plan->context && plan->context < most ? plan->context : most;
}

bool af_verify_rounds(const af_plan *plan) {
    return format_of_results(plan)->block_elems > 1;
}

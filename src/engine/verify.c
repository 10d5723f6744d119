/* verify.c - af_verify: a device beside the CPU, in exact and in fast mode. What is run and compared: verify_run.c. */
#include "engine/verify.h"

#include "base/os.h"
#include "engine/model_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- Opening and closing ---- */

static size_t record_room(const af_plan *plan) {
    size_t numbers = (size_t)AF_VERIFY_LOGITS * plan->vocabulary + (size_t)AF_VERIFY_TOKENS * plan->width;
    for (size_t i = 0; i < plan->op_count; i++) {
        af_value values[AF_PLAN_PARTS];
        for (uint32_t k = 0, n = af_op_written(&plan->ops[i], values); k < n; k++)
            if (values[k] != AF_NO_VALUE) numbers += (size_t)AF_VERIFY_TOKENS * plan->widths[values[k]];
    }
    return numbers * sizeof(float);
}

static af_backend_options options_of(const af_verifier *v, bool exact, const af_backend_hook *hook) {
    af_backend_options o = {.threads = v->options->threads,
                            .exact = exact,
                            .kv = v->options->kv,
                            .carries = AF_VERIFY_SEQUENCES,
                            .max_tokens = AF_VERIFY_TOKENS,
                            .max_rows = AF_VERIFY_LOGITS,
                            .hook = hook};
    af_kv_sizes(v->plan, af_verify_context(v->plan), AF_VERIFY_SEQUENCES, AF_VERIFY_TOKENS, o.pages);
    return o;
}

static int open_verifier(af_verifier *v, af_error *error) {
    v->record_bytes = record_room(v->plan);
    v->row_width = af_plan_head(v->plan) ? v->plan->vocabulary : v->plan->width;
    v->logits_bytes = AF_VERIFY_BATCHES * AF_VERIFY_LOGITS * (size_t)v->row_width * sizeof(float);
    v->record = af_os_pages(v->record_bytes, false);
    v->own = calloc(AF_VERIFY_LOGITS, (size_t)v->row_width * sizeof *v->own);
    v->logits_memory = af_os_pages(v->logits_bytes, false);
    v->latest = calloc(v->plan->value_count, sizeof *v->latest);
    v->written = calloc(v->plan->op_count, sizeof *v->written);
    v->before = calloc(v->plan->op_count, sizeof *v->before);
    v->table = calloc(1, sizeof *v->table);
    v->rounded_record = af_os_pages(v->record_bytes, false); /* not resident unless used */
    if (!v->record || !v->own || !v->rounded_record || !v->logits_memory || !v->latest || !v->written || !v->before ||
        !v->table)
        return af_fail_memory(error, 2 * v->record_bytes + v->logits_bytes, "verify's record");
    af_verify_set_hooks(v);
    const af_backend_options exact = options_of(v, true, &v->reference_hook);
    const int status =
        af_kv_open(v->plan, exact.pages, af_verify_context(v->plan), AF_VERIFY_SEQUENCES, false, &v->kv, error);
    return status == AF_OK ? af_cpu_open(v->plan, &exact, &v->reference, error) : status;
}

static void close_verifier(af_verifier *v) {
    if (v->reference) v->reference->ops->close(v->reference);
    for (uint32_t s = 0; s < AF_VERIFY_SEQUENCES; s++)
        if (v->seqs[s]) af_kv_seq_release(v->kv, v->seqs[s]);
    af_kv_close(v->kv);
    if (v->record) af_os_pages_free(v->record, v->record_bytes);
    if (v->rounded_record) af_os_pages_free(v->rounded_record, v->record_bytes);
    if (v->logits_memory) af_os_pages_free(v->logits_memory, v->logits_bytes);
    free(v->own);
    free(v->latest);
    free(v->written);
    free(v->before);
    free(v->table);
}

/* ---- The run ---- */

static void give_rows(const af_verifier *v, void (*on_row)(void *user, const af_verify_row *row), void *user,
                      af_verify_result *result) {
    for (size_t i = 0; i < v->table->count; i++) {
        result->excesses += v->table->entries[i].row.excess;
        if (on_row) on_row(user, &v->table->entries[i].row);
    }
}

static bool is_cpu(const af_backend *backend) {
    return strcmp(backend->ops->name, "cpu") == 0;
}

static void close_backend(af_backend **backend) {
    if (*backend) (*backend)->ops->close(*backend);
    *backend = NULL;
}

/* The exact reference once more, but with what is multiplied rounded as the device's fast mode does. */
static int open_rounded(af_verifier *v, af_error *error) {
    if (v->table->exact || !v->device->ops->rounding || !af_verify_rounds(v->plan)) return AF_OK;
    af_backend_options options = options_of(v, true, &v->rounded_hook);
    options.rounding = v->device->ops->rounding;
    return af_cpu_open(v->plan, &options, &v->rounded, error);
}

static int open_device(af_verifier *v, const af_verify_opener *opener, const af_backend_hook *hook, af_error *error) {
    const af_backend_options options = options_of(v, v->table->exact, hook);
    const int status = opener->open(opener->user, v->options->device, v->plan, &options, &v->device, error);
    if (status == AF_OK) v->table->half = !v->table->exact && v->device->half_attention;
    return status;
}

/* What a device folds together it must not while each operation is looked at, so it is opened twice. */
static int compare_all(af_verifier *v, const af_verify_opener *opener, af_error *error) {
    int status = open_rounded(v, error);
    if (status == AF_OK) status = af_verify_matrices(v, error);
    if (status == AF_OK) status = af_verify_operations(v, error);
    close_backend(&v->rounded);
    close_backend(&v->device);
    if (status == AF_OK) status = open_device(v, opener, NULL, error);
    return status == AF_OK ? af_verify_logits(v, error) : status;
}

/* Weights widened to f32 may be more than the device holds; then that mode is passed over and said to be. The CPU's
 * exact mode is the reference itself. */
static int run_mode(af_verifier *v, const af_verify_opener *opener, bool exact, af_verify_result *result,
                    af_error *error) {
    *v->table = (af_verify_table){.exact = exact};
    af_error why = {0};
    int status = open_device(v, opener, &v->device_hook, &why);
    const bool passed = status == AF_ENOMEM && exact;
    if (passed) memcpy(result->passed, why.text, sizeof why.text);
    if (status != AF_OK && error) *error = why;
    if (status == AF_OK && !(exact && is_cpu(v->device))) status = compare_all(v, opener, error);
    if (v->device) v->device->ops->describe(v->device, result->device, sizeof result->device);
    close_backend(&v->device);
    return passed ? AF_OK : status;
}

int af_verify_plan(const af_plan *plan, const af_verify_options *options, const af_verify_opener *opener,
                   void (*on_row)(void *user, const af_verify_row *row), void *user, af_verify_result *result,
                   af_error *error) {
    af_verifier v = {.plan = plan, .options = options};
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

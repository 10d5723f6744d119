/* cmd_perplexity.c - `shimmy perplexity`: how likely a model finds a sequence, and how far rounding carries it.
 *
 * Row p is the distribution of token p + 1. All sums are in double. With --kl a second engine on the same model runs
 * with exact arithmetic; the two are fed the same ids and their rows compared in lock step: an engine that has a row
 * waits until the other has the same one. So no more rows are held than the engines hold anyway (a row of a 256 K
 * vocabulary is a megabyte, and there may be thousands).
 */
#include "cli/cli_job.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/output.h"
#include "cli/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct figures {
    size_t rows;
    double nll, kl; /* sums, in nats */
    size_t same_top;
} figures;

/* ---- Rows ---- */

/* A row of logits with what its softmax needs. */
typedef struct row {
    const float *logits;
    size_t count, best;
    double log_sum; /* log(sum(exp(logits))) */
} row;

static size_t best_of(const float *logits, size_t count) {
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

static row make_row(const float *logits, size_t count) {
    const size_t best = best_of(logits, count);
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += exp((double)logits[i] - (double)logits[best]);
    return (row){.logits = logits, .count = count, .best = best, .log_sum = (double)logits[best] + log(sum)};
}

static void add_likelihood(figures *f, const row *r, int32_t next) {
    f->nll += r->log_sum - (double)r->logits[next];
    f->rows++;
}

/* sum of p * (log p - log q), p the exact distribution and q the fast one. With w = exp(exact - its largest) that is
 * sum(w * (exact - fast)) / sum(w) - (log_sum(exact) - log_sum(fast)): one pass over a row of perhaps 256 K. */
static void add_divergence(figures *f, const float *exact, const row *fast) {
    const size_t best = best_of(exact, fast->count);
    const double largest = (double)exact[best];
    double sum = 0, weighted = 0;
    for (size_t i = 0; i < fast->count; i++) {
        const double w = exp((double)exact[i] - largest);
        sum += w;
        weighted += w * ((double)exact[i] - (double)fast->logits[i]);
    }
    f->kl += weighted / sum - (largest + log(sum) - fast->log_sum);
    f->same_top += best == fast->best;
}

/* ---- Two engines in lock step ---- */

typedef struct comparison {
    figures figures;
    const af_ids *ids;
    /* With --kl: the fast engine's row, until the exact one has compared it. */
    af_mutex *mutex;
    af_cond *changed;
    const row *row;
    bool over; /* one of the two has ended: nobody waits any more */
} comparison;

static void on_fast_row(void *user, size_t position, const float *logits, size_t count) {
    comparison *c = user;
    const row r = make_row(logits, count);
    add_likelihood(&c->figures, &r, c->ids->p[position + 1]);
    if (!c->mutex) return;
    af_mutex_lock(c->mutex);
    c->row = &r;
    af_cond_broadcast(c->changed);
    while (c->row && !c->over) af_cond_wait(c->changed, c->mutex);
    c->row = NULL;
    af_mutex_unlock(c->mutex);
}

static void on_exact_row(void *user, size_t position, const float *logits, size_t count) {
    (void)position, (void)count; /* rows come in rising order from both, and both were asked for the same ones */
    comparison *c = user;
    af_mutex_lock(c->mutex);
    while (!c->row && !c->over) af_cond_wait(c->changed, c->mutex);
    if (c->row) add_divergence(&c->figures, logits, c->row);
    c->row = NULL;
    af_cond_broadcast(c->changed);
    af_mutex_unlock(c->mutex);
}

static void on_end(void *user, const af_event *event) {
    comparison *c = user;
    if (event->finish == AF_FINISH_NONE || !c->mutex) return;
    af_mutex_lock(c->mutex);
    c->over = true;
    af_cond_broadcast(c->changed);
    af_mutex_unlock(c->mutex);
}

static int compare_engines(comparison *c, af_engine *fast, af_engine *exact, const af_request *request,
                           af_error *error) {
    shimmy_job fast_job = {.on_event = on_end, .on_logits = on_fast_row, .user = c};
    shimmy_job exact_job = {.on_event = on_end, .on_logits = on_exact_row, .user = c};
    int status = shimmy_job_start(&fast_job, fast, request, error);
    if (status) return status;
    status = shimmy_job_start(&exact_job, exact, request, error);
    const bool both = status == 0;
    if (!both) on_end(c, &(af_event){.finish = AF_FINISH_ERROR});
    const int fast_status = shimmy_job_wait(&fast_job, status ? NULL : error);
    if (!status) status = fast_status;
    const int exact_status = both ? shimmy_job_wait(&exact_job, status ? NULL : error) : 0;
    return status ? status : exact_status;
}

static int run_compared(comparison *c, const shimmy_session *session, const af_engine_options *options,
                        const af_request *request, af_error *error) {
    af_engine_options exact_options = *options;
    exact_options.exact = true;
    exact_options.kv = AF_KV_F32; /* the reference rounds nothing */
    shimmy_progress progress;
    shimmy_progress_start(&progress, session->name, &exact_options);
    af_engine *exact;
    int status = af_engine_open(session->model, &exact_options, &exact, error);
    shimmy_progress_done(&progress);
    if (status) return status;
    c->mutex = af_mutex_open();
    c->changed = af_cond_open();
    status = c->mutex && c->changed ? compare_engines(c, session->engine, exact, request, error)
                                    : af_fail_memory(error, sizeof *c, "a comparison");
    af_engine_close(exact);
    af_cond_close(c->changed);
    af_mutex_close(c->mutex);
    return status;
}

/* ---- The command ---- */

static int run_sequence(comparison *c, const shimmy_options *options, af_error *error) {
    af_engine_options engine;
    int status = shimmy_engine_options(options, 1, &engine, error);
    if (status) return status;
    uint8_t *want = malloc(c->ids->len);
    if (!want) return af_fail_memory(error, c->ids->len, "positions");
    memset(want, 1, c->ids->len);
    want[c->ids->len - 1] = 0; /* nothing follows it that could be likely */
    shimmy_session session;
    status = shimmy_session_engine(options, options->arguments[0], &engine, &session, error);
    if (status) goto done;
    af_request request = af_request_default(NULL);
    request.prompt = c->ids->p;
    request.prompt_count = c->ids->len;
    request.max_tokens = 0;
    request.want = want;
    if (options->kl) {
        status = run_compared(c, &session, &engine, &request, error);
    } else {
        shimmy_job job = {.on_logits = on_fast_row, .user = c};
        status = shimmy_job_run(&job, session.engine, &request, error);
    }
    shimmy_session_close(&session);
done:
    free(want);
    return status;
}

static int print_figures(const comparison *c, const shimmy_options *options, af_error *error) {
    const double rows = (double)c->figures.rows;
    const double nll = c->figures.nll / rows, kl = c->figures.kl / rows;
    const double same_top = (double)c->figures.same_top / rows;
    if (options->json) {
        json_t *object = json_pack("{s:I, s:o, s:o}", "tokens", (json_int_t)c->ids->len, "mean_nll",
                                   shimmy_json_real(nll), "perplexity", shimmy_json_real(exp(nll)));
        if (options->kl) json_object_set_new(object, "mean_kl", shimmy_json_real(kl));
        if (options->kl) json_object_set_new(object, "same_top", shimmy_json_real(same_top));
        return shimmy_print_json(object, error);
    }
    printf("tokens      %zu\nmean nll    %.6f nats\nperplexity  %.4f\n", c->ids->len, nll, exp(nll));
    if (options->kl) printf("mean kl     %.6f nats\nsame top    %.4f\n", kl, same_top);
    return 0;
}

int shimmy_cmd_perplexity(const shimmy_options *options, af_error *error) {
    if (!options->tokens) return af_fail(error, SHIMMY_USAGE, "perplexity needs --tokens FILE of ids");
    af_ids ids;
    int status = shimmy_input_ids(options->tokens, &ids, error);
    if (status) return status;
    comparison c = {.ids = &ids};
    if (ids.len < 2)
        status = af_fail(error, AF_EINVAL, "--tokens: found 1 id, allowed: at least 2");
    else
        status = run_sequence(&c, options, error);
    if (!status) status = print_figures(&c, options, error);
    af_ids_clear(&ids);
    return status;
}

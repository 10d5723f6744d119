/* cmd_logits.c - `shimmy logits`: rows of logits after chosen tokens, a JSON line each; of a model that gives
 * embeddings alone, those tokens' states.
 *
 * Nine significant digits carry an f32 whole, so that two runs can be compared bit for bit by their text. --neighbours
 * runs other sequences of random tokens at the same time, and --warm takes what it can from the cache; neither may
 * change anything: test aids for that promise.
 */
#include "cli/cli_job.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/output.h"
#include "cli/random_ids.h"
#include "cli/session.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- --positions ---- */

/* A list of positions; marks each in want, which has `count` bytes. */
static int mark_listed(const char *text, uint8_t *want, size_t count, af_error *error) {
    for (const char *p = text;; p++) {
        char *end;
        errno = 0;
        const unsigned long position = strtoul(p, &end, 10);
        if (end == p || *p < '0' || *p > '9' || (*end && *end != ',') || errno == ERANGE || position >= count)
            return af_fail(error, AF_EINVAL,
                           "--positions: found '%.*s', allowed: 0 to %zu, apart by commas, or all, or last",
                           (int)strcspn(p, ","), p, count - 1);
        want[position] = 1;
        p = end;
        if (!*p) return 0;
    }
}

static int mark_positions(const char *text, uint8_t *want, size_t count, af_error *error) {
    if (!text || strcmp(text, "last") == 0) {
        want[count - 1] = 1;
        return 0;
    }
    if (strcmp(text, "all") != 0) return mark_listed(text, want, count, error);
    memset(want, 1, count);
    return 0;
}

/* ---- Rows ---- */

/* JSON has no word for what is not finite; null says that it was there. */
static void print_row(const char *name, size_t position, const float *logits, size_t count) {
    printf("{\"position\":%zu,\"%s\":[", position, name);
    for (size_t i = 0; i < count; i++) {
        if (i) putchar(',');
        if (isfinite(logits[i]))
            printf("%.9g", (double)logits[i]);
        else
            fputs("null", stdout);
    }
    puts("]}");
}

static void print_logits(void *user, size_t position, const float *row, size_t count) {
    (void)user;
    print_row("logits", position, row, count);
}

static void print_state(void *user, size_t position, const float *row, size_t count) {
    (void)user;
    print_row("state", position, row, count);
}

/* ---- Neighbours ---- */

typedef struct neighbour {
    shimmy_job job;
    int32_t *ids;
    bool started;
} neighbour;

static void pass_over(void *user, const float *embedding, size_t count) {
    (void)user, (void)embedding, (void)count;
}

/* Prompts of different lengths, so that they decode while ours is still a prompt and the other way about. */
static int start_neighbour(neighbour *n, size_t index, const shimmy_session *session, size_t longest, af_error *error) {
    af_model_info info;
    af_model_get_info(session->model, &info);
    const size_t count = 1 + (longest * (index % 4)) / 4;
    n->ids = malloc(count * sizeof *n->ids);
    if (!n->ids) return af_fail_memory(error, count * sizeof *n->ids, "a neighbour");
    shimmy_random_ids(n->ids, count, info.vocabulary, index + 1);
    af_request request = af_request_default(NULL);
    request.prompt = n->ids;
    request.prompt_count = count;
    request.ignore_eos = true;
    request.sampling.seed = index + 1;
    if (!info.generates) request.on_embedding = pass_over;
    const int status = shimmy_job_start(&n->job, session->engine, &request, error);
    n->started = !status;
    return status;
}

static void stop_neighbours(neighbour *neighbours, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (neighbours[i].started) {
            shimmy_job_cancel(&neighbours[i].job);
            shimmy_job_wait(&neighbours[i].job, NULL);
        }
        free(neighbours[i].ids);
    }
    free(neighbours);
}

/* The same once before, its rows unseen. */
static void pass_over_row(void *user, size_t position, const float *row, size_t count) {
    (void)user, (void)position, (void)row, (void)count;
}

static int run_before(const shimmy_session *session, const af_request *request, af_error *error) {
    shimmy_job job = {.on_logits = pass_over_row};
    return shimmy_job_run(&job, session->engine, request, error);
}

static int run_beside(const shimmy_session *session, const af_request *request, size_t count, bool tell,
                      af_error *error) {
    neighbour *neighbours = calloc(count + 1, sizeof *neighbours);
    if (!neighbours) return af_fail_memory(error, (count + 1) * sizeof *neighbours, "neighbours");
    int status = 0;
    for (size_t i = 0; i < count && !status; i++)
        status = start_neighbour(&neighbours[i], i, session, request->prompt_count, error);
    af_model_info info;
    af_model_get_info(session->model, &info);
    shimmy_job job = {.on_logits = info.generates ? print_logits : print_state};
    if (!status) status = shimmy_job_run(&job, session->engine, request, error);
    stop_neighbours(neighbours, count);
    if (!status && tell) fprintf(stderr, "shimmy: %u tokens came from the cache\n", job.cached_tokens);
    return status;
}

/* ---- The command ---- */

static int run_logits(const shimmy_options *options, const af_ids *ids, const uint8_t *want, af_error *error) {
    af_engine_options engine;
    int status = shimmy_engine_options(options, 1 + (uint32_t)options->neighbours, &engine, error);
    if (status) return status;
    shimmy_session session;
    status = shimmy_session_engine(options, options->arguments[0], &engine, &session, error);
    if (status) return status;
    af_request request = af_request_default(NULL);
    request.prompt = ids->p;
    request.prompt_count = ids->len;
    request.max_tokens = 0;
    request.want = want;
    if (options->warm) status = run_before(&session, &request, error);
    if (!status)
        status = run_beside(&session, &request, (size_t)options->neighbours, options->warm || engine.cache_dir, error);
    shimmy_session_close(&session);
    return status;
}

int shimmy_cmd_logits(const shimmy_options *options, af_error *error) {
    if (!options->tokens) return af_fail(error, SHIMMY_USAGE, "logits needs --tokens 1,2,3 or a file of ids");
    af_ids ids;
    int status = shimmy_input_ids(options->tokens, &ids, error);
    if (status) return status;
    uint8_t *want = calloc(ids.len, 1);
    status =
        want ? mark_positions(options->positions, want, ids.len, error) : af_fail_memory(error, ids.len, "positions");
    if (!status) status = run_logits(options, &ids, want, error);
    free(want);
    af_ids_clear(&ids);
    return status;
}

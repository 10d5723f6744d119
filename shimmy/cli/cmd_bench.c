/* cmd_bench.c - `shimmy bench`: how fast a model runs here.
 *
 * Each run gives the engine `parallel` new prompts of random ids and times its events. The prompt phase ends when the
 * last sequence has its first token; decoding is timed from there, with all prompts in the cache, to the moment when
 * the first sequence has its last token: all of them decode together all that time. One run warms up, the medians of
 * the others are printed. Nothing is speculated: an answer to random ids soon repeats itself, as no real one does.
 */
#include "base/os.h"
#include "cli/cli_job.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/random_ids.h"
#include "cli/session.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct sequence {
    shimmy_job job;
    struct run *run;
    int32_t *ids;
    uint32_t tokens;          /* chosen so far */
    uint32_t tokens_at_start; /* of the decode phase */
    bool started;             /* its job has to be waited for */
} sequence;

typedef struct run {
    sequence *sequences;
    uint32_t count, with_token;          /* sequences, and those that have a token */
    uint64_t submitted, decoding, ended; /* nanoseconds */
    uint64_t decoded;                    /* tokens of all sequences between the last two */
} run;

typedef struct rates {
    double prompt, decode; /* tokens a second */
} rates;

/* ---- One run ---- */

static void begin_decode(run *r, uint64_t now) {
    r->decoding = now;
    for (uint32_t i = 0; i < r->count; i++) r->sequences[i].tokens_at_start = r->sequences[i].tokens;
}

static void on_event(void *user, const af_event *event) {
    sequence *s = user;
    run *r = s->run;
    const uint64_t now = af_os_nanoseconds();
    const bool first = !s->tokens && event->id_count;
    s->tokens += (uint32_t)event->id_count;
    if (first && ++r->with_token == r->count) begin_decode(r, now);
    if (event->finish != AF_FINISH_NONE && !r->ended && r->decoding) {
        r->ended = now;
        r->decoded = (uint64_t)(s->tokens - s->tokens_at_start) * r->count;
    }
}

static int submit(sequence *s, const shimmy_options *options, af_engine *engine, af_error *error) {
    af_request request = af_request_default(NULL);
    request.prompt = s->ids;
    request.prompt_count = (size_t)options->prompt_tokens;
    request.max_tokens = options->gen_tokens;
    request.ignore_eos = true;
    request.sampling.temperature = 0;
    s->job = (shimmy_job){.on_event = on_event, .user = s};
    const int status = shimmy_job_start(&s->job, engine, &request, error);
    s->started = !status;
    return status;
}

/* Waits for all even after a failure; keeps the first one's error. */
static int wait_for_all(run *r, int status, af_error *error) {
    for (uint32_t i = 0; i < r->count; i++) {
        if (!r->sequences[i].started) continue;
        if (status) shimmy_job_cancel(&r->sequences[i].job);
        const int ended = shimmy_job_wait(&r->sequences[i].job, status ? NULL : error);
        if (!status) status = ended;
    }
    return status;
}

static int measure(run *r, const shimmy_options *options, const shimmy_session *session, uint32_t vocabulary,
                   uint64_t seed, rates *out, af_error *error) {
    const size_t prompt = (size_t)options->prompt_tokens;
    r->with_token = 0;
    r->decoding = r->ended = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        r->sequences[i].tokens = 0;
        shimmy_random_ids(r->sequences[i].ids, prompt, vocabulary, seed * 1000 + i);
    }
    int status = 0;
    r->submitted = af_os_nanoseconds();
    for (uint32_t i = 0; i < r->count && !status; i++)
        status = submit(&r->sequences[i], options, session->engine, error);
    status = wait_for_all(r, status, error);
    if (status) return status;
    if (!r->ended || r->ended == r->decoding)
        return af_fail(error, AF_EINVAL, "too few tokens ran together to time them: --gen-tokens %lld, --parallel %u",
                       (long long)options->gen_tokens, r->count);
    out->prompt = (double)prompt * r->count * 1e9 / (double)(r->decoding - r->submitted);
    out->decode = (double)r->decoded * 1e9 / (double)(r->ended - r->decoding);
    return 0;
}

/* ---- All runs ---- */

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count) {
    qsort(values, count, sizeof *values, by_size);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static int measure_all(run *r, const shimmy_options *options, const shimmy_session *session, rates *out,
                       af_error *error) {
    const size_t runs = (size_t)options->runs;
    double *prompt = malloc(2 * runs * sizeof *prompt), *decode = prompt + runs;
    if (!prompt) return af_fail_memory(error, 2 * runs * sizeof *prompt, "measurements");
    af_model_info info;
    af_model_get_info(session->model, &info);
    int status = 0;
    for (size_t i = 0; i <= runs && !status; i++) {
        rates one = {0};
        status = measure(r, options, session, info.vocabulary, i + 1, &one, error);
        if (status || i == 0) continue;
        prompt[i - 1] = one.prompt;
        decode[i - 1] = one.decode;
    }
    if (!status) *out = (rates){median(prompt, runs), median(decode, runs)};
    free(prompt);
    return status;
}

static void close_run(run *r) {
    for (uint32_t i = 0; i < r->count && r->sequences; i++) free(r->sequences[i].ids);
    free(r->sequences);
}

static int open_run(run *r, const shimmy_options *options, uint32_t parallel, af_error *error) {
    const size_t prompt = (size_t)options->prompt_tokens;
    *r = (run){.count = parallel, .sequences = calloc(parallel, sizeof *r->sequences)};
    bool failed = !r->sequences;
    for (uint32_t i = 0; i < parallel && !failed; i++) {
        r->sequences[i].run = r;
        r->sequences[i].ids = malloc(prompt * sizeof(int32_t));
        failed = !r->sequences[i].ids;
    }
    if (!failed) return 0;
    close_run(r);
    return af_fail_memory(error, parallel * prompt * sizeof(int32_t), "prompts");
}

/* ---- The command ---- */

static int print_rates(const shimmy_options *options, const shimmy_session *session, const rates *measured,
                       af_error *error) {
    af_engine_info info;
    af_engine_get_info(session->engine, &info);
    const uint64_t resident = af_os_memory_resident();
    if (options->json) {
        json_t *object = json_pack(
            "{s:o, s:f, s:f, s:f, s:I, s:o, s:I, s:I, s:I, s:I, s:I}", "model", shimmy_json_string(session->name),
            "load_ms", session->load_ms, "prompt_tps", measured->prompt, "decode_tps", measured->decode, "rss_bytes",
            (json_int_t)resident, "device", shimmy_json_string(info.device), "threads", (json_int_t)info.threads,
            "prompt_tokens", (json_int_t)options->prompt_tokens, "gen_tokens", (json_int_t)options->gen_tokens,
            "parallel", (json_int_t)info.parallel, "runs", (json_int_t)options->runs);
        return shimmy_print_json(object, error);
    }
    char size[SHIMMY_SIZE_TEXT];
    printf("model    %s\n", session->name);
    printf("device   %s\n", info.device);
    printf("load     %.0f ms\n", session->load_ms);
    printf("prompt   %.1f tokens/s (%u x %lld tokens)\n", measured->prompt, info.parallel,
           (long long)options->prompt_tokens);
    printf("decode   %.1f tokens/s (%u x %lld tokens)\n", measured->decode, info.parallel,
           (long long)options->gen_tokens);
    printf("memory   %s resident\n", shimmy_size(resident, size));
    return 0;
}

int shimmy_cmd_bench(const shimmy_options *options, af_error *error) {
    af_engine_options engine;
    if (options->profile) {
        setenv("AIRFRAME_GPU_PROFILE", "1", 1);
        setenv("AIRFRAME_CPU_PROFILE", "1", 1);
    }
    int status = shimmy_engine_options(options, 1, &engine, error);
    if (status) return status;
    engine.speculate = AF_SPECULATE_OFF;
    if (!engine.ctx) engine.ctx = (uint32_t)(options->prompt_tokens + options->gen_tokens);
    shimmy_session session;
    status = shimmy_session_engine(options, options->arguments[0], &engine, &session, error);
    if (status) return status;
    run r;
    rates measured = {0};
    status = open_run(&r, options, engine.parallel, error);
    if (!status) {
        status = measure_all(&r, options, &session, &measured, error);
        close_run(&r);
    }
    if (!status) status = print_rates(options, &session, &measured, error);
    shimmy_session_close(&session);
    return status;
}

/* engine_talk.h - an engine on the fake backend, requests to it, and what is heard of them: for the engine's tests. */
#ifndef ENGINE_TALK_H
#define ENGINE_TALK_H

#include "fake_model.h"

#include "engine/engine_internal.h"
#include "engine/model_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* ---- An engine on the fake backend ---- */

enum { CTX = 2048, WORDS = FAKE_VOCABULARY - FAKE_WORD };

static af_op ops[] = {{.kind = AF_OP_STATE, .name = "states"}, {.kind = AF_OP_HEAD, .name = "output"}};
static const af_plan plan = {.ops = ops,
                             .op_count = 2,
                             .pooling = AF_POOLING_LAST,
                             .groups = {{0}, {FAKE_WINDOW}},
                             .group_count = 2,
                             .vocabulary = FAKE_VOCABULARY,
                             .context = CTX,
                             .width = FAKE_WIDTH,
                             .layers = 1};
static af_model *model;

typedef struct bench {
    fake_backend *backend;
    af_engine *engine;
} bench;

static inline af_engine_options small_options(void) {
    af_engine_options options = af_engine_options_default();
    options.ctx = CTX;
    options.queue = 8;
    options.parallel = 4;
    return options;
}

static const unsigned char first_model[AF_SHA256_BYTES] = {1};
static const unsigned char *bench_model = first_model; /* what tells the model from others, and the device */
static const char *bench_kind = "fake";

static uint32_t attempts, failures; /* to open a lost device again; the first so many fail */
static fake_backend *opened;

static inline int open_again(const af_plan *of, const af_engine_options *options, af_backend **out, af_error *error) {
    assert_string_equal(options->device, "auto");
    if (attempts++ < failures) return af_fail(error, AF_EIO, "device: not there yet");
    opened = fake_open(of);
    *out = &opened->base;
    return AF_OK;
}

static inline bench bench_open_on(const af_plan *of, af_engine_options options) {
    bench b = {.backend = fake_open(of)};
    b.backend->kind = bench_kind;
    af_engine_parts parts = {.plan = of,
                             .tokenizer = af_model_tokenizer(model),
                             .backend = &b.backend->base,
                             .open = open_again,
                             .model = bench_model};
    af_error error;
    if (af_engine_open_with(&parts, &options, &b.engine, &error) < 0) fail_msg("%s", error.text);
    return b;
}

static inline bench bench_open(af_engine_options options) {
    return bench_open_on(&plan, options);
}

/* Whatever was run, the cache must have held what each token may see. */
static inline void bench_close(bench *b) {
    fake_backend *backend = b->backend;
    af_mutex_lock(backend->mutex);
    const char *fault = backend->fault;
    af_mutex_unlock(backend->mutex);
    if (fault) fail_msg("%s", fault);
    af_engine_close(b->engine);
}

/* ---- A request and what is heard of it ---- */

typedef struct talk {
    af_engine *engine;
    uint64_t id;
    char text[16384];
    size_t length;
    int32_t ids[4096];
    size_t id_count;
    uint32_t events, finals;
    af_finish finish;
    char error[512];
    uint32_t prompt_tokens, cached_tokens, completion_tokens;
    uint64_t order; /* of the last event among all requests */
    size_t rows, positions[2048];
    float row_best[2048]; /* the id of each row's largest logit */
    void (*hook)(struct talk *talk, const af_event *event);
    struct talk *other;
    int submitted;
    float embedding[FAKE_WIDTH];
    uint32_t embeddings;
    const char *wrong; /* what a callback saw that it must not see; NULL: nothing */
} talk;

static af_mutex *talk_mutex;
static af_cond *talk_changed;
static uint64_t talk_order;

static inline void hear(void *user, const af_event *event) {
    talk *t = user;
    if (t->hook) t->hook(t, event);
    af_mutex_lock(talk_mutex);
    if (t->finals > 0) t->wrong = "an event after the last one";
    memcpy(t->text + t->length, event->text, event->length);
    t->length += event->length;
    t->text[t->length] = '\0';
    memcpy(t->ids + t->id_count, event->ids, event->id_count * sizeof *event->ids);
    t->id_count += event->id_count;
    t->events++;
    t->prompt_tokens = event->prompt_tokens;
    t->cached_tokens = event->cached_tokens;
    t->completion_tokens = event->completion_tokens;
    if (event->finish != AF_FINISH_NONE) {
        t->finals++;
        t->finish = event->finish;
        t->order = ++talk_order;
        if (event->error) snprintf(t->error, sizeof t->error, "%s", event->error->text);
    }
    af_cond_broadcast(talk_changed);
    af_mutex_unlock(talk_mutex);
}

static inline void hear_row(void *user, size_t position, const float *logits, size_t count) {
    talk *t = user;
    if (count != FAKE_VOCABULARY) t->wrong = "a row of another length";
    size_t best = 0;
    for (size_t i = 1; i < count; i++) best = logits[i] > logits[best] ? i : best;
    t->positions[t->rows] = position;
    t->row_best[t->rows++] = (float)best;
}

static inline talk *talk_new(bench *b) {
    talk *t = calloc(1, sizeof *t);
    t->engine = b->engine;
    return t;
}

static inline af_request request_for(talk *t, const int32_t *prompt, size_t count) {
    af_request r = af_request_default(NULL);
    r.sampling.temperature = 0;
    r.prompt = prompt;
    r.prompt_count = count;
    r.on_event = hear;
    r.user = t;
    return r;
}

static const int32_t hi_go[] = {1, FAKE_BYTE + 'h', FAKE_BYTE + 'i', FAKE_GO};

static inline af_request tea_request(talk *t) {
    return request_for(t, hi_go, 4);
}

/* Says words round and round, until max_tokens. */
static inline af_request word_request(talk *t, int64_t max_tokens) {
    static const int32_t word[] = {1, FAKE_WORD};
    af_request r = request_for(t, word, 2);
    r.max_tokens = max_tokens;
    return r;
}

/* Goes on from `count` ids with `more` words, as the backend must. */
static inline void words_by_history(int32_t *ids, size_t count, size_t more) {
    uint64_t history = 0;
    for (size_t i = 0; i < count + more; i++) {
        if (i >= count) ids[i] = FAKE_WORD + (int32_t)(history % WORDS);
        history = fake_history(history, ids[i]);
    }
}

static inline void submit(talk *t, const af_request *r) {
    af_error error;
    if (af_submit(t->engine, r, &t->id, &error) < 0) fail_msg("%s", error.text);
}

static inline void wait_for_tokens(talk *t, uint32_t tokens) {
    af_mutex_lock(talk_mutex);
    while (t->completion_tokens < tokens && t->finals == 0) af_cond_wait(talk_changed, talk_mutex);
    af_mutex_unlock(talk_mutex);
}

static inline void wait_for_end(talk *t) {
    af_mutex_lock(talk_mutex);
    while (t->finals == 0) af_cond_wait(talk_changed, talk_mutex);
    const char *wrong = t->wrong;
    af_mutex_unlock(talk_mutex);
    if (wrong) fail_msg("%s", wrong);
}

static inline void check_talk(talk *t, const char *text, af_finish finish, uint32_t prompt, uint32_t completion) {
    wait_for_end(t);
    assert_string_equal(t->text, text);
    assert_int_equal(t->finish, finish);
    assert_int_equal(t->prompt_tokens, prompt);
    assert_int_equal(t->completion_tokens, completion);
    assert_int_equal(t->id_count, completion);
    free(t);
}

static inline int open_all(void **state) {
    af_model_options options = af_model_options_default();
    af_error error;
    options.load = AF_LOAD_FILE;
    talk_mutex = af_mutex_open();
    talk_changed = af_cond_open();
    if (af_model_open(fake_vocabulary(), &options, &model, &error) == AF_OK) return 0;
    fprintf(stderr, "%s\n", error.text);
    return 1;
}

static inline int close_all(void **state) {
    af_model_close(model);
    af_cond_close(talk_changed);
    af_mutex_close(talk_mutex);
    return 0;
}

#endif

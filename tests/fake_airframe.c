/* fake_airframe.c - airframe.h without models, for tests of the server alone.
 *
 * It is the counter model of tools/counter_gguf.py with the pieces "gr", "een", " tea": after id i it says id i + 1, a
 * chat answer is "green tea" and EOS. So the same tests hold against the real engine. Words in a prompt make it
 * misbehave on purpose, which the real one cannot be asked to:
 *
 *     #slow=MS   waits before each token          #fail=N   fails after N tokens
 *     #big=N     N tokens of 1024 bytes           #hang     says nothing until cancelled
 *
 * An embedding is that of the last token. FAKE_LOAD_MS delays opening a file; a model path that ends in "missing.gguf"
 * does not open, one with "encoder" in it does not generate, one with "ranks" gives no embeddings, one with "slow=MS"
 * takes so long to load and tells how far it is.
 */
#include "airframe.h"
#include "base/buf.h"
#include "base/os.h"

#include <jansson.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    BOS = 0,
    BYTES = 1,
    FFFE = 257,
    START = 258,
    PIECES = 259,
    EOS = 262,
    VOCABULARY = 263,
    CONTEXT = 2048,
    WIDTH = 4
};

struct af_model {
    char path[512];
    char bytes[256][2];
};

struct af_template {
    int unused;
};

typedef struct running {
    struct running *next;
    af_request request;
    uint64_t id;
    char *stops[16];
    int32_t last;
    uint32_t done; /* tokens said */
    af_buf held;   /* text held back for a stop string */
    uint64_t wake; /* not before this time */
    int slow, fail, big;
    bool hang;
    atomic_bool canceled;
} running;

struct af_engine {
    const af_model *model;
    af_engine_options options;
    af_mutex *lock;
    af_cond *changed;
    af_thread *thread;
    running *first; /* in order of arrival: the first `parallel` run */
    uint64_t next_id;
    atomic_bool closing;
    uint64_t prompt_tokens;
    atomic_uint_least64_t generated;
};

static void sleep_ms(long ms) {
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&t, NULL);
}

/* ---- Models ---- */

af_model_options af_model_options_default(void) {
    return (af_model_options){.load = AF_LOAD_MODEL};
}

int af_model_open(const char *path, const af_model_options *options, af_model **out, af_error *error) {
    (void)options;
    const char *ms = getenv("FAKE_LOAD_MS");
    if (ms) sleep_ms(atol(ms));
    size_t n = strlen(path);
    if (n >= 12 && strcmp(path + n - 12, "missing.gguf") == 0) return af_fail(error, AF_EIO, "%s: no such file", path);
    af_model *model = calloc(1, sizeof *model);
    snprintf(model->path, sizeof model->path, "%s", path);
    for (int i = 0; i < 256; i++) model->bytes[i][0] = (char)i;
    *out = model;
    return 0;
}

void af_model_close(af_model *model) {
    free(model);
}

void af_model_get_info(const af_model *model, af_model_info *out) {
    *out = (af_model_info){.path = model->path,
                           .name = "counter",
                           .architecture = "llama",
                           .quantization = "F32",
                           .mix = "",
                           .shards = 1,
                           .context = CONTEXT,
                           .vocabulary = VOCABULARY,
                           .width = WIDTH,
                           .has_template = true,
                           .generates = strstr(model->path, "encoder") == NULL,
                           .pooling = strstr(model->path, "ranks") ? AF_POOLING_NONE : AF_POOLING_LAST,
                           .runnable = true,
                           .why_not = ""};
}

/* ---- Text ---- */

int af_token_piece(const af_model *model, int32_t id, const char **text, size_t *length) {
    static const char *const names[] = {"\xff\xfe", "<|go|>", "gr", "een", " tea", "</s>"};
    *length = 1;
    if (id >= BYTES && id < FFFE)
        *text = model->bytes[id - BYTES];
    else
        *text = id == BOS ? "<s>" : names[id - FFFE];
    if (id == BOS || id >= FFFE) *length = strlen(*text);
    return 0;
}

bool af_token_is_end(const af_model *model, int32_t id) {
    (void)model;
    return id == EOS;
}

af_stage af_stage_named(const char *name) {
    return strcmp(name, "temperature") == 0 ? AF_STAGE_TEMPERATURE : AF_STAGE_END;
}

int af_tokenize(const af_model *model, const char *text, size_t length, unsigned flags, int32_t **ids, size_t *count,
                af_error *error) {
    (void)model, (void)error;
    af_ids out = {0};
    if (flags & AF_ADD_SPECIAL) af_ids_push(&out, BOS);
    for (size_t i = 0; i < length; i++) {
        bool start = (flags & AF_PARSE_SPECIAL) && length - i >= 6 && memcmp(text + i, "<|go|>", 6) == 0;
        af_ids_push(&out, start ? START : BYTES + (unsigned char)text[i]);
        if (start) i += 5;
    }
    if (!out.p) out.p = malloc(sizeof *out.p);
    *ids = out.p;
    *count = out.len;
    return 0;
}

int af_detokenize(const af_model *model, const int32_t *ids, size_t count, char **text, size_t *length,
                  af_error *error) {
    af_buf out = {0};
    for (size_t i = 0; i < count; i++) {
        const char *piece;
        size_t n;
        if (ids[i] < 0 || ids[i] >= VOCABULARY) return af_fail(error, AF_EINVAL, "id %d", ids[i]);
        af_token_piece(model, ids[i], &piece, &n);
        af_buf_append(&out, piece, n);
    }
    *text = af_buf_take(&out, length);
    return 0;
}

void af_prompt_clear(af_prompt *prompt) {
    free(prompt->text);
    free(prompt->origin);
    *prompt = (af_prompt){0};
}

af_render_options af_render_options_default(void) {
    return (af_render_options){0};
}

int af_template_open(const char *source, size_t length, af_template **out, af_error *error) {
    (void)source, (void)length, (void)error;
    *out = calloc(1, sizeof **out);
    return 0;
}

void af_template_close(af_template *tmpl) {
    free(tmpl);
}

static void add_content(af_buf *text, const json_t *content) {
    if (json_is_string(content)) af_buf_text(text, json_string_value(content));
    for (size_t i = 0; i < json_array_size(content); i++)
        af_buf_text(text, json_string_value(json_object_get(json_array_get(content, i), "text")));
}

int af_model_render(const af_model *model, const af_template *custom, const char *request, size_t length,
                    const af_render_options *options, af_prompt *out, af_error *error) {
    (void)model, (void)custom, (void)options;
    json_t *json = json_loadb(request, length, 0, NULL);
    json_t *messages = json_object_get(json, "messages");
    af_buf text = {0};
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *message = json_array_get(messages, i);
        const char *role = json_string_value(json_object_get(message, "role"));
        if (strcmp(role, "raise") == 0) {
            af_buf_clear(&text);
            json_decref(json);
            return af_fail(error, AF_ETEMPLATE, "Conversation roles must alternate");
        }
        af_buf_printf(&text, "[%s] ", role);
        add_content(&text, json_object_get(message, "content"));
        af_buf_text(&text, "\n");
    }
    size_t users = text.len;
    af_buf_text(&text, "<|go|>");
    json_decref(json);
    out->text = af_buf_take(&text, &out->length);
    out->origin = calloc(out->length, 1);
    memset(out->origin, 1, users);
    return 0;
}

bool af_model_template_mentions(const af_model *model, const af_template *custom, const char *text) {
    (void)model, (void)custom, (void)text;
    return false;
}

int af_prompt_tokenize(const af_model *model, const af_prompt *prompt, int32_t **ids, size_t *count, af_error *error) {
    size_t users = 0;
    while (users < prompt->length && prompt->origin[users]) users++;
    if (!users)
        return af_tokenize(model, prompt->text, prompt->length, AF_ADD_SPECIAL | AF_PARSE_SPECIAL, ids, count, error);
    af_tokenize(model, prompt->text, users, AF_ADD_SPECIAL, ids, count, error);
    *ids = realloc(*ids, (*count + 1) * sizeof **ids);
    (*ids)[(*count)++] = START;
    return 0;
}

/* ---- Engine ---- */

af_engine_options af_engine_options_default(void) {
    return (af_engine_options){.device = "auto", .parallel = 4, .queue = 64, .prefill_chunk = 512};
}

af_sampling af_sampling_default(const af_model *model) {
    (void)model;
    return (af_sampling){
        .temperature = 1, .top_p = 1, .repeat_penalty = 1, .repeat_last_n = 64, .seed = AF_SEED_RANDOM};
}

af_request af_request_default(const af_model *model) {
    return (af_request){.max_tokens = -1, .sampling = af_sampling_default(model)};
}

/* Text that could still become a stop string stays; what lies before it goes out. True if one is complete. */
static bool hold_back(const running *r, const af_buf *held, size_t *emit) {
    *emit = held->len;
    for (size_t at = 0; at < held->len; at++)
        for (size_t s = 0; s < r->request.stop_count; s++) {
            size_t n = strlen(r->stops[s]), left = held->len - at;
            if (memcmp(held->p + at, r->stops[s], n < left ? n : left) != 0) continue;
            *emit = at;
            return left >= n;
        }
    return false;
}

static void report(running *r, const char *text, size_t length, af_finish finish, const af_error *error) {
    af_event event = {.request = r->id,
                      .text = text ? text : "",
                      .length = length,
                      .finish = finish,
                      .error = error,
                      .prompt_tokens = (uint32_t)r->request.prompt_count,
                      .completion_tokens = r->done};
    r->request.on_event(r->request.user, &event);
}

static bool finish_with(running *r, af_finish finish, const char *what) {
    af_error error;
    if (what) af_fail(&error, AF_EIO, "%s", what);
    report(r, r->held.p, r->held.len, finish, what ? &error : NULL);
    return true;
}

/* What the next token says. */
static const char *next_text(af_engine *engine, running *r, size_t *length, bool *end) {
    static char big[1024];
    const char *text;
    *end = false;
    if (r->big) {
        memset(big, 'x', sizeof big);
        *length = sizeof big;
        *end = r->done > (uint32_t)r->big;
        return big;
    }
    r->last = (r->last + 1) % VOCABULARY;
    *end = r->last == EOS && !r->request.ignore_eos;
    af_token_piece(engine->model, r->last, &text, length);
    if (r->last == EOS || r->last == BOS || r->last == START) *length = 0;
    return text;
}

/* A vector of length 1 in the direction of the last token. */
static void embed(running *r) {
    const float vector[WIDTH] = {cosf((float)r->last), sinf((float)r->last)};
    r->request.on_embedding(r->request.user, vector, WIDTH);
}

/* One token of one request. True when it is over. */
static bool step(af_engine *engine, running *r) {
    if (r->canceled || engine->closing) return finish_with(r, AF_FINISH_CANCEL, NULL);
    if (r->hang) return false;
    if (r->slow && af_os_nanoseconds() < r->wake) return false;
    r->wake = af_os_nanoseconds() + (uint64_t)r->slow * 1000000u;
    if (r->request.on_embedding && r->fail < 0) {
        embed(r);
        return finish_with(r, AF_FINISH_STOP, NULL);
    }
    if (r->request.max_tokens == 0) return finish_with(r, AF_FINISH_LENGTH, NULL);
    if (r->fail >= 0 && r->done >= (uint32_t)r->fail)
        return finish_with(r, AF_FINISH_ERROR, "the fake failed as asked");
    bool end;
    size_t length, emit;
    const char *text = next_text(engine, r, &length, &end);
    r->done++;
    engine->generated++;
    if (end) return finish_with(r, AF_FINISH_STOP, NULL);
    af_buf_append(&r->held, text, length);
    bool stopped = hold_back(r, &r->held, &emit);
    bool full = (r->request.max_tokens > 0 && r->done >= (uint64_t)r->request.max_tokens) ||
                (!r->big && r->request.prompt_count + r->done >= engine->options.ctx);
    if (stopped) r->held.len = emit;
    if (stopped || full) return finish_with(r, stopped ? AF_FINISH_STOP : AF_FINISH_LENGTH, NULL);
    report(r, r->held.p, emit, AF_FINISH_NONE, NULL);
    memmove(r->held.p, r->held.p + emit, r->held.len - emit);
    r->held.len -= emit;
    return false;
}

static void drop(running *r) {
    for (size_t i = 0; i < r->request.stop_count; i++) free(r->stops[i]);
    af_buf_clear(&r->held);
    free(r);
}

static void run_engine(void *user) {
    af_engine *engine = user;
    af_mutex_lock(engine->lock);
    while (!engine->closing || engine->first) {
        if (!engine->first) {
            af_cond_wait(engine->changed, engine->lock);
            continue;
        }
        uint32_t at = 0;
        bool moved = false;
        for (running **link = &engine->first; *link && (at < engine->options.parallel || (*link)->canceled); at++) {
            running *r = *link;
            af_mutex_unlock(engine->lock);
            uint32_t before = r->done;
            bool over = step(engine, r);
            af_mutex_lock(engine->lock);
            moved = moved || over || r->done > before;
            if (over) {
                while (*link != r) link = &(*link)->next;
                *link = r->next;
                drop(r);
            } else {
                link = &r->next;
            }
        }
        if (engine->first && !moved) af_cond_wait_for(engine->changed, engine->lock, 1000000);
    }
    af_mutex_unlock(engine->lock);
}

/* The number after `word` in a text, or `otherwise`. */
static int directive(const char *text, const char *word, int otherwise) {
    const char *found = strstr(text, word);
    return found ? atoi(found + strlen(word)) : otherwise;
}

static void load_slowly(const af_model *model, const af_engine_options *options) {
    enum { STEPS = 10 };
    const int ms = directive(model->path, "slow=", 0);
    for (int i = 0; ms && i < STEPS; i++) {
        if (options->progress) options->progress(options->progress_user, (double)i / STEPS);
        sleep_ms(ms / STEPS);
    }
}

int af_engine_open(const af_model *model, const af_engine_options *options, af_engine **out, af_error *error) {
    load_slowly(model, options);
    af_engine *engine = calloc(1, sizeof *engine);
    engine->model = model;
    engine->options = *options;
    if (!engine->options.ctx) engine->options.ctx = CONTEXT;
    engine->lock = af_mutex_open();
    engine->changed = af_cond_open();
    *out = engine;
    return af_thread_start(&engine->thread, "fake", run_engine, engine, error);
}

void af_engine_close(af_engine *engine) {
    if (!engine) return;
    af_mutex_lock(engine->lock);
    engine->closing = true;
    af_cond_broadcast(engine->changed);
    af_mutex_unlock(engine->lock);
    af_thread_join(engine->thread);
    af_cond_close(engine->changed);
    af_mutex_close(engine->lock);
    free(engine);
}

static uint32_t count_requests(const af_engine *engine) {
    uint32_t count = 0;
    for (const running *r = engine->first; r; r = r->next) count++;
    return count;
}

void af_engine_get_info(const af_engine *engine, af_engine_info *out) {
    af_mutex_lock(engine->lock);
    uint32_t count = count_requests(engine), parallel = engine->options.parallel;
    *out = (af_engine_info){.ctx = engine->options.ctx,
                            .parallel = parallel,
                            .queue = engine->options.queue,
                            .threads = 1,
                            .device = "fake",
                            .running = count < parallel ? count : parallel,
                            .waiting = count > parallel ? count - parallel : 0,
                            .prompt_tokens = engine->prompt_tokens,
                            .generated_tokens = engine->generated};
    af_mutex_unlock(engine->lock);
}

static running *new_running(const af_engine *engine, const af_request *request) {
    running *r = calloc(1, sizeof *r);
    char *prompt;
    size_t length;
    r->request = *request;
    r->last = request->prompt[request->prompt_count - 1];
    for (size_t i = 0; i < request->stop_count; i++) r->stops[i] = strdup(request->stops[i]);
    af_detokenize(engine->model, request->prompt, request->prompt_count, &prompt, &length, NULL);
    r->slow = directive(prompt, "#slow=", 0);
    r->fail = directive(prompt, "#fail=", -1);
    r->big = directive(prompt, "#big=", 0);
    r->hang = strstr(prompt, "#hang") != NULL;
    free(prompt);
    return r;
}

int af_submit(af_engine *engine, const af_request *request, uint64_t *id, af_error *error) {
    if (request->prompt_count >= engine->options.ctx + (request->on_embedding != NULL))
        return af_fail(error, AF_ECONTEXT, "prompt: %zu tokens, context %u", request->prompt_count,
                       engine->options.ctx);
    running *r = new_running(engine, request);
    af_mutex_lock(engine->lock);
    if (count_requests(engine) >= engine->options.parallel + engine->options.queue) {
        af_mutex_unlock(engine->lock);
        drop(r);
        return af_fail(error, AF_EFULL, "the queue is full: %u wait already", engine->options.queue);
    }
    running **end = &engine->first;
    while (*end) end = &(*end)->next;
    *end = r;
    *id = r->id = ++engine->next_id;
    engine->prompt_tokens += request->prompt_count;
    af_cond_signal(engine->changed);
    af_mutex_unlock(engine->lock);
    return 0;
}

void af_cancel(af_engine *engine, uint64_t id) {
    af_mutex_lock(engine->lock);
    for (running *r = engine->first; r; r = r->next)
        if (r->id == id) r->canceled = true;
    af_cond_signal(engine->changed);
    af_mutex_unlock(engine->lock);
}

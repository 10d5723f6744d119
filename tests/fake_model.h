/* fake_model.h - a vocabulary and a backend for tests of the engine without a real model.
 *
 * The vocabulary is a real one, opened from a file written here: <unk>, <s>, the 256 bytes, <|go|>, "gr", "een", "
 * tea",
 * </s>, then words of one letter and a digit. The backend counts: after token i it says next[i], which is i + 1 unless
 * a test says otherwise. It keeps what a real one would keep in its cache, and checks on every token that all its
 * sequence may see is still there: pages that overlap, or were given back too early, are found.
 *
 * With FAKE_IN_HALVES it is as a GPU is: steps can be prepared, and what a batch holds may change results, so that
 * nothing is drafted. With FAKE_IN_FLIGHT it is as a GPU that also chooses and draws tokens itself: several steps may
 * be submitted before the first is collected. Some of its draws are wrong, and some rows it would have to be asked for
 * again, as a real one's are now and then.
 */
#ifndef FAKE_MODEL_H
#define FAKE_MODEL_H

#include "temp_file.h"

#include "airframe.h"
#include "backend/backend.h"
#include "base/os.h"

#include <math.h>
#include <stdatomic.h>
#include <stdint.h>

enum {
    FAKE_BYTE = 2,
    FAKE_GO = 258,
    FAKE_GR,
    FAKE_EEN,
    FAKE_TEA,
    FAKE_EOS,
    FAKE_WORD,
    FAKE_VOCABULARY = 320,
    FAKE_PAGES = 4096,
    FAKE_ROWS = 128,
    FAKE_LOG = 8192,
    FAKE_WINDOW = 40,
    FAKE_STATES = 1024,
    FAKE_WIDTH = 2 /* of a state: the token's id, and its position from 1 */
};

/* ---- The vocabulary's file ---- */

typedef struct fake_file {
    unsigned char bytes[32768];
    size_t size;
} fake_file;

static inline void fake_put(fake_file *f, const void *p, size_t n) {
    if (f->size + n > sizeof f->bytes) abort();
    memcpy(f->bytes + f->size, p, n);
    f->size += n;
}

static inline void fake_put_u32(fake_file *f, uint32_t v) {
    fake_put(f, &v, sizeof v);
}

static inline void fake_put_u64(fake_file *f, uint64_t v) {
    fake_put(f, &v, sizeof v);
}

static inline void fake_put_text(fake_file *f, const char *text) {
    fake_put_u64(f, strlen(text));
    fake_put(f, text, strlen(text));
}

static inline void fake_put_key(fake_file *f, const char *key, uint32_t type) {
    fake_put_text(f, key);
    fake_put_u32(f, type);
}

static inline void fake_put_array(fake_file *f, const char *key, uint32_t element_type) {
    fake_put_key(f, key, 9);
    fake_put_u32(f, element_type);
    fake_put_u64(f, FAKE_VOCABULARY);
}

static inline const char *fake_token(uint32_t id, char *room, uint32_t *kind) {
    static const char *const named[] = {"<|go|>", "gr", "een", "\xE2\x96\x81tea", "</s>"};
    *kind = id == 0 ? 2 : id == 1 || id == FAKE_GO || id == FAKE_EOS ? 3 : id < FAKE_GO ? 6 : 1;
    if (id == 0) return "<unk>";
    if (id == 1) return "<s>";
    if (id < FAKE_GO) snprintf(room, 16, "<0x%02X>", id - FAKE_BYTE);
    if (id >= FAKE_WORD) snprintf(room, 16, "%c%u", 'a' + (id - FAKE_WORD) % 26, (id - FAKE_WORD) / 26);
    return id >= FAKE_GO && id < FAKE_WORD ? named[id - FAKE_GO] : room;
}

static inline const char *fake_vocabulary(void) {
    static fake_file f;
    const float temperature = 0.6f, top_p = 5;
    char room[16];
    uint32_t kind;
    f.size = 0;
    fake_put(&f, "GGUF", 4);
    fake_put_u32(&f, 3);
    fake_put_u64(&f, 0);
    fake_put_u64(&f, 11);
    fake_put_key(&f, "general.sampling.temp", 6);
    fake_put(&f, &temperature, sizeof temperature);
    fake_put_key(&f, "general.sampling.top_p", 6); /* out of bounds */
    fake_put(&f, &top_p, sizeof top_p);
    fake_put_key(&f, "general.sampling.top_k", 4);
    fake_put_u32(&f, 64);
    fake_put_key(&f, "general.architecture", 8);
    fake_put_text(&f, "llama");
    fake_put_key(&f, "tokenizer.ggml.model", 8);
    fake_put_text(&f, "llama");
    fake_put_array(&f, "tokenizer.ggml.tokens", 8);
    for (uint32_t id = 0; id < FAKE_VOCABULARY; id++) fake_put_text(&f, fake_token(id, room, &kind));
    fake_put_array(&f, "tokenizer.ggml.scores", 6);
    for (uint32_t id = 0; id < FAKE_VOCABULARY; id++) fake_put_u32(&f, 0);
    fake_put_array(&f, "tokenizer.ggml.token_type", 5);
    for (uint32_t id = 0; id < FAKE_VOCABULARY; id++) {
        fake_token(id, room, &kind);
        fake_put_u32(&f, kind);
    }
    fake_put_key(&f, "tokenizer.ggml.bos_token_id", 4);
    fake_put_u32(&f, 1);
    fake_put_key(&f, "tokenizer.ggml.eos_token_id", 4);
    fake_put_u32(&f, FAKE_EOS);
    fake_put_key(&f, "tokenizer.ggml.add_space_prefix", 7);
    fake_put(&f, "", 1);
    return temp_write("fake.gguf", f.bytes, f.size);
}

/* ---- The backend ---- */

typedef struct fake_slot {
    uint32_t position;
    uint64_t history; /* of the sequence's tokens up to here */
} fake_slot;

typedef struct fake_step {
    uint32_t tokens, seqs, rows;
} fake_step;

/* What a step gave, until the next so many. */
enum { FAKE_FLIGHT = 4 };
typedef struct fake_rows {
    float logits[FAKE_ROWS][FAKE_VOCABULARY];
    const float *row_logits[FAKE_ROWS];
    int32_t row_ids[FAKE_ROWS];
    uint32_t row_count;
} fake_rows;

typedef struct fake_backend {
    af_backend base;
    const af_plan *plan;
    int32_t next[FAKE_VOCABULARY];
    bool recalls; /* the next id is a word that all of the sequence's tokens decide, as the cache has them */
    float spread; /* 0: the next id is certain; else the logit of id next + k is -k * spread */
    fake_slot (*cache)[FAKE_PAGES][AF_KV_PAGE]; /* (groups) */
    fake_rows rows[FAKE_FLIGHT];                /* of the step of that number, modulo */
    float states[FAKE_STATES][FAKE_WIDTH];
    const float *state_rows[FAKE_STATES];
    uint32_t state_count;
    const char *kind;  /* of its pages */
    const char *fault; /* what was found wrong with a batch; NULL: nothing */

    af_mutex *mutex; /* guards what follows; tests read the rest when the engine is idle or held */
    af_cond *changed;
    bool inside;
    uint32_t hold_at; /* the number of the step, from 1, that waits, as do all after it; 0: none */
    unsigned pause;   /* microseconds that each step takes */
    uint32_t fail_at; /* the number of the step that fails, from 1; 0: none */
    uint32_t lose_at; /* the number of the step that loses the device, which then fails for good; 0: none */
    bool lost;
    uint32_t step_count;
    fake_step steps[FAKE_LOG];

    uint32_t strays, forgets; /* one in so many draws is wrong, one in so many rows is gone; 0: none */
    uint32_t flown;           /* tokens whose ids an earlier step chose */

    af_batch_token prepared[FAKE_ROWS]; /* FAKE_IN_HALVES */
    uint32_t prepared_count;
} fake_backend;

static inline uint64_t fake_history(uint64_t before, int32_t id) {
    return (before ^ (uint64_t)(id + 1)) * UINT64_C(0x9E3779B97F4A7C15);
}

static inline fake_slot *fake_slot_of(fake_backend *b, const af_batch_seq *seq, size_t group, uint32_t position) {
    uint32_t page = seq->pages[group][position / AF_KV_PAGE];
    if (page >= FAKE_PAGES) return NULL;
    return &b->cache[group][page][position % AF_KV_PAGE];
}

/* Every position the token may see must be there. Returns the history before it. */
static inline uint64_t fake_look_back(fake_backend *b, const af_batch_seq *seq, size_t group, uint32_t position) {
    uint32_t window = b->plan->groups[group].window;
    uint32_t first = window && position >= window ? position - window + 1 : 0;
    for (uint32_t p = first; p < position; p++) {
        const fake_slot *slot = fake_slot_of(b, seq, group, p);
        if (!slot || slot->position != p) b->fault = "a position that must be visible is not in the cache";
        const fake_slot *first_group = fake_slot_of(b, seq, 0, p);
        if (slot && first_group && first_group->position == p && first_group->history != slot->history)
            b->fault = "groups disagree about a visible position";
    }
    const fake_slot *last = position > 0 ? fake_slot_of(b, seq, group, position - 1) : NULL;
    return last ? last->history : 0;
}

/* Its id, or what the step that it names chose. */
static inline int32_t fake_id_of(fake_backend *b, const af_batch_token *token) {
    if (token->id >= 0) return token->id;
    const fake_rows *rows = &b->rows[token->from % FAKE_FLIGHT];
    if (token->from >= b->step_count || token->from + FAKE_FLIGHT <= b->step_count ||
        token->from_row >= rows->row_count)
        b->fault = "a choice that is not kept is asked for";
    return rows->row_ids[token->from_row];
}

/* Returns the history up to the token. */
static inline uint64_t fake_store(fake_backend *b, const af_batch *batch, const af_batch_token *token, int32_t id) {
    uint64_t histories[AF_PLAN_GROUPS] = {0};
    for (size_t g = 0; g < b->plan->group_count; g++) {
        const af_batch_seq *seq = &batch->seqs[token->seq];
        fake_slot *slot = fake_slot_of(b, seq, g, token->position);
        if (!slot) {
            b->fault = "a token has no page";
            return 0;
        }
        histories[g] = fake_history(fake_look_back(b, seq, g, token->position), id);
        *slot = (fake_slot){token->position, histories[g]};
        if (histories[g] != histories[0]) b->fault = "groups disagree about a sequence's past";
    }
    return histories[0];
}

static inline void fake_state(fake_backend *b, const af_batch_token *token) {
    if (b->state_count == FAKE_STATES) {
        b->fault = "more states than tokens";
        return;
    }
    float *state = b->states[b->state_count];
    state[0] = (float)token->id;
    state[1] = (float)(token->position + 1);
    b->state_rows[b->state_count++] = state;
}

/* As backend.h says, for a row whose logits fall with the id from its best on; one in `strays` is wrong. */
static inline int32_t fake_draw(fake_backend *b, const float *logits, const af_draw *draw) {
    const uint32_t most = draw->top_k ? draw->top_k : FAKE_VOCABULARY;
    float all = 0, weights[FAKE_VOCABULARY];
    int32_t best = 0, ids[FAKE_VOCABULARY], drawn = -1;
    for (int32_t i = 1; i < FAKE_VOCABULARY; i++) best = logits[i] > logits[best] ? i : best;
    for (uint32_t k = 0; k < most; k++) {
        ids[k] = (best + (int32_t)k) % FAKE_VOCABULARY;
        all += weights[k] = expf((logits[ids[k]] - logits[best]) * draw->scale);
    }
    if (draw->top_p < 1 || draw->min_p > 0) b->fault = "this device knows no top_p and no min_p";
    float left = draw->unit * all;
    for (int32_t id = 0; id < FAKE_VOCABULARY && (drawn < 0 || left >= 0); id++) {
        const uint32_t k = (uint32_t)(id - best + FAKE_VOCABULARY) % FAKE_VOCABULARY;
        if (k >= most) continue;
        drawn = id;
        left -= weights[k];
    }
    return b->strays && b->step_count % b->strays == 0 ? FAKE_WORD : drawn;
}

static inline void fake_answer(fake_backend *b, const af_batch_token *token, int32_t id, uint64_t history) {
    if (token->choose == AF_CHOOSE_STATE) fake_state(b, token);
    if (!af_choose_wants_row(token->choose)) return;
    fake_rows *rows = &b->rows[b->step_count % FAKE_FLIGHT];
    if (rows->row_count == FAKE_ROWS) {
        b->fault = "more rows than were announced";
        return;
    }
    uint32_t row = rows->row_count++;
    float *logits = rows->logits[row];
    int32_t next = b->recalls ? FAKE_WORD + (int32_t)(history % (FAKE_VOCABULARY - FAKE_WORD)) : b->next[id];
    for (int32_t i = 0; i < FAKE_VOCABULARY; i++) {
        int32_t distance = (i - next + FAKE_VOCABULARY) % FAKE_VOCABULARY;
        logits[i] = b->spread > 0 ? -b->spread * (float)distance : distance ? -100.0f : 0.0f;
    }
    rows->row_ids[row] = token->choose == AF_CHOOSE_GREEDY ? next
                         : token->draw                     ? fake_draw(b, logits, token->draw)
                                                           : -1;
    rows->row_logits[row] = token->choose == AF_CHOOSE_GREEDY ? NULL : logits;
}

static inline int fake_enter(fake_backend *b, const af_batch *batch, af_error *error) {
    int rc = AF_OK;
    af_mutex_lock(b->mutex);
    b->inside = true;
    af_cond_broadcast(b->changed);
    while (b->hold_at && b->step_count + 1 >= b->hold_at) af_cond_wait(b->changed, b->mutex);
    b->inside = false;
    if (b->step_count < FAKE_LOG) {
        b->steps[b->step_count] = (fake_step){.tokens = batch->token_count, .seqs = batch->seq_count};
    }
    if (b->lose_at && b->step_count + 1 >= b->lose_at) b->lost = true;
    if (++b->step_count == b->fail_at || b->lost) rc = af_fail(error, AF_EIO, "device: lost on purpose");
    af_mutex_unlock(b->mutex);
    return rc;
}

static inline int fake_submit(af_backend *backend, const af_batch *batch, af_ticket *ticket, af_error *error) {
    fake_backend *b = (fake_backend *)backend;
    if (!backend->ops->same_in_any_batch && !batch->prompt && batch->token_count != batch->seq_count)
        b->fault = "a batch of decodes has several tokens of a sequence";
    if (b->pause) usleep(b->pause);
    int rc = fake_enter(b, batch, error);
    if (rc < 0) return rc;
    b->rows[b->step_count % FAKE_FLIGHT].row_count = b->state_count = 0;
    for (uint32_t i = 0; i < batch->token_count; i++) {
        const af_batch_token *token = &batch->tokens[i];
        const int32_t id = fake_id_of(b, token);
        b->flown += token->id < 0;
        fake_answer(b, token, id, fake_store(b, batch, token, id));
    }
    *ticket = b->step_count;
    return AF_OK;
}

static inline int fake_collect(af_backend *backend, af_ticket ticket, af_result *result, af_error *error) {
    fake_backend *b = (fake_backend *)backend;
    fake_rows *rows = &b->rows[ticket % FAKE_FLIGHT];
    (void)error;
    af_mutex_lock(b->mutex);
    if (ticket <= FAKE_LOG) b->steps[ticket - 1].rows = rows->row_count;
    af_mutex_unlock(b->mutex);
    const bool gone = b->forgets && ticket < b->step_count && ticket % b->forgets == 0;
    for (uint32_t i = 0; gone && i < rows->row_count; i++) rows->row_logits[i] = NULL;
    *result = (af_result){rows->row_count, rows->row_ids, rows->row_logits, b->state_count, b->state_rows};
    return AF_OK;
}

#ifdef FAKE_IN_HALVES
static atomic_uint fake_starts; /* of prepared steps, by all backends */

/* In two halves: what was prepared is what is started, but for the ids. */
static inline int fake_prepare(af_backend *backend, const af_batch *batch, af_error *error) {
    fake_backend *b = (fake_backend *)backend;
    (void)error;
    if (batch->token_count > FAKE_ROWS) return 1;
    b->prepared_count = batch->token_count;
    memcpy(b->prepared, batch->tokens, batch->token_count * sizeof *batch->tokens);
    return AF_OK;
}

static inline int fake_start(af_backend *backend, const af_batch *batch, af_ticket *ticket, af_error *error) {
    fake_backend *b = (fake_backend *)backend;
    atomic_fetch_add(&fake_starts, 1);
    if (batch->token_count != b->prepared_count) b->fault = "what is started was not prepared";
    for (uint32_t i = 0; i < batch->token_count; i++) {
        const af_batch_token *was = &b->prepared[i], *is = &batch->tokens[i];
        if (was->position != is->position || was->seq != is->seq || was->choose != is->choose)
            b->fault = "a prepared token changed more than its id";
    }
    return fake_submit(backend, batch, ticket, error);
}
#endif

static inline void fake_describe(const af_backend *backend, char *text, size_t size) {
    (void)backend;
    snprintf(text, size, "fake (counts)");
}

static inline uint32_t fake_threads(const af_backend *backend) {
    (void)backend;
    return 1;
}

static inline uint64_t fake_kv_bytes(const af_backend *backend) {
    (void)backend;
    return 12345;
}

static inline uint64_t fake_page_bytes(const af_backend *backend, uint32_t group) {
    (void)backend, (void)group;
    return sizeof(fake_slot[AF_KV_PAGE]);
}

static inline void fake_page_kind(const af_backend *backend, char *text, size_t size) {
    snprintf(text, size, "%s", ((const fake_backend *)backend)->kind);
}

static inline int fake_read_page(af_backend *backend, uint32_t group, uint32_t page, void *bytes, af_error *error) {
    (void)error;
    memcpy(bytes, ((fake_backend *)backend)->cache[group][page], sizeof(fake_slot[AF_KV_PAGE]));
    return AF_OK;
}

static inline int fake_write_page(af_backend *backend, uint32_t group, uint32_t page, const void *bytes,
                                  af_error *error) {
    (void)error;
    memcpy(((fake_backend *)backend)->cache[group][page], bytes, sizeof(fake_slot[AF_KV_PAGE]));
    return AF_OK;
}

static inline bool fake_lost(const af_backend *backend) {
    return ((const fake_backend *)backend)->lost;
}

static inline void fake_close(af_backend *backend) {
    fake_backend *b = (fake_backend *)backend;
    af_cond_close(b->changed);
    af_mutex_close(b->mutex);
    free(b->cache);
    free(b);
}

static inline fake_backend *fake_open(const af_plan *plan) {
    static const af_backend_ops ops = {.name = "fake",
#ifdef FAKE_IN_HALVES
                                       .prepare = fake_prepare,
                                       .start = fake_start,
#else
                                       .same_in_any_batch = true,
#endif
#ifdef FAKE_IN_FLIGHT
                                       .in_flight = FAKE_FLIGHT,
#endif
                                       .submit = fake_submit,
                                       .collect = fake_collect,
                                       .describe = fake_describe,
                                       .threads = fake_threads,
                                       .kv_bytes = fake_kv_bytes,
                                       .page_bytes = fake_page_bytes,
                                       .page_kind = fake_page_kind,
                                       .read_page = fake_read_page,
                                       .write_page = fake_write_page,
                                       .lost = fake_lost,
                                       .close = fake_close};
    fake_backend *b = calloc(1, sizeof *b);
    b->base.ops = &ops;
    b->base.draws_top = b->base.draws_whole = ops.in_flight > 1;
    b->plan = plan;
    b->kind = "fake";
    b->mutex = af_mutex_open();
    b->changed = af_cond_open();
    b->cache = calloc(plan->group_count, sizeof *b->cache);
    for (int32_t i = 0; i < FAKE_VOCABULARY; i++) b->next[i] = i + 1;
    b->next[FAKE_VOCABULARY - 1] = FAKE_WORD; /* words go round */
    return b;
}

/* Keeps the engine's thread inside a step: the one of that number, counted from 1, or the next one. */
static inline void fake_hold_at(fake_backend *b, uint32_t step) {
    af_mutex_lock(b->mutex);
    b->hold_at = step;
    af_mutex_unlock(b->mutex);
}

static inline void fake_hold(fake_backend *b) {
    fake_hold_at(b, 1);
}

/* Waits until it is there. */
static inline void fake_wait_inside(fake_backend *b) {
    af_mutex_lock(b->mutex);
    while (!b->inside) af_cond_wait(b->changed, b->mutex);
    af_mutex_unlock(b->mutex);
}

static inline void fake_let_go(fake_backend *b) {
    af_mutex_lock(b->mutex);
    b->hold_at = 0;
    af_cond_broadcast(b->changed);
    af_mutex_unlock(b->mutex);
}

#endif

/* embed.c - see embed.h. Everything in a shimmy_embedding that changes does so under the call's lock, but a vector,
 * which is the engine's thread's until its text is over. */
#include "http/embed.h"

#include "base/os.h"
#include "openai/embeddings.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

enum { SLOTS = 8 /* texts of one call that the engine has at once; a dozen calls fill its queue by default */ };

typedef enum slot_state {
    SLOT_FREE,
    SLOT_STALLED,  /* has a text that the full queue did not take */
    SLOT_STARTING, /* ... that is being submitted */
    SLOT_RUNNING   /* ... that the engine has */
} slot_state;

/* A place in the engine that the call's texts take in turn. */
typedef struct slot {
    struct shimmy_embedding *embedding;
    slot_state state;
    size_t input;
    uint64_t engine_id; /* RUNNING */
} slot;

typedef struct text {
    int32_t *ids;
    size_t count;
} text;

struct shimmy_embedding {
    shimmy_call *call;
    shimmy_task task; /* writing the answer */
    text *texts;      /* (count) */
    float *vectors;   /* (count, dimensions) */
    size_t count, held;
    uint32_t dimensions;
    bool base64;
    uint64_t prompt_tokens;

    size_t next;   /* text that no slot has had */
    size_t given;  /* vectors that are there */
    size_t active; /* slots STARTING or RUNNING */
    bool failed;   /* `error` says why; nothing more is started */
    bool broken;   /* ... and it came after the engine had taken the text */
    bool over;
    af_error error;
    slot slots[SLOTS];
    size_t slot_count;
};
typedef struct shimmy_embedding embedding;

static bool start(slot *s);

/* ---- The end ---- */

static void write_answer(shimmy_task *task) {
    embedding *e = (embedding *)(void *)((char *)task - offsetof(embedding, task));
    shimmy_call *call = e->call;
    const shimmy_embed_answer answer = {.model = call->on->name,
                                        .vectors = e->vectors,
                                        .count = e->count,
                                        .dimensions = e->dimensions,
                                        .base64 = e->base64,
                                        .prompt_tokens = e->prompt_tokens};
    af_buf body = {0};
    shimmy_write_embeddings(&body, &answer);
    af_mutex_lock(call->lock);
    call->reply.body = body;
    call->phase = SHIMMY_CALL_REPLIED;
    if (body.failed) {
        shimmy_refuse(&call->refusal, 503, "out_of_memory", NULL, "out of memory");
        call->phase = SHIMMY_CALL_REFUSED;
    }
    af_mutex_unlock(call->lock);
    shimmy_call_post(call);
    shimmy_call_unref(call);
}

/* The lock is held. What was accepted and then failed is the server's fault. */
static void refuse(embedding *e) {
    shimmy_refusal *refusal = &e->call->refusal;
    shimmy_refuse_error(refusal, &e->error, NULL);
    if (e->broken && refusal->status < 500) refusal->status = 500;
    e->call->phase = SHIMMY_CALL_REFUSED;
    shimmy_call_post(e->call);
}

/* Called by whoever left a slot, with no lock. Pushes under the lock, so that it comes before the workers close: they
 * do after every call is gone. */
static void conclude(embedding *e) {
    shimmy_call *call = e->call;
    af_mutex_lock(call->lock);
    if (e->active == 0 && !e->over && !call->gone) {
        e->over = true;
        if (e->given < e->count) { /* one failed, or the queue took none of those that are left */
            refuse(e);
        } else {
            shimmy_call_ref(call);
            shimmy_workers_push(call->server->workers, &e->task);
        }
    }
    af_mutex_unlock(call->lock);
}

void shimmy_embed_cancel(embedding *e) {
    for (size_t i = 0; i < e->slot_count; i++) {
        af_mutex_lock(e->call->lock);
        const uint64_t id = e->slots[i].state == SLOT_RUNNING ? e->slots[i].engine_id : 0;
        af_mutex_unlock(e->call->lock);
        if (id) af_cancel(e->call->on->engine, id);
    }
}

/* Leaves a slot with an error, and ends the others. */
static void fail(slot *s, const af_error *error, bool broken) {
    embedding *e = s->embedding;
    af_mutex_lock(e->call->lock);
    if (!e->failed) {
        e->error = *error;
        e->broken = broken;
    }
    e->failed = true;
    s->state = SLOT_FREE;
    e->active--;
    af_mutex_unlock(e->call->lock);
    shimmy_embed_cancel(e);
}

/* ---- Engine's thread ---- */

static void on_embedding(void *user, const float *vector, size_t width) {
    const slot *s = user;
    const embedding *e = s->embedding;
    shimmy_embed_cut(vector, (uint32_t)width, e->dimensions, e->vectors + s->input * e->dimensions);
}

/* Tries again what the queue did not take. */
static void start_stalled(embedding *e) {
    for (size_t i = 0; i < e->slot_count; i++) {
        af_mutex_lock(e->call->lock);
        const bool stalled = e->slots[i].state == SLOT_STALLED;
        af_mutex_unlock(e->call->lock);
        if (stalled && !start(&e->slots[i])) return;
    }
}

static void on_event(void *user, const af_event *event) {
    slot *s = user;
    embedding *e = s->embedding;
    shimmy_call *call = e->call;
    if (event->finish == AF_FINISH_NONE) return;
    if (event->finish == AF_FINISH_STOP) {
        af_mutex_lock(call->lock);
        s->state = SLOT_FREE;
        e->active--;
        e->given++;
        af_mutex_unlock(call->lock);
        start(s);
        start_stalled(e);
    } else {
        af_error error;
        af_fail(&error, AF_ECANCELED, "the server is shutting down");
        fail(s, event->finish == AF_FINISH_ERROR ? event->error : &error, true);
    }
    conclude(e);
    shimmy_call_unref(call);
}

/* ---- Starting ---- */

/* Gives a free slot the next text. False where there is none, or nobody wants it. */
static bool take_text(slot *s) {
    embedding *e = s->embedding;
    af_mutex_lock(e->call->lock);
    const bool stalled = s->state == SLOT_STALLED;
    const bool any = !e->call->gone && !e->failed && (stalled || (s->state == SLOT_FREE && e->next < e->count));
    if (any && !stalled) s->input = e->next++;
    if (any) s->state = SLOT_STARTING;
    e->active += any;
    af_mutex_unlock(e->call->lock);
    return any;
}

static void stall(slot *s, const af_error *error) {
    embedding *e = s->embedding;
    af_mutex_lock(e->call->lock);
    s->state = SLOT_STALLED;
    e->error = *error; /* told if nothing else of the call is left to wait for */
    e->active--;
    af_mutex_unlock(e->call->lock);
}

/* The text may be over by now, and the slot have another. */
static void note_running(slot *s, size_t input, uint64_t id) {
    embedding *e = s->embedding;
    af_mutex_lock(e->call->lock);
    if (s->state == SLOT_STARTING && s->input == input) {
        s->state = SLOT_RUNNING;
        s->engine_id = id;
    }
    const bool unwanted = e->call->gone || e->failed;
    af_mutex_unlock(e->call->lock);
    if (unwanted) af_cancel(e->call->on->engine, id);
}

/* Submits the slot's next text, if there is one. False where the queue is full. */
static bool start(slot *s) {
    if (!take_text(s)) return true;
    const shimmy_server *server = s->embedding->call->server;
    const size_t input = s->input;
    af_request asked = af_request_default(NULL);
    asked.prompt = s->embedding->texts[input].ids;
    asked.prompt_count = s->embedding->texts[input].count;
    asked.on_embedding = on_embedding;
    asked.pooling = server->options->pooling;
    asked.on_event = on_event;
    asked.user = s;
    uint64_t id;
    af_error error;
    shimmy_call_ref(s->embedding->call); /* the engine's, until the final event */
    const int rc = af_submit(s->embedding->call->on->engine, &asked, &id, &error);
    if (rc == 0) {
        note_running(s, input, id);
        return true;
    }
    if (rc == AF_EFULL)
        stall(s, &error);
    else
        fail(s, &error, false);
    shimmy_call_unref(s->embedding->call); /* never the last: whoever called has one */
    return rc != AF_EFULL;
}

/* ---- The worker's part ---- */

static int tokenize(shimmy_call *call, shimmy_prompt *input, size_t index, text *out) {
    const unsigned parse = call->server->options->allow_special ? AF_PARSE_SPECIAL : 0;
    char param[32];
    af_error error;
    snprintf(param, sizeof param, "input[%zu]", index);
    if (!input->text) { /* ids, checked already: moved */
        *out = (text){input->ids, input->count};
        input->ids = NULL;
    } else if (af_tokenize(call->on->model, input->text, input->length, AF_ADD_SPECIAL | parse, &out->ids, &out->count,
                           &error) < 0) {
        return shimmy_refuse_error(&call->refusal, &error, param);
    }
    if (out->count == 0)
        return shimmy_refuse(&call->refusal, 400, "empty_string", param, "%s: found 0 tokens, at least 1 is needed",
                             param);
    if (out->count <= call->on->ctx) return 0;
    return shimmy_refuse(&call->refusal, 400, "context_length_exceeded", param,
                         "%s: found %zu tokens, the context is %u tokens", param, out->count, call->on->ctx);
}

static int tokenize_all(embedding *e, shimmy_embed_request *request) {
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < e->count; i++) {
        rc = tokenize(e->call, &request->inputs[i], i, &e->texts[i]);
        e->prompt_tokens += e->texts[i].count;
    }
    return rc;
}

/* Reckons with what the vectors and the answer will take. As bodies, they may not take all memory together; but one
 * request alone is always served. */
static int hold(embedding *e) {
    shimmy_server *server = e->call->server;
    const size_t vectors = e->count * e->dimensions * sizeof *e->vectors;
    e->held = vectors + shimmy_embeddings_bytes(e->count, e->dimensions, e->base64);
    const size_t before = atomic_fetch_add(&server->held, e->held);
    if (before > server->max_held / 2)
        return shimmy_refuse(&e->call->refusal, 503, "overloaded", NULL,
                             "%zu bytes of other requests are held already: try again in a moment", before);
    e->vectors = calloc(e->count * e->dimensions, sizeof *e->vectors);
    return e->vectors ? 0 : shimmy_refuse(&e->call->refusal, 503, "out_of_memory", NULL, "out of memory");
}

static embedding *open_embedding(shimmy_call *call, const shimmy_embed_request *request) {
    af_engine_info info;
    embedding *e = calloc(1, sizeof *e);
    if (!e) return NULL;
    e->call = call;
    e->task.run = write_answer;
    e->count = request->count;
    e->dimensions = request->dimensions;
    e->base64 = request->base64;
    af_engine_get_info(call->on->engine, &info);
    e->slot_count = info.parallel < SLOTS ? info.parallel : SLOTS;
    for (size_t i = 0; i < e->slot_count; i++) e->slots[i].embedding = e;
    e->texts = calloc(e->count, sizeof *e->texts);
    if (e->texts) return e;
    free(e);
    return NULL;
}

void shimmy_embed_free(embedding *e) {
    if (!e) return;
    atomic_fetch_sub(&e->call->server->held, e->held);
    for (size_t i = 0; i < e->count; i++) free(e->texts[i].ids);
    free(e->texts);
    free(e->vectors);
    free(e);
}

static int run(shimmy_call *call, shimmy_embed_request *request) {
    embedding *e = open_embedding(call, request);
    if (!e) return shimmy_refuse(&call->refusal, 503, "out_of_memory", NULL, "out of memory");
    int rc = tokenize_all(e, request);
    if (rc == 0) rc = hold(e);
    if (rc < 0) {
        shimmy_embed_free(e);
        return rc;
    }
    af_mutex_lock(call->lock);
    call->embedding = e;
    af_mutex_unlock(call->lock);
    for (size_t i = 0; i < e->slot_count && start(&e->slots[i]); i++) continue;
    conclude(e);
    return 0;
}

int shimmy_embed(shimmy_call *call, json_t *json) {
    const shimmy_loaded *on = call->on;
    shimmy_embed_request request;
    if (call->server->options->pooling == AF_POOLING_MODEL && on->info.pooling == AF_POOLING_NONE)
        return shimmy_refuse(&call->refusal, 400, "unsupported", "model",
                             "model: '%.200s' ranks texts and gives no embeddings (pooling_type 4)", on->name);
    int rc = shimmy_embed_read(json, &on->limits, on->info.width, &request, &call->refusal);
    if (rc < 0) return rc;
    rc = run(call, &request);
    shimmy_embed_clear(&request);
    return rc;
}

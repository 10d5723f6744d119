/* call.c - see call.h: the life of a call, and its step through a text worker. */
#include "http/call.h"

#include "base/log.h"
#include "base/os.h"
#include "http/embed.h"
#include "http/router.h"
#include "openai/fields.h"

#include <event2/event.h>
#include <stddef.h>
#include <stdlib.h>

void shimmy_call_ref(shimmy_call *call) {
    atomic_fetch_add(&call->refs, 1);
}

/* The worker is done with the body, or nobody will be. */
static void drop_body(shimmy_call *call) {
    if (!call->body) return;
    af_free(call->body);
    call->body = NULL;
    atomic_fetch_sub(&call->server->held, call->body_length);
}

void shimmy_call_unref(shimmy_call *call) {
    if (atomic_fetch_sub(&call->refs, 1) > 1) return;
    for (size_t i = 0; i < call->choice_count; i++) {
        shimmy_said_clear(&call->choices[i].said);
        shimmy_split_clear(&call->choices[i].split);
        af_buf_clear(&call->choices[i].echoed);
    }
    free(call->choices);
    shimmy_embed_free(call->embedding);
    free(call->ends);
    af_buf_clear(&call->reply.body);
    if (call->on) shimmy_models_release(call->server->models, call->on);
    af_mutex_close(call->lock);
    drop_body(call);
    free(call);
}

void shimmy_call_post(shimmy_call *call) {
    shimmy_call_ref(call);
    if (!shimmy_mailbox_post(call->server->mailbox, &call->mail)) shimmy_call_unref(call);
}

static void deliver(shimmy_mail *mail) {
    shimmy_call *call = (shimmy_call *)(void *)((char *)mail - offsetof(shimmy_call, mail));
    if (call->conn) shimmy_call_answer(call);
    shimmy_call_unref(call);
}

/* A worker still busy with it looks at `gone` before it submits more. */
void shimmy_call_cancel(shimmy_call *call) {
    af_mutex_lock(call->lock);
    call->gone = true;
    size_t count = call->choices ? call->choice_count : 0;
    struct shimmy_embedding *embedding = call->embedding;
    af_mutex_unlock(call->lock);
    if (shimmy_models_forget(call->server->models, &call->waiter)) shimmy_call_unref(call); /* the task's */
    if (embedding) shimmy_embed_cancel(embedding);
    for (size_t i = 0; i < count; i++) {
        af_mutex_lock(call->lock);
        uint64_t id = call->choices[i].engine_id;
        bool over = call->choices[i].finish != AF_FINISH_NONE;
        af_mutex_unlock(call->lock);
        if (id && !over) af_cancel(call->on->engine, id);
    }
}

shimmy_conn *shimmy_call_let_go(shimmy_call *call) {
    shimmy_conn *conn = call->conn;
    af_mutex_lock(call->lock);
    const shimmy_loaded *on = call->on;
    af_mutex_unlock(call->lock);
    if (on) shimmy_conn_model(conn, on->name);
    call->conn = NULL;
    if (call->timer) event_free(call->timer);
    call->timer = NULL;
    shimmy_call_unref(call);
    return conn;
}

/* The client has left: ends what runs for it. */
static void on_gone(void *user) {
    shimmy_call *call = user;
    shimmy_call_cancel(call);
    shimmy_call_let_go(call);
}

static void on_late(int fd, short what, void *user) {
    (void)fd, (void)what;
    shimmy_call *call = user;
    call->late = true;
    shimmy_call_cancel(call);
    shimmy_call_answer(call);
}

/* Without memory for a timer the request may take any time. */
static void start_timer(shimmy_call *call) {
    const uint32_t seconds = call->server->options->request_seconds;
    if (!seconds) return;
    call->timer = evtimer_new(call->server->base, on_late, call);
    if (call->timer) evtimer_add(call->timer, &(struct timeval){.tv_sec = (time_t)seconds});
}

static bool is_gone(shimmy_call *call) {
    af_mutex_lock(call->lock);
    bool gone = call->gone;
    af_mutex_unlock(call->lock);
    return gone;
}

/* ---- On a worker's thread ---- */

static void refuse(shimmy_call *call, const shimmy_refusal *refusal) {
    af_mutex_lock(call->lock);
    if (refusal != &call->refusal) call->refusal = *refusal;
    call->phase = SHIMMY_CALL_REFUSED;
    af_mutex_unlock(call->lock);
    shimmy_call_post(call);
}

static void set_model(shimmy_call *call, shimmy_loaded *model) {
    af_mutex_lock(call->lock);
    call->on = model;
    af_mutex_unlock(call->lock);
}

/* The model it waited for is there, or will not come. On the loader's thread. */
static void on_model(shimmy_waiter *waiter, shimmy_loaded *model, const shimmy_refusal *refusal) {
    shimmy_call *call = (shimmy_call *)(void *)((char *)waiter - offsetof(shimmy_call, waiter));
    if (model) {
        set_model(call, model);
        shimmy_workers_push(call->server->workers, &call->task);
    } else {
        refuse(call, refusal);
        shimmy_call_unref(call);
    }
}

/* Takes the model that the request names. Where it has to wait for it, the task's reference waits with it, and a client
 * that left before the call was in the list has it taken out here, later ones in shimmy_call_cancel. */
static int take_model(shimmy_call *call, const json_t *json) {
    shimmy_models *models = call->server->models;
    const char *name = "";
    shimmy_loaded *model = NULL;
    if (call->on) return 0;
    int rc = shimmy_read_text(json, "model", &name, &call->refusal);
    if (rc < 0) return rc;
    call->waiter.over = on_model;
    shimmy_call_ref(call);
    rc = shimmy_models_take(models, name, &call->waiter, &model, &call->refusal);
    if (rc == 0) set_model(call, model);
    if (rc == SHIMMY_MODEL_WAITS && is_gone(call) && shimmy_models_forget(models, &call->waiter))
        shimmy_call_unref(call);
    shimmy_call_unref(call);
    return rc;
}

/* The phase is the embedding's business once there is one. */
static void conclude(shimmy_call *call, int rc) {
    if (rc < 0) {
        refuse(call, &call->refusal);
        return;
    }
    af_mutex_lock(call->lock);
    if (!call->embedding) call->phase = call->choices ? SHIMMY_CALL_RUNNING : SHIMMY_CALL_REPLIED;
    af_mutex_unlock(call->lock);
    shimmy_call_post(call);
}

/* From the body to an answer in the making. SHIMMY_MODEL_WAITS: the call is another thread's by now. */
static int work(shimmy_call *call) {
    json_t *json = NULL;
    if (call->route->here) return call->route->work(call, NULL);
    if (call->server->options->raw_log && !call->on)
        af_trace("%s %.*s", call->route->path, (int)call->body_length, call->body);
    int rc = shimmy_parse_body(call->body, call->body_length, &json, &call->refusal);
    if (rc == 0) rc = take_model(call, json);
    if (rc == 0) rc = call->route->work(call, json);
    json_decref(json);
    return rc;
}

static void run(shimmy_task *task) {
    shimmy_call *call = (shimmy_call *)(void *)((char *)task - offsetof(shimmy_call, task));
    if (!is_gone(call)) {
        const int rc = work(call);
        if (rc == SHIMMY_MODEL_WAITS) return;
        drop_body(call);
        conclude(call, rc);
    }
    shimmy_call_unref(call);
}

static shimmy_call *call_new(shimmy_server *server, shimmy_conn *conn, const shimmy_route *route) {
    shimmy_call *call = calloc(1, sizeof *call);
    if (!call) return NULL;
    call->server = server;
    call->lock = af_mutex_open();
    if (call->lock) call->body = shimmy_conn_take_body(conn, &call->body_length);
    if (!call->body) {
        if (call->lock) af_mutex_close(call->lock);
        free(call);
        return NULL;
    }
    call->mail.deliver = deliver;
    call->task.run = run;
    call->conn = conn;
    call->route = route;
    call->reply.status = 200;
    call->arrived = shimmy_conn_arrived(conn);
    return call;
}

void shimmy_call_start(shimmy_server *server, shimmy_conn *conn, const shimmy_route *route) {
    shimmy_call *call = call_new(server, conn, route);
    if (!call) {
        shimmy_refusal refusal;
        shimmy_refuse(&refusal, 503, "out_of_memory", NULL, "out of memory");
        shimmy_reply reply = {.status = 503, .retry_after = 1};
        shimmy_write_refusal(&reply.body, &refusal);
        shimmy_conn_reply(conn, &reply);
        return;
    }
    atomic_init(&call->refs, 2); /* the loop's and the task's */
    shimmy_conn_watch(conn, on_gone, call);
    start_timer(call);
    shimmy_workers_push(server->workers, &call->task);
}

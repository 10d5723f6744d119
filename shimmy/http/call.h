/* call.h - one request that is not answered at once, shared by the loop, a text worker and the engine.
 *
 *     loop:    starts it, hands it to a worker
 *     worker:  parses; takes the model that the request names, or leaves the call to wait for it (models.h), to be
 *              handed to a worker again; renders, tokenizes; ends with a reply, a refusal, or choices submitted to the
 *              engine
 *     engine:  appends text to choices, marks them finished; posts
 *     loop:    sends what is there; forgets it when the last choice is finished or the client has left
 *
 * Invariants
 *   1. `refs` counts its holders: the loop while a client waits, the worker's task (or the registry of models while it
 *      waits there), each submitted choice until its final event, the mailbox while posted. The last one out frees, and
 *      gives the model back; there is nothing of libevent's in it to free.
 *   2. `conn` is the loop's alone, and NULL once the client has left or was answered.
 *   3. `phase`, `gone` and the choices' shared part change under `lock`. No engine function is called holding it, since
 *      the engine's thread takes it inside its callback.
 *      An embedding's call goes from WORKING to REPLIED or REFUSED by itself, when its last text is there.
 *   4. The loop sends nothing before `phase` leaves SHIMMY_CALL_WORKING: what fails until then is an HTTP status.
 */
#ifndef SHIMMY_CALL_H
#define SHIMMY_CALL_H

#include "http/server.h"
#include "openai/reasoning.h"
#include "openai/response.h"

struct shimmy_route;
struct af_mutex;
typedef struct shimmy_call shimmy_call;

typedef struct shimmy_choice {
    shimmy_call *call;
    /* Shared, under the call's lock. */
    shimmy_said said; /* not sent yet when streaming, else all so far */
    af_finish finish;
    af_error error;
    uint64_t engine_id; /* 0: not submitted */
    uint32_t cached, completion, accepted, rejected;
    uint64_t last_token; /* when it came, as af_os_nanoseconds has it; 0: none did */
    double likelihood;   /* sum of its tokens' log-probabilities, where there are any */
    uint32_t character;  /* where its next token stands in the text */
    /* The engine's thread's, from submission to the final event. */
    shimmy_split split;
    af_buf echoed; /* logprobs.h: of the prompt's tokens, until the first event */
    /* The loop's. */
    bool opened, closed;
} shimmy_choice;

typedef enum shimmy_call_phase {
    SHIMMY_CALL_WORKING,
    SHIMMY_CALL_REPLIED, /* `reply` is the answer */
    SHIMMY_CALL_REFUSED, /* `refusal` is */
    SHIMMY_CALL_RUNNING  /* the choices are */
} shimmy_call_phase;

struct shimmy_call {
    shimmy_mail mail;
    shimmy_task task;
    atomic_int refs;
    shimmy_server *server;
    shimmy_conn *conn;
    const struct shimmy_route *route;
    char *body;
    size_t body_length;

    shimmy_waiter waiter; /* for its model */
    struct af_mutex *lock;
    shimmy_call_phase phase;
    bool gone; /* nobody waits for the answer */
    shimmy_reply reply;
    shimmy_refusal refusal;
    shimmy_loaded *on; /* the model that answers; set once, by the thread that then has the task */

    /* Set by the worker before phase RUNNING, constant then. */
    bool stream;
    uint32_t n;     /* choices made for each prompt */
    uint32_t shown; /* of them, the likeliest, in the answer */
    int32_t *ends;  /* tokens that end an answer beside the model's, owned */
    size_t end_count;
    shimmy_answer_head head;
    uint64_t prompt_tokens;
    shimmy_choice *choices;
    size_t choice_count;

    struct shimmy_embedding *embedding; /* embed.h; set once under the lock; NULL in other calls */

    uint64_t arrived; /* as shimmy_conn_arrived */

    /* The loop's. */
    bool header_sent;
    bool late;           /* it took longer than it may */
    struct event *timer; /* --request-timeout; freed when the loop lets go */
};

/* Starts a call: takes the body, watches the connection, queues the work. Replies 503 itself when memory is out. */
void shimmy_call_start(shimmy_server *server, shimmy_conn *conn, const struct shimmy_route *route);
void shimmy_call_unref(shimmy_call *call);
void shimmy_call_ref(shimmy_call *call);
/* Has the loop look at the call. Any thread. */
void shimmy_call_post(shimmy_call *call);
/* The loop's look at it: answer.c. */
void shimmy_call_answer(shimmy_call *call);
/* Cancels what runs for it; anywhere but on the engine's thread. */
void shimmy_call_cancel(shimmy_call *call);
/* The loop answers the call: it is no longer the connection's. */
shimmy_conn *shimmy_call_let_go(shimmy_call *call);
/* The worker's part of the two generating routes: generate.c. Returns 0 with the choices submitted, or a refusal. The
 * body becomes the request's. */
int shimmy_generate(shimmy_call *call, bool chat, json_t *json);

#endif

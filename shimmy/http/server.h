/* server.h - what the parts of a running server share. Owned and filled by serve.c. */
#ifndef SHIMMY_SERVER_H
#define SHIMMY_SERVER_H

#include "http/conn.h"
#include "http/keys.h"
#include "http/listener.h"
#include "http/mailbox.h"
#include "http/metrics.h"
#include "http/serve.h"
#include "http/tls.h"
#include "http/workers.h"
#include "openai/request.h"

#include <stdatomic.h>

/* What encloses thoughts. */
typedef struct shimmy_spans {
    const shimmy_tags *tags; /* NULL: answers are not split */
    int32_t *shown;          /* the control tokens in them */
    size_t shown_count;
} shimmy_spans;

typedef struct shimmy_server {
    const shimmy_serve_options *options;
    struct event_base *base;
    shimmy_http *http;
    shimmy_listener *listener;
    shimmy_mailbox *mailbox;
    shimmy_workers *workers;
    shimmy_keys *keys; /* NULL: everybody may ask */
    shimmy_tls *tls;   /* NULL: plain HTTP */
    shimmy_metrics metrics;
    int64_t started;    /* seconds since 1970 */
    atomic_size_t held; /* bytes of request bodies, with connections and calls, and of embeddings */
    size_t max_held;    /* where new ones are refused */

    /* What the loader made; not touched by others before `ready`, not changed after. */
    af_model *model;
    af_template *template; /* --chat-template, or NULL */
    af_engine *engine;
    af_model_info info;
    shimmy_request_limits limits;
    uint32_t ctx;
    shimmy_spans spans[SHIMMY_REASONINGS]; /* for each way that a request may ask for */

    /* The loop's own. */
    bool ready;
    shimmy_said spare; /* changes places with a choice's, so that streams do not allocate */
    af_buf event;      /* one SSE event being written */
} shimmy_server;

#endif

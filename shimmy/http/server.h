/* server.h - what the parts of a running server share. Owned and filled by serve.c. */
#ifndef SHIMMY_SERVER_H
#define SHIMMY_SERVER_H

#include "http/conn.h"
#include "http/keys.h"
#include "http/listener.h"
#include "http/mailbox.h"
#include "http/metrics.h"
#include "http/models.h"
#include "http/serve.h"
#include "http/tls.h"
#include "http/workers.h"
#include "openai/request.h"

#include <stdatomic.h>

typedef struct shimmy_server {
    const shimmy_serve_options *options;
    struct event_base *base;
    shimmy_http *http;
    shimmy_listener *listener;
    shimmy_mailbox *mailbox;
    shimmy_workers *workers;
    shimmy_models *models;
    shimmy_keys *keys; /* NULL: everybody may ask */
    shimmy_tls *tls;   /* NULL: plain HTTP */
    shimmy_metrics metrics;
    bool several;       /* it finds models of its own, beside the one it may be started with */
    int64_t started;    /* seconds since 1970 */
    atomic_size_t held; /* bytes of request bodies, with connections and calls, and of embeddings */
    size_t max_held;    /* where new ones are refused */

    /* The loop's own. */
    bool ready;        /* the model that it was started with is there */
    shimmy_said spare; /* changes places with a choice's, so that streams do not allocate */
    af_buf event;      /* one SSE event being written */
} shimmy_server;

#endif

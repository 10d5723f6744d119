/* conn_internal.h - what conn.c (reading, life) and conn_write.c (replies) share; conn_unread.c counts what clients
 * leave unread. */
#ifndef SHIMMY_CONN_INTERNAL_H
#define SHIMMY_CONN_INTERNAL_H

#include "http/conn.h"

struct bufferevent;
struct event;

typedef enum shimmy_conn_state {
    SHIMMY_CONN_HEAD,
    SHIMMY_CONN_BODY,
    SHIMMY_CONN_BUSY,
    SHIMMY_CONN_FLUSH,
    SHIMMY_CONN_DRAIN,
    SHIMMY_CONN_DEAD /* to be freed when the call that is using it returns */
} shimmy_conn_state;

struct shimmy_conn {
    shimmy_http *http;
    shimmy_conn *previous, *next;
    struct bufferevent *bev;
    struct event *timer; /* of the state at hand: idle, head, body, drain */
    shimmy_conn_state state;
    bool in_use;      /* a loop over its input is on the stack: free later */
    bool eof;         /* the client sends no more */
    char *head_bytes; /* head's slices point here */
    shimmy_head head;
    af_buf body;
    uint64_t body_left, body_began; /* nanoseconds */
    shimmy_chunks chunks;
    char id[32]; /* of the request in hand; "" between requests */
    uint64_t arrived;
    int status; /* of its reply; 0: none yet */
    shimmy_token_counts tokens;
    const char *model;
    bool stream_chunked;
    void (*on_gone)(void *user);
    void *gone_user;
};

struct shimmy_http {
    struct event_base *base;
    shimmy_http_options options;
    shimmy_http_times times;
    size_t unread; /* bytes of answers that clients have not taken */
    shimmy_conn *first;
    size_t count;
    bool draining;
};

/* The reply is complete: goes on to the next request, or to closing. */
void shimmy_conn_done(shimmy_conn *conn);
/* Counts what is unread of a connection, from its opening to its end. */
void shimmy_conn_meter(shimmy_conn *conn);
void shimmy_conn_unmeter(shimmy_conn *conn);
/* Gives connections up until no more than allowed is unread. False if `conn` was one of them. */
bool shimmy_http_shed(shimmy_http *http, const shimmy_conn *conn);
/* Tells the watcher and frees, now or when it is safe. */
void shimmy_conn_abort(shimmy_conn *conn);
/* Whether the reply in hand must be the last on this connection. */
bool shimmy_conn_is_last(const shimmy_conn *conn);

#endif

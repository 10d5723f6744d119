/* conn.h - connections: bytes to requests, replies to bytes, and the moment a client leaves.
 *
 * Built on libevent's bufferevents rather than its evhttp, for what evhttp 2.1 has no hook for: errors before a request
 * is whole (a body over the limit, bad framing) as JSON, a 413 that reaches a client still sending, 405 with Allow,
 * noticing that a client left before the first byte of an answer, and a bound on what a slow reader makes us hold.
 *
 * Everything here runs on the event loop's thread. One request of a connection is in hand at a time; pipelined ones
 * wait in its input. The states:
 *
 *     HEAD -> BODY -> BUSY (the handler has it) -> HEAD, or FLUSH (write what is left and close)
 *       any error found while reading: DRAIN (refused; read over what still comes, so that the reply arrives) -> closed
 *
 * A client that closes, or shuts its sending side, while BUSY has left: on_gone is called once and the connection is
 * freed. So a handler that does not reply at once must watch.
 */
#ifndef SHIMMY_CONN_H
#define SHIMMY_CONN_H

#include "http/parse.h"

#include <stdatomic.h>

struct event_base;

typedef struct shimmy_http shimmy_http; /* all connections of a server */
typedef struct shimmy_conn shimmy_conn;

/* A whole request. Slices live until it is replied to. */
typedef struct shimmy_http_request {
    const shimmy_head *head;
    af_slice body;
    const char *id; /* X-Request-Id of the answer */
} shimmy_http_request;

typedef struct shimmy_reply {
    int status;
    const char *type;     /* Content-Type; NULL: application/json */
    const char *allow;    /* with 405 */
    bool unauthorized;    /* with 401 */
    unsigned retry_after; /* seconds; 0: none */
    af_buf body;
} shimmy_reply;

typedef struct shimmy_token_counts {
    uint64_t prompt, cached, completion;
} shimmy_token_counts;

/* A request that is over. Slices live during the call. */
typedef struct shimmy_http_done {
    const char *id;
    af_slice method, path;
    int status; /* 499: the client left before the answer was finished */
    uint64_t nanoseconds;
    const char *model;          /* that answered it, as shimmy_conn_model said; NULL: none */
    shimmy_token_counts tokens; /* as shimmy_conn_count said */
} shimmy_http_done;

struct shimmy_tls;

/* How long a client may take for what; milliseconds. */
typedef struct shimmy_http_times {
    uint32_t idle;  /* a kept-alive connection without a request */
    uint32_t head;  /* from the first byte of a head to its last */
    uint32_t body;  /* without one more byte of a body, and for a body as a whole beyond what its length is given */
    uint32_t write; /* without taking one more byte */
    uint32_t flush; /* to take the rest of an answer that is over; on a connection that is kept, idle */
    uint32_t drain; /* to stop sending when it was refused */
} shimmy_http_times;

typedef struct shimmy_http_options {
    uint64_t max_body;
    /* Bytes of all bodies in hand together; past it requests are refused with 503. As many of answers may be unread;
     * past it the connection with most of them is given up. */
    size_t max_held;
    atomic_size_t *held; /* their count; whoever took a body subtracts its length when freeing it, on any thread */
    size_t max_connections;
    const shimmy_http_times *times; /* NULL: the usual ones */
    struct shimmy_tls *tls;         /* NULL: plain HTTP */
    const char *origins;            /* whose scripts may call: "*", or origins apart by commas; "": nobody's */
    void (*on_request)(void *user, shimmy_conn *conn, const shimmy_http_request *request);
    /* Writes the body of a refusal made here: bad framing, too large a body. */
    void (*write_error)(af_buf *out, int status, const char *message);
    /* Called when a connection closed: whether all are gone, or room is there again. */
    void (*on_closed)(void *user);
    /* Called when a request is over, however it ended. */
    void (*on_done)(void *user, const shimmy_http_done *done);
    void *user;
} shimmy_http_options;

int shimmy_http_open(struct event_base *base, const shimmy_http_options *options, shimmy_http **out, af_error *error);
void shimmy_http_close(shimmy_http *http); /* frees every connection; watchers are told */
/* Closes what is idle, lets what is busy finish its reply. New connections are not accepted by the caller any more. */
void shimmy_http_drain(shimmy_http *http);
size_t shimmy_http_count(const shimmy_http *http);
bool shimmy_http_full(const shimmy_http *http);

/* Takes over an accepted socket. */
void shimmy_http_accept(shimmy_http *http, int fd);

/* Asks for a call when the client leaves before the reply is finished; fn may note what is for on_done, and do nothing
 * else with the connection. NULL ends it. */
void shimmy_conn_watch(shimmy_conn *conn, void (*on_gone)(void *user), void *user);

/* Hands over the request's body, so that it outlives the connection; freed with af_free and then subtracted from
 * *held. NULL when out of memory. */
char *shimmy_conn_take_body(shimmy_conn *conn, size_t *length);

/* Notes what a request took, and which model it had, for on_done. The name lives until then. */
void shimmy_conn_count(shimmy_conn *conn, const shimmy_token_counts *tokens);
void shimmy_conn_model(shimmy_conn *conn, const char *model);
/* When the request in hand arrived: its first byte, as af_os_nanoseconds has it. */
uint64_t shimmy_conn_arrived(const shimmy_conn *conn);

/* Sends a whole reply (a 204 has no body; HEAD drops it) and empties reply->body. */
void shimmy_conn_reply(shimmy_conn *conn, shimmy_reply *reply);

/* A reply in pieces. write returns false if the client reads so slowly that the connection was given up: then on_gone
 * was called and the connection is no more. */
void shimmy_conn_stream_begin(shimmy_conn *conn, const char *type);
bool shimmy_conn_stream_write(shimmy_conn *conn, af_slice bytes);
void shimmy_conn_stream_end(shimmy_conn *conn);

#endif

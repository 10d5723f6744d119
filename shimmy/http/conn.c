/* conn.c - see conn.h. The life of a connection and the reading of requests; replies are in conn_write.c. */
#include "http/conn_internal.h"

#include "base/os.h"
#include "http/tls.h"

#include <assert.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
    BODY_RATE = 16 * 1024,      /* bytes a second that give a body more time */
    INPUT_AHEAD = 64 * 1024,    /* bytes held of what cannot be taken yet; more than a head */
    OUTPUT_AHEAD = 1024 * 1024, /* bytes of unread replies past which pipelined requests wait */
};

static const shimmy_http_times usual_times = {
    .idle = 120000, .head = 20000, .body = 60000, .write = 60000, .flush = 120000, .drain = 10000};

static void on_read(struct bufferevent *bev, void *user);
static void on_write(struct bufferevent *bev, void *user);
static void on_event(struct bufferevent *bev, short what, void *user);

/* ---- Life ---- */

int shimmy_http_open(struct event_base *base, const shimmy_http_options *options, shimmy_http **out, af_error *error) {
    shimmy_http *http = calloc(1, sizeof *http);
    if (!http) return af_fail_memory(error, sizeof *http, "the HTTP server");
    http->base = base;
    http->options = *options;
    http->times = options->times ? *options->times : usual_times;
    *out = http;
    return 0;
}

void shimmy_http_close(shimmy_http *http) {
    if (!http) return;
    while (http->first) shimmy_conn_abort(http->first);
    free(http);
}

size_t shimmy_http_count(const shimmy_http *http) {
    return http->count;
}

bool shimmy_http_full(const shimmy_http *http) {
    return http->count >= http->options.max_connections;
}

static struct timeval interval(uint64_t milliseconds) {
    return (struct timeval){.tv_sec = (time_t)(milliseconds / 1000), .tv_usec = (long)(milliseconds % 1000) * 1000};
}

static void set_timer(shimmy_conn *conn, uint64_t milliseconds) {
    const struct timeval after = interval(milliseconds);
    if (milliseconds)
        evtimer_add(conn->timer, &after);
    else
        evtimer_del(conn->timer);
}

/* Frees the request's body, unless it was taken. */
static void drop_body(shimmy_conn *conn) {
    atomic_fetch_sub(conn->http->options.held, conn->body.len);
    af_buf_clear(&conn->body);
    conn->body = (af_buf){.ceiling = conn->body.ceiling};
}

/* Tells of the request in hand, if there is one, that it is over. */
static void report(shimmy_conn *conn, int status) {
    const shimmy_http_options *options = &conn->http->options;
    if (!conn->id[0]) return;
    const shimmy_http_done done = {
        .id = conn->id,
        .method = conn->head.method.p ? conn->head.method : af_slice_text("-"),
        .path = conn->head.path.p ? conn->head.path : af_slice_text("-"),
        .status = status,
        .nanoseconds = af_os_nanoseconds() - conn->arrived,
        .model = conn->model,
        .tokens = conn->tokens,
    };
    options->on_done(options->user, &done);
    conn->id[0] = 0;
    conn->status = 0;
    conn->tokens = (shimmy_token_counts){0};
    conn->model = NULL;
}

void shimmy_conn_count(shimmy_conn *conn, const shimmy_token_counts *tokens) {
    conn->tokens = *tokens;
}

void shimmy_conn_model(shimmy_conn *conn, const char *model) {
    conn->model = model;
}

uint64_t shimmy_conn_arrived(const shimmy_conn *conn) {
    return conn->arrived;
}

static void conn_free(shimmy_conn *conn) {
    shimmy_http *http = conn->http;
    if (conn->previous)
        conn->previous->next = conn->next;
    else
        http->first = conn->next;
    if (conn->next) conn->next->previous = conn->previous;
    http->count--;
    event_free(conn->timer);
    shimmy_conn_unmeter(conn);
    if (http->options.tls) shimmy_tls_goodbye(conn->bev);
    bufferevent_free(conn->bev);
    free(conn->head_bytes);
    drop_body(conn);
    free(conn);
    http->options.on_closed(http->options.user);
}

void shimmy_conn_abort(shimmy_conn *conn) {
    void (*on_gone)(void *) = conn->on_gone;
    conn->on_gone = NULL;
    conn->state = SHIMMY_CONN_DEAD;
    if (on_gone) on_gone(conn->gone_user);
    report(conn, 499);
    if (!conn->in_use) conn_free(conn);
}

void shimmy_conn_watch(shimmy_conn *conn, void (*on_gone)(void *user), void *user) {
    conn->on_gone = on_gone;
    conn->gone_user = user;
}

char *shimmy_conn_take_body(shimmy_conn *conn, size_t *length) {
    return af_buf_take(&conn->body, length);
}

static size_t output_length(const shimmy_conn *conn) {
    return evbuffer_get_length(bufferevent_get_output(conn->bev));
}

static struct evbuffer *input_of(const shimmy_conn *conn) {
    return bufferevent_get_input(conn->bev);
}

/* Closes as soon as what was written is on its way. */
static void close_after_flush(shimmy_conn *conn) {
    conn->state = SHIMMY_CONN_FLUSH;
    set_timer(conn, conn->http->times.flush);
    if (!output_length(conn)) shimmy_conn_abort(conn);
}

void shimmy_http_drain(shimmy_http *http) {
    http->draining = true;
    for (shimmy_conn *conn = http->first, *next; conn; conn = next) {
        next = conn->next;
        if (conn->state == SHIMMY_CONN_HEAD && !evbuffer_get_length(input_of(conn))) close_after_flush(conn);
    }
}

/* The state's time is up. */
static void on_timer(int fd, short what, void *user) {
    (void)fd, (void)what;
    shimmy_conn *conn = user;
    shimmy_conn_abort(conn);
}

void shimmy_http_accept(shimmy_http *http, int fd) {
    const struct timeval write_time = interval(http->times.write);
    shimmy_conn *conn = calloc(1, sizeof *conn);
    if (!conn) goto no_memory;
    conn->http = http;
    conn->timer = evtimer_new(http->base, on_timer, conn);
    if (!conn->timer) goto no_timer;
    conn->bev = http->options.tls ? shimmy_tls_accept(http->options.tls, http->base, fd)
                                  : bufferevent_socket_new(http->base, fd, BEV_OPT_CLOSE_ON_FREE);
    if (!conn->bev) goto no_bufferevent;
    conn->body.ceiling = http->options.max_body ? (size_t)http->options.max_body : 1;
    conn->next = http->first;
    if (conn->next) conn->next->previous = conn;
    http->first = conn;
    http->count++;
    bufferevent_setcb(conn->bev, on_read, on_write, on_event, conn);
    bufferevent_setwatermark(conn->bev, EV_READ, 0, INPUT_AHEAD);
    bufferevent_set_timeouts(conn->bev, NULL, &write_time);
    shimmy_conn_meter(conn);
    set_timer(conn, http->times.idle);
    bufferevent_enable(conn->bev, EV_READ | EV_WRITE);
    return;

no_bufferevent:
    event_free(conn->timer);
no_timer:
    free(conn);
no_memory:
    evutil_closesocket(fd);
}

/* ---- Reading ---- */

static void new_request_id(char *id, size_t size) {
    uint64_t random;
    af_os_random(&random, sizeof random);
    snprintf(id, size, "req-%016llx", (unsigned long long)random);
}

/* Answers what cannot be read further, and reads over the rest so that the answer is not lost to a reset. */
static void refuse(shimmy_conn *conn, int status, const char *message) {
    shimmy_reply reply = {.status = status, .retry_after = status == 503};
    conn->http->options.write_error(&reply.body, status, message);
    conn->head.keep_alive = false;
    conn->state = SHIMMY_CONN_DRAIN;
    shimmy_conn_reply(conn, &reply);
}

static void refuse_body(shimmy_conn *conn) {
    char message[120];
    snprintf(message, sizeof message, "the request's body is larger than the %llu bytes allowed (--max-body)",
             (unsigned long long)conn->body.ceiling);
    refuse(conn, 413, message);
}

/* Keeps the head's bytes, then moves on to the body. True if a head was taken. */
static bool read_head(shimmy_conn *conn) {
    struct evbuffer *input = input_of(conn);
    size_t n = evbuffer_get_length(input), consumed = 0;
    if (n > SHIMMY_HEAD_BYTES + 2) n = SHIMMY_HEAD_BYTES + 2;
    if (!n) return false;
    const char *why = "", *bytes = (const char *)evbuffer_pullup(input, (ev_ssize_t)n);
    if (!bytes) {
        shimmy_conn_abort(conn);
        return false;
    }
    if (!conn->id[0]) { /* first bytes of a request */
        new_request_id(conn->id, sizeof conn->id);
        conn->arrived = af_os_nanoseconds();
        memset(&conn->head, 0, sizeof conn->head); /* the last request's is no longer */
        set_timer(conn, conn->http->times.head);
    }
    int rc = shimmy_parse_head(af_slice_of(bytes, n), &conn->head, &consumed, &why);
    if (rc == 0) return false;
    if (rc < 0) {
        memset(&conn->head, 0, sizeof conn->head);
        conn->head.minor = 1;
        refuse(conn, -rc, why);
        return false;
    }
    free(conn->head_bytes);
    conn->head_bytes = malloc(consumed);
    if (!conn->head_bytes) {
        shimmy_conn_abort(conn);
        return false;
    }
    evbuffer_remove(input, conn->head_bytes, consumed);
    rc = shimmy_parse_head(af_slice_of(conn->head_bytes, consumed), &conn->head, &consumed, &why);
    assert(rc > 0);
    (void)rc;
    return true;
}

static void begin_body(shimmy_conn *conn) {
    conn->state = SHIMMY_CONN_BODY;
    conn->chunks = (shimmy_chunks){0};
    conn->body_left = conn->head.length;
    conn->body_began = af_os_nanoseconds();
    set_timer(conn, conn->http->times.body);
    if (!conn->head.chunked && conn->head.length > conn->body.ceiling) {
        refuse_body(conn);
        return;
    }
    bool has_body = conn->head.chunked || conn->head.length;
    if (has_body && conn->head.expects_continue && !evbuffer_get_length(input_of(conn)))
        evbuffer_add(bufferevent_get_output(conn->bev), "HTTP/1.1 100 Continue\r\n\r\n", 25);
}

/* Moves one stretch of contiguous input into the body. 1: the body is whole, 0: more is needed, negative: a status. */
static int read_stretch(shimmy_conn *conn, const char **why) {
    struct evbuffer *input = input_of(conn);
    struct evbuffer_iovec stretch;
    if (evbuffer_peek(input, -1, NULL, &stretch, 1) < 1) return 0;
    af_slice bytes = af_slice_of(stretch.iov_base, stretch.iov_len);
    size_t used = bytes.n;
    int rc;
    if (conn->head.chunked) {
        rc = shimmy_parse_chunks(&conn->chunks, bytes, &conn->body, &used, why);
    } else {
        if (used > conn->body_left) used = (size_t)conn->body_left;
        if (!af_buf_append(&conn->body, bytes.p, used)) return -413;
        conn->body_left -= used;
        rc = !conn->body_left;
    }
    evbuffer_drain(input, used);
    return rc;
}

/* Who sends a byte now and then would hold a body's memory for days: as a whole it must come at some rate. */
static void await_body(shimmy_conn *conn) {
    const uint64_t usual = conn->http->times.body, all = usual + conn->body.len * 1000 / BODY_RATE;
    const uint64_t taken = (af_os_nanoseconds() - conn->body_began) / 1000000;
    const uint64_t left = taken < all ? all - taken : 1;
    set_timer(conn, left < usual ? left : usual);
}

/* True if the body is whole. */
static bool read_body(shimmy_conn *conn) {
    const char *why = "";
    int rc = !conn->head.chunked && !conn->body_left;
    while (rc == 0 && evbuffer_get_length(input_of(conn))) {
        size_t before = conn->body.len;
        rc = read_stretch(conn, &why);
        size_t added = conn->body.len - before;
        size_t held = atomic_fetch_add(conn->http->options.held, added) + added;
        if (rc >= 0 && held > conn->http->options.max_held)
            rc = -503, why = "too many large requests are in hand: try again in a moment";
        if (rc == 0) await_body(conn);
    }
    if (rc == -413)
        refuse_body(conn);
    else if (rc < 0)
        refuse(conn, -rc, why);
    return rc > 0;
}

static void hand_over(shimmy_conn *conn) {
    conn->state = SHIMMY_CONN_BUSY;
    set_timer(conn, 0);
    shimmy_http_request request = {
        .head = &conn->head,
        .body = af_slice_of(conn->body.p ? conn->body.p : "", conn->body.len),
        .id = conn->id,
    };
    conn->http->options.on_request(conn->http->options.user, conn, &request);
}

/* Takes requests from the input for as long as they are answered at once. */
static void process(shimmy_conn *conn) {
    if (conn->in_use) return;
    conn->in_use = true;
    for (;;) {
        if (conn->state == SHIMMY_CONN_HEAD) {
            if (output_length(conn) > OUTPUT_AHEAD || !read_head(conn)) break;
            begin_body(conn);
        } else if (conn->state == SHIMMY_CONN_BODY) {
            if (!read_body(conn)) break;
            hand_over(conn);
        } else {
            break;
        }
    }
    conn->in_use = false;
    if (conn->state == SHIMMY_CONN_DRAIN || conn->state == SHIMMY_CONN_FLUSH) {
        struct evbuffer *input = input_of(conn);
        evbuffer_drain(input, evbuffer_get_length(input));
    }
    /* A client that sends no more has been answered if no request of it is in hand. */
    if (conn->eof && conn->state < SHIMMY_CONN_BUSY && output_length(conn) <= OUTPUT_AHEAD)
        close_after_flush(conn);
    else if (conn->state == SHIMMY_CONN_DEAD)
        conn_free(conn);
}

bool shimmy_conn_is_last(const shimmy_conn *conn) {
    return !conn->head.keep_alive || conn->http->draining;
}

void shimmy_conn_done(shimmy_conn *conn) {
    conn->on_gone = NULL;
    report(conn, conn->status);
    drop_body(conn);
    if (conn->state == SHIMMY_CONN_DRAIN) {
        set_timer(conn, conn->http->times.drain);
        return;
    }
    if (shimmy_conn_is_last(conn)) {
        close_after_flush(conn);
        return;
    }
    conn->state = SHIMMY_CONN_HEAD;
    set_timer(conn, conn->http->times.idle);
    process(conn);
}

/* ---- libevent's calls ---- */

static void on_read(struct bufferevent *bev, void *user) {
    (void)bev;
    process(user);
}

/* All that was written has been taken by the system. TLS calls late: by then more may have been written. */
static void on_write(struct bufferevent *bev, void *user) {
    shimmy_conn *conn = user;
    if (output_length(conn)) return;
    if (conn->state == SHIMMY_CONN_FLUSH)
        shimmy_conn_abort(conn);
    else if (conn->state == SHIMMY_CONN_DRAIN && conn->eof)
        shimmy_conn_abort(conn);
    else if (conn->state == SHIMMY_CONN_DRAIN)
        shutdown(bufferevent_getfd(bev), SHUT_WR);
    else if (conn->state == SHIMMY_CONN_HEAD)
        process(conn);
}

static void on_event(struct bufferevent *bev, short what, void *user) {
    shimmy_conn *conn = user;
    if (what & BEV_EVENT_CONNECTED) return; /* TLS has shaken hands */
    bool sends_no_more = (what & BEV_EVENT_EOF) && (what & BEV_EVENT_READING);
    if (!sends_no_more || conn->state == SHIMMY_CONN_BUSY || !output_length(conn)) {
        shimmy_conn_abort(conn);
        return;
    }
    conn->eof = true; /* replies are still on their way to it */
    bufferevent_disable(bev, EV_READ);
    if (conn->state == SHIMMY_CONN_HEAD || conn->state == SHIMMY_CONN_BODY) process(conn);
}

/* conn_write.c - replies: status line, headers, a body whole or in chunks. See conn.h. */
#include "http/conn_internal.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <string.h>
#include <time.h>

/* What a reader may leave unread before its connection is given up. An answer of a million tokens is a few megabytes.
 */
enum { OUTPUT_CEILING = 4 * 1024 * 1024 };

static const char *reason_of(int status) {
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {
        {200, "OK"},
        {204, "No Content"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {413, "Content Too Large"},
        {417, "Expectation Failed"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].status == status) return reasons[i].reason;
    return "Unknown";
}

/* The page whose script asks, if it is one of `origins`, which commas and blanks divide; else p NULL. */
static af_slice allowed_origin(const shimmy_conn *conn, const char *origins) {
    const af_slice asked = shimmy_header_find(&conn->head, "origin");
    while (asked.n && *origins) {
        const size_t n = strcspn(origins, ", ");
        if (n == asked.n && strncmp(origins, asked.p, n) == 0) return asked;
        origins += n + strspn(origins + n, ", ");
    }
    return af_slice_of(NULL, 0);
}

/* Which browsers' pages may call. Any may unless the options say otherwise: the server holds no cookies, and a page
 * knows no API key that it was not given. */
static void add_cors(struct evbuffer *out, const shimmy_conn *conn) {
    const char *origins = conn->http->options.origins;
    af_slice origin = af_slice_text("*");
    if (strcmp(origins, "*") != 0) {
        origin = allowed_origin(conn, origins);
        evbuffer_add_printf(out, "Vary: Origin\r\n");
        if (!origin.p) return;
    }
    evbuffer_add_printf(out, "Access-Control-Allow-Origin: %.*s\r\nAccess-Control-Expose-Headers: X-Request-Id\r\n",
                        (int)origin.n, origin.p);
    if (!af_slice_is(conn->head.method, "OPTIONS")) return;
    af_slice wanted = shimmy_header_find(&conn->head, "access-control-request-headers");
    if (!wanted.n) wanted = af_slice_text("Authorization, Content-Type");
    evbuffer_add_printf(out,
                        "Access-Control-Allow-Methods: GET, HEAD, POST, OPTIONS\r\n"
                        "Access-Control-Allow-Headers: %.*s\r\nAccess-Control-Max-Age: 86400\r\n",
                        (int)wanted.n, wanted.p);
}

static void add_head(shimmy_conn *conn, int status, const char *type) {
    conn->status = status;
    struct evbuffer *out = bufferevent_get_output(conn->bev);
    char date[64] = "";
    time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc)) strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &utc);
    evbuffer_add_printf(out, "HTTP/1.1 %d %s\r\nServer: shimmy/%s\r\nDate: %s\r\nX-Request-Id: %s\r\n", status,
                        reason_of(status), af_version(), date, conn->id);
    if (status != 204) evbuffer_add_printf(out, "Content-Type: %s\r\n", type ? type : "application/json");
    add_cors(out, conn);
    if (shimmy_conn_is_last(conn))
        evbuffer_add_printf(out, "Connection: close\r\n");
    else if (conn->head.minor == 0)
        evbuffer_add_printf(out, "Connection: keep-alive\r\n");
}

void shimmy_conn_reply(shimmy_conn *conn, shimmy_reply *reply) {
    struct evbuffer *out = bufferevent_get_output(conn->bev);
    add_head(conn, reply->status, reply->type);
    if (reply->allow) evbuffer_add_printf(out, "Allow: %s\r\n", reply->allow);
    if (reply->unauthorized) evbuffer_add_printf(out, "WWW-Authenticate: Bearer\r\n");
    if (reply->retry_after) evbuffer_add_printf(out, "Retry-After: %u\r\n", reply->retry_after);
    if (reply->status != 204) evbuffer_add_printf(out, "Content-Length: %zu\r\n", reply->body.len);
    evbuffer_add(out, "\r\n", 2);
    if (reply->status != 204 && !af_slice_is(conn->head.method, "HEAD"))
        evbuffer_add(out, reply->body.p, reply->body.len);
    af_buf_clear(&reply->body);
    shimmy_http *http = conn->http;
    shimmy_conn_done(conn);
    shimmy_http_shed(http, NULL);
}

void shimmy_conn_stream_begin(shimmy_conn *conn, const char *type) {
    struct evbuffer *out = bufferevent_get_output(conn->bev);
    conn->stream_chunked = conn->head.minor > 0;
    if (!conn->stream_chunked) conn->head.keep_alive = false; /* the end of HTTP/1.0's stream is the end of all */
    add_head(conn, 200, type);
    evbuffer_add_printf(out, "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n%s\r\n",
                        conn->stream_chunked ? "Transfer-Encoding: chunked\r\n" : "");
}

bool shimmy_conn_stream_write(shimmy_conn *conn, af_slice bytes) {
    struct evbuffer *out = bufferevent_get_output(conn->bev);
    if (!bytes.n) return true; /* an empty chunk would end the stream */
    if (evbuffer_get_length(out) + bytes.n > OUTPUT_CEILING) {
        shimmy_conn_abort(conn);
        return false;
    }
    if (conn->stream_chunked) evbuffer_add_printf(out, "%zx\r\n", bytes.n);
    evbuffer_add(out, bytes.p, bytes.n);
    if (conn->stream_chunked) evbuffer_add(out, "\r\n", 2);
    return shimmy_http_shed(conn->http, conn);
}

void shimmy_conn_stream_end(shimmy_conn *conn) {
    if (conn->stream_chunked) evbuffer_add(bufferevent_get_output(conn->bev), "0\r\n\r\n", 5);
    shimmy_conn_done(conn);
}

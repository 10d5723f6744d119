/* conn_unread.c - what clients have not taken yet of their answers, all together: a bound on the memory that readers
 * can hold who are slow on purpose. See conn.h.
 */
#include "http/conn_internal.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>

static size_t output_length(const shimmy_conn *conn) {
    return evbuffer_get_length(bufferevent_get_output(conn->bev));
}

static void on_change(struct evbuffer *output, const struct evbuffer_cb_info *change, void *user) {
    (void)output;
    shimmy_http *http = ((shimmy_conn *)user)->http;
    http->unread += change->n_added;
    http->unread -= change->n_deleted;
}

void shimmy_conn_meter(shimmy_conn *conn) {
    evbuffer_add_cb(bufferevent_get_output(conn->bev), on_change, conn);
}

void shimmy_conn_unmeter(shimmy_conn *conn) {
    conn->http->unread -= output_length(conn);
    evbuffer_remove_cb(bufferevent_get_output(conn->bev), on_change, conn);
}

/* Who reads least has most unread; a scan, but only when many do not read at all. */
static shimmy_conn *slowest(const shimmy_http *http) {
    shimmy_conn *found = http->first;
    for (shimmy_conn *conn = http->first; conn; conn = conn->next)
        if (output_length(conn) > output_length(found)) found = conn;
    return found;
}

bool shimmy_http_shed(shimmy_http *http, const shimmy_conn *conn) {
    bool kept = true;
    while (http->unread > http->options.max_held) {
        shimmy_conn *victim = slowest(http);
        const bool in_use = victim->in_use;
        kept = kept && victim != conn;
        shimmy_conn_abort(victim);
        if (in_use) evbuffer_drain(bufferevent_get_output(victim->bev), SIZE_MAX); /* it is freed later */
    }
    return kept;
}

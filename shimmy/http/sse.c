/* sse.c - see sse.h. */
#include "http/sse.h"

void shimmy_sse_begin(shimmy_conn *conn) {
    shimmy_conn_stream_begin(conn, "text/event-stream");
}

void shimmy_sse_open(af_buf *event) {
    event->len = 0;
    af_buf_text(event, "data: ");
}

bool shimmy_sse_send(shimmy_conn *conn, af_buf *event) {
    af_buf_text(event, "\n\n");
    return shimmy_conn_stream_write(conn, af_slice_of(event->p, event->len));
}

/* sse.h - server-sent events on a connection: "data: ...", an empty line, and each event a chunk of its own. */
#ifndef SHIMMY_SSE_H
#define SHIMMY_SSE_H

#include "http/conn.h"

void shimmy_sse_begin(shimmy_conn *conn);
/* Starts an event in `event`, which is emptied first; the caller appends one line of JSON, then sends it. */
void shimmy_sse_open(af_buf *event);
/* False if the connection was given up (shimmy_conn_stream_write). */
bool shimmy_sse_send(shimmy_conn *conn, af_buf *event);

#endif

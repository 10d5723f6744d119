/* tls.h - HTTPS: a certificate and its key, read again when the server is told to, through OpenSSL and libevent.
 *
 * TLS 1.2 and newer, OpenSSL's own choice of ciphers. No client certificates: a server that needs them stands behind a
 * proxy that does.
 */
#ifndef SHIMMY_TLS_H
#define SHIMMY_TLS_H

#include "base/status.h"

struct bufferevent;
struct event_base;

typedef struct shimmy_tls shimmy_tls;

/* Both paths name PEM files; they must outlive *out. */
int shimmy_tls_open(const char *certificate, const char *key, shimmy_tls **out, af_error *error);
void shimmy_tls_close(shimmy_tls *tls);
/* Reads both files again, for connections to come; on failure those read before stay. */
int shimmy_tls_reload(shimmy_tls *tls, af_error *error);
/* A bufferevent that owns the socket; NULL when out of memory. */
struct bufferevent *shimmy_tls_accept(shimmy_tls *tls, struct event_base *base, int fd);
/* Says goodbye on a connection about to be freed. */
void shimmy_tls_goodbye(struct bufferevent *bev);

#endif

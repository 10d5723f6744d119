/* listener.h - where the server is reached: HOST:PORT, [V6]:PORT or unix:PATH. */
#ifndef SHIMMY_LISTENER_H
#define SHIMMY_LISTENER_H

#include "base/status.h"

struct event_base;

typedef struct shimmy_listener shimmy_listener;

typedef struct shimmy_listener_options {
    const char *bind;   /* HOST:PORT, [V6]:PORT or unix:PATH */
    uint32_t unix_mode; /* of a unix socket's file; 0: as the umask says */
    bool tls;           /* the address begins with https */
} shimmy_listener_options;

/* Binds every address the host stands for. on_socket gets each accepted socket, non-blocking. A stale unix socket is
 * replaced; one that answers, or a file that is no socket, is an error. */
int shimmy_listener_open(struct event_base *base, const shimmy_listener_options *options,
                         void (*on_socket)(void *user, int fd), void *user, shimmy_listener **out, af_error *error);
/* Stops listening and removes the unix socket. */
void shimmy_listener_close(shimmy_listener *listener);
/* Leaves new connections waiting in the system's queue, or takes them again. */
void shimmy_listener_pause(shimmy_listener *listener, bool pause);
/* "http://127.0.0.1:11435" with the real port, or "unix:PATH". */
const char *shimmy_listener_address(const shimmy_listener *listener);

#endif

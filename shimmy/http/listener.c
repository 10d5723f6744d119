/* listener.c - see listener.h. */
#include "http/listener.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { SOCKETS = 8, BACKLOG = 1024 };

struct shimmy_listener {
    struct event_base *base;
    struct evconnlistener *sockets[SOCKETS];
    size_t count;
    void (*on_socket)(void *user, int fd);
    void *user;
    struct event *retry;
    char address[300];
    char unix_path[sizeof((struct sockaddr_un *)0)->sun_path];
};

static void on_accept(struct evconnlistener *socket, int fd, struct sockaddr *peer, int length, void *user) {
    (void)socket, (void)length;
    shimmy_listener *listener = user;
    int on = 1; /* tokens are small writes: none may wait for the acknowledgement of the last */
    if (peer->sa_family != AF_UNIX) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    listener->on_socket(listener->user, fd);
}

/* Out of file descriptors, mostly: trying again at once would spin. */
static void on_accept_error(struct evconnlistener *socket, void *user) {
    (void)socket;
    shimmy_listener *listener = user;
    shimmy_listener_pause(listener, true);
    evtimer_add(listener->retry, &(struct timeval){.tv_usec = 200000});
}

static void on_retry(int fd, short what, void *user) {
    (void)fd, (void)what;
    shimmy_listener_pause(user, false);
}

static int add_socket(shimmy_listener *listener, const struct sockaddr *address, socklen_t length) {
    unsigned flags = LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE;
    if (address->sa_family == AF_INET6) flags |= LEV_OPT_BIND_IPV6ONLY;
    struct evconnlistener *socket =
        evconnlistener_new_bind(listener->base, on_accept, listener, flags, BACKLOG, address, (int)length);
    if (!socket) return -errno;
    evconnlistener_set_error_cb(socket, on_accept_error);
    listener->sockets[listener->count++] = socket;
    return 0;
}

/* ---- Unix sockets ---- */

/* 0 if the path is free, once a socket that nobody answers at was removed. */
static int clear_stale(const struct sockaddr_un *address, af_error *error) {
    struct stat st;
    if (lstat(address->sun_path, &st) < 0) return 0;
    if (!S_ISSOCK(st.st_mode))
        return af_fail(error, AF_EIO, "--bind unix:%s: something that is no socket is there", address->sun_path);
    int probe = socket(AF_UNIX, SOCK_STREAM, 0);
    if (probe < 0) return af_fail(error, AF_EIO, "--bind unix:%s: %s", address->sun_path, strerror(errno));
    bool answered = connect(probe, (const struct sockaddr *)(const void *)address, sizeof *address) == 0;
    close(probe);
    if (answered) return af_fail(error, AF_EIO, "--bind unix:%s: another server answers there", address->sun_path);
    unlink(address->sun_path);
    return 0;
}

/* The socket's file is made with no more rights than `mode` has, so that nobody slips in before chmod. */
static int add_unix_socket(shimmy_listener *listener, const struct sockaddr_un *address, uint32_t mode) {
    const mode_t before = mode ? umask(0777) : 0;
    int rc = add_socket(listener, (const struct sockaddr *)(const void *)address, sizeof *address);
    if (mode) umask(before);
    if (rc == 0 && mode && chmod(address->sun_path, mode) < 0) rc = -errno;
    return rc;
}

static int open_unix(shimmy_listener *listener, const char *path, uint32_t mode, af_error *error) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if (!length || length >= sizeof address.sun_path)
        return af_fail(error, AF_EINVAL, "--bind unix:PATH: the path has %zu bytes, allowed is 1 to %zu", length,
                       sizeof address.sun_path - 1);
    memcpy(address.sun_path, path, length + 1);
    int rc = clear_stale(&address, error);
    if (rc < 0) return rc;
    rc = add_unix_socket(listener, &address, mode);
    if (rc < 0) return af_fail(error, AF_EIO, "--bind unix:%s: %s", path, strerror(-rc));
    memcpy(listener->unix_path, path, length + 1);
    snprintf(listener->address, sizeof listener->address, "unix:%s", path);
    return 0;
}

/* ---- TCP ---- */

/* Cuts "HOST:PORT" or "[V6]:PORT". */
static int split_bind(const char *bind, char host[256], uint16_t *port, af_error *error) {
    const char *colon = strrchr(bind, ':');
    const char *start = bind, *end = colon;
    if (*bind == '[') {
        start++;
        end = strchr(bind, ']');
        if (end && end + 1 != colon) end = NULL;
    } else if (colon && strchr(bind, ':') != colon) {
        end = NULL; /* an IPv6 address without brackets */
    }
    char *rest = NULL;
    unsigned long number = colon && colon[1] >= '0' && colon[1] <= '9' ? strtoul(colon + 1, &rest, 10) : 65536;
    if (!end || number > 65535 || *rest || end - start > 255)
        return af_fail(error, AF_EINVAL, "--bind: found '%s', expected HOST:PORT, [V6]:PORT or unix:PATH", bind);
    memcpy(host, start, (size_t)(end - start));
    host[end - start] = 0;
    *port = (uint16_t)number;
    return 0;
}

static uint16_t *port_of(struct sockaddr *address) {
    if (address->sa_family == AF_INET6) return &((struct sockaddr_in6 *)(void *)address)->sin6_port;
    return &((struct sockaddr_in *)(void *)address)->sin_port;
}

static uint16_t bound_port(struct evconnlistener *socket) {
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    if (getsockname(evconnlistener_get_fd(socket), (struct sockaddr *)&address, &length) < 0) return 0;
    return ntohs(*port_of((struct sockaddr *)&address));
}

static int bind_all(shimmy_listener *listener, const char *bind, struct addrinfo *list, uint16_t *port,
                    af_error *error) {
    int failure = EADDRNOTAVAIL;
    for (struct addrinfo *at = list; at && listener->count < SOCKETS; at = at->ai_next) {
        if (at->ai_family != AF_INET && at->ai_family != AF_INET6) continue;
        *port_of(at->ai_addr) = htons(*port);
        int rc = add_socket(listener, at->ai_addr, at->ai_addrlen);
        if (rc == 0) {
            *port = bound_port(listener->sockets[listener->count - 1]); /* all families share the port found */
            continue;
        }
        failure = -rc;
        if (failure != EADDRNOTAVAIL && failure != EAFNOSUPPORT) break;
    }
    bool partly = failure == EADDRNOTAVAIL || failure == EAFNOSUPPORT;
    if (listener->count && partly) return 0;
    return af_fail(error, AF_EIO, "--bind %s: %s", bind, strerror(failure));
}

static int open_tcp(shimmy_listener *listener, const char *bind, bool tls, af_error *error) {
    char host[256];
    uint16_t port = 0;
    int rc = split_bind(bind, host, &port, error);
    if (rc < 0) return rc;
    bool any = !*host || strcmp(host, "*") == 0;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list = NULL;
    int found = getaddrinfo(any ? NULL : host, "0", &hints, &list);
    if (found != 0) return af_fail(error, AF_EINVAL, "--bind %s: %s", bind, gai_strerror(found));
    rc = bind_all(listener, bind, list, &port, error);
    freeaddrinfo(list);
    if (rc < 0) return rc;
    bool v6 = strchr(host, ':') != NULL;
    snprintf(listener->address, sizeof listener->address, "http%s://%s%s%s:%u", tls ? "s" : "", v6 ? "[" : "",
             any ? "0.0.0.0" : host, v6 ? "]" : "", port);
    return 0;
}

int shimmy_listener_open(struct event_base *base, const shimmy_listener_options *options,
                         void (*on_socket)(void *user, int fd), void *user, shimmy_listener **out, af_error *error) {
    const char *bind = options->bind;
    shimmy_listener *listener = calloc(1, sizeof *listener);
    if (!listener) return af_fail_memory(error, sizeof *listener, "the listener");
    listener->base = base;
    listener->on_socket = on_socket;
    listener->user = user;
    listener->retry = evtimer_new(base, on_retry, listener);
    int rc = listener->retry ? 0 : af_fail(error, AF_ENOMEM, "the listener: out of memory");
    if (rc == 0)
        rc = strncmp(bind, "unix:", 5) == 0 ? open_unix(listener, bind + 5, options->unix_mode, error)
                                            : open_tcp(listener, bind, options->tls, error);
    if (rc < 0) {
        shimmy_listener_close(listener);
        return rc;
    }
    *out = listener;
    return 0;
}

void shimmy_listener_close(shimmy_listener *listener) {
    if (!listener) return;
    for (size_t i = 0; i < listener->count; i++) evconnlistener_free(listener->sockets[i]);
    if (listener->unix_path[0]) unlink(listener->unix_path);
    if (listener->retry) event_free(listener->retry);
    free(listener);
}

void shimmy_listener_pause(shimmy_listener *listener, bool pause) {
    for (size_t i = 0; i < listener->count; i++) {
        if (pause)
            evconnlistener_disable(listener->sockets[i]);
        else
            evconnlistener_enable(listener->sockets[i]);
    }
}

const char *shimmy_listener_address(const shimmy_listener *listener) {
    return listener->address;
}

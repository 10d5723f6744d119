/* router.c - see router.h. Also answers what holds for every route: OPTIONS, 404, 405 with Allow, 503 while loading. */
#include "http/router.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

void shimmy_reply_refusal(shimmy_reply *reply, const shimmy_refusal *refusal) {
    af_buf_clear(&reply->body);
    reply->status = refusal->status;
    reply->retry_after = refusal->retry_after;
    reply->type = NULL;
    shimmy_write_refusal(&reply->body, refusal);
}

/* What follows the route's path in `path`; p NULL if the path is another's. */
static af_slice match_path(const shimmy_route *route, af_slice path) {
    size_t n = strlen(route->path);
    bool named = n > 1 && route->path[n - 1] == '/';
    if (path.n < n || memcmp(path.p, route->path, n) != 0 || (path.n > n) != named) return af_slice_of(NULL, 0);
    return af_slice_of(path.p + n, path.n - n);
}

static bool serves_method(const shimmy_route *route, af_slice method) {
    return af_slice_is(method, route->method) || (strcmp(route->method, "GET") == 0 && af_slice_is(method, "HEAD"));
}

/* Methods of all routes at a path, as Allow has them; "" for an unknown path. */
static void list_methods(af_slice path, char *out, size_t size) {
    *out = 0;
    for (size_t i = 0; i < shimmy_route_count; i++) {
        if (!match_path(&shimmy_routes[i], path).p) continue;
        bool get = strcmp(shimmy_routes[i].method, "GET") == 0;
        size_t at = strlen(out);
        snprintf(out + at, size - at, "%s%s", at ? ", " : "", get ? "GET, HEAD" : shimmy_routes[i].method);
    }
    size_t at = strlen(out);
    if (at) snprintf(out + at, size - at, ", OPTIONS");
}

/* The path without --path-prefix and without a slash at its end; p NULL if it does not begin with the prefix. */
static af_slice inner_path(const shimmy_server *server, af_slice path) {
    const char *prefix = server->options->path_prefix;
    const size_t n = strlen(prefix);
    if (path.n < n || strncmp(path.p, prefix, n) != 0 || (path.n > n && path.p[n] != '/')) return af_slice_of(NULL, 0);
    if (path.n == n) return af_slice_text("/");
    path = af_slice_of(path.p + n, path.n - n);
    if (path.n > 1 && path.p[path.n - 1] == '/') path.n--;
    return path;
}

static const shimmy_route *find_route(af_slice method, af_slice path, af_slice *name) {
    for (size_t i = 0; i < shimmy_route_count; i++) {
        *name = match_path(&shimmy_routes[i], path);
        if (name->p && serves_method(&shimmy_routes[i], method)) return &shimmy_routes[i];
    }
    return NULL;
}

static void reply_refusal(shimmy_conn *conn, const shimmy_refusal *refusal, const char *allow) {
    shimmy_reply reply = {.allow = allow};
    shimmy_reply_refusal(&reply, refusal);
    shimmy_conn_reply(conn, &reply);
}

/* `inner` is the path below --path-prefix; p NULL: it is not below it. */
static void reply_no_route(shimmy_conn *conn, af_slice method, af_slice path, af_slice inner) {
    char allow[64] = "";
    if (inner.p) list_methods(inner, allow, sizeof allow);
    shimmy_refusal refusal;
    if (af_slice_is(method, "OPTIONS")) { /* a preflight asks about any path */
        shimmy_reply reply = {.status = 204, .allow = *allow ? allow : NULL};
        shimmy_conn_reply(conn, &reply);
        return;
    }
    if (*allow)
        shimmy_refuse(&refusal, 405, "method_not_allowed", NULL, "%.*s %.*s: allowed is %s", (int)method.n, method.p,
                      (int)path.n, path.p, allow);
    else
        shimmy_refuse(&refusal, 404, "not_found", NULL, "%.*s: there is no such route; GET / lists them", (int)path.n,
                      path.p);
    reply_refusal(conn, &refusal, *allow ? allow : NULL);
}

static void answer_here(shimmy_server *server, shimmy_conn *conn, const shimmy_route *route, af_slice rest) {
    shimmy_reply reply = {.status = 200};
    char *name = shimmy_percent_decode(rest);
    if (name) {
        route->here(server, name, &reply);
    } else {
        shimmy_refusal refusal;
        shimmy_refuse(&refusal, 400, "invalid_path", NULL, "the path is not percent-encoded as it should be");
        shimmy_reply_refusal(&reply, &refusal);
    }
    af_free(name);
    shimmy_conn_reply(conn, &reply);
}

size_t shimmy_route_index(const shimmy_server *server, af_slice method, af_slice path) {
    af_slice name;
    const af_slice inner = inner_path(server, path);
    const shimmy_route *route = inner.p ? find_route(method, inner, &name) : NULL;
    return route ? (size_t)(route - shimmy_routes) : SIZE_MAX;
}

/* The key that a request brings: Authorization: Bearer KEY, or X-Api-Key: KEY. */
static af_slice key_of(const shimmy_head *head) {
    const af_slice bearer = shimmy_header_find(head, "authorization");
    if (bearer.n > 7 && strncasecmp(bearer.p, "bearer ", 7) == 0) return af_slice_of(bearer.p + 7, bearer.n - 7);
    return shimmy_header_find(head, "x-api-key");
}

static void reply_no_key(shimmy_conn *conn) {
    shimmy_refusal refusal;
    shimmy_refuse(&refusal, 401, "invalid_api_key", NULL,
                  "this server asks for an API key: send one of its keys as \"Authorization: Bearer KEY\"");
    shimmy_reply reply = {.unauthorized = true};
    shimmy_reply_refusal(&reply, &refusal);
    shimmy_conn_reply(conn, &reply);
}

void shimmy_route_request(shimmy_server *server, shimmy_conn *conn, const shimmy_http_request *request) {
    af_slice method = request->head->method, path = inner_path(server, request->head->path), name;
    const shimmy_route *route = path.p ? find_route(method, path, &name) : NULL;
    if (!route) {
        reply_no_route(conn, method, request->head->path, path);
    } else if (route->needs_model && server->keys && !shimmy_keys_hold(server->keys, key_of(request->head))) {
        reply_no_key(conn);
    } else if (route->needs_model && !server->ready) {
        shimmy_refusal refusal;
        shimmy_refuse(&refusal, 503, "loading", NULL, "the model is still loading: try again in a moment");
        reply_refusal(conn, &refusal, NULL);
    } else if (route->here && !(route->work && shimmy_models_may_refresh(server->models))) {
        answer_here(server, conn, route, name);
    } else {
        shimmy_call_start(server, conn, route);
    }
}

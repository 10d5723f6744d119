/* router.h - which request goes to which function: one table. */
#ifndef SHIMMY_ROUTER_H
#define SHIMMY_ROUTER_H

#include "http/call.h"

typedef struct shimmy_route {
    const char *method; /* GET stands for HEAD too */
    const char *path;   /* one that ends in '/' takes any one name after it */
    bool needs_model;   /* answered with 503 while it loads, and with 401 without a key where keys are asked for */
    /* One of the two, or both. here: on the loop, at once; `name` is what followed the path, decoded, or "". */
    void (*here)(shimmy_server *server, const char *name, shimmy_reply *reply);
    /* On a worker, with the model: 0, or negative with call->refusal set. The body is borrowed. Beside `here`, it takes
     * its place when models have not been looked for of late: no body, no model. */
    int (*work)(shimmy_call *call, json_t *json);
} shimmy_route;

/* Answers a request, or starts the call that will. */
void shimmy_route_request(shimmy_server *server, shimmy_conn *conn, const shimmy_http_request *request);

/* The place in the table of the route that a request went to; SIZE_MAX where there is none. */
size_t shimmy_route_index(const shimmy_server *server, af_slice method, af_slice path);

/* Makes a reply of a refusal. */
void shimmy_reply_refusal(shimmy_reply *reply, const shimmy_refusal *refusal);

/* routes.c: the table. */
extern const shimmy_route shimmy_routes[];
extern const size_t shimmy_route_count;

#endif

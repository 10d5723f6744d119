/* about.h - what a server tells of itself: its routes, its health, its models, its numbers. Answered on the loop. */
#ifndef SHIMMY_ABOUT_H
#define SHIMMY_ABOUT_H

#include "http/server.h"

void shimmy_get_index(shimmy_server *server, const char *name, shimmy_reply *reply);
void shimmy_get_health(shimmy_server *server, const char *name, shimmy_reply *reply);
void shimmy_get_models(shimmy_server *server, const char *name, shimmy_reply *reply);
void shimmy_get_model(shimmy_server *server, const char *name, shimmy_reply *reply);
void shimmy_get_metrics(shimmy_server *server, const char *name, shimmy_reply *reply);

#endif

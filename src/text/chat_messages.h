/* chat_messages.h - a chat request's JSON: checking it, and changing messages to what templates expect. */
#ifndef AF_CHAT_MESSAGES_H
#define AF_CHAT_MESSAGES_H

#include "text/jinja.h"

/* Parses and checks. AF_EINVAL names the field. The caller's reference. */
int af_chat_parse(const char *request, size_t length, json_t **out, af_error *error);

/* What a server does to messages before a template sees them, in place. `wants_parts`: contents become lists. */
int af_chat_normalize(json_t *messages, const af_jinja *jinja, bool wants_parts, af_error *error);

/* Gives every message without a content an empty one; false if there was none. */
bool af_chat_fill_contents(json_t *messages);

/* Appends `mark` to the last text of the last message. */
int af_chat_mark_end(json_t *messages, const char *mark, af_error *error);

#endif

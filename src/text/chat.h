/* chat.h - from a chat request to a rendered prompt: what a server does to messages before the template sees them.
 *
 * Unless `raw`: content that is a list of text parts is joined (with newlines between, as templates/README says of
 * content-joined; other kinds of part are an error that names the kind), tool calls' arguments given as a JSON string
 * are parsed, null contents dropped, role "developer" passed as "system".
 * continue_final_message ends the text where the last message's content ends.
 */
#ifndef AF_CHAT_H
#define AF_CHAT_H

#include "text/jinja.h"

/* The template for models whose file has none: a plain, documented form (chat.c shows it). */
extern const char af_chat_default_template[];

int af_chat_render(const af_jinja *jinja, const char *request, size_t length, const af_render_options *options,
                   af_prompt *out, af_error *error);

#endif

/* chat.h - from a chat request to a rendered prompt: what a server does to messages before the template sees them.
 *
 * Unless `raw`: content that is a list of text parts is joined (with nothing between; other kinds of part are an error
 * that names the kind), a template that prints lists of parts and no strings gets a list of one part, tool calls'
 * arguments given as a JSON string are parsed, keys whose value is null are dropped (where the template fails without a
 * content, it gets an empty one), role "developer" is passed as "system" to templates that do not know it.
 * continue_final_message ends the text where the last message's content ends.
 */
#ifndef AF_CHAT_H
#define AF_CHAT_H

#include "text/jinja.h"

/* The template for models whose file has none: a plain, documented form (chat.c shows it). */
extern const char af_chat_default_template[];

/* Renders a request, given as JSON text. AF_EINVAL for a request that is wrong, naming the field. */
int af_chat_render(const af_jinja *jinja, const char *request, size_t length, const af_render_options *options,
                   af_prompt *out, af_error *error);

/* The interpreter inside of a template opened by af_template_open; lives as long as that. */
const af_jinja *af_template_jinja(const af_template *tmpl);

#endif

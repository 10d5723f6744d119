/* jinja.h - the Jinja interpreter for chat templates.
 *
 * A lexer, a parser to a tree in an arena, and an evaluator with Python's values and Jinja2's meaning, in the
 * surroundings Hugging Face transformers gives a template: trim_blocks, lstrip_blocks, loop controls, `generation`
 * blocks, raise_exception, strftime_now, tojson. Every string carries the origin of each of its bytes (template or
 * request), through filters, slices and concatenation. Steps, depth and output are limited: a hostile template gets an
 * error. Not a general Jinja: no include, import, extends or autoescape.
 */
#ifndef AF_JINJA_H
#define AF_JINJA_H

#include "base/buf.h"

#include <jansson.h>

typedef struct af_jinja af_jinja;

/* Parses a template. AF_EFORMAT with line and column. Thread-safe to render once parsed. */
int af_jinja_parse(const char *source, size_t n, af_jinja **out, af_error *error);
void af_jinja_close(af_jinja *jinja);
/* Whether the template's source has this word in it: a hint at what it knows, such as a role. */
bool af_jinja_mentions(const af_jinja *jinja, const char *word);

typedef struct af_jinja_context {
    const json_t *variables; /* object: messages, tools, add_generation_prompt, ...; strings in it have origin 1 */
    const char *bos, *eos;   /* bos_token and eos_token, of origin 0 */
    const char *now;         /* "YYYY-MM-DD HH:MM", or NULL for the clock */
} af_jinja_context;

/* Renders. `text` and `origin` get the same number of bytes. AF_ETEMPLATE when the template raised an error of its own
 * (its words alone in the message), AF_EFORMAT with line and column for every other. */
int af_jinja_render(const af_jinja *jinja, const af_jinja_context *context, af_buf *text, af_buf *origin,
                    af_error *error);

#endif

/* template.c - chat templates of the public interface: an af_jinja under a name. */
#include "text/chat.h"

#include <stdlib.h>

struct af_template {
    af_jinja *jinja;
};

af_render_options af_render_options_default(void) {
    return (af_render_options){0};
}

int af_template_open(const char *source, size_t length, af_template **out, af_error *error) {
    af_template *tmpl = calloc(1, sizeof *tmpl);
    if (!tmpl) return af_fail_memory(error, sizeof *tmpl, "template");
    int status = af_jinja_parse(source, length, &tmpl->jinja, error);
    if (status)
        free(tmpl);
    else
        *out = tmpl;
    return status;
}

void af_template_close(af_template *tmpl) {
    if (!tmpl) return;
    af_jinja_close(tmpl->jinja);
    free(tmpl);
}

const af_jinja *af_template_jinja(const af_template *tmpl) {
    return tmpl->jinja;
}

int af_template_render(const af_template *tmpl, const char *request, size_t length, const af_render_options *options,
                       af_prompt *out, af_error *error) {
    return af_chat_render(tmpl->jinja, request, length, options, out, error);
}

/* cmd_render.c - `shimmy render`: the prompt a chat request becomes, exactly, with nothing added. */
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/session.h"

#include <stdio.h>

typedef struct inputs {
    char *request;
    size_t length;
    af_template *tmpl; /* NULL: the model's */
    shimmy_session session;
} inputs;

static int open_inputs(const shimmy_options *options, inputs *in, af_error *error) {
    int status = shimmy_input_file(options->messages, &in->request, &in->length, error);
    if (status) return status;
    if (options->template_file) status = shimmy_input_template(options->template_file, &in->tmpl, error);
    if (status || !options->arguments[0]) return status;
    return shimmy_session_model(options, options->arguments[0], AF_LOAD_FILE, &in->session, error);
}

static void close_inputs(inputs *in) {
    shimmy_session_close(&in->session);
    af_template_close(in->tmpl);
    af_free(in->request);
}

int shimmy_cmd_render(const shimmy_options *options, af_error *error) {
    if (!options->messages)
        return af_fail(error, SHIMMY_USAGE, "render needs --messages FILE (or - for standard input)");
    if (!options->arguments[0] && !options->template_file)
        return af_fail(error, SHIMMY_USAGE, "render needs MODEL or --template FILE");
    inputs in = {0};
    af_prompt prompt = {0};
    int status = open_inputs(options, &in, error);
    if (status) goto done;
    af_render_options render = af_render_options_default();
    render.raw = options->raw;
    render.now = options->now;
    render.bos = options->bos;
    render.eos = options->eos;
    status = in.session.model
                 ? af_model_render(in.session.model, in.tmpl, in.request, in.length, &render, &prompt, error)
                 : af_template_render(in.tmpl, in.request, in.length, &render, &prompt, error);
    if (!status) fwrite(prompt.text, 1, prompt.length, stdout);
done:
    af_prompt_clear(&prompt);
    close_inputs(&in);
    return status;
}

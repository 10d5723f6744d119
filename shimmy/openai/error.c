/* error.c - see error.h. */
#include "openai/error.h"

#include "openai/write.h"

#include <stdio.h>

int shimmy_refuse(shimmy_refusal *out, int status, const char *code, const char *param, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    out->status = status;
    out->code = code;
    out->retry_after = status == 503 ? 1 : 0;
    snprintf(out->param, sizeof out->param, "%s", param ? param : "");
    vsnprintf(out->message, sizeof out->message, format, arguments);
    va_end(arguments);
    return AF_EINVAL;
}

int shimmy_refuse_error(shimmy_refusal *out, const af_error *error, const char *param) {
    static const struct {
        int error, status;
        const char *code;
    } statuses[] = {
        {AF_EINVAL, 400, NULL},
        {AF_EFORMAT, 400, NULL},
        {AF_EUNSUPPORTED, 400, "unsupported"},
        {AF_ETEMPLATE, 400, "template_error"},
        {AF_ECONTEXT, 400, "context_length_exceeded"},
        {AF_EFULL, 503, "queue_full"},
        {AF_ECANCELED, 503, "shutting_down"},
        {AF_ENOMEM, 503, "out_of_memory"},
    };
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        if (statuses[i].error == error->code)
            return shimmy_refuse(out, statuses[i].status, statuses[i].code, param, "%s", error->text);
    return shimmy_refuse(out, 500, NULL, NULL, "%s", error->text);
}

static void write_text_or_null(af_buf *out, const char *text) {
    if (text && *text)
        shimmy_write_text(out, text);
    else
        af_buf_text(out, "null");
}

void shimmy_write_refusal(af_buf *out, const shimmy_refusal *refusal) {
    af_buf_text(out, "{\"error\":{\"message\":");
    shimmy_write_text(out, refusal->message);
    af_buf_printf(out,
                  ",\"type\":\"%s\",\"param\":", refusal->status >= 500 ? "server_error" : "invalid_request_error");
    write_text_or_null(out, refusal->param);
    af_buf_text(out, ",\"code\":");
    write_text_or_null(out, refusal->code);
    af_buf_text(out, "}}");
}

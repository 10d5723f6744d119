/* cmd_tokens.c - `shimmy tokenize` and `shimmy detokenize`: text to ids and back, for files with or without tensors. */
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/output.h"
#include "cli/session.h"

#include <stdio.h>
#include <string.h>

#define LINE_CEILING ((size_t)256 << 20)

static unsigned tokenize_flags(const shimmy_options *options) {
    return (options->add_special ? AF_ADD_SPECIAL : 0) | (options->parse_special ? AF_PARSE_SPECIAL : 0);
}

static int tokenize_text(const af_model *model, const char *text, size_t length, unsigned flags, af_error *error) {
    int32_t *ids;
    size_t count;
    const int status = af_tokenize(model, text, length, flags, &ids, &count, error);
    if (status) return status;
    shimmy_print_ids(ids, count);
    af_free(ids);
    return 0;
}

/* ---- --jsonl ---- */

/* One line without its end; false at the end of the input. A last line need not be ended. */
static bool read_line(FILE *file, af_buf *line) {
    int c;
    line->len = 0;
    while ((c = getc(file)) != EOF && c != '\n') af_buf_byte(line, (char)c);
    return c != EOF || line->len;
}

static int tokenize_line(const af_model *model, const af_buf *line, size_t number, unsigned flags, af_error *error) {
    json_error_t why;
    json_t *string = json_loadb(line->len ? line->p : "", line->len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);
    int status;
    if (!string)
        status = af_fail(error, AF_EFORMAT, "line %zu: %s", number, why.text);
    else if (!json_is_string(string))
        status = af_fail(error, AF_EFORMAT, "line %zu: found another JSON value, allowed: a string", number);
    else
        status = tokenize_text(model, json_string_value(string), json_string_length(string), flags, error);
    json_decref(string);
    return status;
}

/* Each line is answered before the next is read, so that a script can hold a conversation with the command. */
static int tokenize_lines(const af_model *model, unsigned flags, af_error *error) {
    af_buf line = {.ceiling = LINE_CEILING};
    int status = 0;
    for (size_t number = 1; !status && read_line(stdin, &line); number++) {
        if (line.failed)
            status = af_fail(error, AF_ENOMEM, "line %zu: longer than %zu bytes", number, LINE_CEILING);
        else
            status = tokenize_line(model, &line, number, flags, error);
        fflush(stdout);
    }
    af_buf_clear(&line);
    return status;
}

/* ---- Commands ---- */

static int tokenize_argument(const af_model *model, const char *argument, unsigned flags, af_error *error) {
    char *owned;
    af_slice text;
    int status = shimmy_input_argument(argument, &owned, &text, error);
    if (!status) status = tokenize_text(model, text.p, text.n, flags, error);
    af_free(owned);
    return status;
}

int shimmy_cmd_tokenize(const shimmy_options *options, af_error *error) {
    const char *text = options->arguments[1];
    if (!text && !options->jsonl) return af_fail(error, SHIMMY_USAGE, "tokenize needs TEXT, or - for standard input");
    if (text && strcmp(text, "-") != 0 && options->jsonl)
        return af_fail(error, SHIMMY_USAGE, "--jsonl reads standard input: found '%s', allowed: - or nothing", text);
    shimmy_session session;
    int status = shimmy_session_model(options, options->arguments[0], AF_LOAD_FILE, &session, error);
    if (status) return status;
    const unsigned flags = tokenize_flags(options);
    status = options->jsonl ? tokenize_lines(session.model, flags, error)
                            : tokenize_argument(session.model, text, flags, error);
    shimmy_session_close(&session);
    return status;
}

static int detokenize_argument(const af_model *model, const char *argument, af_error *error) {
    const char *where = strcmp(argument, "-") == 0 ? "standard input" : "IDS";
    char *owned, *bytes = NULL;
    af_slice text;
    size_t length;
    af_ids ids = {0};
    int status = shimmy_input_argument(argument, &owned, &text, error);
    if (!status) status = shimmy_parse_ids(text, where, &ids, error);
    if (!status) status = af_detokenize(model, ids.p, ids.len, &bytes, &length, error);
    if (!status) fwrite(bytes, 1, length, stdout);
    af_free(bytes);
    af_ids_clear(&ids);
    af_free(owned);
    return status;
}

int shimmy_cmd_detokenize(const shimmy_options *options, af_error *error) {
    shimmy_session session;
    int status = shimmy_session_model(options, options->arguments[0], AF_LOAD_FILE, &session, error);
    if (status) return status;
    status = detokenize_argument(session.model, options->arguments[1], error);
    shimmy_session_close(&session);
    return status;
}

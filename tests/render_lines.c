/* render_lines: renders chat templates, a JSON object a line in, one out: the half in C of the Python tests of
 * templates.
 *
 *     {"template": source, "request": {...}, "bos": "<s>", "eos": "</s>", "raw": true}
 *     {"text": "...", "origin": "0011..."}     a digit for each byte
 *     {"error": "...", "status": "format"}
 *
 * A template is parsed again only when it differs from the line before. */
#include "text/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *error_json(const af_error *error) {
    return json_pack("{s:s, s:s}", "error", error->text, "status", af_status_name(error->code));
}

static json_t *prompt_json(const af_prompt *prompt) {
    char *digits = malloc(prompt->length + 1);
    for (size_t i = 0; i < prompt->length; i++) digits[i] = (char)('0' + prompt->origin[i]);
    json_t *result = json_pack("{s:o, s:o}", "text", json_stringn(prompt->text, prompt->length), "origin",
                               json_stringn(digits, prompt->length));
    free(digits);
    return result;
}

static json_t *render(const af_template *tmpl, const json_t *line) {
    af_render_options options = af_render_options_default();
    options.now = "2025-07-04 12:00";
    options.raw = json_is_true(json_object_get(line, "raw"));
    options.bos = json_string_value(json_object_get(line, "bos"));
    options.eos = json_string_value(json_object_get(line, "eos"));
    char *request = json_dumps(json_object_get(line, "request"), JSON_COMPACT);
    af_prompt prompt;
    af_error error;
    int status = af_template_render(tmpl, request, strlen(request), &options, &prompt, &error);
    free(request);
    if (status) return error_json(&error);
    json_t *result = prompt_json(&prompt);
    af_free(prompt.text);
    af_free(prompt.origin);
    return result;
}

typedef struct parsed {
    json_t *source;
    af_template *tmpl;
    af_error error;
} parsed;

static void parse(parsed *p, json_t *source) {
    if (p->source && json_equal(p->source, source)) return;
    json_decref(p->source);
    af_template_close(p->tmpl);
    p->source = json_incref(source);
    p->tmpl = NULL;
    af_template_open(json_string_value(source), json_string_length(source), &p->tmpl, &p->error);
}

int main(void) {
    parsed p = {0};
    char *text = NULL;
    size_t room = 0;
    for (ssize_t n; (n = getline(&text, &room, stdin)) > 0;) {
        json_t *line = json_loadb(text, (size_t)n, JSON_ALLOW_NUL, NULL);
        if (!json_is_string(json_object_get(line, "template"))) {
            fprintf(stderr, "render_lines: not an object with a template\n");
            return 1;
        }
        parse(&p, json_object_get(line, "template"));
        json_t *result = p.tmpl ? render(p.tmpl, line) : error_json(&p.error);
        json_dumpf(result, stdout, JSON_COMPACT);
        puts("");
        fflush(stdout);
        json_decref(result);
        json_decref(line);
    }
    json_decref(p.source);
    af_template_close(p.tmpl);
    free(text);
    return 0;
}

/* render_case TEMPLATE CASES [MODE]: renders every case of a file of conversations with a chat template and prints one
 * JSON object, case name to text, or to {"error", "status"}. MODE is "raw" (default: messages as they stand), "server"
 * (with a server's changes) or "origin" (raw, texts replaced by their origins: a digit for each byte).
 *
 * The other half of template_corpus_test.py; also a tool to look at what one template makes of one conversation. */
#include "text/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_file(const char *path, size_t *n) {
    FILE *file = fopen(path, "rb");
    af_buf b = {0};
    char part[65536];
    if (!file) return NULL;
    for (size_t got; (got = fread(part, 1, sizeof part, file)) > 0;) af_buf_append(&b, part, got);
    fclose(file);
    return af_buf_take(&b, n);
}

static json_t *error_json(const af_error *error) {
    return json_pack("{s:s, s:s}", "error", error->text, "status", af_status_name(error->code));
}

static json_t *render(const af_template *tmpl, const json_t *spec, const json_t *request, const char *mode) {
    af_render_options options = {.now = "2025-07-04 12:00"};
    options.raw = strcmp(mode, "server") != 0;
    options.bos = json_string_value(json_object_get(spec, "bos_token"));
    options.eos = json_string_value(json_object_get(spec, "eos_token"));
    char *text = json_dumps(request, JSON_COMPACT);
    af_prompt prompt;
    af_error error;
    int status = af_template_render(tmpl, text, strlen(text), &options, &prompt, &error);
    free(text);
    if (status) return error_json(&error);
    if (strcmp(mode, "origin") == 0)
        for (size_t i = 0; i < prompt.length; i++) prompt.text[i] = (char)('0' + prompt.origin[i]);
    json_t *result = json_stringn(prompt.text, prompt.length);
    af_free(prompt.text);
    af_free(prompt.origin);
    return result;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: render_case TEMPLATE CASES [raw|server|origin]\n");
        return 2;
    }
    size_t n, spec_n;
    char *source = read_file(argv[1], &n), *spec_text = read_file(argv[2], &spec_n);
    json_t *spec = spec_text ? json_loadb(spec_text, spec_n, JSON_ALLOW_NUL, NULL) : NULL, *out = json_object();
    if (!source || !spec) {
        fprintf(stderr, "render_case: cannot read %s or %s\n", argv[1], argv[2]);
        return 1;
    }
    af_template *tmpl = NULL;
    af_error error;
    int status = af_template_open(source, n, &tmpl, &error);
    size_t i;
    json_t *request;
    json_array_foreach(json_object_get(spec, "cases"), i, request) {
        const char *name = json_string_value(json_object_get(request, "name"));
        json_object_set_new(out, name,
                            status ? error_json(&error) : render(tmpl, spec, request, argc > 3 ? argv[3] : "raw"));
    }
    json_dumpf(out, stdout, JSON_COMPACT);
    af_template_close(tmpl);
    json_decref(out);
    json_decref(spec);
    free(source);
    free(spec_text);
    return 0;
}

/* prompt_lines MODEL: chat requests to token ids, a JSON object a line in, one out, with the model's vocabulary.
 *
 *     {"template": source, "request": {...}}
 *     {"ids": [...], "ms": 1.5}   or   {"error": "..."}
 *
 * "ms" is the time of rendering and tokenizing, the parsed template given.
 */
#include "airframe.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double milliseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static json_t *ids_json(const int32_t *ids, size_t count, double ms) {
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) json_array_append_new(array, json_integer(ids[i]));
    return json_pack("{s:o, s:f}", "ids", array, "ms", ms);
}

static json_t *answer(const af_model *model, const json_t *line) {
    const json_t *source = json_object_get(line, "template");
    char *request = json_dumps(json_object_get(line, "request"), JSON_COMPACT);
    af_render_options options = af_render_options_default();
    options.now = "2025-07-04 12:00";
    af_template *tmpl = NULL;
    af_prompt prompt = {0};
    af_error error;
    int32_t *ids = NULL;
    size_t count = 0;
    int rc = af_template_open(json_string_value(source), json_string_length(source), &tmpl, &error);
    double start = milliseconds();
    if (rc == 0) rc = af_model_render(model, tmpl, request, strlen(request), &options, &prompt, &error);
    if (rc == 0) rc = af_prompt_tokenize(model, &prompt, &ids, &count, &error);
    json_t *result = rc < 0 ? json_pack("{s:s}", "error", error.text) : ids_json(ids, count, milliseconds() - start);
    af_free(ids);
    af_prompt_clear(&prompt);
    af_template_close(tmpl);
    free(request);
    return result;
}

int main(int argc, char **argv) {
    af_model_options options = af_model_options_default();
    options.load = AF_LOAD_FILE;
    af_model *model;
    af_error error;
    if (argc != 2 || af_model_open(argv[1], &options, &model, &error) < 0) {
        fprintf(stderr, "prompt_lines: %s\n", argc == 2 ? error.text : "needs MODEL");
        return 1;
    }
    char *text = NULL;
    size_t room = 0;
    for (ssize_t n; (n = getline(&text, &room, stdin)) > 0;) {
        json_t *line = json_loadb(text, (size_t)n, JSON_ALLOW_NUL, NULL), *result = answer(model, line);
        json_dumpf(result, stdout, JSON_COMPACT);
        puts("");
        fflush(stdout);
        json_decref(result);
        json_decref(line);
    }
    free(text);
    af_model_close(model);
    return 0;
}

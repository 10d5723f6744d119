/* tokenizer_lines.c - the tokenizer as a filter, for oracles written in Python (tokenizers_test.py,
 * bench_tokenizer.py).
 *
 *     tokenizer_lines encode FILE.gguf     standard input: a JSON list of texts; output: the ids of each
 *     tokenizer_lines special FILE.gguf    the same with the tokens that are added, and control tokens found in the
 * text tokenizer_lines cut NAME             ... the pieces that the pre-tokenizer NAME cuts each into tokenizer_lines
 * time FILE.gguf       ... the processor seconds that encoding all of them takes, best of five
 */
#include "base/os.h"
#include "text/pretok.h"
#include "text/tokenizer.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void stop(const char *message) {
    fprintf(stderr, "tokenizer_lines: %s\n", message);
    exit(2);
}

static json_t *ids_of(const af_tokenizer *tok, const json_t *text, unsigned flags) {
    af_ids ids = {0};
    af_error error = {0};
    if (af_tokenizer_encode(tok, json_string_value(text), json_string_length(text), NULL, flags, &ids, &error)) {
        stop(error.text);
    }
    json_t *list = json_array();
    for (size_t i = 0; i < ids.len; i++) json_array_append_new(list, json_integer(ids.p[i]));
    af_ids_clear(&ids);
    return list;
}

static json_t *pieces_of(const af_pretok *pre, const json_t *text) {
    af_pretok_walk walk;
    af_error error = {0};
    json_t *list = json_array();
    int status = af_pretok_start(&walk, pre, json_string_value(text), json_string_length(text), &error);
    for (af_slice piece; !status;) {
        status = af_pretok_next(&walk, &piece, &error);
        if (status || !piece.n) break;
        json_array_append_new(list, json_stringn(piece.p, piece.n));
    }
    if (status) stop(error.text);
    af_pretok_finish(&walk);
    return list;
}

static json_t *cut_all(const char *name, const json_t *texts) {
    af_error error = {0};
    af_pretok *pre = NULL;
    const af_pretok_rule *rule = af_pretok_find(af_slice_text(name));
    if (!rule) stop("no such rule");
    if (af_pretok_open(rule, &pre, &error)) stop(error.text);
    json_t *all = json_array();
    for (size_t i = 0; i < json_array_size(texts); i++) {
        json_array_append_new(all, pieces_of(pre, json_array_get(texts, i)));
    }
    af_pretok_close(pre);
    return all;
}

static json_t *encode_all(const af_tokenizer *tok, const json_t *texts, unsigned flags) {
    json_t *all = json_array();
    for (size_t i = 0; i < json_array_size(texts); i++) {
        json_array_append_new(all, ids_of(tok, json_array_get(texts, i), flags));
    }
    return all;
}

static double seconds_once(const af_tokenizer *tok, const json_t *texts) {
    const clock_t from = clock();
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const json_t *text = json_array_get(texts, i);
        af_ids ids = {0};
        if (af_tokenizer_encode(tok, json_string_value(text), json_string_length(text), NULL, 0, &ids, NULL)) abort();
        af_ids_clear(&ids);
    }
    return (double)(clock() - from) / CLOCKS_PER_SEC;
}

static json_t *time_all(const af_tokenizer *tok, const json_t *texts) {
    double best = seconds_once(tok, texts);
    for (int i = 1; i < 5; i++) {
        const double seconds = seconds_once(tok, texts);
        if (seconds < best) best = seconds;
    }
    return json_real(best);
}

static json_t *with_tokenizer(const char *what, const char *path, const json_t *texts) {
    af_error error = {0};
    af_gguf *file = NULL;
    af_tokenizer *tok = NULL;
    if (af_gguf_open(path, &file, &error) || af_tokenizer_open(file, &tok, &error)) stop(error.text);
    const unsigned flags = strcmp(what, "special") == 0 ? AF_ADD_SPECIAL | AF_PARSE_SPECIAL : 0;
    json_t *result = strcmp(what, "time") == 0 ? time_all(tok, texts) : encode_all(tok, texts, flags);
    af_tokenizer_close(tok);
    af_gguf_close(file);
    return result;
}

int main(int argc, char **argv) {
    if (argc != 3) stop("usage: encode|special|time FILE.gguf, or cut NAME; a JSON list of texts on standard input");
    json_error_t error;
    json_t *texts = json_loadf(stdin, JSON_ALLOW_NUL, &error);
    if (!json_is_array(texts)) stop("standard input is no JSON list");
    json_t *result = strcmp(argv[1], "cut") == 0 ? cut_all(argv[2], texts) : with_tokenizer(argv[1], argv[2], texts);
    json_dumpf(result, stdout, JSON_COMPACT | JSON_ENCODE_ANY);
    json_decref(result);
    json_decref(texts);
    return 0;
}

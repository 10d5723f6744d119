/* vocab_check.c - holds a vocabulary against expected token ids.
 *
 *     vocab_check FILE.gguf VECTORS.json     each {"text", "ids", "ids_special"}; also decode(ids) == text
 *     vocab_check FILE.gguf --random         random bytes, characters and tokens' names: ids in range, decode(ids) ==
 * text vocab_check FILE.gguf --time           processor time of 100 KB and of 1 MB of repeated texts: linear or not
 *
 * Exit status 1 on a difference; a line for each. vocab_test.py unpacks the vocabularies and runs it.
 */
#include "base/os.h"
#include "base/utf8.h"
#include "text/nfc.h"
#include "text/tokenizer.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int differences;

static void report(const char *what, const char *text, size_t n, const af_ids *found, const json_t *expected) {
    differences++;
    if (differences > 10) return;
    printf("%s differs: %.*s\n  found   ", what, (int)(n < 80 ? n : 80), text);
    for (size_t i = 0; i < found->len && i < 60; i++) printf(" %d", found->p[i]);
    printf("\n  expected");
    for (size_t i = 0; i < json_array_size(expected) && i < 60; i++) {
        printf(" %d", (int)json_integer_value(json_array_get(expected, i)));
    }
    printf("\n");
}

static bool same(const af_ids *found, const json_t *expected) {
    if (found->len != json_array_size(expected)) return false;
    for (size_t i = 0; i < found->len; i++) {
        if (found->p[i] != json_integer_value(json_array_get(expected, i))) return false;
    }
    return true;
}

static void check_ids(const af_tokenizer *tok, const json_t *text, const json_t *expected, unsigned flags,
                      const char *what) {
    const char *p = json_string_value(text);
    const size_t n = json_string_length(text);
    af_ids ids = {0};
    af_error error = {0};
    if (af_tokenizer_encode(tok, p, n, NULL, flags, &ids, &error)) {
        differences++;
        printf("%s: %s\n", what, error.text);
    } else if (!same(&ids, expected)) {
        report(what, p, n, &ids, expected);
    }
    af_ids_clear(&ids);
}

typedef enum kind { BYTES, LOW_LINES, LOSSY } kind;

static kind kind_of(const af_gguf *file) {
    af_slice model = {0};
    af_gguf_string(file, "tokenizer.ggml.model", &model);
    if (af_slice_is(model, "bert") || af_slice_is(model, "t5")) return LOSSY;
    return af_slice_is(model, "gpt2") ? BYTES : LOW_LINES;
}

/* What encoding loses by design: "▁" is a space to a vocabulary that writes spaces with it, a byte-level one leaves out
 * the bytes it has no token for (Falcon has none for ESC), and bert and t5 normalize. */
static bool comes_back(const af_tokenizer *tok, const char *text, size_t n, kind kind) {
    if (kind == LOSSY) return false;
    if (kind == LOW_LINES) return !memmem(text, n, "\xE2\x96\x81", 3);
    for (size_t i = 0; i < n; i++) {
        if (af_tokenizer_id(tok, af_slice_of(text + i, 1)) < 0) return false;
    }
    return true;
}

static bool equals(const af_buf *back, const char *p, size_t n) {
    return back->len == n && (n == 0 || memcmp(back->p, p, n) == 0);
}

/* Some vocabularies compose their text first: the composed form is as good. */
static bool equals_composed(const af_buf *back, const char *p, size_t n) {
    af_buf copy = {0};
    af_slice text = af_slice_of(p, n);
    const bool equal = af_utf8_valid(p, n) && af_nfc(&text, &copy) && equals(back, text.p, text.n);
    af_buf_clear(&copy);
    return equal;
}

static void check_return(const af_tokenizer *tok, const char *p, size_t n, unsigned flags, kind kind) {
    af_ids ids = {0};
    af_buf back = {0};
    const bool done = !af_tokenizer_encode(tok, p, n, NULL, flags, &ids, NULL) &&
                      !af_tokenizer_decode(tok, ids.p, ids.len, &back, NULL);
    const bool equal = equals(&back, p, n) || equals_composed(&back, p, n);
    if (!done || (!equal && comes_back(tok, p, n, kind))) {
        differences++;
        printf("does not come back: %.*s\n  as %s\n", (int)n, p, back.p ? back.p : "");
    }
    af_ids_clear(&ids);
    af_buf_clear(&back);
}

static json_t *load(const char *path) {
    json_error_t error;
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, &error);
    if (!root) fprintf(stderr, "%s:%d: %s\n", path, error.line, error.text);
    return root;
}

static int check_vectors(const af_tokenizer *tok, const char *path, kind kind) {
    json_t *root = load(path);
    if (!root || json_array_size(root) == 0) return 2;
    size_t i;
    json_t *one;
    json_array_foreach(root, i, one) {
        const json_t *text = json_object_get(one, "text");
        check_ids(tok, text, json_object_get(one, "ids"), 0, "ids");
        check_ids(tok, text, json_object_get(one, "ids_special"), AF_ADD_SPECIAL | AF_PARSE_SPECIAL, "ids_special");
        check_return(tok, json_string_value(text), json_string_length(text), 0, kind);
    }
    printf("%zu texts, %d differences\n", json_array_size(root), differences);
    json_decref(root);
    return differences != 0;
}

/* ---- Random texts ---- */

static uint32_t draw(uint32_t below) {
    static uint32_t state = 1;
    state = state * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)state * below >> 32);
}

/* A byte, a character, white space or the text of a token. */
static void add_random(const af_tokenizer *tok, af_buf *text) {
    static const char spaces[] = " \n\t\r ";
    char character[4];
    switch (draw(6)) {
    case 0:
        af_buf_byte(text, (char)draw(256));
        break;
    case 1:
        af_buf_byte(text, spaces[draw(5)]);
        break;
    case 2:
        af_buf_append(text, character, af_utf8_encode(draw(0x3000), character));
        break;
    case 3:
        af_buf_append(text, character, af_utf8_encode(draw(0x110000), character));
        break;
    default: {
        const af_slice name = af_tokenizer_text(tok, (int32_t)draw(af_tokenizer_count(tok)));
        af_buf_append(text, name.p, name.n);
    }
    }
}

static int check_random(const af_tokenizer *tok, kind kind) {
    for (int round = 0; round < 5000 && differences < 10; round++) {
        af_buf text = {0};
        for (uint32_t i = draw(30); i > 0; i--) add_random(tok, &text);
        check_return(tok, text.p, text.len, draw(2) ? AF_PARSE_SPECIAL : 0, kind);
        af_buf_clear(&text);
    }
    printf("random texts, %d differences\n", differences);
    return differences != 0;
}

/* ---- Time ---- */

static double seconds_to_encode(const af_tokenizer *tok, const af_buf *text, size_t *count) {
    af_ids ids = {0};
    const clock_t from = clock();
    if (af_tokenizer_encode(tok, text->p, text->len, NULL, 0, &ids, NULL)) abort();
    const double seconds = (double)(clock() - from) / CLOCKS_PER_SEC;
    *count = ids.len;
    af_ids_clear(&ids);
    return seconds;
}

/* Repeats `unit` to 100 KB and 1 MB: the second must take about ten times the first, and under `most` seconds. */
static void time_text(const af_tokenizer *tok, const char *name, const char *unit) {
    const double most = 1;
    const size_t sizes[2] = {100000, 1000000};
    double took[2] = {0};
    size_t count = 0;
    for (size_t i = 0; i < 2; i++) {
        af_buf text = {0};
        while (text.len < sizes[i]) af_buf_text(&text, unit);
        took[i] = seconds_to_encode(tok, &text, &count);
        af_buf_clear(&text);
    }
    const bool slow =
        took[1] > most || took[1] > 40 * took[0] + 0.1; /* 100 would be quadratic; small times are noise */
    differences += slow;
    printf("  %-12s %8.2f ms, %8.2f ms, ratio %5.1f, %7zu tokens%s\n", name, took[0] * 1e3, took[1] * 1e3,
           took[1] / took[0], count, slow ? "  SLOW" : "");
}

static int check_time(const af_tokenizer *tok) {
    static const char *const texts[][2] = {
        {"a", "a"},
        {"space", " "},
        {"newline", "\n"},
        {"tab", "\t"},
        {"bracket", "<"},
        {"digit", "7"},
        {"han", "\xE4\xB8\xAD"},
        {"wide space", "\xE3\x80\x80"},
        {"low line", "\xE2\x96\x81"},
        {"emoji", "\xF0\x9F\x99\x82"},
        {"accents", "e\xCC\x81"},
        {"bad bytes", "\xFF"},
        {"words", "The quick brown fox jumps over the lazy dog, 12345 times; isn't that odd?\n"},
        {"scripts", "word \xD0\xB4\xD0\xB0 \xE4\xB8\xAD\xE6\x96\x87 \xD8\xB9\xD8\xB1 \xE0\xA4\xB9\xE0\xA4\xBF 3.14 "},
        {"code", "    if (a[i] != b) {\n        return a->x + 0x1F; /* no */\n    }\n"},
        {"spaces han", "                                \xE4\xB8\xAD"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        time_text(tok, texts[i][0], texts[i][1]);
    }
    return differences != 0;
}

static int run(const af_tokenizer *tok, const char *what, kind kind) {
    if (strcmp(what, "--time") == 0) return check_time(tok);
    if (strcmp(what, "--random") == 0) return check_random(tok, kind);
    return check_vectors(tok, what, kind);
}

int main(int argc, char **argv) {
    if (argc != 3) return fprintf(stderr, "usage: vocab_check FILE.gguf VECTORS.json | --random | --time\n"), 2;
    af_error error = {0};
    af_gguf *file = NULL;
    af_tokenizer *tok = NULL;
    if (af_gguf_open(argv[1], &file, &error)) return fprintf(stderr, "%s\n", error.text), 2;
    const uint64_t from = af_os_nanoseconds();
    if (af_tokenizer_open(file, &tok, &error)) return fprintf(stderr, "%s\n", error.text), 2;
    printf("%s: opened in %.1f ms\n", argv[1], (double)(af_os_nanoseconds() - from) * 1e-6);
    const int status = run(tok, argv[2], kind_of(file));
    af_tokenizer_close(tok);
    af_gguf_close(file);
    return status;
}

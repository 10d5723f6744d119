/* jinja_json.c - the tojson filter: Python's json.dumps with the defaults that transformers gives it (key order kept,
 * non-ASCII letters kept, nothing escaped for HTML).
 *
 * Every byte that comes from a string keeps its origin, escapes and quotes included; punctuation between values is the
 * template's.
 */
#include "base/utf8.h"
#include "text/jinja_value.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct writer {
    j_text text;
    const j_string *indent; /* NULL: on one line */
    const j_string *item_separator, *key_separator;
    bool ascii, sort;
    unsigned level;
} writer;

static void put_value(writer *w, const j_value *v);

static void put_escape(j_text *t, uint32_t c, uint8_t origin) {
    static const char named[128] = {
        ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't', ['\b'] = 'b', ['\f'] = 'f', ['"'] = '"', ['\\'] = '\\'};
    char text[16];
    int n;
    if (af_j_work(t->run, 4)) return;
    if (c < 128 && named[c])
        n = snprintf(text, sizeof text, "\\%c", named[c]);
    else if (c < 0x10000)
        n = snprintf(text, sizeof text, "\\u%04x", c);
    else
        n = snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xD7C0 + (c >> 10), 0xDC00 + (c & 0x3FF));
    af_j_text_bytes(t, text, (size_t)n, origin);
}

static void put_string(writer *w, const j_string *s) {
    j_text *t = &w->text;
    af_j_text_byte(t, '"', s->origin);
    size_t from = 0;
    for (size_t at = 0, n; at < s->n && !t->run->status; at += n) {
        uint32_t c = (unsigned char)s->p[at];
        n = c < 128 ? 1 : af_utf8_decode(s->p + at, s->n - at, &c);
        if (n == 0) break;
        if (c >= 32 && c != '"' && c != '\\' && !(c >= 127 && w->ascii)) continue;
        if (c == 127) continue;
        af_j_text_part(t, s, from, at);
        put_escape(t, c, af_j_origin_at(s, at));
        from = at + n;
    }
    af_j_text_part(t, s, from, s->n);
    af_j_text_byte(t, '"', s->origin);
}

static void put_scalar(writer *w, const j_value *v) {
    static const char *const not_finite[] = {"NaN", "Infinity", "-Infinity"};
    if (v->kind == J_NONE)
        af_j_text_c(&w->text, "null", v->origin);
    else if (v->kind == J_BOOL)
        af_j_text_c(&w->text, v->boolean ? "true" : "false", v->origin);
    else if (v->kind == J_FLOAT && !isfinite(v->real))
        af_j_text_c(&w->text, not_finite[isnan(v->real) ? 0 : v->real > 0 ? 1 : 2], v->origin);
    else
        af_j_text_repr(&w->text, v);
}

static bool is_scalar(const j_value *v) {
    return v->kind == J_NONE || af_j_is_number(v);
}

static void new_line(writer *w) {
    if (!w->indent) return;
    af_j_text_byte(&w->text, '\n', 0);
    for (unsigned i = 0; i < w->level; i++) af_j_text_string(&w->text, w->indent);
}

static void open_bracket(writer *w, char bracket) {
    af_j_text_byte(&w->text, bracket, 0);
    w->level++;
}

static void close_bracket(writer *w, char bracket, bool empty) {
    w->level--;
    if (!empty) new_line(w);
    af_j_text_byte(&w->text, bracket, 0);
}

static void next_item(writer *w, bool first) {
    if (!first) af_j_text_string(&w->text, w->item_separator);
    new_line(w);
}

static void put_list(writer *w, const j_list *list) {
    open_bracket(w, '[');
    for (size_t i = 0; i < list->n && !af_j_work(w->text.run, 1); i++) {
        next_item(w, i == 0);
        put_value(w, &list->items[i]);
    }
    close_bracket(w, ']', list->n == 0);
}

static void put_key(writer *w, const j_value *key) {
    if (key->kind == J_STRING) {
        put_string(w, key->string);
    } else if (is_scalar(key)) {
        af_j_text_byte(&w->text, '"', 0);
        put_scalar(w, key);
        af_j_text_byte(&w->text, '"', 0);
    } else {
        af_j_fail(w->text.run, "tojson: found a key of type %s, expected string or number", af_j_type_name(key));
    }
    af_j_text_string(&w->text, w->key_separator);
}

/* The keys in the order they are written. */
static const j_list *ordered_keys(writer *w, const j_dict *dict) {
    j_list *keys = af_j_list_new(w->text.run, dict->n), *sorted;
    if (!keys) return NULL;
    for (size_t i = 0; i < dict->n; i++) af_j_list_push(w->text.run, keys, dict->pairs[i].key);
    return af_j_sort(w->text.run, keys, keys, false, &sorted) ? NULL : sorted;
}

static void put_dict(writer *w, j_dict *dict) {
    const j_list *keys = w->sort ? ordered_keys(w, dict) : NULL;
    open_bracket(w, '{');
    for (size_t i = 0; i < dict->n && !af_j_work(w->text.run, 1); i++) {
        j_value key = keys ? keys->items[i] : dict->pairs[i].key, value = dict->pairs[i].value;
        bool found;
        if (keys && af_j_dict_get(w->text.run, dict, &key, &value, &found)) return;
        next_item(w, i == 0);
        put_key(w, &key);
        put_value(w, &value);
    }
    close_bracket(w, '}', dict->n == 0);
}

static void put_value(writer *w, const j_value *v) {
    if (v->kind == J_STRING) {
        put_string(w, v->string);
    } else if (is_scalar(v)) {
        put_scalar(w, v);
    } else if (v->kind != J_DICT && !af_j_is_sequence(v)) {
        af_j_fail(w->text.run, "tojson: a value of type %s has no JSON form", af_j_type_name(v));
    } else if (!af_j_enter(w->text.run)) {
        if (v->kind == J_DICT)
            put_dict(w, v->dict);
        else
            put_list(w, v->list);
        w->text.run->depth--;
    }
}

static const j_string comma = {.p = ",", .n = 1}, comma_space = {.p = ", ", .n = 2}, colon_space = {.p = ": ", .n = 2};

/* indent: a number of spaces, or the text itself. */
static int set_indent(writer *w, const j_value *indent) {
    j_run *run = w->text.run;
    if (!af_j_given(indent) || indent->kind == J_NONE) return 0;
    w->item_separator = &comma;
    if (indent->kind == J_STRING) {
        w->indent = indent->string;
        return 0;
    }
    int64_t n;
    if (af_j_need_int(run, indent, "tojson: indent", &n)) return run->status;
    if (n > 1000) return af_j_fail(run, "tojson: indent: found %lld, at most 1000", (long long)n);
    j_text t;
    j_value spaces;
    af_j_text_open(&t, run);
    if (n > 0) af_j_text_fill(&t, " ", 1, 0, (size_t)n);
    if (af_j_text_done(&t, &spaces)) return run->status;
    w->indent = spaces.string;
    return 0;
}

static int set_separators(writer *w, const j_value *separators) {
    j_run *run = w->text.run;
    if (!af_j_given(separators) || separators->kind == J_NONE) return 0;
    if (!af_j_is_sequence(separators) || separators->list->n != 2)
        return af_j_fail(run, "tojson: separators: expected two strings");
    const j_value *items = separators->list->items;
    if (af_j_need_string(run, &items[0], "tojson: separators", &w->item_separator)) return run->status;
    return af_j_need_string(run, &items[1], "tojson: separators", &w->key_separator);
}

int af_j_filter_tojson(j_run *run, const j_args *args, j_value *out) {
    writer w = {.item_separator = &comma_space, .key_separator = &colon_space};
    af_j_text_open(&w.text, run);
    w.ascii = af_j_truth(&args->bound[0]);
    w.sort = af_j_truth(&args->bound[3]);
    if (set_indent(&w, &args->bound[1]) || set_separators(&w, &args->bound[2])) return run->status;
    put_value(&w, &args->self);
    return af_j_text_done(&w.text, out);
}

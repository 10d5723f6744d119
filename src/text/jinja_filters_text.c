/* jinja_filters_text.c - filters that make text, and the search through the three tables of filters.
 *
 * As in Jinja2 most of them take any value and print it first; undefined counts as "".
 */
#include "base/utf8.h"
#include "text/jinja_value.h"

#include <stdio.h>
#include <string.h>

static int input(j_run *run, const j_args *args, const j_string **out) {
    return af_j_str(run, &args->self, out);
}

/* An int argument where it was given and is not none. */
static int int_or(j_run *run, const j_value *v, int64_t otherwise, int64_t *out) {
    *out = otherwise;
    return af_j_given(v) && v->kind != J_NONE ? af_j_need_int(run, v, "argument", out) : 0;
}

/* ---- Case ---- */

static int filter_upper(j_run *run, const j_args *args, j_value *out) {
    const j_string *s;
    return input(run, args, &s) ? run->status : af_j_change_case(run, s, J_UPPER, out);
}

static int filter_lower(j_run *run, const j_args *args, j_value *out) {
    const j_string *s;
    return input(run, args, &s) ? run->status : af_j_change_case(run, s, J_LOWER, out);
}

static int filter_capitalize(j_run *run, const j_args *args, j_value *out) {
    const j_string *s;
    return input(run, args, &s) ? run->status : af_j_change_case(run, s, J_CAPITALIZE, out);
}

static bool splits_words(const j_string *s, size_t at) {
    uint32_t c;
    if (!af_utf8_decode(s->p + at, s->n - at, &c)) return false;
    return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || af_j_is_space(c);
}

/* Unlike str.title(), words end at white space and opening brackets only. */
static int filter_title(j_run *run, const j_args *args, j_value *out) {
    const j_string *s;
    if (input(run, args, &s) || af_j_work(run, s->n / 8)) return run->status;
    j_text t;
    af_j_text_open(&t, run);
    for (size_t at = 0; at < s->n && !run->status;) {
        size_t first = at + af_utf8_lead((unsigned char)s->p[at]), end = first;
        if (splits_words(s, at)) {
            af_j_text_part(&t, s, at, first);
            at = first;
            continue;
        }
        while (end < s->n && !splits_words(s, end)) end += af_utf8_lead((unsigned char)s->p[end]);
        j_value head, tail;
        if (af_j_string_part(run, s, at, first, &head) || af_j_change_case(run, head.string, J_UPPER, &head)) break;
        if (af_j_string_part(run, s, first, end, &tail) || af_j_change_case(run, tail.string, J_LOWER, &tail)) break;
        af_j_text_string(&t, head.string);
        af_j_text_string(&t, tail.string);
        at = end;
    }
    t.markup = s->markup;
    return af_j_text_done(&t, out);
}

/* ---- Cutting and filling ---- */

static int filter_trim(j_run *run, const j_args *args, j_value *out) {
    const j_string *s;
    return input(run, args, &s) ? run->status : af_j_strip_string(run, s, &args->bound[0], true, true, out);
}

static int filter_replace(j_run *run, const j_args *args, j_value *out) {
    const j_string *s, *old, *with;
    int64_t count;
    if (input(run, args, &s) || af_j_str(run, &args->bound[0], &old) || af_j_str(run, &args->bound[1], &with))
        return run->status;
    if (int_or(run, &args->bound[2], -1, &count)) return run->status;
    j_string plain = *s;
    plain.markup = false;
    return af_j_replace(run, &plain, old, with, count, out);
}

/* A string of spaces for a number, the string itself for a string. */
static int indentation(j_run *run, const j_value *width, const j_string **out) {
    enum { MAX_INDENT = 1000 };
    int64_t n;
    if (width->kind == J_STRING) {
        *out = width->string;
        return 0;
    }
    if (int_or(run, width, 4, &n)) return run->status;
    if (n > MAX_INDENT) return af_j_fail(run, "indent: found %lld, at most %d", (long long)n, MAX_INDENT);
    j_text t;
    j_value spaces;
    af_j_text_open(&t, run);
    if (n > 0) af_j_text_fill(&t, " ", 1, 0, (size_t)n);
    if (af_j_text_done(&t, &spaces)) return run->status;
    *out = spaces.string;
    return 0;
}

static int filter_indent(j_run *run, const j_args *args, j_value *out) {
    const j_string *s, *indent = NULL;
    j_list *lines;
    if (args->self.kind == J_UNDEFINED) return af_j_fail_undefined(run, &args->self);
    if (af_j_need_string(run, &args->self, "indent", &s) || indentation(run, &args->bound[0], &indent))
        return run->status;
    bool first = af_j_truth(&args->bound[1]), blank = af_j_truth(&args->bound[2]);
    if (af_j_split_lines(run, s, false, &lines)) return run->status;
    bool ends_line =
        s->n == 0 ||
        (lines->n > 0 && lines->items[lines->n - 1].string->p + lines->items[lines->n - 1].string->n < s->p + s->n);
    size_t n = lines->n + (ends_line ? 1 : 0); /* text that ends with a line break has an empty line after it */
    j_text t;
    af_j_text_open(&t, run);
    for (size_t i = 0; i < n && !run->status; i++) {
        const j_string *line = i < lines->n ? lines->items[i].string : NULL;
        bool is_blank = !line || line->n == 0;
        if (i) af_j_text_byte(&t, '\n', s->origin);
        if (i == 0 ? first : blank || !is_blank) af_j_text_string(&t, indent);
        if (line) af_j_text_string(&t, line);
    }
    t.markup = s->markup;
    return af_j_text_done(&t, out);
}

static int filter_center(j_run *run, const j_args *args, j_value *out) {
    static const j_string space = {.p = " ", .n = 1};
    const j_string *s;
    int64_t width;
    if (input(run, args, &s) || int_or(run, &args->bound[0], 80, &width)) return run->status;
    return af_j_pad(run, s, width, '^', &space, out);
}

static int filter_truncate(j_run *run, const j_args *args, j_value *out) {
    static const j_string dots = {.p = "...", .n = 3}, space = {.p = " ", .n = 1};
    const j_string *s, *end = &dots;
    int64_t length, leeway;
    size_t n;
    if (af_j_length(run, &args->self, &n) || int_or(run, &args->bound[0], 255, &length)) return run->status;
    if (af_j_given(&args->bound[2]) && af_j_need_string(run, &args->bound[2], "truncate", &end)) return run->status;
    if (int_or(run, &args->bound[3], 5, &leeway)) return run->status;
    const int64_t ending = (int64_t)af_j_char_count(run, end);
    if (length < ending || leeway < 0)
        return af_j_fail(run, "truncate: a length shorter than the end, or a negative leeway");
    if ((int64_t)n <= length || (int64_t)n - length <= leeway) {
        *out = args->self;
        return 0;
    }
    if (af_j_need_string(run, &args->self, "truncate", &s)) return run->status;
    size_t cut = af_j_char_offset(s, (size_t)(length - ending));
    size_t at = af_j_truth(&args->bound[1]) ? SIZE_MAX : af_j_find_last(run, s, &space, 0, cut);
    j_text t;
    af_j_text_open(&t, run);
    af_j_text_part(&t, s, 0, at == SIZE_MAX ? cut : at);
    af_j_text_string(&t, end);
    return af_j_text_done(&t, out);
}

/* ---- Printing ---- */

static int filter_string(j_run *run, const j_args *args, j_value *out) {
    const j_string *s;
    if (input(run, args, &s)) return run->status;
    *out = af_j_of_string(s);
    return 0;
}

static int filter_join(j_run *run, const j_args *args, j_value *out) {
    static const j_string nothing = {.p = ""};
    const j_list *list;
    const j_string *separator = &nothing;
    if (af_j_given(&args->bound[0]) && af_j_str(run, &args->bound[0], &separator)) return run->status;
    if (af_j_to_list(run, &args->self, &list)) return run->status;
    bool by_attribute = af_j_given(&args->bound[1]) && args->bound[1].kind != J_NONE;
    j_text t;
    af_j_text_open(&t, run);
    for (size_t i = 0; i < list->n && !af_j_work(run, 1); i++) {
        j_value item = list->items[i];
        if (by_attribute && af_j_path(run, &item, &args->bound[1], &item)) return run->status;
        if (i) af_j_text_string(&t, separator);
        af_j_text_str(&t, &item);
    }
    return af_j_text_done(&t, out);
}

static int filter_format(j_run *run, const j_args *args, j_value *out) {
    const j_string *s;
    if (input(run, args, &s)) return run->status;
    if (args->n && args->n_keywords) return af_j_fail(run, "format: arguments with and without names");
    if (args->n_keywords) {
        j_dict *dict = af_j_dict_new(run, args->n_keywords);
        for (size_t i = 0; dict && i < args->n_keywords; i++)
            af_j_dict_set(run, dict, af_j_of_string(args->keywords[i].name), args->keywords[i].value);
        const j_value values = af_j_of_dict(dict);
        return run->status ? run->status : af_j_percent_format(run, s, &values, out);
    }
    j_list list = {.items = (j_value *)args->items, .n = args->n};
    const j_value values = af_j_of_list(J_TUPLE, &list);
    return af_j_percent_format(run, s, &values, out);
}

static int filter_escape(j_run *run, const j_args *args, j_value *out) {
    const j_string *s;
    return input(run, args, &s) ? run->status : af_j_escape_html(run, s, out);
}

static int filter_forceescape(j_run *run, const j_args *args, j_value *out) {
    const j_string *s;
    if (input(run, args, &s)) return run->status;
    j_string plain = *s;
    plain.markup = false;
    return af_j_escape_html(run, &plain, out);
}

static int filter_safe(j_run *run, const j_args *args, j_value *out) {
    const j_string *s;
    if (input(run, args, &s)) return run->status;
    j_string *safe = af_j_alloc(run, sizeof *safe);
    if (!safe) return run->status;
    *safe = *s;
    safe->markup = true;
    *out = af_j_of_string(safe);
    return 0;
}

static int filter_urlencode(j_run *run, const j_args *args, j_value *out) {
    const j_string *s;
    if (args->self.kind != J_STRING && (args->self.kind == J_DICT || af_j_iterable(&args->self)))
        return af_j_fail(run, "urlencode: found %s, expected string", af_j_type_name(&args->self));
    if (input(run, args, &s)) return run->status;
    j_text t;
    af_j_text_open(&t, run);
    for (size_t at = 0; at < s->n && !af_j_work(run, 4); at++) {
        unsigned char c = (unsigned char)s->p[at];
        bool plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || (c && strchr("_.-~/", c));
        char text[4];
        int n = snprintf(text, sizeof text, plain ? "%c" : "%%%02X", c);
        af_j_text_bytes(&t, text, (size_t)n, af_j_origin_at(s, at));
    }
    return af_j_text_done(&t, out);
}

static int filter_wordcount(j_run *run, const j_args *args, j_value *out) {
    const j_string *s;
    if (input(run, args, &s) || af_j_work(run, s->n / 4)) return run->status;
    int64_t n = 0;
    bool in_word = false;
    for (size_t at = 0, length; at < s->n; at += length) {
        uint32_t c;
        length = af_utf8_decode(s->p + at, s->n - at, &c);
        if (length == 0) break;
        bool is_word = c == '_' || af_j_is_alpha(c) || af_j_is_digit(c) || af_j_is_numeric(c);
        n += is_word && !in_word;
        in_word = is_word;
    }
    *out = af_j_int(n);
    return 0;
}

const j_function af_j_filters_text[] = {
    {"tojson", "ensure_ascii? indent? separators? sort_keys?", af_j_filter_tojson},
    {"trim", "chars?", filter_trim},
    {"string", "", filter_string},
    {"join", "d? attribute?", filter_join},
    {"upper", "", filter_upper},
    {"lower", "", filter_lower},
    {"capitalize", "", filter_capitalize},
    {"title", "", filter_title},
    {"replace", "old new count?", filter_replace},
    {"indent", "width? first? blank?", filter_indent},
    {"center", "width?", filter_center},
    {"truncate", "length? killwords? end? leeway?", filter_truncate},
    {"format", NULL, filter_format},
    {"safe", "", filter_safe},
    {"e", "", filter_escape},
    {"escape", "", filter_escape},
    {"forceescape", "", filter_forceescape},
    {"urlencode", "", filter_urlencode},
    {"wordcount", "", filter_wordcount},
    {0},
};

const j_function *af_j_find_filter(const char *name, size_t n) {
    const j_function *const tables[] = {af_j_filters_text, af_j_filters_list, af_j_filters_number};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        const j_function *found = af_j_find_function(tables[i], name, n);
        if (found) return found;
    }
    return NULL;
}

/* jinja_repr.c - values as text: what Python's str() and repr() print. */
#include "base/utf8.h"
#include "text/jinja_ast.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The shortest digits that read back as d, without the zeros behind them. Fewer than 15 need no trial: rounding to 15
 * (DBL_DIG) gives them back, followed by zeros. */
static int shortest_digits(double d, char text[J_FLOAT_TEXT]) {
    int digits = 15;
    do snprintf(text, J_FLOAT_TEXT, "%.*e", digits - 1, d);
    while (strtod(text, NULL) != d && ++digits <= 17);
    char *exponent = strchr(text, 'e'), *end = exponent;
    while (end[-1] == '0') end--;
    if (end[-1] == '.') end--;
    memmove(end, exponent, strlen(exponent) + 1);
    const size_t kept = (size_t)(end - text) - (d < 0);
    return kept > 1 ? (int)kept - 1 : 1;
}

/* Exponents from 1e16 and below 1e-4 on. */
size_t af_j_float_repr(double d, char out[J_FLOAT_TEXT]) {
    if (isnan(d)) return (size_t)snprintf(out, J_FLOAT_TEXT, "nan");
    if (isinf(d)) return (size_t)snprintf(out, J_FLOAT_TEXT, d < 0 ? "-inf" : "inf");
    char text[J_FLOAT_TEXT];
    const int digits = shortest_digits(d, text);
    int exponent = atoi(strchr(text, 'e') + 1);
    if (exponent >= -4 && exponent < 16) {
        int decimals = digits - 1 - exponent;
        return (size_t)snprintf(out, J_FLOAT_TEXT, "%.*f", decimals < 1 ? 1 : decimals, d);
    }
    return (size_t)snprintf(out, J_FLOAT_TEXT, "%s", text);
}

static void put_number(j_text *t, const j_value *v) {
    char text[J_FLOAT_TEXT];
    size_t n;
    if (af_j_work(t->run, v->kind == J_INT ? 2 : 16)) return;
    if (v->kind == J_INT)
        n = (size_t)snprintf(text, sizeof text, "%lld", (long long)v->integer);
    else
        n = af_j_float_repr(v->real, text);
    af_j_text_bytes(t, text, n, v->origin);
}

/* ---- Strings in quotes ---- */

static void put_escaped(j_text *t, uint32_t c, char quote, uint8_t origin) {
    static const char named[128] = {['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't', ['\\'] = '\\'};
    char text[16];
    int n;
    if (af_j_work(t->run, 4)) return;
    if (c < 128 && named[c])
        n = snprintf(text, sizeof text, "\\%c", named[c]);
    else if (c == (uint32_t)quote)
        n = snprintf(text, sizeof text, "\\%c", quote);
    else
        n = snprintf(text, sizeof text, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
    af_j_text_bytes(t, text, (size_t)n, origin);
}

static void put_quoted(j_text *t, const j_string *s) {
    bool has_single = memchr(s->p, '\'', s->n) != NULL, has_double = memchr(s->p, '"', s->n) != NULL;
    char quote = has_single && !has_double ? '"' : '\'';
    if (s->markup) af_j_text_c(t, "Markup(", 0);
    af_j_text_byte(t, quote, s->origin);
    size_t from = 0;
    for (size_t at = 0, n; at < s->n && !t->run->status; at += n) {
        uint32_t c;
        n = af_utf8_decode(s->p + at, s->n - at, &c);
        if (n == 0) break;
        if (c != '\\' && c != (uint32_t)quote && af_j_is_printable(c)) continue;
        af_j_text_part(t, s, from, at);
        put_escaped(t, c, quote, af_j_origin_at(s, at));
        from = at + n;
    }
    af_j_text_part(t, s, from, s->n);
    af_j_text_byte(t, quote, s->origin);
    if (s->markup) af_j_text_byte(t, ')', 0);
}

/* ---- Containers ---- */

static void put_items(j_text *t, const j_list *list, const char *open, const char *close) {
    af_j_text_c(t, open, 0);
    for (size_t i = 0; i < list->n && !af_j_work(t->run, 1); i++) {
        if (i) af_j_text_c(t, ", ", 0);
        af_j_text_repr(t, &list->items[i]);
    }
    af_j_text_c(t, close, 0);
}

static void put_dict(j_text *t, const j_dict *dict, const char *open, const char *close) {
    af_j_text_c(t, open, 0);
    for (size_t i = 0; i < dict->n && !af_j_work(t->run, 1); i++) {
        if (i) af_j_text_c(t, ", ", 0);
        af_j_text_repr(t, &dict->pairs[i].key);
        af_j_text_c(t, ": ", 0);
        af_j_text_repr(t, &dict->pairs[i].value);
    }
    af_j_text_c(t, close, 0);
}

static void put_range(j_text *t, const j_range *range) {
    char text[80];
    int n = snprintf(text, sizeof text, range->step == 1 ? "range(%lld, %lld)" : "range(%lld, %lld, %lld)",
                     (long long)range->start, (long long)range->stop, (long long)range->step);
    af_j_text_bytes(t, text, (size_t)n, 0);
}

static void put_container(j_text *t, const j_value *v) {
    static const char *const views[] = {"dict_keys([", "dict_values([", "dict_items(["};
    switch (v->kind) {
    case J_LIST:
        put_items(t, v->list, "[", "]");
        break;
    case J_TUPLE:
        put_items(t, v->list, "(", v->list->n == 1 ? ",)" : ")");
        break;
    case J_VIEW:
        put_items(t, v->list, views[v->of], "])");
        break;
    case J_DICT:
        put_dict(t, v->dict, "{", "}");
        break;
    case J_NAMESPACE:
        put_dict(t, v->dict, "<Namespace {", "}>");
        break;
    case J_RANGE:
        put_range(t, v->range);
        break;
    case J_MACRO:
        af_j_text_c(t, "<Macro ", 0);
        if (v->macro->is_caller)
            af_j_text_c(t, "anonymous", 0);
        else
            put_quoted(t, v->macro->name);
        af_j_text_c(t, ">", 0);
        break;
    default:
        af_j_text_c(t, "<", 0);
        af_j_text_c(t, af_j_type_name(v), 0);
        af_j_text_c(t, ">", 0);
        break;
    }
}

void af_j_text_repr(j_text *t, const j_value *v) {
    switch (v->kind) {
    case J_ABSENT:
        break;
    case J_UNDEFINED:
        af_j_text_c(t, "Undefined", 0);
        break;
    case J_NONE:
        af_j_text_c(t, "None", v->origin);
        break;
    case J_BOOL:
        af_j_text_c(t, v->boolean ? "True" : "False", v->origin);
        break;
    case J_INT:
    case J_FLOAT:
        put_number(t, v);
        break;
    case J_STRING:
        put_quoted(t, v->string);
        break;
    default:
        if (af_j_enter(t->run)) return;
        put_container(t, v);
        t->run->depth--;
        break;
    }
}

void af_j_text_str(j_text *t, const j_value *v) {
    if (v->kind == J_STRING)
        af_j_text_string(t, v->string);
    else if (v->kind != J_UNDEFINED)
        af_j_text_repr(t, v);
}

int af_j_str(j_run *run, const j_value *v, const j_string **out) {
    if (v->kind == J_STRING) {
        *out = v->string;
        return 0;
    }
    j_text t;
    j_value s;
    af_j_text_open(&t, run);
    af_j_text_str(&t, v);
    if (af_j_text_done(&t, &s)) return run->status;
    *out = s.string;
    return 0;
}

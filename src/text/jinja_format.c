/* jinja_format.c - Python's two ways of formatting: "%05.2f" % value and "{:>8}".format(value).
 *
 * Both end in one place: a spec (fill, alignment, sign, width, precision, type) applied to a value. Widths and
 * precisions are bounded, so that a format cannot make gigabytes.
 */
#include "base/utf8.h"
#include "text/jinja_value.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_WIDTH = 100000, MAX_PRECISION = 300 };

typedef struct spec {
    uint32_t fill;
    char align, sign, type, group; /* 0 where not given */
    bool alternate;
    int width, precision; /* -1 where not given */
} spec;

/* ---- Applying a spec ---- */

static void put_padding(j_text *t, const spec *s, size_t n) {
    char fill[4];
    size_t bytes = af_utf8_encode(s->fill, fill);
    af_j_text_fill(t, fill, bytes, 0, n);
}

/* body after prefix (a sign, 0x), padded to the width; the '=' alignment pads between the two. */
static void put_aligned(j_text *t, const spec *s, const char *prefix, const j_string *body, char align) {
    size_t n = strlen(prefix) + af_utf8_count(body->p, body->n);
    size_t pad = s->width > 0 && (size_t)s->width > n ? (size_t)s->width - n : 0;
    size_t left = align == '>' ? pad : align == '^' ? pad / 2 : 0;
    put_padding(t, s, left);
    af_j_text_c(t, prefix, af_j_origin_at(body, 0));
    if (align == '=') put_padding(t, s, pad);
    af_j_text_string(t, body);
    if (align != '=') put_padding(t, s, pad - left);
}

static int put_text(j_text *t, const spec *s, const j_string *text) {
    j_string cut = *text;
    if (s->precision >= 0) cut.n = af_j_char_offset(text, (size_t)s->precision);
    put_aligned(t, s, "", &cut, s->align ? s->align : '<');
    return t->run->status;
}

/* Digits in groups of three (four for other bases than ten), in place; returns the new length. */
static size_t group_digits(char *text, size_t n, size_t room, char separator, size_t each) {
    size_t whole = strspn(text, "0123456789abcdefABCDEF");
    for (size_t at = whole; at > each && n + 2 < room; n++) {
        at -= each;
        memmove(text + at + 1, text + at, n - at + 1);
        text[at] = separator;
    }
    return n;
}

static void put_number(j_text *t, const spec *s, bool negative, const char *base_prefix, char *digits, size_t n,
                       uint8_t origin) {
    char prefix[8];
    snprintf(prefix, sizeof prefix, "%s%s",
             negative         ? "-"
             : s->sign == '+' ? "+"
             : s->sign == ' ' ? " "
                              : "",
             base_prefix);
    const j_string body = {.p = digits, .n = n, .origin = origin};
    put_aligned(t, s, prefix, &body, s->align ? s->align : '>');
}

static int put_character(j_text *t, const spec *s, int64_t code, uint8_t origin) {
    char bytes[4];
    if (code < 0 || code > 0x10FFFF) return af_j_fail(t->run, "format: %lld is no character", (long long)code);
    const j_string text = {.p = bytes, .n = af_utf8_encode((uint32_t)code, bytes), .origin = origin};
    return put_text(t, s, &text);
}

static int put_int(j_text *t, const spec *s, int64_t value, uint8_t origin) {
    char digits[200];
    if (s->type == 'c') return put_character(t, s, value, origin);
    uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    unsigned base = s->type == 'x' || s->type == 'X' ? 16 : s->type == 'o' ? 8 : s->type == 'b' ? 2 : 10;
    size_t n = 0;
    for (uint64_t rest = magnitude; rest || n == 0; rest /= base)
        digits[n++] = (s->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[rest % base];
    for (size_t i = 0; i < n / 2; i++) {
        char c = digits[i];
        digits[i] = digits[n - 1 - i];
        digits[n - 1 - i] = c;
    }
    digits[n] = 0;
    if (s->group) n = group_digits(digits, n, sizeof digits, s->group, base == 10 ? 3 : 4);
    char base_prefix[3] = {'0', s->type, 0};
    put_number(t, s, value < 0, s->alternate && base != 10 ? base_prefix : "", digits, n, origin);
    return t->run->status;
}

static int put_float(j_text *t, const spec *s, double value, uint8_t origin) {
    char digits[800], type = s->type == '%' ? 'f' : s->type == 'n' ? 'g' : s->type;
    bool negative = signbit(value) && !isnan(value);
    double magnitude = negative ? -value : value;
    if (s->type == '%') magnitude *= 100;
    size_t n;
    if (!type && s->precision < 0) {
        n = af_j_float_repr(magnitude, digits);
    } else {
        char format[8] = {'%', '.', '*', type ? type : 'g', 0};
        n = (size_t)snprintf(digits, sizeof digits, format, s->precision < 0 ? 6 : s->precision, magnitude);
        if (!type && !strpbrk(digits, ".eni")) n += (size_t)snprintf(digits + n, sizeof digits - n, ".0");
    }
    if (s->group && isfinite(magnitude)) n = group_digits(digits, n, sizeof digits, s->group, 3);
    if (s->type == '%') n += (size_t)snprintf(digits + n, sizeof digits - n, "%%");
    put_number(t, s, negative, "", digits, n, origin);
    return t->run->status;
}

static int put_value(j_text *t, const spec *s, const j_value *v) {
    j_run *run = t->run;
    if (af_j_work(run, 4)) return run->status;
    if (s->width > MAX_WIDTH || s->precision > MAX_PRECISION) {
        bool text = v->kind == J_STRING && s->width <= MAX_WIDTH;
        if (!text) return af_j_fail(run, "format: a width or precision too large");
    }
    if (s->type && strchr("eEfFgG%", s->type) && af_j_is_number(v)) return put_float(t, s, af_j_as_float(v), v->origin);
    if (v->kind == J_FLOAT && (!s->type || s->type == 'n')) return put_float(t, s, v->real, v->origin);
    if ((v->kind == J_INT || v->kind == J_BOOL) && (!s->type || strchr("dnxXobc", s->type)))
        return put_int(t, s, v->kind == J_INT ? v->integer : v->boolean, v->origin);
    if (v->kind != J_STRING || (s->type && s->type != 's') || s->sign || s->group || s->align == '=')
        return af_j_fail(run, "format: this format cannot print a value of type %s", af_j_type_name(v));
    const j_string *text;
    if (af_j_str(run, v, &text)) return run->status;
    return put_text(t, s, text);
}

/* ---- Per cent ---- */

typedef struct percent {
    j_run *run;
    j_text text;
    const j_string *format;
    size_t at;
    const j_value *values; /* a tuple's items, or the one value */
    size_t n, used;
    const j_value *mapping; /* a dict, or NULL */
} percent;

static char peek(const percent *p) {
    return p->at < p->format->n ? p->format->p[p->at] : 0;
}

static int next_value(percent *p, j_value *out) {
    if (p->used >= p->n) return af_j_fail(p->run, "format: not enough values");
    *out = p->values[p->used++];
    return 0;
}

/* Digits, or '*' for the next value. */
static int parse_count(percent *p, int *out) {
    if (peek(p) == '*') {
        j_value v;
        int64_t n;
        p->at++;
        if (next_value(p, &v) || af_j_need_int(p->run, &v, "format: width", &n)) return p->run->status;
        *out = n < 0 ? 0 : n > MAX_WIDTH ? MAX_WIDTH + 1 : (int)n;
        return 0;
    }
    for (; peek(p) >= '0' && peek(p) <= '9'; p->at++) {
        if (*out < 0) *out = 0;
        *out = *out > MAX_WIDTH ? *out : *out * 10 + (peek(p) - '0');
    }
    return 0;
}

/* The value named in "%(name)s". */
static int named_value(percent *p, j_value *out) {
    size_t from = ++p->at;
    for (int open = 1; p->at < p->format->n; p->at++) {
        open += peek(p) == '(' ? 1 : peek(p) == ')' ? -1 : 0;
        if (open == 0) break;
    }
    j_value key;
    bool found = false;
    if (af_j_string_part(p->run, p->format, from, p->at, &key)) return p->run->status;
    p->at++;
    if (!p->mapping) return af_j_fail(p->run, "format: expected a dict of values");
    if (af_j_dict_get(p->run, p->mapping->dict, &key, out, &found)) return p->run->status;
    return found ? 0 : af_j_fail(p->run, "format: no value '%.*s'", (int)key.string->n, key.string->p);
}

static void parse_flags(percent *p, spec *s) {
    for (;; p->at++) {
        char c = peek(p);
        if (c == '-')
            s->align = '<';
        else if (c == '0' && s->align != '<')
            s->align = '=';
        else if (c == '+' || (c == ' ' && !s->sign))
            s->sign = c;
        else if (c == '#')
            s->alternate = true;
        else if (c != '0' && c != ' ')
            return;
    }
}

static int put_percent_value(percent *p, spec *s, const j_value *v) {
    if (s->type == 'i' || s->type == 'u') s->type = 'd';
    if (s->align == '=' && (s->type == 's' || s->type == 'r')) s->align = 0;
    if (s->align == '=') s->fill = '0';
    if (s->type == 'd' && v->kind == J_FLOAT && fabs(v->real) < 9e18) {
        j_value whole = af_j_int((int64_t)v->real);
        whole.origin = v->origin;
        return put_value(&p->text, s, &whole);
    }
    if (s->type == 'c' && v->kind == J_STRING && af_utf8_count(v->string->p, v->string->n) == 1) s->type = 's';
    if (s->type != 's' && s->type != 'r') return put_value(&p->text, s, v);
    if (!s->align) s->align = '>';
    j_text t;
    j_value text = *v;
    af_j_text_open(&t, p->run);
    if (s->type == 'r')
        af_j_text_repr(&t, v);
    else
        af_j_text_str(&t, v);
    s->type = 's';
    return af_j_text_done(&t, &text) ? p->run->status : put_value(&p->text, s, &text);
}

/* What follows a '%'. */
static int percent_one(percent *p) {
    spec s = {.fill = ' ', .width = -1, .precision = -1};
    j_value v = {0};
    bool named = peek(p) == '(';
    if (named && named_value(p, &v)) return p->run->status;
    parse_flags(p, &s);
    if (parse_count(p, &s.width)) return p->run->status;
    if (peek(p) == '.') {
        p->at++;
        s.precision = 0;
        if (parse_count(p, &s.precision)) return p->run->status;
    }
    s.type = peek(p);
    p->at++;
    if (s.type == '%') {
        af_j_text_byte(&p->text, '%', 0);
        return p->run->status;
    }
    if (!s.type || !strchr("diuxXoeEfFgGsrc", s.type)) return af_j_fail(p->run, "format: unknown conversion");
    if (!named && next_value(p, &v)) return p->run->status;
    return put_percent_value(p, &s, &v);
}

int af_j_percent_format(j_run *run, const j_string *format, const j_value *values, j_value *out) {
    percent p = {.run = run, .format = format, .values = values, .n = 1};
    af_j_text_open(&p.text, run);
    if (values->kind == J_TUPLE) {
        p.values = values->list->items;
        p.n = values->list->n;
    }
    if (values->kind == J_DICT) p.mapping = values;
    af_j_work(run, format->n / 16);
    while (p.at < format->n && !run->status) {
        const char *mark = memchr(format->p + p.at, '%', format->n - p.at);
        size_t stop = mark ? (size_t)(mark - format->p) : format->n;
        af_j_text_part(&p.text, format, p.at, stop);
        p.at = stop + 1;
        if (mark && percent_one(&p)) return run->status;
    }
    if (p.used < p.n && !p.mapping && values->kind != J_LIST && values->kind != J_RANGE && values->kind != J_UNDEFINED)
        return af_j_fail(run, "format: more values than places for them");
    p.text.markup = format->markup;
    return af_j_text_done(&p.text, out);
}

/* ---- Braces ---- */

typedef struct braces {
    j_run *run;
    const j_args *args;
    size_t automatic; /* number of the next "{}" */
    bool manual;      /* a "{0}" was there: then no "{}" may be */
} braces;

static int format_into(braces *b, j_text *t, const j_string *format, unsigned depth);

static bool is_align(char c) {
    return c == '<' || c == '>' || c == '^' || c == '=';
}

static int spec_number(const char **p, const char *end) {
    int n = -1;
    for (; *p < end && **p >= '0' && **p <= '9'; (*p)++) n = n > MAX_WIDTH ? n : (n < 0 ? 0 : n) * 10 + (**p - '0');
    return n;
}

/* [[fill]align][sign][#][0][width][,_][.precision][type] */
static int parse_spec(j_run *run, const j_string *text, spec *s) {
    const char *p = text->p, *end = p + text->n;
    uint32_t c = 0;
    size_t n = af_utf8_decode(p, text->n, &c);
    if (n && p + n < end && is_align(p[n])) {
        s->fill = c;
        s->align = p[n];
        p += n + 1;
    } else if (p < end && is_align(*p)) {
        s->align = *p++;
    }
    if (p < end && (*p == '+' || *p == '-' || *p == ' ')) s->sign = *p++;
    if (p < end && *p == '#') s->alternate = *p++;
    if (p < end && *p == '0' && !s->align) {
        s->fill = '0';
        s->align = '=';
    }
    s->width = spec_number(&p, end);
    if (p < end && (*p == ',' || *p == '_')) s->group = *p++;
    if (p < end && *p == '.') {
        p++;
        s->precision = spec_number(&p, end);
        if (s->precision < 0) return af_j_fail(run, "format: a precision without digits");
    }
    if (p < end) s->type = *p++;
    if (p != end || (s->type && !strchr("sdnxXobceEfFgG%", s->type)))
        return af_j_fail(run, "format: unknown conversion");
    return 0;
}

static bool all_digits(const j_string *s, size_t *out) {
    *out = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (s->p[i] < '0' || s->p[i] > '9' || *out > 100000) return false;
        *out = *out * 10 + (size_t)(s->p[i] - '0');
    }
    return s->n > 0;
}

static int first_value(braces *b, const j_string *name, j_value *out) {
    size_t index;
    if (name->n == 0 || all_digits(name, &index)) {
        bool mixed = name->n == 0 ? b->manual : b->automatic > 0;
        if (mixed) return af_j_fail(b->run, "format: places with and without numbers");
        if (name->n == 0)
            index = b->automatic++;
        else
            b->manual = true;
        if (index >= b->args->n) return af_j_fail(b->run, "format: no value for place %zu", index);
        *out = b->args->items[index];
        return 0;
    }
    for (size_t i = 0; i < b->args->n_keywords; i++) {
        if (!af_j_string_equal(b->args->keywords[i].name, name)) continue;
        *out = b->args->keywords[i].value;
        return af_j_work(b->run, i / 16);
    }
    return af_j_fail(b->run, "format: no value '%.*s'", (int)(name->n < 60 ? name->n : 60), name->p);
}

/* One ".name" or "[key]" of a field at *at. */
static int field_step(braces *b, const j_string *field, size_t *at, j_value *v) {
    bool bracket = field->p[*at] == '[';
    size_t from = *at + 1, to = from;
    while (to < field->n && (bracket ? field->p[to] != ']' : field->p[to] != '.' && field->p[to] != '[')) to++;
    j_value name;
    if (af_j_string_part(b->run, field, from, to, &name)) return b->run->status;
    *at = bracket ? to + 1 : to;
    size_t index;
    if (!bracket) return af_j_attribute(b->run, v, name.string, v);
    if (all_digits(name.string, &index)) name = af_j_int((int64_t)index);
    return af_j_item(b->run, v, &name, v);
}

static int field_value(braces *b, const j_string *field, j_value *out) {
    size_t at = 0;
    while (at < field->n && field->p[at] != '.' && field->p[at] != '[') at++;
    j_string name = *field;
    name.n = at;
    int status = first_value(b, &name, out);
    while (!status && at < field->n) status = field_step(b, field, &at, out);
    return status;
}

/* The field between braces: name!conversion:spec. */
static int brace_field(braces *b, j_text *t, const j_string *inner, unsigned depth) {
    size_t name_end = 0;
    while (name_end < inner->n && inner->p[name_end] != '!' && inner->p[name_end] != ':') name_end++;
    j_string field = *inner, rest = *inner;
    field.n = name_end;
    j_value v;
    if (field_value(b, &field, &v)) return b->run->status;
    size_t at = name_end;
    char conversion = 0;
    if (at + 1 < inner->n && inner->p[at] == '!') {
        conversion = inner->p[at + 1];
        at += 2;
    }
    if (at < inner->n && inner->p[at] == ':') at++;
    rest.p += at;
    rest.n -= at;
    if (rest.origins) rest.origins += at;
    j_text expanded, printed;
    j_value text;
    af_j_text_open(&expanded, b->run);
    spec s = {.fill = ' ', .width = -1, .precision = -1};
    if (format_into(b, &expanded, &rest, depth + 1) || af_j_text_done(&expanded, &text)) return b->run->status;
    if (parse_spec(b->run, text.string, &s)) return b->run->status;
    if (conversion) {
        af_j_text_open(&printed, b->run);
        (conversion == 'r' ? af_j_text_repr : af_j_text_str)(&printed, &v);
        if (af_j_text_done(&printed, &v)) return b->run->status;
    }
    bool whole = v.kind == J_INT || v.kind == J_BOOL;
    if (whole && s.precision >= 0 && !(s.type && strchr("eEfFgG%", s.type)))
        return af_j_fail(b->run, "format: a precision for an integer");
    if (text.string->n > 0) return put_value(t, &s, &v);
    af_j_text_str(t, &v);
    return b->run->status;
}

/* The end of the field that starts at `at`, with the braces in its spec balanced. */
static size_t field_end(const j_string *format, size_t at) {
    for (int open = 1; at < format->n; at++) {
        open += format->p[at] == '{' ? 1 : format->p[at] == '}' ? -1 : 0;
        if (open == 0) return at;
    }
    return SIZE_MAX;
}

static int format_into(braces *b, j_text *t, const j_string *format, unsigned depth) {
    if (depth > 2) return af_j_fail(b->run, "format: braces nested too deeply");
    for (size_t at = 0; at < format->n && !b->run->status;) {
        size_t from = at;
        while (at < format->n && format->p[at] != '{' && format->p[at] != '}') at++;
        af_j_text_part(t, format, from, at);
        if (at >= format->n) break;
        char c = format->p[at++];
        if (at < format->n && format->p[at] == c) {
            af_j_text_part(t, format, at, at + 1);
            at++;
            continue;
        }
        size_t end = c == '{' ? field_end(format, at) : SIZE_MAX;
        if (end == SIZE_MAX) return af_j_fail(b->run, "format: a single '%c'", c);
        j_value inner;
        if (af_j_string_part(b->run, format, at, end, &inner)) return b->run->status;
        if (brace_field(b, t, inner.string, depth)) return b->run->status;
        at = end + 1;
    }
    return b->run->status;
}

int af_j_brace_format(j_run *run, const j_string *format, const j_args *args, j_value *out) {
    braces b = {.run = run, .args = args};
    j_text t;
    af_j_text_open(&t, run);
    if (af_j_work(run, format->n / 16) || format_into(&b, &t, format, 0)) return run->status;
    t.markup = format->markup;
    return af_j_text_done(&t, out);
}

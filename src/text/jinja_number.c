/* jinja_number.c - arithmetic with Python's meaning: true division, floor division and modulo that round down, powers,
 * and '+', '*' and '%' on strings and lists. Integers have 64 bits; what needs more is an error. */
#include "base/utf8.h"
#include "text/jinja_ast.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_REPEATED = 16 << 20 }; /* bytes or items that '*' may make */

double af_j_as_float(const j_value *v) {
    return v->kind == J_FLOAT ? v->real : v->kind == J_INT ? (double)v->integer : v->boolean ? 1 : 0;
}

static int64_t as_int(const j_value *v) {
    return v->kind == J_INT ? v->integer : v->boolean;
}

static int overflow(j_run *run) {
    return af_j_fail(run, "an integer beyond 64 bits");
}

/* ---- Integers ---- */

static int int_power(j_run *run, int64_t base, int64_t exponent, int64_t *out) {
    int64_t result = 1;
    for (; exponent > 0; exponent >>= 1) {
        if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) return overflow(run);
        if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) return overflow(run);
    }
    *out = result;
    return 0;
}

static int int_floor_div(j_run *run, int64_t a, int64_t b, int64_t *quotient, int64_t *rest) {
    if (b == 0) return af_j_fail(run, "division by zero");
    if (a == INT64_MIN && b == -1) return overflow(run);
    *quotient = a / b;
    *rest = a % b;
    if (*rest != 0 && (*rest < 0) != (b < 0)) {
        *rest += b;
        (*quotient)--;
    }
    return 0;
}

static int int_binary(j_run *run, int op, int64_t a, int64_t b, int64_t *out) {
    int64_t other;
    switch (op) {
    case O_ADD:
        return __builtin_add_overflow(a, b, out) ? overflow(run) : 0;
    case O_SUB:
        return __builtin_sub_overflow(a, b, out) ? overflow(run) : 0;
    case O_MUL:
        return __builtin_mul_overflow(a, b, out) ? overflow(run) : 0;
    case O_FLOORDIV:
        return int_floor_div(run, a, b, out, &other);
    case O_MOD:
        return int_floor_div(run, a, b, &other, out);
    default:
        return int_power(run, a, b, out);
    }
}

/* ---- Floats ---- */

static double float_mod(double a, double b) {
    double rest = fmod(a, b);
    if (rest == 0) return copysign(0, b);
    return (rest < 0) != (b < 0) ? rest + b : rest;
}

static double float_floor_div(double a, double b) {
    double quotient = (a - float_mod(a, b)) / b;
    if (quotient == 0) return copysign(0, a / b);
    double whole = floor(quotient);
    return quotient - whole > 0.5 ? whole + 1 : whole;
}

static int float_binary(j_run *run, int op, double a, double b, double *out) {
    bool divides = op == O_DIV || op == O_FLOORDIV || op == O_MOD;
    if ((divides && b == 0) || (op == O_POW && a == 0 && b < 0)) return af_j_fail(run, "division by zero");
    switch (op) {
    case O_ADD:
        *out = a + b;
        break;
    case O_SUB:
        *out = a - b;
        break;
    case O_MUL:
        *out = a * b;
        break;
    case O_DIV:
        *out = a / b;
        break;
    case O_FLOORDIV:
        *out = float_floor_div(a, b);
        break;
    case O_MOD:
        *out = float_mod(a, b);
        break;
    default:
        *out = pow(a, b);
        break;
    }
    if (op == O_POW && isnan(*out) && !isnan(a) && !isnan(b)) return af_j_fail(run, "a power that is no real number");
    if (op == O_POW && isinf(*out) && isfinite(a) && isfinite(b)) return af_j_fail(run, "a power too large");
    return 0;
}

static int number_binary(j_run *run, int op, const j_value *a, const j_value *b, j_value *out) {
    bool whole = a->kind != J_FLOAT && b->kind != J_FLOAT && op != O_DIV && !(op == O_POW && as_int(b) < 0);
    int status;
    if (whole) {
        *out = af_j_int(0);
        int64_t result = 0;
        status = int_binary(run, op, as_int(a), as_int(b), &result);
        out->integer = result;
    } else {
        double result = 0;
        status = float_binary(run, op, af_j_as_float(a), af_j_as_float(b), &result);
        *out = af_j_float(result);
    }
    return status;
}

/* ---- Strings and lists ---- */

static int concat_strings(j_run *run, const j_string *a, const j_string *b, j_value *out) {
    bool markup = a->markup || b->markup;
    if (markup && !a->markup) {
        if (af_j_escape_html(run, a, out)) return run->status;
        a = out->string;
    } else if (markup && !b->markup) {
        if (af_j_escape_html(run, b, out)) return run->status;
        b = out->string;
    }
    j_text t;
    af_j_text_open(&t, run);
    af_j_text_string(&t, a);
    af_j_text_string(&t, b);
    t.markup = markup;
    return af_j_text_done(&t, out);
}

static int push_all(j_run *run, j_list *list, const j_list *from) {
    for (size_t i = 0; i < from->n; i++)
        if (af_j_list_push(run, list, from->items[i])) break;
    return run->status;
}

static int concat_lists(j_run *run, const j_value *a, const j_value *b, j_value *out) {
    j_list *list = af_j_list_new(run, a->list->n + b->list->n);
    if (!list || push_all(run, list, a->list) || push_all(run, list, b->list)) return run->status;
    *out = af_j_of_list((j_kind)a->kind, list);
    return 0;
}

static int repeat(j_run *run, const j_value *v, int64_t times, j_value *out) {
    if (times < 0) times = 0;
    size_t n = v->kind == J_STRING ? v->string->n : v->list->n;
    if (n > 0 && times > (int64_t)(MAX_REPEATED / n)) return af_j_fail(run, "a repetition too long");
    if (n == 0) times = 0;
    if (v->kind == J_STRING) {
        j_text t;
        af_j_text_open(&t, run);
        for (int64_t i = 0; i < times && !af_j_work(run, 1); i++) af_j_text_string(&t, v->string);
        t.markup = v->string->markup;
        return af_j_text_done(&t, out);
    }
    j_list *list = af_j_list_new(run, n * (size_t)times);
    if (!list) return run->status;
    for (int64_t i = 0; i < times; i++)
        if (push_all(run, list, v->list)) return run->status;
    *out = af_j_of_list((j_kind)v->kind, list);
    return 0;
}

static bool repeats(const j_value *v, const j_value *times) {
    return (v->kind == J_STRING || af_j_is_sequence(v)) && (times->kind == J_INT || times->kind == J_BOOL);
}

static int compute(j_run *run, int op, const j_value *a, const j_value *b, j_value *out) {
    if (op == O_MOD && a->kind == J_STRING) return af_j_percent_format(run, a->string, b, out);
    if (a->kind == J_UNDEFINED) return af_j_fail_undefined(run, a);
    if (b->kind == J_UNDEFINED) return af_j_fail_undefined(run, b);
    if (af_j_is_number(a) && af_j_is_number(b)) return number_binary(run, op, a, b, out);
    if (op == O_ADD && a->kind == J_STRING && b->kind == J_STRING)
        return concat_strings(run, a->string, b->string, out);
    if (op == O_ADD && af_j_is_sequence(a) && a->kind == b->kind) return concat_lists(run, a, b, out);
    if (op == O_MUL && repeats(a, b)) return repeat(run, a, as_int(b), out);
    if (op == O_MUL && repeats(b, a)) return repeat(run, b, as_int(a), out);
    static const char *const symbols[] = {
        [O_ADD] = "+", [O_SUB] = "-", [O_MUL] = "*", [O_DIV] = "/", [O_MOD] = "%", [O_FLOORDIV] = "//", [O_POW] = "**"};
    return af_j_fail(run, "values of types %s and %s cannot be used with '%s'", af_j_type_name(a), af_j_type_name(b),
                     symbols[op]);
}

int af_j_binary(j_run *run, int op, const j_value *a, const j_value *b, j_value *out) {
    uint8_t origin = a->origin | b->origin;
    j_value result = {0}; /* out may be one of the operands */
    int status = compute(run, op, a, b, &result);
    if (status) return status;
    *out = result;
    out->origin = origin;
    return 0;
}

int af_j_negate(j_run *run, const j_value *v, j_value *out) {
    if (v->kind == J_UNDEFINED) return af_j_fail_undefined(run, v);
    if (!af_j_is_number(v)) return af_j_fail(run, "a value of type %s has no negative", af_j_type_name(v));
    const j_value minus = af_j_int(-1);
    return af_j_binary(run, O_MUL, &minus, v, out);
}

/* ---- Numbers from text, as int() and float() take them ---- */

/* A copy without the white space around and the underscores between digits; false if it is no candidate. */
static bool clean_number(const j_string *s, char *out, size_t room) {
    size_t from, to, n = 0;
    af_j_strip(s, NULL, true, true, &from, &to);
    for (size_t i = from; i < to; i++) {
        char c = s->p[i];
        bool between = i > from && i + 1 < to && s->p[i - 1] != '_' && s->p[i + 1] != '_';
        if (c == '_' && !between) return false;
        if (c == 0 || n + 1 >= room) return false;
        if (c != '_') out[n++] = c;
    }
    out[n] = 0;
    return n > 0;
}

bool af_j_parse_int(const j_string *s, int base, int64_t *out) {
    char text[80], *p = text, *end;
    if (!clean_number(s, text, sizeof text)) return false;
    bool negative = *p == '-';
    if (*p == '-' || *p == '+') p++;
    if ((p[0] == '0') && ((base == 8 && (p[1] | 32) == 'o') || (base == 2 && (p[1] | 32) == 'b'))) p += 2;
    if (*p == '-' || *p == '+' || *p == ' ') return false;
    errno = 0;
    unsigned long long u = strtoull(p, &end, base);
    if (end == p || *end || errno || u > (unsigned long long)INT64_MAX) return false;
    *out = negative ? -(int64_t)u : (int64_t)u;
    return true;
}

bool af_j_parse_float(const j_string *s, double *out) {
    char text[400], *end;
    if (!clean_number(s, text, sizeof text)) return false;
    if (strpbrk(text, "xXpP(")) return false; /* what C takes and Python does not */
    *out = strtod(text, &end);
    return end > text && !*end;
}

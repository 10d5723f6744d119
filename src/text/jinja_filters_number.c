/* jinja_filters_number.c - filters that make numbers, choose a default or ask a length. */
#include "text/jinja_value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* A float towards zero; false if it is no 64-bit integer. */
static bool truncated(double d, int64_t *out) {
    if (!(d > -9.2e18 && d < 9.2e18)) return false;
    *out = (int64_t)d;
    return true;
}

static bool string_to_int(const j_string *s, int base, int64_t *out) {
    double d;
    return af_j_parse_int(s, base, out) || (af_j_parse_float(s, &d) && truncated(d, out));
}

static int filter_int(j_run *run, const j_args *args, j_value *out) {
    const j_value *v = &args->self;
    int64_t base = 10, i = 0;
    if (v->kind == J_STRING && af_j_work(run, v->string->n / 16)) return run->status;
    if (af_j_given(&args->bound[1]) && af_j_need_int(run, &args->bound[1], "int: base", &base)) return run->status;
    if (base != 0 && (base < 2 || base > 36))
        return af_j_fail(run, "int: base: found %lld, expected 2 to 36", (long long)base);
    bool good = v->kind == J_STRING ? string_to_int(v->string, (int)base, &i)
                                    : af_j_is_number(v) && truncated(af_j_as_float(v), &i);
    if (v->kind == J_UNDEFINED) return af_j_fail_undefined(run, v);
    if (v->kind == J_INT) {
        i = v->integer;
        good = true;
    }
    if (!good && v->kind == J_FLOAT) return af_j_fail(run, "int: a number beyond 64 bits");
    if (good)
        *out = af_j_int(i);
    else
        *out = af_j_given(&args->bound[0]) ? args->bound[0] : af_j_int(0);
    out->origin = v->kind == J_STRING ? af_j_origin_at(v->string, 0) : v->origin;
    return 0;
}

static int filter_float(j_run *run, const j_args *args, j_value *out) {
    const j_value *v = &args->self;
    double d = 0;
    if (v->kind == J_UNDEFINED) return af_j_fail_undefined(run, v);
    if (v->kind == J_STRING && af_j_work(run, v->string->n / 16)) return run->status;
    bool good = v->kind == J_STRING ? af_j_parse_float(v->string, &d) : af_j_is_number(v);
    if (v->kind != J_STRING && good) d = af_j_as_float(v);
    if (good)
        *out = af_j_float(d);
    else
        *out = af_j_given(&args->bound[0]) ? args->bound[0] : af_j_float(0);
    out->origin = v->kind == J_STRING ? af_j_origin_at(v->string, 0) : v->origin;
    return 0;
}

static int filter_abs(j_run *run, const j_args *args, j_value *out) {
    const j_value *v = &args->self, zero = af_j_int(0);
    int order = 0;
    if (v->kind == J_UNDEFINED) return af_j_fail_undefined(run, v);
    if (!af_j_is_number(v)) return af_j_fail(run, "abs: found %s, expected a number", af_j_type_name(v));
    if (v->kind == J_FLOAT) {
        *out = af_j_float(fabs(v->real));
        return 0;
    }
    if (af_j_order(run, v, &zero, &order)) return run->status;
    if (order < 0) return af_j_negate(run, v, out);
    *out = af_j_int(v->kind == J_INT ? v->integer : v->boolean);
    out->origin = v->origin;
    return 0;
}

/* To `digits` decimals, half to even on the exact value. */
static double rounded(double d, int digits) {
    char text[400];
    if (digits >= 0) {
        snprintf(text, sizeof text, "%.*f", digits, d);
        return strtod(text, NULL);
    }
    double unit = pow(10, -digits);
    return rint(d / unit) * unit;
}

/* To a multiple of ten to the power `places`, half to even. */
static int round_int(j_run *run, int64_t i, int64_t places, int64_t *out) {
    int64_t unit = 1;
    for (; places > 0; places--) unit *= 10;
    const int64_t rest = i % unit, distance = rest < 0 ? -rest : rest;
    *out = i - rest;
    const bool away = distance * 2 > unit || (distance * 2 == unit && i / unit % 2 != 0);
    if (away && __builtin_add_overflow(*out, i < 0 ? -unit : unit, out))
        return af_j_fail(run, "round: an integer beyond 64 bits");
    return 0;
}

static int filter_round(j_run *run, const j_args *args, j_value *out) {
    const j_value *v = &args->self, *method = &args->bound[1];
    int64_t precision = 0;
    if (v->kind == J_UNDEFINED) return af_j_fail_undefined(run, v);
    if (!af_j_is_number(v)) return af_j_fail(run, "round: found %s, expected a number", af_j_type_name(v));
    if (af_j_given(&args->bound[0]) && af_j_need_int(run, &args->bound[0], "round", &precision)) return run->status;
    if (precision < -18 || precision > 60) return af_j_fail(run, "round: %lld decimals", (long long)precision);
    double d = af_j_as_float(v);
    bool common = !af_j_given(method) || (method->kind == J_STRING && af_j_string_is(method->string, "common"));
    bool ceiling = !common && method->kind == J_STRING && af_j_string_is(method->string, "ceil");
    bool flooring = !common && method->kind == J_STRING && af_j_string_is(method->string, "floor");
    if (!common && !ceiling && !flooring) return af_j_fail(run, "round: expected common, ceil or floor");
    double unit = pow(10, (double)precision);
    if (common && v->kind != J_FLOAT) {
        *out = af_j_int(0);
        if (round_int(run, v->kind == J_INT ? v->integer : v->boolean, -precision, &out->integer)) return run->status;
    } else if (common) {
        *out = af_j_float(rounded(d, (int)precision));
    } else {
        *out = af_j_float((ceiling ? ceil(d * unit) : floor(d * unit)) / unit + 0.0); /* Python's has no -0 here */
    }
    out->origin = v->origin;
    return 0;
}

static int filter_default(j_run *run, const j_args *args, j_value *out) {
    static const j_string nothing = {.p = ""};
    bool falsy = af_j_truth(&args->bound[1]) && !af_j_truth(&args->self);
    if (args->self.kind == J_UNDEFINED || falsy)
        *out = af_j_given(&args->bound[0]) ? args->bound[0] : af_j_of_string(&nothing);
    else
        *out = args->self;
    return run->status;
}

static int filter_length(j_run *run, const j_args *args, j_value *out) {
    size_t n = 0;
    int status = af_j_length(run, &args->self, &n);
    *out = af_j_int((int64_t)n);
    return status;
}

/* A method or a namespace's variable, never a dict's key. */
static int filter_attr(j_run *run, const j_args *args, j_value *out) {
    const j_string *name;
    if (af_j_str(run, &args->bound[0], &name)) return run->status;
    if (args->self.kind != J_DICT) return af_j_attribute(run, &args->self, name, out);
    if (af_j_find_function(af_j_dict_methods, name->p, name->n)) return af_j_attribute(run, &args->self, name, out);
    *out = af_j_undefined(name, J_DICT);
    return 0;
}

const j_function af_j_filters_number[] = {
    {"length", "", filter_length},
    {"count", "", filter_length},
    {"default", "default_value? boolean?", filter_default},
    {"d", "default_value? boolean?", filter_default},
    {"int", "default? base?", filter_int},
    {"float", "default?", filter_float},
    {"abs", "", filter_abs},
    {"round", "precision? method?", filter_round},
    {"attr", "name", filter_attr},
    {0},
};

/* jinja_tests.c - what may stand after `is`. */
#include "text/jinja_ast.h"

#include <string.h>

#define TEST(name, expression)                                                                                         \
    static int test_##name(j_run *run, const j_args *args, j_value *out) {                                             \
        const j_value *v = &args->self;                                                                                \
        *out = af_j_bool(expression);                                                                                  \
        return run->status;                                                                                            \
    }

TEST(defined, v->kind != J_UNDEFINED)
TEST(undefined, v->kind == J_UNDEFINED)
TEST(none, v->kind == J_NONE)
TEST(boolean, v->kind == J_BOOL)
TEST(true, v->kind == J_BOOL && v->boolean)
TEST(false, v->kind == J_BOOL && !v->boolean)
TEST(integer, v->kind == J_INT)
TEST(float, v->kind == J_FLOAT)
TEST(number, af_j_is_number(v))
TEST(string, v->kind == J_STRING)
TEST(mapping, v->kind == J_DICT)
TEST(iterable, af_j_iterable(v))
TEST(sequence,
     v->kind == J_STRING || af_j_is_sequence(v) || v->kind == J_DICT || v->kind == J_RANGE || v->kind == J_UNDEFINED)
/* As of Python: a value of class Undefined has the method that makes it look callable. */
TEST(callable, v->kind == J_MACRO || v->kind == J_FUNCTION || v->kind == J_METHOD || v->kind == J_LOOP ||
                   v->kind == J_JOINER || v->kind == J_UNDEFINED)
TEST(escaped, v->kind == J_STRING && v->string->markup)
TEST(eq, af_j_equal(run, v, &args->bound[0]))
TEST(ne, !af_j_equal(run, v, &args->bound[0]))
/* The same small value is the same object; of others the place counts. */
TEST(sameas, v->kind == args->bound[0].kind &&
                 (v->kind <= J_STRING ? af_j_equal(run, v, &args->bound[0]) : v->list == args->bound[0].list))
TEST(filter, v->kind == J_STRING && af_j_find_filter(v->string->p, v->string->n))
TEST(test, v->kind == J_STRING && af_j_find_test(v->string->p, v->string->n))

static int order_test(j_run *run, const j_args *args, int sign, bool or_equal, j_value *out) {
    int order = 0;
    int status = af_j_order(run, &args->self, &args->bound[0], &order);
    *out = af_j_bool(order * sign > 0 || (or_equal && order == 0));
    return status;
}

static int test_lt(j_run *run, const j_args *args, j_value *out) {
    return order_test(run, args, -1, false, out);
}

static int test_le(j_run *run, const j_args *args, j_value *out) {
    return order_test(run, args, -1, true, out);
}

static int test_gt(j_run *run, const j_args *args, j_value *out) {
    return order_test(run, args, 1, false, out);
}

static int test_ge(j_run *run, const j_args *args, j_value *out) {
    return order_test(run, args, 1, true, out);
}

static int test_in(j_run *run, const j_args *args, j_value *out) {
    bool found;
    int status = af_j_contains(run, &args->bound[0], &args->self, &found);
    *out = af_j_bool(found);
    return status;
}

/* value % divisor == rest, or not */
static int rest_test(j_run *run, const j_args *args, j_value divisor, int64_t rest, j_value *out) {
    j_value found, wanted = af_j_int(rest);
    if (af_j_binary(run, O_MOD, &args->self, &divisor, &found)) return run->status;
    *out = af_j_bool(af_j_equal(run, &found, &wanted));
    return run->status;
}

static int test_odd(j_run *run, const j_args *args, j_value *out) {
    return rest_test(run, args, af_j_int(2), 1, out);
}

static int test_even(j_run *run, const j_args *args, j_value *out) {
    return rest_test(run, args, af_j_int(2), 0, out);
}

static int test_divisibleby(j_run *run, const j_args *args, j_value *out) {
    return rest_test(run, args, args->bound[0], 0, out);
}

static int case_test(j_run *run, const j_args *args, const char *method, j_value *out) {
    const j_string *text;
    if (af_j_str(run, &args->self, &text)) return run->status;
    j_args own = {.self = af_j_of_string(text)};
    return af_j_call_function(run, af_j_find_function(af_j_string_methods, method, strlen(method)), &own, out);
}

static int test_lower(j_run *run, const j_args *args, j_value *out) {
    return case_test(run, args, "islower", out);
}

static int test_upper(j_run *run, const j_args *args, j_value *out) {
    return case_test(run, args, "isupper", out);
}

const j_function af_j_tests[] = {
    {"defined", "", test_defined},   {"undefined", "", test_undefined},
    {"none", "", test_none},         {"string", "", test_string},
    {"mapping", "", test_mapping},   {"iterable", "", test_iterable},
    {"sequence", "", test_sequence}, {"boolean", "", test_boolean},
    {"true", "", test_true},         {"false", "", test_false},
    {"integer", "", test_integer},   {"float", "", test_float},
    {"number", "", test_number},     {"callable", "", test_callable},
    {"escaped", "", test_escaped},   {"odd", "", test_odd},
    {"even", "", test_even},         {"divisibleby", "num", test_divisibleby},
    {"lower", "", test_lower},       {"upper", "", test_upper},
    {"in", "seq", test_in},          {"sameas", "other", test_sameas},
    {"filter", "", test_filter},     {"test", "", test_test},
    {"eq", "other", test_eq},        {"equalto", "other", test_eq},
    {"==", "other", test_eq},        {"ne", "other", test_ne},
    {"!=", "other", test_ne},        {"lt", "other", test_lt},
    {"lessthan", "other", test_lt},  {"<", "other", test_lt},
    {"le", "other", test_le},        {"<=", "other", test_le},
    {"gt", "other", test_gt},        {"greaterthan", "other", test_gt},
    {">", "other", test_gt},         {"ge", "other", test_ge},
    {">=", "other", test_ge},        {0},
};

const j_function *af_j_find_test(const char *name, size_t n) {
    return af_j_find_function(af_j_tests, name, n);
}

/* jinja_access.c - v.name, v[key], v[a:b:c], and the binding of arguments to the tables' functions.
 *
 * v.name looks for a method first and a key second, v['name'] the other way round, as in Jinja2; what is not there is
 * undefined, and only using that is an error. A slice of what has none is an error at once.
 */
#include "base/utf8.h"
#include "text/jinja_ast.h"

#include <stdio.h>
#include <string.h>

/* ---- Attributes ---- */

static const j_function *methods_of(const j_value *v) {
    switch (v->kind) {
    case J_STRING:
        return af_j_string_methods;
    case J_DICT:
        return af_j_dict_methods;
    case J_LIST:
        return af_j_list_methods;
    case J_TUPLE:
    case J_RANGE:
        return af_j_tuple_methods;
    case J_LOOP:
        return af_j_loop_methods;
    case J_CYCLER:
        return af_j_cycler_methods;
    default:
        return NULL;
    }
}

const j_function *af_j_find_function(const j_function *table, const char *name, size_t n) {
    for (; table->name; table++)
        if (strlen(table->name) == n && memcmp(table->name, name, n) == 0) return table;
    return NULL;
}

/* A method of v, if there is one by that name. */
static int method(j_run *run, const j_value *v, const j_string *name, j_value *out, bool *found) {
    const j_function *table = methods_of(v);
    const j_function *function = table ? af_j_find_function(table, name->p, name->n) : NULL;
    *found = function != NULL;
    if (!function) return 0;
    if (!function->call) {
        *out = af_j_undefined(name, J_UNSAFE);
        return 0;
    }
    j_method *bound = af_j_alloc(run, sizeof *bound);
    if (!bound) return run->status;
    *bound = (j_method){.self = *v, .function = function};
    *out = (j_value){.kind = J_METHOD, .method = bound};
    return 0;
}

int af_j_attribute(j_run *run, const j_value *v, const j_string *name, j_value *out) {
    if (v->kind == J_UNDEFINED) return af_j_fail_undefined(run, v);
    j_value owner = *v;
    bool found = false;
    int status = 0;
    if (owner.kind == J_LOOP) status = af_j_loop_attribute(run, owner.loop, name, out, &found);
    if (owner.kind == J_CYCLER && af_j_string_is(name, "current")) {
        *out = owner.cycler->items->items[owner.cycler->at];
        return 0;
    }
    if (!status && !found) status = method(run, &owner, name, out, &found);
    if (status || found) return status;
    if (owner.kind == J_TUPLE && owner.of == J_GROUP) {
        bool is_key = af_j_string_is(name, "grouper");
        if (is_key || af_j_string_is(name, "list")) {
            *out = owner.list->items[is_key ? 0 : 1];
            return 0;
        }
    }
    bool has_keys = owner.kind == J_DICT || owner.kind == J_NAMESPACE;
    if (!has_keys || !af_j_dict_get_string(run, owner.dict, name, out)) *out = af_j_undefined(name, owner.kind);
    return run->status;
}

/* ---- Items ---- */

static int string_item(j_run *run, const j_string *s, size_t at, j_value *out) {
    size_t offset = af_j_char_offset(s, at);
    return af_j_string_part(run, s, offset, offset + af_utf8_lead((unsigned char)s->p[offset]), out);
}

static int index_item(j_run *run, const j_value *v, int64_t index, j_value *out) {
    size_t n;
    if (af_j_length(run, v, &n)) return run->status;
    if (index < 0) index += (int64_t)n;
    if (index < 0 || index >= (int64_t)n) {
        *out = af_j_undefined(NULL, v->kind);
        return 0;
    }
    if (v->kind == J_STRING) return string_item(run, v->string, (size_t)index, out);
    *out = v->kind == J_RANGE ? af_j_int(af_j_range_item(v->range, (size_t)index)) : v->list->items[index];
    return 0;
}

static bool has_indexes(const j_value *v) {
    return v->kind == J_STRING || v->kind == J_RANGE || af_j_is_sequence(v);
}

int af_j_item(j_run *run, const j_value *v, const j_value *key, j_value *out) {
    if (v->kind == J_UNDEFINED) return af_j_fail_undefined(run, v);
    j_value owner = *v, wanted = *key;
    bool found = false;
    if (owner.kind == J_DICT &&
        (wanted.kind == J_STRING || wanted.kind == J_NONE || wanted.kind == J_TUPLE || af_j_is_number(&wanted))) {
        if (af_j_dict_get(run, owner.dict, &wanted, out, &found) || found) return run->status;
    }
    if (has_indexes(&owner) && (wanted.kind == J_INT || wanted.kind == J_BOOL))
        return index_item(run, &owner, wanted.kind == J_INT ? wanted.integer : wanted.boolean, out);
    if (wanted.kind == J_STRING && owner.kind == J_DICT) {
        if (method(run, &owner, wanted.string, out, &found) || found) return run->status;
    } else if (wanted.kind == J_STRING) {
        return af_j_attribute(run, &owner, wanted.string, out);
    }
    *out = af_j_undefined(wanted.kind == J_STRING ? wanted.string : NULL, owner.kind);
    return 0;
}

static int path_step(j_run *run, j_value *v, const j_string *name) {
    j_value key = af_j_of_string(name);
    int64_t index;
    if (name->n > 0 && name->p[0] >= '0' && name->p[0] <= '9' && af_j_parse_int(name, 10, &index))
        key = af_j_int(index);
    return af_j_item(run, v, &key, v);
}

int af_j_path(j_run *run, const j_value *v, const j_value *path, j_value *out) {
    j_value at = *v;
    if (path->kind != J_STRING) return af_j_item(run, v, path, out);
    const j_string *s = path->string;
    for (size_t from = 0; from <= s->n;) {
        const char *dot = memchr(s->p + from, '.', s->n - from);
        size_t to = dot ? (size_t)(dot - s->p) : s->n;
        j_value name;
        if (af_j_string_part(run, s, from, to, &name) || path_step(run, &at, name.string)) return run->status;
        from = to + 1;
    }
    *out = at;
    return 0;
}

/* ---- Slices ---- */

/* A slice of n items, as Python adjusts it: from `start`, `count` items, `step` apart, before `stop`. */
typedef struct cut {
    int64_t start, stop, step;
    size_t count;
} cut;

static int slice_part(j_run *run, const j_value *v, int64_t otherwise, int64_t *out) {
    *out = otherwise;
    if (!af_j_given(v) || v->kind == J_NONE) return 0;
    if (v->kind == J_UNDEFINED) return af_j_fail_undefined(run, v);
    return af_j_need_int(run, v, "slice", out);
}

static int64_t clamp(int64_t at, int64_t n, int64_t low, int64_t high) {
    if (at < 0) at = at < -n ? low : at + n;
    return at < low ? low : at > high ? high : at;
}

static int make_cut(j_run *run, size_t length, const j_value *start, const j_value *stop, const j_value *step, cut *c) {
    int64_t n = (int64_t)length, from, to;
    if (slice_part(run, step, 1, &c->step)) return run->status;
    if (c->step == 0) return af_j_fail(run, "slice: a step of zero");
    bool forward = c->step > 0;
    if (slice_part(run, start, forward ? 0 : INT64_MAX, &from)) return run->status;
    if (slice_part(run, stop, forward ? INT64_MAX : INT64_MIN, &to)) return run->status;
    int64_t low = forward ? 0 : -1, high = forward ? n : n - 1;
    c->start = clamp(from, n, low, high);
    c->stop = clamp(to, n, low, high);
    int64_t distance = forward ? c->stop - c->start : c->start - c->stop;
    int64_t stride = forward ? c->step : c->step == INT64_MIN ? INT64_MAX : -c->step;
    c->count = distance > 0 ? (size_t)((distance - 1) / stride + 1) : 0;
    return 0;
}

static int slice_list(j_run *run, const j_value *v, const j_list *from, const cut *c, j_value *out) {
    j_list *list = af_j_list_new(run, c->count);
    if (!list) return run->status;
    for (size_t i = 0; i < c->count; i++) list->items[i] = from->items[c->start + (int64_t)i * c->step];
    list->n = c->count;
    *out = af_j_of_list(v->kind == J_TUPLE ? J_TUPLE : J_LIST, list);
    return af_j_work(run, c->count / 4);
}

/* Where index `i` of a range lies; false where that is past 64 bits: a slice of a slice may have any step. */
static bool range_at(const j_range *range, int64_t i, int64_t *at) {
    int64_t distance;
    return !__builtin_mul_overflow(i, range->step, &distance) && !__builtin_add_overflow(range->start, distance, at);
}

static int slice_range(j_run *run, const j_range *from, const cut *c, j_value *out) {
    j_range *range = af_j_alloc(run, sizeof *range);
    if (!range) return run->status;
    *range = (j_range){.n = c->count};
    if (!range_at(from, c->start, &range->start) || !range_at(from, c->stop, &range->stop) ||
        __builtin_mul_overflow(from->step, c->step, &range->step))
        return af_j_fail(run, "slice: a step too large");
    *out = (j_value){.kind = J_RANGE, .range = range};
    return 0;
}

static int slice_string(j_run *run, const j_value *v, size_t length, const cut *c, j_value *out) {
    const j_string *s = v->string;
    if (c->count == 0 && c->start < 0) return af_j_string_part(run, s, 0, 0, out); /* backward, through nothing */
    if (c->step == 1) {
        bool ascii = length == s->n;
        size_t from = ascii ? (size_t)c->start : af_j_char_offset(s, (size_t)c->start);
        j_string rest = *s;
        rest.p += from;
        size_t n = ascii ? c->count : af_j_char_offset(&rest, c->count);
        return af_j_string_part(run, s, from, from + n, out);
    }
    const j_list *characters;
    j_text t;
    af_j_text_open(&t, run);
    if (af_j_to_list(run, v, &characters)) return run->status;
    for (size_t i = 0; i < c->count; i++)
        af_j_text_string(&t, characters->items[c->start + (int64_t)i * c->step].string);
    t.markup = s->markup;
    return af_j_text_done(&t, out);
}

int af_j_slice(j_run *run, const j_value *v, const j_value *start, const j_value *stop, const j_value *step,
               j_value *out) {
    if (v->kind == J_UNDEFINED) return af_j_fail_undefined(run, v);
    if (!has_indexes(v)) return af_j_fail(run, "a value of type %s cannot be sliced", af_j_type_name(v));
    size_t n;
    cut c;
    if (af_j_length(run, v, &n) || make_cut(run, n, start, stop, step, &c)) return run->status;
    if (v->kind == J_STRING) return slice_string(run, v, n, &c, out);
    if (v->kind == J_RANGE) return slice_range(run, v->range, &c, out);
    return slice_list(run, v, v->list, &c, out);
}

/* ---- Arguments ---- */

typedef struct parameter {
    const char *name;
    size_t n;
    bool optional;
} parameter;

static const char *next_parameter(const char *p, parameter *out) {
    p += strspn(p, " ");
    if (!*p) return NULL;
    size_t n = strcspn(p, " ");
    *out = (parameter){.name = p, .n = n, .optional = p[n - 1] == '?'};
    if (out->optional) out->n--;
    return p + n;
}

static const j_keyword *find_keyword(j_run *run, const j_args *args, const parameter *wanted) {
    af_j_work(run, args->n_keywords / 16);
    for (size_t i = 0; i < args->n_keywords; i++) {
        const j_string *name = args->keywords[i].name;
        if (name->n == wanted->n && memcmp(name->p, wanted->name, name->n) == 0) return &args->keywords[i];
    }
    return NULL;
}

static int bind_one(j_run *run, const j_function *f, j_args *args, size_t place, const parameter *wanted,
                    size_t *used) {
    const j_keyword *keyword = find_keyword(run, args, wanted);
    args->bound[place] = (j_value){.kind = J_ABSENT};
    if (keyword && place < args->n)
        return af_j_fail(run, "%s: argument '%.*s' is given twice", f->name, (int)wanted->n, wanted->name);
    if (place < args->n) {
        args->bound[place] = args->items[place];
    } else if (keyword) {
        args->bound[place] = keyword->value;
        (*used)++;
    } else if (!wanted->optional) {
        return af_j_fail(run, "%s: argument '%.*s' is missing", f->name, (int)wanted->n, wanted->name);
    }
    return 0;
}

static int bind(j_run *run, const j_function *f, j_args *args) {
    size_t place = 0, used = 0;
    parameter wanted;
    for (const char *p = f->params; (p = next_parameter(p, &wanted)) != NULL; place++)
        if (bind_one(run, f, args, place, &wanted, &used)) return run->status;
    if (args->n > place) return af_j_fail(run, "%s: found %zu arguments, at most %zu", f->name, args->n, place);
    if (used < args->n_keywords) return af_j_fail(run, "%s: an argument by a name it does not have", f->name);
    return 0;
}

int af_j_call_function(j_run *run, const j_function *f, j_args *args, j_value *out) {
    if (f->params && bind(run, f, args)) return run->status;
    j_value result = {0};
    int status = f->call(run, args, &result);
    if (!status) status = run->status;
    if (!status) *out = result;
    return status;
}

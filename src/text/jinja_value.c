/* jinja_value.c - making values, asking what they are, and lists. */
#include "text/jinja_value.h"
#include "base/utf8.h"

#include <assert.h>
#include <string.h>

static const char *const type_names[J_KINDS] = {
    [J_ABSENT] = "nothing",    [J_UNDEFINED] = "undefined", [J_NONE] = "None",      [J_BOOL] = "bool",
    [J_INT] = "int",           [J_FLOAT] = "float",         [J_STRING] = "string",  [J_LIST] = "list",
    [J_TUPLE] = "tuple",       [J_GENERATOR] = "generator", [J_VIEW] = "dict view", [J_DICT] = "dict",
    [J_RANGE] = "range",       [J_NAMESPACE] = "namespace", [J_LOOP] = "loop",      [J_MACRO] = "macro",
    [J_FUNCTION] = "function", [J_METHOD] = "method",       [J_CYCLER] = "cycler",  [J_JOINER] = "joiner",
};

const char *af_j_type_name(const j_value *v) {
    return type_names[v->kind];
}

j_value af_j_none(void) {
    return (j_value){.kind = J_NONE};
}

j_value af_j_bool(bool b) {
    return (j_value){.kind = J_BOOL, .boolean = b};
}

j_value af_j_int(int64_t i) {
    return (j_value){.kind = J_INT, .integer = i};
}

j_value af_j_float(double d) {
    return (j_value){.kind = J_FLOAT, .real = d};
}

j_value af_j_undefined(const j_string *name, uint8_t of) {
    return (j_value){.kind = J_UNDEFINED, .of = of, .string = name};
}

j_value af_j_of_string(const j_string *s) {
    return (j_value){.kind = J_STRING, .string = s};
}

j_value af_j_of_list(j_kind kind, j_list *list) {
    return (j_value){.kind = (uint8_t)kind, .list = list};
}

j_value af_j_of_dict(j_dict *dict) {
    return (j_value){.kind = J_DICT, .dict = dict};
}

int af_j_fail_undefined(j_run *run, const j_value *v) {
    assert(v->kind == J_UNDEFINED);
    const char *name = v->string ? v->string->p : "item";
    int n = v->string ? (int)(v->string->n < 100 ? v->string->n : 100) : 4;
    if (v->of == J_UNSAFE) return af_j_fail(run, "'%.*s' would change a value, which templates may not", n, name);
    if (v->of == J_PLAIN) return af_j_fail(run, "'%.*s' is undefined", n, name);
    return af_j_fail(run, "the %s has no '%.*s'", type_names[v->of], n, name);
}

int af_j_need_int(j_run *run, const j_value *v, const char *what, int64_t *out) {
    if (v->kind == J_INT)
        *out = v->integer;
    else if (v->kind == J_BOOL)
        *out = v->boolean;
    else
        return af_j_fail(run, "%s: found %s, expected int", what, af_j_type_name(v));
    return 0;
}

int af_j_need_string(j_run *run, const j_value *v, const char *what, const j_string **out) {
    if (v->kind != J_STRING) return af_j_fail(run, "%s: found %s, expected string", what, af_j_type_name(v));
    *out = v->string;
    return 0;
}

bool af_j_truth(const j_value *v) {
    switch (v->kind) {
    case J_ABSENT:
    case J_UNDEFINED:
    case J_NONE:
        return false;
    case J_BOOL:
        return v->boolean;
    case J_INT:
        return v->integer != 0;
    case J_FLOAT:
        return v->real != 0;
    case J_STRING:
        return v->string->n > 0;
    case J_LIST:
    case J_TUPLE:
    case J_VIEW:
        return v->list->n > 0;
    case J_DICT:
        return v->dict->n > 0;
    case J_RANGE:
        return v->range->n > 0;
    default:
        return true;
    }
}

bool af_j_is_number(const j_value *v) {
    return v->kind == J_INT || v->kind == J_FLOAT || v->kind == J_BOOL;
}

bool af_j_is_sequence(const j_value *v) {
    return v->kind == J_LIST || v->kind == J_TUPLE;
}

/* ---- Lists ---- */

j_list *af_j_list_new(j_run *run, size_t cap) {
    j_list *list = af_j_alloc(run, sizeof *list);
    if (!list) return NULL;
    *list = (j_list){.cap = cap};
    if (cap > SIZE_MAX / sizeof(j_value)) {
        af_j_fail(run, "a list too long");
        return NULL;
    }
    if (cap && !(list->items = af_j_alloc(run, cap * sizeof(j_value)))) return NULL;
    return list;
}

int af_j_list_push(j_run *run, j_list *list, j_value v) {
    if (list->n == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 4;
        j_value *items = af_j_alloc(run, cap * sizeof *items);
        if (!items) return run->status;
        if (list->n) memcpy(items, list->items, list->n * sizeof *items);
        list->items = items;
        list->cap = cap;
    }
    list->items[list->n++] = v;
    return af_j_work(run, 1);
}

int af_j_generator(j_run *run, j_list *list, j_value *out) {
    j_generator *generator = af_j_alloc(run, sizeof *generator);
    if (!generator) return run->status;
    *generator = (j_generator){.list = list};
    *out = (j_value){.kind = J_GENERATOR, .generator = generator};
    return 0;
}

bool af_j_iterable(const j_value *v) {
    switch (v->kind) {
    case J_UNDEFINED:
    case J_STRING:
    case J_LIST:
    case J_TUPLE:
    case J_GENERATOR:
    case J_VIEW:
    case J_DICT:
    case J_RANGE:
    case J_LOOP:
        return true;
    default:
        return false;
    }
}

static int characters(j_run *run, const j_string *s, j_list *list) {
    j_string plain = *s;
    plain.markup = false;
    for (size_t at = 0; at < s->n;) {
        size_t n = af_utf8_lead((unsigned char)s->p[at]);
        j_value c;
        int status = af_j_string_part(run, &plain, at, at + n, &c);
        if (!status) status = af_j_list_push(run, list, c);
        if (status) return status;
        at += n;
    }
    return 0;
}

static int gather(j_run *run, const j_value *v, j_list *list) {
    if (v->kind == J_STRING) return characters(run, v->string, list);
    if (v->kind == J_DICT)
        for (size_t i = 0; i < v->dict->n; i++) af_j_list_push(run, list, v->dict->pairs[i].key);
    if (v->kind == J_RANGE)
        for (size_t i = 0; i < v->range->n; i++) af_j_list_push(run, list, af_j_int(af_j_range_item(v->range, i)));
    return run->status;
}

int af_j_to_list(j_run *run, const j_value *v, const j_list **out) {
    static const j_list empty;
    if (af_j_is_sequence(v) || v->kind == J_VIEW) {
        *out = v->list;
        return 0;
    }
    if (v->kind == J_GENERATOR) {
        *out = v->generator->used ? &empty : v->generator->list;
        v->generator->used = true;
        return 0;
    }
    if (v->kind == J_UNDEFINED && v->of == J_UNSAFE) return af_j_fail_undefined(run, v);
    if (!af_j_iterable(v) || v->kind == J_LOOP)
        return af_j_fail(run, "a value of type %s cannot be iterated", af_j_type_name(v));
    j_list *list = af_j_list_new(run, 0);
    if (!list) return run->status;
    *out = list;
    return gather(run, v, list);
}

int af_j_length(j_run *run, const j_value *v, size_t *out) {
    switch (v->kind) {
    case J_UNDEFINED:
        *out = 0;
        return 0;
    case J_STRING:
        *out = af_j_char_count(run, v->string);
        return run->status;
    case J_LIST:
    case J_TUPLE:
    case J_VIEW:
        *out = v->list->n;
        return 0;
    case J_DICT:
        *out = v->dict->n;
        return 0;
    case J_RANGE:
        *out = v->range->n;
        return 0;
    default:
        return af_j_fail(run, "a value of type %s has no length", af_j_type_name(v));
    }
}

/* jinja_filters_list.c - filters over things that can be iterated.
 *
 * Where Jinja2 gives a generator, so do these: it can be gone through once and has no length. Only the moment differs:
 * the work is done at once, so that an error inside comes even if nobody reads the result.
 */
#include "text/jinja_ast.h"

#include <string.h>

static bool given(const j_value *v) {
    return af_j_given(v) && v->kind != J_NONE;
}

static int input(j_run *run, const j_args *args, const j_list **out) {
    return af_j_to_list(run, &args->self, out);
}

static int finish(j_run *run, j_list *list, j_kind kind, j_value *out) {
    if (!list || run->status) return run->status;
    if (kind == J_GENERATOR) return af_j_generator(run, list, out);
    *out = af_j_of_list(kind, list);
    return 0;
}

/* ---- Keys to sort and compare by ---- */

/* item.attribute, in small letters where letters' case does not count. */
static int key_of(j_run *run, const j_value *item, const j_value *attribute, bool case_sensitive, j_value *out) {
    *out = *item;
    if (given(attribute) && af_j_path(run, item, attribute, out)) return run->status;
    if (out->kind != J_STRING || case_sensitive) return 0;
    return af_j_change_case(run, out->string, J_LOWER, out);
}

static int keys_of(j_run *run, const j_list *items, const j_value *attribute, bool case_sensitive, j_list **out) {
    j_list *keys = *out = af_j_list_new(run, items->n);
    for (size_t i = 0; keys && i < items->n; i++) {
        j_value key;
        if (key_of(run, &items->items[i], attribute, case_sensitive, &key)) return run->status;
        af_j_list_push(run, keys, key);
    }
    return run->status;
}

static int item_keys(j_run *run, const j_value *item, const j_value *attribute, bool case_sensitive, j_list *keys) {
    const j_string *names = attribute->kind == J_STRING ? attribute->string : NULL;
    j_value key, name = *attribute;
    for (size_t from = 0; !names || from <= names->n;) {
        const char *comma = names ? memchr(names->p + from, ',', names->n - from) : NULL;
        size_t to = comma ? (size_t)(comma - names->p) : names ? names->n : 0;
        if (names && af_j_string_part(run, names, from, to, &name)) return run->status;
        if (key_of(run, item, &name, case_sensitive, &key) || af_j_list_push(run, keys, key)) return run->status;
        if (!names) break;
        from = to + 1;
    }
    return 0;
}

/* "a,b" sorts by a, then by b. Each item has a list of keys even where there is one, because equal parts of lists need
 * no order: so items that all lack the attribute can be sorted. */
static int many_keys_of(j_run *run, const j_list *items, const j_value *attribute, bool case_sensitive, j_list **out) {
    *out = af_j_list_new(run, items->n);
    for (size_t i = 0; *out && i < items->n && !run->status; i++) {
        j_list *keys = af_j_list_new(run, 1);
        if (!keys || item_keys(run, &items->items[i], attribute, case_sensitive, keys)) break;
        af_j_list_push(run, *out, af_j_of_list(J_LIST, keys));
    }
    return run->status;
}

static int filter_sort(j_run *run, const j_args *args, j_value *out) {
    const j_list *items;
    j_list *keys, *sorted = NULL;
    if (input(run, args, &items)) return run->status;
    if (many_keys_of(run, items, &args->bound[2], af_j_truth(&args->bound[1]), &keys)) return run->status;
    if (af_j_sort(run, keys, items, af_j_truth(&args->bound[0]), &sorted)) return run->status;
    return finish(run, sorted, J_LIST, out);
}

static int filter_unique(j_run *run, const j_args *args, j_value *out) {
    const j_list *items;
    j_list *keys, *kept = af_j_list_new(run, 0);
    j_dict *seen = af_j_dict_new(run, 0);
    if (!kept || !seen || input(run, args, &items)) return run->status;
    if (keys_of(run, items, &args->bound[1], af_j_truth(&args->bound[0]), &keys)) return run->status;
    for (size_t i = 0; i < items->n && !run->status; i++) {
        size_t before = seen->n;
        if (af_j_dict_set(run, seen, keys->items[i], af_j_none())) return run->status;
        if (seen->n > before) af_j_list_push(run, kept, items->items[i]);
    }
    return finish(run, kept, J_GENERATOR, out);
}

/* The least (sign -1) or greatest (1) item; the first of equals. */
static int extreme(j_run *run, const j_args *args, int sign, j_value *out) {
    const j_list *items;
    j_list *keys;
    if (input(run, args, &items)) return run->status;
    if (keys_of(run, items, &args->bound[1], af_j_truth(&args->bound[0]), &keys)) return run->status;
    size_t best = 0;
    for (size_t i = 1; i < items->n; i++) {
        int order;
        if (af_j_order(run, &keys->items[i], &keys->items[best], &order)) return run->status;
        if (order * sign > 0) best = i;
    }
    *out = items->n ? items->items[best] : af_j_undefined(NULL, J_LIST);
    return 0;
}

static int filter_min(j_run *run, const j_args *args, j_value *out) {
    return extreme(run, args, -1, out);
}

static int filter_max(j_run *run, const j_args *args, j_value *out) {
    return extreme(run, args, 1, out);
}

/* ---- Dicts ---- */

static int pairs_of(j_run *run, const j_value *dict, const char *what, const j_list **out) {
    if (dict->kind != J_DICT) return af_j_fail(run, "%s: found %s, expected dict", what, af_j_type_name(dict));
    j_args args = {.self = *dict};
    j_value items;
    if (af_j_call_function(run, af_j_find_function(af_j_dict_methods, "items", 5), &args, &items)) return run->status;
    *out = items.list;
    return 0;
}

static int filter_items(j_run *run, const j_args *args, j_value *out) {
    const j_list *pairs;
    if (args->self.kind == J_UNDEFINED) return finish(run, af_j_list_new(run, 0), J_GENERATOR, out);
    if (pairs_of(run, &args->self, "items", &pairs)) return run->status;
    return finish(run, (j_list *)pairs, J_GENERATOR, out);
}

static int filter_dictsort(j_run *run, const j_args *args, j_value *out) {
    const j_list *pairs;
    const j_value *by = &args->bound[1];
    bool by_value = by->kind == J_STRING && af_j_string_is(by->string, "value");
    if (af_j_given(by) && !by_value && !(by->kind == J_STRING && af_j_string_is(by->string, "key")))
        return af_j_fail(run, "dictsort: expected 'key' or 'value'");
    if (args->self.kind == J_UNDEFINED) return af_j_fail_undefined(run, &args->self);
    if (pairs_of(run, &args->self, "dictsort", &pairs)) return run->status;
    j_list *keys, *sorted = NULL;
    const j_value place = af_j_int(by_value);
    if (keys_of(run, pairs, &place, af_j_truth(&args->bound[0]), &keys)) return run->status;
    if (af_j_sort(run, keys, pairs, af_j_truth(&args->bound[2]), &sorted)) return run->status;
    return finish(run, sorted, J_LIST, out);
}

/* ---- Groups ---- */

static int push_group(j_run *run, j_list *groups, j_value key, const j_list *items, size_t from, size_t to) {
    j_list *members = af_j_list_new(run, to - from), *group = af_j_list_new(run, 2);
    if (!members || !group) return run->status;
    for (size_t i = from; i < to; i++) af_j_list_push(run, members, items->items[i]);
    af_j_list_push(run, group, key);
    af_j_list_push(run, group, af_j_of_list(J_LIST, members));
    j_value tuple = af_j_of_list(J_TUPLE, group);
    tuple.of = J_GROUP;
    return af_j_list_push(run, groups, tuple);
}

/* The attribute of an item, or the default where it has none. */
static int grouper(j_run *run, const j_value *item, const j_args *args, bool case_sensitive, j_value *out) {
    if (af_j_path(run, item, &args->bound[0], out)) return run->status;
    if (out->kind == J_UNDEFINED && given(&args->bound[1])) *out = args->bound[1];
    if (out->kind != J_STRING || case_sensitive) return 0;
    return af_j_change_case(run, out->string, J_LOWER, out);
}

static int filter_groupby(j_run *run, const j_args *args, j_value *out) {
    const j_list *items;
    bool case_sensitive = af_j_truth(&args->bound[2]);
    if (input(run, args, &items)) return run->status;
    j_list *keys = af_j_list_new(run, items->n), *groups = af_j_list_new(run, 0), *sorted, *sorted_keys;
    if (!keys || !groups) return run->status;
    for (size_t i = 0; i < items->n; i++) {
        j_value key;
        if (grouper(run, &items->items[i], args, case_sensitive, &key)) return run->status;
        af_j_list_push(run, keys, key);
    }
    if (af_j_sort(run, keys, items, false, &sorted) || af_j_sort(run, keys, keys, false, &sorted_keys))
        return run->status;
    for (size_t from = 0, to; from < sorted->n && !run->status; from = to) {
        for (to = from + 1; to < sorted->n; to++)
            if (!af_j_equal(run, &sorted_keys->items[from], &sorted_keys->items[to])) break;
        j_value key;
        if (grouper(run, &sorted->items[from], args, true, &key)) return run->status;
        push_group(run, groups, key, sorted, from, to);
    }
    return finish(run, groups, J_LIST, out);
}

/* ---- Choosing ---- */

static const j_value *nth(const j_args *args, size_t n) {
    static const j_value absent;
    return n < args->n ? &args->items[n] : &absent;
}

/* Arguments without the first n, for a test or filter named among them. */
static j_args without(const j_args *args, size_t n) {
    return (j_args){
        .items = args->items + n, .n = args->n - n, .keywords = args->keywords, .n_keywords = args->n_keywords};
}

/* select, reject (by_attribute false), selectattr, rejectattr: keeps items for which the test gives `wanted`. */
static int choose(j_run *run, const j_args *args, bool by_attribute, bool wanted, j_value *out) {
    j_list *kept = af_j_list_new(run, 0);
    if (!kept || !af_j_truth(&args->self)) return finish(run, kept, J_GENERATOR, out);
    size_t skip = by_attribute ? 1 : 0;
    if (args->n < skip) return af_j_fail(run, "the name of an attribute is missing");
    const j_value *name = nth(args, skip);
    const j_function *test = NULL;
    const j_string *text;
    if (af_j_given(name)) {
        if (af_j_need_string(run, name, "name of a test", &text)) return run->status;
        test = af_j_find_test(text->p, text->n);
        if (!test) return af_j_fail(run, "no test named '%.*s'", (int)(text->n < 60 ? text->n : 60), text->p);
    }
    const j_list *items;
    if (input(run, args, &items)) return run->status;
    for (size_t i = 0; i < items->n && !af_j_work(run, 1); i++) {
        j_value v = items->items[i];
        if (by_attribute && af_j_path(run, &v, nth(args, 0), &v)) return run->status;
        if (test) {
            j_args own = without(args, skip + 1);
            own.self = v;
            if (af_j_call_function(run, test, &own, &v)) return run->status;
        }
        if (af_j_truth(&v) == wanted) af_j_list_push(run, kept, items->items[i]);
    }
    return finish(run, kept, J_GENERATOR, out);
}

static int filter_select(j_run *run, const j_args *args, j_value *out) {
    return choose(run, args, false, true, out);
}

static int filter_reject(j_run *run, const j_args *args, j_value *out) {
    return choose(run, args, false, false, out);
}

static int filter_selectattr(j_run *run, const j_args *args, j_value *out) {
    return choose(run, args, true, true, out);
}

static int filter_rejectattr(j_run *run, const j_args *args, j_value *out) {
    return choose(run, args, true, false, out);
}

static j_value keyword(const j_args *args, const char *name) {
    for (size_t i = 0; i < args->n_keywords; i++)
        if (af_j_string_is(args->keywords[i].name, name)) return args->keywords[i].value;
    return (j_value){.kind = J_ABSENT};
}

/* map('upper') or map(attribute='name', default=...) */
static int filter_map(j_run *run, const j_args *args, j_value *out) {
    j_list *mapped = af_j_list_new(run, 0);
    if (!mapped || !af_j_truth(&args->self)) return finish(run, mapped, J_GENERATOR, out);
    const j_value attribute = keyword(args, "attribute"), otherwise = keyword(args, "default");
    const j_function *filter = NULL;
    const j_string *text;
    if (args->n > 0) {
        if (af_j_need_string(run, nth(args, 0), "name of a filter", &text)) return run->status;
        filter = af_j_find_filter(text->p, text->n);
        if (!filter) return af_j_fail(run, "no filter named '%.*s'", (int)(text->n < 60 ? text->n : 60), text->p);
    } else if (!af_j_given(&attribute)) {
        return af_j_fail(run, "map: expected the name of a filter or attribute=");
    }
    const j_list *items;
    if (input(run, args, &items)) return run->status;
    for (size_t i = 0; i < items->n && !af_j_work(run, 1); i++) {
        j_value v = items->items[i];
        if (filter) {
            j_args own = without(args, 1);
            own.self = v;
            if (af_j_call_function(run, filter, &own, &v)) return run->status;
        } else if (af_j_path(run, &v, &attribute, &v)) {
            return run->status;
        } else if (v.kind == J_UNDEFINED && given(&otherwise)) {
            v = otherwise;
        }
        af_j_list_push(run, mapped, v);
    }
    return finish(run, mapped, J_GENERATOR, out);
}

/* ---- Order and parts ---- */

static int filter_list(j_run *run, const j_args *args, j_value *out) {
    const j_list *items;
    if (input(run, args, &items)) return run->status;
    return finish(run, (j_list *)items, J_LIST, out);
}

/* A string's first or last character, without a list of them all. */
static int string_end(j_run *run, const j_args *args, int64_t index, j_value *out) {
    const j_value at = af_j_int(index);
    if (args->self.string->n) return af_j_item(run, &args->self, &at, out);
    *out = af_j_undefined(NULL, J_LIST);
    return 0;
}

static int filter_first(j_run *run, const j_args *args, j_value *out) {
    const j_list *items;
    if (args->self.kind == J_STRING) return string_end(run, args, 0, out);
    if (input(run, args, &items)) return run->status;
    *out = items->n ? items->items[0] : af_j_undefined(NULL, J_LIST);
    return 0;
}

static int filter_last(j_run *run, const j_args *args, j_value *out) {
    const j_list *items;
    if (args->self.kind == J_STRING) return string_end(run, args, -1, out);
    if (args->self.kind == J_GENERATOR) return af_j_fail(run, "last: a generator cannot be read from its end");
    if (input(run, args, &items)) return run->status;
    *out = items->n ? items->items[items->n - 1] : af_j_undefined(NULL, J_LIST);
    return 0;
}

static int filter_reverse(j_run *run, const j_args *args, j_value *out) {
    if (args->self.kind == J_STRING) {
        const j_value none = af_j_none(), back = af_j_int(-1);
        return af_j_slice(run, &args->self, &none, &none, &back, out);
    }
    const j_list *items;
    if (input(run, args, &items)) return run->status;
    j_list *reversed = af_j_list_new(run, items->n);
    for (size_t i = items->n; reversed && i-- > 0;) af_j_list_push(run, reversed, items->items[i]);
    return finish(run, reversed, J_GENERATOR, out);
}

static int filter_sum(j_run *run, const j_args *args, j_value *out) {
    const j_list *items;
    if (input(run, args, &items)) return run->status;
    *out = given(&args->bound[1]) ? args->bound[1] : af_j_int(0);
    if (out->kind == J_STRING) return af_j_fail(run, "sum: strings are joined with join");
    for (size_t i = 0; i < items->n && !af_j_work(run, 1); i++) {
        j_value v = items->items[i];
        if (given(&args->bound[0]) && af_j_path(run, &v, &args->bound[0], &v)) return run->status;
        if (af_j_binary(run, O_ADD, out, &v, out)) return run->status;
    }
    return run->status;
}

static int push_slice(j_run *run, j_list *rows, const j_list *items, size_t from, size_t to, const j_value *fill,
                      size_t fills) {
    j_list *row = af_j_list_new(run, 0);
    if (!row) return run->status;
    for (size_t i = from; i < to; i++) af_j_list_push(run, row, items->items[i]);
    while (fills-- > 0 && !run->status) af_j_list_push(run, row, *fill);
    return run->status ? run->status : af_j_list_push(run, rows, af_j_of_list(J_LIST, row));
}

/* Rows of `linecount` items. */
static int filter_batch(j_run *run, const j_args *args, j_value *out) {
    const j_list *items;
    int64_t width;
    j_list *rows = af_j_list_new(run, 0);
    if (!rows || input(run, args, &items) || af_j_need_int(run, &args->bound[0], "batch", &width)) return run->status;
    if (width < 1) return af_j_fail(run, "batch: found %lld, expected at least 1", (long long)width);
    for (size_t from = 0; from < items->n && !run->status; from += (size_t)width) {
        size_t rest = items->n - from, n = (int64_t)rest < width ? rest : (size_t)width;
        push_slice(run, rows, items, from, from + n, &args->bound[1], given(&args->bound[1]) ? (size_t)width - n : 0);
    }
    return finish(run, rows, J_GENERATOR, out);
}

/* `slices` columns of nearly the same length. */
static int filter_slice(j_run *run, const j_args *args, j_value *out) {
    const j_list *items;
    int64_t slices;
    j_list *rows = af_j_list_new(run, 0);
    if (!rows || input(run, args, &items) || af_j_need_int(run, &args->bound[0], "slice", &slices)) return run->status;
    if (slices < 1 || slices > 100000)
        return af_j_fail(run, "slice: found %lld, expected 1 to 100000", (long long)slices);
    size_t each = items->n / (size_t)slices, longer = items->n % (size_t)slices, from = 0;
    for (size_t i = 0; i < (size_t)slices && !run->status; i++) {
        size_t to = from + each + (i < longer ? 1 : 0);
        push_slice(run, rows, items, from, to, &args->bound[1], given(&args->bound[1]) && i >= longer ? 1 : 0);
        from = to;
    }
    return finish(run, rows, J_GENERATOR, out);
}

const j_function af_j_filters_list[] = {
    {"list", "", filter_list},
    {"items", "", filter_items},
    {"dictsort", "case_sensitive? by? reverse?", filter_dictsort},
    {"first", "", filter_first},
    {"last", "", filter_last},
    {"map", NULL, filter_map},
    {"select", NULL, filter_select},
    {"reject", NULL, filter_reject},
    {"selectattr", NULL, filter_selectattr},
    {"rejectattr", NULL, filter_rejectattr},
    {"sort", "reverse? case_sensitive? attribute?", filter_sort},
    {"unique", "case_sensitive? attribute?", filter_unique},
    {"min", "case_sensitive? attribute?", filter_min},
    {"max", "case_sensitive? attribute?", filter_max},
    {"sum", "attribute? start?", filter_sum},
    {"reverse", "", filter_reverse},
    {"groupby", "attribute default? case_sensitive?", filter_groupby},
    {"batch", "linecount fill_with?", filter_batch},
    {"slice", "slices fill_with?", filter_slice},
    {0},
};

/* jinja_methods.c - the methods of dicts, lists and tuples. Those that would change them are named and refused. */
#include "text/jinja_value.h"

typedef enum view { VIEW_KEYS, VIEW_VALUES, VIEW_ITEMS } view;

static int pair_tuple(j_run *run, const j_pair *pair, j_value *out) {
    j_list *two = af_j_list_new(run, 2);
    if (!two) return run->status;
    two->items[0] = pair->key;
    two->items[1] = pair->value;
    two->n = 2;
    *out = af_j_of_list(J_TUPLE, two);
    return 0;
}

static int make_view(j_run *run, const j_args *args, view which, j_value *out) {
    const j_dict *dict = args->self.dict;
    j_list *list = af_j_list_new(run, dict->n);
    if (!list) return run->status;
    for (size_t i = 0; i < dict->n; i++) {
        const j_pair *pair = &dict->pairs[i];
        j_value v = which == VIEW_KEYS ? pair->key : pair->value;
        if (which == VIEW_ITEMS && pair_tuple(run, pair, &v)) return run->status;
        if (af_j_list_push(run, list, v)) return run->status;
    }
    *out = af_j_of_list(J_VIEW, list);
    out->of = (uint8_t)which;
    return 0;
}

static int dict_keys(j_run *run, const j_args *args, j_value *out) {
    return make_view(run, args, VIEW_KEYS, out);
}

static int dict_values(j_run *run, const j_args *args, j_value *out) {
    return make_view(run, args, VIEW_VALUES, out);
}

static int dict_items(j_run *run, const j_args *args, j_value *out) {
    return make_view(run, args, VIEW_ITEMS, out);
}

static int dict_get(j_run *run, const j_args *args, j_value *out) {
    bool found;
    *out = af_j_given(&args->bound[1]) ? args->bound[1] : af_j_none();
    if (args->bound[0].kind == J_UNDEFINED) return 0;
    return af_j_dict_get(run, args->self.dict, &args->bound[0], out, &found);
}

/* Nothing can change either of the two. */
static int same_again(j_run *run, const j_args *args, j_value *out) {
    *out = args->self;
    return run->status;
}

const j_function af_j_dict_methods[] = {
    {"get", "key default?", dict_get},
    {"items", "", dict_items},
    {"keys", "", dict_keys},
    {"values", "", dict_values},
    {"copy", "", same_again},
    {"clear", NULL, NULL},
    {"pop", NULL, NULL},
    {"popitem", NULL, NULL},
    {"setdefault", NULL, NULL},
    {"update", NULL, NULL},
    {0},
};

static int list_index(j_run *run, const j_args *args, j_value *out) {
    const j_list *list;
    if (af_j_to_list(run, &args->self, &list)) return run->status;
    for (size_t i = 0; i < list->n && !af_j_work(run, 1); i++) {
        if (!af_j_equal(run, &list->items[i], &args->bound[0])) continue;
        *out = af_j_int((int64_t)i);
        return 0;
    }
    return af_j_fail(run, "index: the value is not in the list");
}

static int list_count(j_run *run, const j_args *args, j_value *out) {
    const j_list *list;
    int64_t n = 0;
    if (af_j_to_list(run, &args->self, &list)) return run->status;
    for (size_t i = 0; i < list->n && !af_j_work(run, 1); i++) n += af_j_equal(run, &list->items[i], &args->bound[0]);
    *out = af_j_int(n);
    return run->status;
}

const j_function af_j_list_methods[] = {
    {"index", "value", list_index}, {"count", "value", list_count}, {"copy", "", same_again}, {"append", NULL, NULL},
    {"clear", NULL, NULL},          {"extend", NULL, NULL},         {"insert", NULL, NULL},   {"pop", NULL, NULL},
    {"remove", NULL, NULL},         {"reverse", NULL, NULL},        {"sort", NULL, NULL},     {0},
};

const j_function af_j_tuple_methods[] = {{"index", "value", list_index}, {"count", "value", list_count}, {0}};

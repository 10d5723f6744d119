/* jinja_compare.c - equality, order, membership and sorting, as Python has them. */
#include "text/jinja_value.h"

#include <math.h>
#include <string.h>

static bool equal_lists(j_run *run, const j_list *a, const j_list *b) {
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++)
        if (!af_j_equal(run, &a->items[i], &b->items[i])) return false;
    return true;
}

static bool equal_dicts(j_run *run, const j_dict *a, j_dict *b) {
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++) {
        j_value other;
        bool found = false;
        if (af_j_dict_get(run, b, &a->pairs[i].key, &other, &found) || !found) return false;
        if (!af_j_equal(run, &a->pairs[i].value, &other)) return false;
    }
    return true;
}

static bool equal_nested(j_run *run, const j_value *a, const j_value *b) {
    if (af_j_enter(run) || af_j_work(run, 1)) return false;
    bool equal = a->kind == J_DICT ? equal_dicts(run, a->dict, b->dict) : equal_lists(run, a->list, b->list);
    run->depth--;
    return equal;
}

static bool equal_ranges(const j_range *a, const j_range *b) {
    if (a->n != b->n || a->n == 0) return a->n == b->n;
    return a->start == b->start && (a->n == 1 || a->step == b->step);
}

bool af_j_equal(j_run *run, const j_value *a, const j_value *b) {
    if (af_j_work(run, 1)) return false;
    if (af_j_is_number(a) && af_j_is_number(b)) {
        if (a->kind == J_INT && b->kind == J_INT) return a->integer == b->integer;
        return af_j_as_float(a) == af_j_as_float(b);
    }
    if (a->kind != b->kind) return false;
    switch (a->kind) {
    case J_ABSENT:
    case J_UNDEFINED:
    case J_NONE:
        return true;
    case J_STRING:
        if (a->string->n > 64) af_j_work(run, a->string->n / 64);
        return af_j_string_equal(a->string, b->string);
    case J_LIST:
    case J_TUPLE:
    case J_VIEW:
    case J_DICT:
        return equal_nested(run, a, b);
    case J_RANGE:
        return equal_ranges(a->range, b->range);
    default:
        return a->string == b->string; /* the same thing: any pointer of the union */
    }
}

static int order_bytes(j_run *run, const j_string *a, const j_string *b) {
    const size_t shared = a->n < b->n ? a->n : b->n;
    int order = memcmp(a->p, b->p, shared);
    af_j_work(run, shared / 64);
    return order ? order : (a->n > b->n) - (a->n < b->n);
}

/* The first items that differ decide, else the lengths. */
static int order_lists(j_run *run, const j_list *a, const j_list *b, int *out) {
    for (size_t i = 0; i < a->n && i < b->n; i++) {
        if (af_j_equal(run, &a->items[i], &b->items[i])) continue;
        return run->status ? run->status : af_j_order(run, &a->items[i], &b->items[i], out);
    }
    *out = (a->n > b->n) - (a->n < b->n);
    return run->status;
}

int af_j_order(j_run *run, const j_value *a, const j_value *b, int *out) {
    if (af_j_work(run, 1)) return run->status;
    if (a->kind == J_INT && b->kind == J_INT) {
        *out = (a->integer > b->integer) - (a->integer < b->integer);
        return 0;
    }
    if (af_j_is_number(a) && af_j_is_number(b)) {
        double x = af_j_as_float(a), y = af_j_as_float(b);
        *out = (x > y) - (x < y);
        return 0;
    }
    if (a->kind == J_STRING && b->kind == J_STRING) {
        *out = order_bytes(run, a->string, b->string);
        return run->status;
    }
    if (af_j_is_sequence(a) && a->kind == b->kind) {
        if (af_j_enter(run)) return run->status;
        int status = order_lists(run, a->list, b->list, out);
        run->depth--;
        return status;
    }
    if (a->kind == J_UNDEFINED) return af_j_fail_undefined(run, a);
    if (b->kind == J_UNDEFINED) return af_j_fail_undefined(run, b);
    return af_j_fail(run, "values of types %s and %s have no order", af_j_type_name(a), af_j_type_name(b));
}

static bool range_contains(const j_range *range, const j_value *item) {
    int64_t at;
    if (!af_j_is_number(item) || range->n == 0) return false;
    if (item->kind == J_FLOAT) {
        if (!(fabs(item->real) < 0x1p63) || item->real != floor(item->real)) return false;
        at = (int64_t)item->real;
    } else {
        at = item->kind == J_INT ? item->integer : item->boolean;
    }
    if (range->step > 0 ? at < range->start : at > range->start) return false;
    const uint64_t distance = af_j_distance(range->start, at, range->step), stride = af_j_stride(range->step);
    return distance % stride == 0 && distance / stride < range->n;
}

int af_j_contains(j_run *run, const j_value *container, const j_value *item, bool *out) {
    *out = false;
    if (container->kind == J_STRING) {
        const j_string *part;
        if (item->kind == J_UNDEFINED) return af_j_fail(run, "'in' a string: found undefined, expected string");
        if (af_j_need_string(run, item, "'in' a string", &part)) return run->status;
        *out = af_j_find(run, container->string, part, 0, container->string->n) != SIZE_MAX;
        return run->status;
    }
    if (container->kind == J_DICT) {
        j_value ignored;
        return af_j_dict_get(run, container->dict, item, &ignored, out);
    }
    if (container->kind == J_RANGE) {
        *out = range_contains(container->range, item);
        return 0;
    }
    const j_list *list;
    int status = af_j_to_list(run, container, &list);
    for (size_t i = 0; !status && !*out && i < list->n; i++) {
        *out = af_j_equal(run, &list->items[i], item);
        status = af_j_work(run, 1);
    }
    return status;
}

/* ---- Sorting: a merge sort of places, stable also in reverse, as Python's is ---- */

typedef struct sorter {
    j_run *run;
    const j_value *keys;
    size_t *places, *spare;
    bool reverse;
} sorter;

static int merge(sorter *s, size_t from, size_t middle, size_t to) {
    size_t left = from, right = middle;
    for (size_t at = from; at < to; at++) {
        int order = 0;
        if (left < middle && right < to &&
            af_j_order(s->run, &s->keys[s->places[left]], &s->keys[s->places[right]], &order))
            return s->run->status;
        bool take_left = right == to || (left < middle && (s->reverse ? order >= 0 : order <= 0));
        s->spare[at] = s->places[take_left ? left++ : right++];
    }
    memcpy(s->places + from, s->spare + from, (to - from) * sizeof *s->places);
    return 0;
}

/* As deep as the logarithm of the length. */
static int sort_range(sorter *s, size_t from, size_t to) {
    if (to - from < 2) return 0;
    size_t middle = from + (to - from) / 2;
    int status = sort_range(s, from, middle);
    if (!status) status = sort_range(s, middle, to);
    return status ? status : merge(s, from, middle, to);
}

int af_j_sort(j_run *run, const j_list *keys, const j_list *values, bool reverse, j_list **out) {
    size_t n = keys->n;
    sorter s = {.run = run, .keys = keys->items, .reverse = reverse};
    s.places = af_j_alloc(run, n * sizeof *s.places);
    s.spare = af_j_alloc(run, n * sizeof *s.spare);
    *out = af_j_list_new(run, n);
    if (!s.places || !s.spare || !*out) return run->status;
    for (size_t i = 0; i < n; i++) s.places[i] = i;
    if (sort_range(&s, 0, n)) return run->status;
    for (size_t i = 0; i < n; i++) (*out)->items[i] = values->items[s.places[i]];
    (*out)->n = n;
    return 0;
}

/* jinja_dict.c - ordered dicts, and values from JSON.
 *
 * Pairs lie in order of insertion. Few pairs are searched one by one; from INDEX_FROM on a hash index (open addressing)
 * is kept. As in Python 1, 1.0 and True are one key.
 */
#include "base/map.h"
#include "text/jinja_value.h"

#include <math.h>
#include <string.h>

enum { INDEX_FROM = 9, MAX_JSON_DEPTH = 200 };

static bool all_hashable(j_run *run, const j_list *list);

/* Asked before each look-up, so the place to count what hashing a long key costs. */
static bool hashable(j_run *run, const j_value *v) {
    if (v->kind == J_STRING && af_j_work(run, v->string->n / 64)) return false;
    if (v->kind == J_TUPLE) return all_hashable(run, v->list);
    return v->kind == J_STRING || v->kind == J_NONE || v->kind == J_UNDEFINED || af_j_is_number(v);
}

static bool all_hashable(j_run *run, const j_list *list) {
    if (af_j_enter(run)) return false;
    bool all = true;
    for (size_t i = 0; all && i < list->n; i++) all = hashable(run, &list->items[i]);
    run->depth--;
    return all;
}

/* Only for what is hashable, and so not nested too deeply. */
static uint64_t hash_value(const j_value *v) {
    if (v->kind == J_STRING) return af_hash(v->string->p, v->string->n);
    if (v->kind == J_NONE || v->kind == J_UNDEFINED) return v->kind;
    if (v->kind == J_TUPLE) {
        uint64_t hash = 2;
        for (size_t i = 0; i < v->list->n; i++) hash = hash * 1000003 + hash_value(&v->list->items[i]);
        return hash;
    }
    double d = af_j_as_float(v);
    if (d == 0) d = 0; /* one zero */
    return af_hash(&d, sizeof d);
}

/* Where the key is or would be: the slot of a free or an equal entry. */
static size_t find_slot(j_run *run, const j_dict *dict, const j_value *key) {
    size_t slot = hash_value(key) & (dict->slots - 1);
    while (dict->index[slot] && !af_j_equal(run, &dict->pairs[dict->index[slot] - 1].key, key))
        slot = (slot + 1) & (dict->slots - 1);
    return slot;
}

static int build_index(j_run *run, j_dict *dict, size_t slots) {
    uint32_t *index = af_j_alloc(run, slots * sizeof *index);
    if (!index) return run->status;
    memset(index, 0, slots * sizeof *index);
    dict->index = index;
    dict->slots = slots;
    for (size_t i = 0; i < dict->n; i++) index[find_slot(run, dict, &dict->pairs[i].key)] = (uint32_t)i + 1;
    return 0;
}

/* The place of a key's pair plus one, 0 if it is not there. */
static size_t find_pair(j_run *run, j_dict *dict, const j_value *key) {
    if (dict->n >= INDEX_FROM && !dict->index && build_index(run, dict, 32)) return 0;
    if (dict->index && dict->slots < dict->n * 2) {
        size_t slots = dict->slots;
        while (slots < dict->n * 4) slots *= 2;
        if (build_index(run, dict, slots)) return 0;
    }
    if (dict->index) return dict->index[find_slot(run, dict, key)];
    for (size_t i = 0; i < dict->n; i++)
        if (af_j_equal(run, &dict->pairs[i].key, key)) return i + 1;
    return 0;
}

j_dict *af_j_dict_new(j_run *run, size_t cap) {
    j_dict *dict = af_j_alloc(run, sizeof *dict);
    if (!dict) return NULL;
    *dict = (j_dict){.cap = cap};
    if (cap && !(dict->pairs = af_j_alloc(run, cap * sizeof *dict->pairs))) return NULL;
    return dict;
}

static int push_pair(j_run *run, j_dict *dict, j_value key, j_value value) {
    if (dict->n == dict->cap) {
        size_t cap = dict->cap ? dict->cap * 2 : 4;
        j_pair *pairs = af_j_alloc(run, cap * sizeof *pairs);
        if (!pairs) return run->status;
        if (dict->n) memcpy(pairs, dict->pairs, dict->n * sizeof *pairs);
        dict->pairs = pairs;
        dict->cap = cap;
    }
    dict->pairs[dict->n++] = (j_pair){key, value};
    return af_j_work(run, 1);
}

int af_j_dict_set(j_run *run, j_dict *dict, j_value key, j_value value) {
    if (!hashable(run, &key)) return af_j_fail(run, "a value of type %s cannot be a key", af_j_type_name(&key));
    size_t place = find_pair(run, dict, &key);
    if (run->status) return run->status;
    if (place) {
        dict->pairs[place - 1].value = value;
        return 0;
    }
    int status = push_pair(run, dict, key, value);
    if (!status && dict->index && dict->slots >= dict->n * 2)
        dict->index[find_slot(run, dict, &key)] = (uint32_t)dict->n;
    return status;
}

int af_j_dict_get(j_run *run, j_dict *dict, const j_value *key, j_value *out, bool *found) {
    if (!hashable(run, key)) return af_j_fail(run, "a value of type %s cannot be a key", af_j_type_name(key));
    size_t place = find_pair(run, dict, key);
    *found = place > 0;
    if (place) *out = dict->pairs[place - 1].value;
    return run->status;
}

bool af_j_dict_get_string(j_run *run, j_dict *dict, const j_string *key, j_value *out) {
    j_value name = af_j_of_string(key);
    bool found = false;
    return af_j_dict_get(run, dict, &name, out, &found) == 0 && found;
}

/* ---- JSON ---- */

static int from_json(j_run *run, const json_t *json, uint8_t origin, unsigned depth, j_value *out);

static int from_array(j_run *run, const json_t *json, uint8_t origin, unsigned depth, j_value *out) {
    size_t n = json_array_size(json);
    j_list *list = af_j_list_new(run, n);
    if (!list) return run->status;
    for (size_t i = 0; i < n; i++) {
        j_value item;
        if (from_json(run, json_array_get(json, i), origin, depth, &item)) return run->status;
        if (af_j_list_push(run, list, item)) return run->status;
    }
    *out = af_j_of_list(J_LIST, list);
    return 0;
}

/* Keys are unique already: no look-up. */
static int from_object(j_run *run, const json_t *json, uint8_t origin, unsigned depth, j_value *out) {
    j_dict *dict = af_j_dict_new(run, json_object_size(json));
    if (!dict) return run->status;
    const char *name;
    json_t *item;
    json_object_foreach((json_t *)json, name, item) {
        j_value key, value;
        if (af_j_string(run, name, strlen(name), origin, &key)) return run->status;
        if (from_json(run, item, origin, depth, &value)) return run->status;
        if (push_pair(run, dict, key, value)) return run->status;
    }
    *out = af_j_of_dict(dict);
    return 0;
}

static int from_json(j_run *run, const json_t *json, uint8_t origin, unsigned depth, j_value *out) {
    if (depth > MAX_JSON_DEPTH) return af_j_fail(run, "the request is nested more than %d deep", MAX_JSON_DEPTH);
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        return from_object(run, json, origin, depth + 1, out);
    case JSON_ARRAY:
        return from_array(run, json, origin, depth + 1, out);
    case JSON_STRING:
        return af_j_string(run, json_string_value(json), json_string_length(json), origin, out);
    case JSON_INTEGER:
        *out = af_j_int(json_integer_value(json));
        break;
    case JSON_REAL:
        *out = af_j_float(json_real_value(json));
        break;
    case JSON_TRUE:
        *out = af_j_bool(true);
        break;
    case JSON_FALSE:
        *out = af_j_bool(false);
        break;
    default:
        *out = af_j_none();
        break;
    }
    out->origin = origin;
    return 0;
}

int af_j_from_json(j_run *run, const json_t *json, uint8_t origin, j_value *out) {
    return from_json(run, json, origin, 0, out);
}

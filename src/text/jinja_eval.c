/* jinja_eval.c - expressions: a table maps each kind of node to the function that computes it.
 *
 * The C stack grows with the nesting of the template's expressions and macros, so every evaluation counts its depth and
 * the work it does (af_j_enter, af_j_work).
 */
#include "text/jinja_ast.h"

#include <assert.h>

typedef int (*evaluate)(j_run *run, j_scope *scope, const j_node *node, j_value *out);

static int eval_const(j_run *run, j_scope *scope, const j_node *node, j_value *out) {
    (void)run, (void)scope;
    *out = node->value;
    return 0;
}

static int eval_name(j_run *run, j_scope *scope, const j_node *node, j_value *out) {
    if (af_j_scope_get(run, scope, node->name, out)) return 0;
    if (node->function)
        *out = (j_value){.kind = J_FUNCTION, .function = node->function};
    else
        *out = af_j_undefined(node->name, J_PLAIN);
    return 0;
}

/* ---- Containers ---- */

static int eval_list(j_run *run, j_scope *scope, const j_node *node, j_value *out) {
    j_list *list = af_j_list_new(run, node->n);
    if (!list) return run->status;
    for (size_t i = 0; i < node->n; i++) {
        j_value item;
        if (af_j_eval(run, scope, node->items[i], &item)) return run->status;
        list->items[list->n++] = item;
    }
    *out = af_j_of_list(node->kind == N_LIST ? J_LIST : J_TUPLE, list);
    return 0;
}

static int eval_dict(j_run *run, j_scope *scope, const j_node *node, j_value *out) {
    j_dict *dict = af_j_dict_new(run, node->n / 2);
    if (!dict) return run->status;
    for (size_t i = 0; i < node->n; i += 2) {
        j_value key, value;
        if (af_j_eval(run, scope, node->items[i], &key)) return run->status;
        if (af_j_eval(run, scope, node->items[i + 1], &value)) return run->status;
        if (af_j_dict_set(run, dict, key, value)) return run->status;
    }
    *out = af_j_of_dict(dict);
    return 0;
}

/* ---- Parts of values ---- */

static int eval_attribute(j_run *run, j_scope *scope, const j_node *node, j_value *out) {
    j_value owner;
    if (af_j_eval(run, scope, node->a, &owner)) return run->status;
    run->at = node;
    return af_j_attribute(run, &owner, node->name, out);
}

static int eval_item(j_run *run, j_scope *scope, const j_node *node, j_value *out) {
    j_value owner, key;
    if (af_j_eval(run, scope, node->a, &owner) || af_j_eval(run, scope, node->b, &key)) return run->status;
    run->at = node;
    return af_j_item(run, &owner, &key, out);
}

static int eval_slice(j_run *run, j_scope *scope, const j_node *node, j_value *out) {
    j_value owner, parts[3] = {{0}, {0}, {0}};
    if (af_j_eval(run, scope, node->a, &owner)) return run->status;
    for (size_t i = 0; i < 3; i++)
        if (node->items[i] && af_j_eval(run, scope, node->items[i], &parts[i])) return run->status;
    run->at = node;
    return af_j_slice(run, &owner, &parts[0], &parts[1], &parts[2], out);
}

/* ---- Calls ---- */

static int spread_items(j_run *run, j_scope *scope, const j_call_args *from, j_list *items) {
    j_value spread;
    const j_list *list;
    if (!from->spread) return 0;
    if (af_j_eval(run, scope, from->spread, &spread) || af_j_to_list(run, &spread, &list)) return run->status;
    for (size_t i = 0; i < list->n; i++)
        if (af_j_list_push(run, items, list->items[i])) break;
    return run->status;
}

static int spread_keywords(j_run *run, const j_value *spread, j_keyword *keywords, size_t *n) {
    for (size_t i = 0; i < spread->dict->n; i++) {
        const j_pair *pair = &spread->dict->pairs[i];
        if (af_j_need_string(run, &pair->key, "argument name", &keywords[*n].name)) return run->status;
        keywords[(*n)++].value = pair->value;
    }
    return 0;
}

static int eval_keywords(j_run *run, j_scope *scope, const j_call_args *from, const j_value *caller, j_args *args) {
    j_value spread = {0};
    if (from->keyword_spread && af_j_eval(run, scope, from->keyword_spread, &spread)) return run->status;
    if (from->keyword_spread && spread.kind != J_DICT)
        return af_j_fail(run, "'**': found %s, expected dict", af_j_type_name(&spread));
    size_t room = from->n_keywords + 1 + (spread.kind == J_DICT ? spread.dict->n : 0), n = 0;
    j_keyword *keywords = af_j_alloc(run, room * sizeof *keywords);
    if (!keywords) return run->status;
    for (; n < from->n_keywords; n++) {
        keywords[n].name = from->names[n];
        if (af_j_eval(run, scope, from->values[n], &keywords[n].value)) return run->status;
    }
    if (caller) keywords[n++] = (j_keyword){run->jinja->caller, *caller};
    if (spread.kind == J_DICT && spread_keywords(run, &spread, keywords, &n)) return run->status;
    args->keywords = keywords;
    args->n_keywords = n;
    return 0;
}

static int eval_arguments(j_run *run, j_scope *scope, const j_call_args *from, const j_value *caller, j_args *args) {
    if (from->n || from->spread) {
        j_list *items = af_j_list_new(run, from->n);
        if (!items) return run->status;
        for (size_t i = 0; i < from->n; i++) {
            j_value item;
            if (af_j_eval(run, scope, from->items[i], &item)) return run->status;
            items->items[items->n++] = item;
        }
        if (spread_items(run, scope, from, items)) return run->status;
        args->items = items->items;
        args->n = items->n;
    }
    if (!from->n_keywords && !from->keyword_spread && !caller) return 0;
    return eval_keywords(run, scope, from, caller, args);
}

int af_j_eval_call(j_run *run, j_scope *scope, const j_node *node, const j_value *caller, j_value *out) {
    j_value callee;
    j_args args = {0};
    if (af_j_eval(run, scope, node->a, &callee)) return run->status;
    if (eval_arguments(run, scope, node->arguments, caller, &args)) return run->status;
    run->at = node;
    return af_j_call(run, &callee, &args, out);
}

static int eval_call(j_run *run, j_scope *scope, const j_node *node, j_value *out) {
    return af_j_eval_call(run, scope, node, NULL, out);
}

/* ---- Filters and tests ---- */

static int apply(j_run *run, j_scope *scope, const j_node *node, const j_value *input, j_value *out) {
    run->at = node;
    if (!node->function)
        return af_j_fail(run, "no %s named '%.*s'", node->kind == N_FILTER ? "filter" : "test", (int)node->name->n,
                         node->name->p);
    j_args args = {.self = *input};
    if (eval_arguments(run, scope, node->arguments, NULL, &args)) return run->status;
    run->at = node;
    return af_j_call_function(run, node->function, &args, out);
}

static int eval_applied(j_run *run, j_scope *scope, const j_node *node, j_value *out) {
    j_value input;
    if (af_j_eval(run, scope, node->a, &input)) return run->status;
    return apply(run, scope, node, &input, out);
}

int af_j_eval_filters(j_run *run, j_scope *scope, const j_node *chain, const j_value *input, j_value *out) {
    if (!chain) {
        *out = *input;
        return 0;
    }
    if (af_j_enter(run)) return run->status;
    j_value inner;
    int status = af_j_eval_filters(run, scope, chain->a, input, &inner);
    if (!status) status = apply(run, scope, chain, &inner, out);
    run->depth--;
    return status;
}

/* ---- Operators ---- */

static int eval_not(j_run *run, j_scope *scope, const j_node *node, j_value *out) {
    j_value v;
    if (af_j_eval(run, scope, node->a, &v)) return run->status;
    *out = af_j_bool(!af_j_truth(&v));
    return 0;
}

static int eval_sign(j_run *run, j_scope *scope, const j_node *node, j_value *out) {
    j_value v, negative;
    if (af_j_eval(run, scope, node->a, &v)) return run->status;
    run->at = node;
    if (af_j_negate(run, &v, &negative)) return run->status;
    return node->kind == N_NEG ? (*out = negative, 0) : af_j_negate(run, &negative, out);
}

static int eval_binary(j_run *run, j_scope *scope, const j_node *node, j_value *out) {
    j_value a, b;
    if (af_j_eval(run, scope, node->a, &a) || af_j_eval(run, scope, node->b, &b)) return run->status;
    run->at = node;
    return af_j_binary(run, node->op, &a, &b, out);
}

/* `and` and `or` give the operand that decided. */
static int eval_logic(j_run *run, j_scope *scope, const j_node *node, j_value *out) {
    if (af_j_eval(run, scope, node->a, out)) return run->status;
    if (af_j_truth(out) == (node->kind == N_OR)) return 0;
    return af_j_eval(run, scope, node->b, out);
}

static int compare(j_run *run, int op, const j_value *a, const j_value *b, bool *out) {
    int order = 0, status = 0;
    switch (op) {
    case O_EQ:
        *out = af_j_equal(run, a, b);
        return run->status;
    case O_NE:
        *out = !af_j_equal(run, a, b);
        return run->status;
    case O_IN:
        return af_j_contains(run, b, a, out);
    case O_NOT_IN:
        status = af_j_contains(run, b, a, out);
        *out = !*out;
        return status;
    default:
        break;
    }
    status = af_j_order(run, a, b, &order);
    bool unordered = a->kind == J_FLOAT && a->real != a->real;
    unordered |= b->kind == J_FLOAT && b->real != b->real;
    *out = !unordered && (op == O_LT ? order < 0 : op == O_LE ? order <= 0 : op == O_GT ? order > 0 : order >= 0);
    return status;
}

static int eval_compare(j_run *run, j_scope *scope, const j_node *node, j_value *out) {
    j_value left, right;
    if (af_j_eval(run, scope, node->a, &left)) return run->status;
    bool holds = true;
    for (size_t i = 0; holds && i < node->n; i++) {
        if (af_j_eval(run, scope, node->items[i], &right)) return run->status;
        run->at = node;
        if (compare(run, node->ops[i], &left, &right, &holds)) return run->status;
        left = right;
    }
    *out = af_j_bool(holds);
    return 0;
}

static int eval_concat(j_run *run, j_scope *scope, const j_node *node, j_value *out) {
    j_text t;
    af_j_text_open(&t, run);
    for (size_t i = 0; i < node->n; i++) {
        j_value v;
        if (af_j_eval(run, scope, node->items[i], &v)) return run->status;
        af_j_text_str(&t, &v);
    }
    return af_j_text_done(&t, out);
}

static int eval_condition(j_run *run, j_scope *scope, const j_node *node, j_value *out) {
    j_value test;
    if (af_j_eval(run, scope, node->a, &test)) return run->status;
    if (af_j_truth(&test)) return af_j_eval(run, scope, node->b, out);
    if (node->c) return af_j_eval(run, scope, node->c, out);
    *out = af_j_undefined(NULL, J_PLAIN);
    return 0;
}

static const evaluate evaluators[] = {
    [N_CONST] = eval_const, [N_NAME] = eval_name,       [N_LIST] = eval_list,     [N_TUPLE] = eval_list,
    [N_DICT] = eval_dict,   [N_ATTR] = eval_attribute,  [N_ITEM] = eval_item,     [N_SLICE] = eval_slice,
    [N_CALL] = eval_call,   [N_FILTER] = eval_applied,  [N_TEST] = eval_applied,  [N_NOT] = eval_not,
    [N_NEG] = eval_sign,    [N_POS] = eval_sign,        [N_BINARY] = eval_binary, [N_AND] = eval_logic,
    [N_OR] = eval_logic,    [N_COMPARE] = eval_compare, [N_CONCAT] = eval_concat, [N_COND] = eval_condition,
};

int af_j_eval(j_run *run, j_scope *scope, const j_node *node, j_value *out) {
    assert(node->kind < sizeof evaluators / sizeof *evaluators);
    run->at = node;
    if (af_j_work(run, 1) || af_j_enter(run)) return run->status;
    int status = evaluators[node->kind](run, scope, node, out);
    run->depth--;
    return status ? status : run->status;
}

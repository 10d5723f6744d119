/* jinja_exec.c - statements and the scopes of variables.
 *
 * A scope is a short list of variables with a parent. As in Jinja2, loops, macros, call, filter, with and set blocks
 * have scopes of their own (an assignment inside is gone after them), `if` has none; namespaces are the way out.
 * Statements return 0, a negative status, or J_BREAK / J_CONTINUE on their way to the loop around.
 */
#include "text/jinja_ast.h"

#include <assert.h>

/* ---- Scopes ---- */

j_scope *af_j_scope_new(j_run *run, j_scope *parent) {
    j_scope *scope = af_j_alloc(run, sizeof *scope);
    if (scope) *scope = (j_scope){.parent = parent};
    return scope;
}

/* Adds the variables it passes to *steps. */
static j_variable *find_variable(const j_scope *scope, const j_string *name, size_t *steps) {
    for (j_variable *v = scope->variables; v; v = v->next, (*steps)++)
        if (v->name == name) return v;
    return NULL;
}

int af_j_scope_set(j_run *run, j_scope *scope, const j_string *name, j_value value) {
    size_t steps = 0;
    j_variable *v = find_variable(scope, name, &steps);
    if (af_j_work(run, steps / 16)) return run->status;
    if (!v) {
        v = af_j_alloc(run, sizeof *v);
        if (!v) return run->status;
        *v = (j_variable){.name = name, .next = scope->variables};
        scope->variables = v;
    }
    v->value = value;
    return 0;
}

bool af_j_scope_get(j_run *run, const j_scope *scope, const j_string *name, j_value *out) {
    const j_variable *v = NULL;
    size_t steps = 0;
    for (; scope && !v; scope = scope->parent, steps++) v = find_variable(scope, name, &steps);
    if (v) *out = v->value;
    af_j_work(run, steps / 16);
    return v != NULL;
}

/* ---- Assignment ---- */

static int assign(j_run *run, j_scope *scope, const j_node *target, j_value value);

static int assign_items(j_run *run, j_scope *scope, const j_node *target, const j_value *value) {
    const j_list *list;
    if (af_j_to_list(run, value, &list)) return run->status;
    run->at = target;
    if (list->n != target->n) return af_j_fail(run, "found %zu values to unpack, expected %zu", list->n, target->n);
    for (size_t i = 0; i < list->n; i++)
        if (assign(run, scope, target->items[i], list->items[i])) break;
    return run->status;
}

static int assign_member(j_run *run, j_scope *scope, const j_node *target, j_value value) {
    j_value owner = {0};
    af_j_scope_get(run, scope, target->a->name, &owner);
    run->at = target;
    if (owner.kind != J_NAMESPACE) return af_j_fail(run, "only attributes of a namespace can be set");
    return af_j_dict_set(run, owner.dict, af_j_of_string(target->name), value);
}

static int assign(j_run *run, j_scope *scope, const j_node *target, j_value value) {
    if (target->kind == N_NAME) return af_j_scope_set(run, scope, target->name, value);
    if (target->kind == N_NSREF) return assign_member(run, scope, target, value);
    return assign_items(run, scope, target, &value);
}

/* ---- Loops ---- */

/* The items for which the loop's own condition holds. */
static int filter_items(j_run *run, j_scope *parent, const j_node *node, const j_list *items, const j_list **out) {
    j_list *kept = af_j_list_new(run, 0);
    j_scope *scope = af_j_scope_new(run, parent);
    if (!kept || !scope) return run->status;
    for (size_t i = 0; i < items->n; i++) {
        j_value keep;
        if (assign(run, scope, node->target, items->items[i])) return run->status;
        if (af_j_eval(run, scope, node->b, &keep)) return run->status;
        if (af_j_truth(&keep) && af_j_list_push(run, kept, items->items[i])) return run->status;
    }
    *out = kept;
    return 0;
}

/* The scope is one for all rounds, emptied before each. *completed: a round reached its end. */
static int exec_rounds(j_run *run, j_scope *parent, const j_node *node, const j_list *items, unsigned depth,
                       bool *completed) {
    j_loop *loop = af_j_alloc(run, sizeof *loop);
    j_scope *scope = af_j_scope_new(run, parent);
    if (!loop || !scope) return run->status;
    *loop = (j_loop){.items = items, .depth = depth, .node = node, .scope = parent};
    const j_value loop_value = {.kind = J_LOOP, .loop = loop};
    for (; loop->at < items->n; loop->at++) {
        scope->variables = NULL;
        if (af_j_scope_set(run, scope, run->jinja->loop, loop_value)) return run->status;
        if (assign(run, scope, node->target, items->items[loop->at])) return run->status;
        int status = af_j_exec(run, scope, node->body);
        if (status < 0) return status;
        if (status == J_BREAK) break;
        *completed |= status == 0;
    }
    return 0;
}

int af_j_exec_for(j_run *run, j_scope *scope, const j_node *node, const j_value *iterable, unsigned depth) {
    const j_list *items;
    if (af_j_to_list(run, iterable, &items)) return run->status;
    if (node->b && filter_items(run, scope, node, items, &items)) return run->status;
    /* Jinja2 runs `else` also where every round was cut short by break or continue. */
    bool completed = false;
    int status = exec_rounds(run, scope, node, items, depth, &completed);
    if (status || completed || !node->orelse) return status;
    j_scope *inner = af_j_scope_new(run, scope);
    return inner ? af_j_exec(run, inner, node->orelse) : run->status;
}

static int exec_for(j_run *run, j_scope *scope, const j_node *node) {
    j_value iterable;
    if (af_j_eval(run, scope, node->a, &iterable)) return run->status;
    run->at = node;
    return af_j_exec_for(run, scope, node, &iterable, 0);
}

/* ---- Output ---- */

static int exec_text(j_run *run, j_scope *scope, const j_node *node) {
    (void)scope;
    af_j_text_string(run->out, node->value.string);
    return run->status;
}

static int exec_output(j_run *run, j_scope *scope, const j_node *node) {
    for (size_t i = 0; i < node->n; i++) {
        j_value v;
        if (af_j_eval(run, scope, node->items[i], &v)) return run->status;
        run->at = node->items[i];
        af_j_text_str(run->out, &v);
    }
    return run->status;
}

int af_j_capture(j_run *run, j_scope *scope, const j_node *body, j_value *out) {
    j_text text, *outer = run->out;
    af_j_text_open(&text, run);
    run->out = &text;
    int status = af_j_exec(run, scope, body);
    run->out = outer;
    return status < 0 ? status : af_j_text_done(&text, out);
}

/* ---- Blocks ---- */

static int exec_if(j_run *run, j_scope *scope, const j_node *node) {
    for (;;) {
        j_value test;
        if (af_j_eval(run, scope, node->a, &test)) return run->status;
        if (af_j_truth(&test)) return af_j_exec(run, scope, node->body);
        const j_node *other = node->orelse;
        if (!other) return 0;
        if (other->kind != N_IF || other->next) return af_j_exec(run, scope, other);
        node = other;
    }
}

static int exec_set(j_run *run, j_scope *scope, const j_node *node) {
    j_value v;
    if (af_j_eval(run, scope, node->a, &v)) return run->status;
    return assign(run, scope, node->target, v);
}

/* A body's text in a scope of its own, through the block's filters. */
static int filtered_body(j_run *run, j_scope *scope, const j_node *node, j_value *out) {
    j_scope *inner = af_j_scope_new(run, scope);
    j_value text;
    if (!inner || af_j_capture(run, inner, node->body, &text)) return run->status;
    return af_j_eval_filters(run, inner, node->a, &text, out);
}

static int exec_set_block(j_run *run, j_scope *scope, const j_node *node) {
    j_value v;
    if (filtered_body(run, scope, node, &v)) return run->status;
    return assign(run, scope, node->target, v);
}

static int exec_filter_block(j_run *run, j_scope *scope, const j_node *node) {
    j_value v;
    if (filtered_body(run, scope, node, &v)) return run->status;
    const j_string *text;
    if (af_j_need_string(run, &v, "filter block", &text)) return run->status;
    af_j_text_string(run->out, text);
    return run->status;
}

static int make_macro(j_run *run, j_scope *scope, const j_node *node, j_value *out) {
    j_macro *macro = af_j_alloc(run, sizeof *macro);
    if (!macro) return run->status;
    *macro = (j_macro){.name = node->name, .signature = node->signature, .body = node->body, .scope = scope};
    macro->is_caller = node->kind == N_CALL_BLOCK;
    *out = (j_value){.kind = J_MACRO, .macro = macro};
    return 0;
}

static int exec_macro(j_run *run, j_scope *scope, const j_node *node) {
    j_value macro;
    if (make_macro(run, scope, node, &macro)) return run->status;
    return af_j_scope_set(run, scope, node->name, macro);
}

static int exec_call_block(j_run *run, j_scope *scope, const j_node *node) {
    j_value caller, v;
    if (make_macro(run, scope, node, &caller)) return run->status;
    if (af_j_eval_call(run, scope, node->a, &caller, &v)) return run->status;
    af_j_text_str(run->out, &v);
    return run->status;
}

static int exec_with(j_run *run, j_scope *scope, const j_node *node) {
    j_scope *inner = af_j_scope_new(run, scope);
    if (!inner) return run->status;
    for (size_t i = 0; i < node->n; i += 2) {
        j_value v;
        if (af_j_eval(run, scope, node->items[i + 1], &v)) return run->status;
        if (assign(run, inner, node->items[i], v)) return run->status;
    }
    return af_j_exec(run, inner, node->body);
}

static int exec_scope(j_run *run, j_scope *scope, const j_node *node) {
    j_scope *inner = af_j_scope_new(run, scope);
    return inner ? af_j_exec(run, inner, node->body) : run->status;
}

static int exec_jump(j_run *run, j_scope *scope, const j_node *node) {
    (void)run, (void)scope;
    return node->kind == N_BREAK ? J_BREAK : J_CONTINUE;
}

typedef int (*execute)(j_run *run, j_scope *scope, const j_node *node);

static const execute executors[] = {
    [N_TEXT] = exec_text,
    [N_OUTPUT] = exec_output,
    [N_IF] = exec_if,
    [N_FOR] = exec_for,
    [N_SET] = exec_set,
    [N_SET_BLOCK] = exec_set_block,
    [N_MACRO] = exec_macro,
    [N_CALL_BLOCK] = exec_call_block,
    [N_FILTER_BLOCK] = exec_filter_block,
    [N_WITH] = exec_with,
    [N_SCOPE] = exec_scope,
    [N_BREAK] = exec_jump,
    [N_CONTINUE] = exec_jump,
};

int af_j_exec(j_run *run, j_scope *scope, const j_node *body) {
    if (af_j_enter(run)) return run->status;
    int status = 0;
    for (const j_node *node = body; node && !status; node = node->next) {
        assert(node->kind < sizeof executors / sizeof *executors && executors[node->kind]);
        run->at = node;
        status = af_j_work(run, 1);
        if (!status) status = executors[node->kind](run, scope, node);
    }
    run->depth--;
    return status;
}

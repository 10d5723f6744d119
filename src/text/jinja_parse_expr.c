/* jinja_parse_expr.c - expressions, by recursive descent: one function a level of precedence, loosest first.
 *
 *     x if test else y | or | and | not | comparisons, in, not in | + - | ~ | * / // % | ** | unary + - | .a [b] (c)
 *     | filters and tests
 *
 * As in Jinja2, filters and tests bind to the operand before them, tighter than any operator but the unary ones:
 * `-1|abs` is -(1)|abs applied to -1, `a + b|length` is a + (b|length).
 */
#include "text/jinja_ast.h"

#include <stddef.h>
#include <string.h>

static j_node *parse_unary(j_parser *ps, bool with_filters);
static j_node *parse_or(j_parser *ps);

static bool is_op(const j_parser *ps, j_operator op) {
    return ps->at->kind == T_OPERATOR && ps->at->op == op;
}

static bool skip_op(j_parser *ps, j_operator op) {
    if (!is_op(ps, op)) return false;
    ps->at++;
    return true;
}

static j_node *node_ab(j_parser *ps, j_node_kind kind, j_node *a, j_node *b) {
    j_node *node = af_j_parse_node(ps, kind);
    if (!node || !a || !b) return NULL;
    node->line = a->line;
    node->column = a->column;
    node->a = a;
    node->b = b;
    return node;
}

static j_node *constant(j_parser *ps, j_value value) {
    j_node *node = af_j_parse_node(ps, N_CONST);
    if (node) node->value = value;
    return node;
}

static bool take_items(j_node *node, j_nodes nodes) {
    if (!node) return false;
    node->items = nodes.items;
    node->n = nodes.n;
    return true;
}

/* ---- Literals ---- */

/* Strings that follow one another are one. */
static j_node *parse_string(j_parser *ps) {
    size_t n = 0, count = 0;
    for (; ps->at[count].kind == T_STRING; count++) n += ps->at[count].n;
    char *p = af_j_parse_alloc(ps, n + 1, 1);
    j_string *s = af_j_parse_alloc(ps, 1, sizeof *s);
    if (!p || !s) return NULL;
    *s = (j_string){.p = p, .n = n};
    j_node *node = constant(ps, af_j_of_string(s));
    for (size_t at = 0; count > 0; count--, ps->at++) {
        memcpy(p + at, ps->at->p, ps->at->n);
        at += ps->at->n;
    }
    return node;
}

static const struct {
    const char *name;
    uint8_t kind;
    bool truth;
} named_constants[] = {{"true", J_BOOL, true},   {"True", J_BOOL, true},  {"false", J_BOOL, false},
                       {"False", J_BOOL, false}, {"none", J_NONE, false}, {"None", J_NONE, false}};

static void note_use(j_parser *ps, const j_string *name) {
    if (!ps->macro) return;
    if (name == ps->jinja->caller) ps->macro->uses_caller = true;
    if (name == ps->jinja->varargs) ps->macro->uses_varargs = true;
    if (name == ps->jinja->kwargs) ps->macro->uses_kwargs = true;
}

static j_node *parse_name(j_parser *ps, bool with_namespace) {
    for (size_t i = 0; i < sizeof named_constants / sizeof *named_constants; i++) {
        if (!af_j_parse_is_name(ps->at, named_constants[i].name)) continue;
        bool is_bool = named_constants[i].kind == J_BOOL;
        j_node *node = constant(ps, is_bool ? af_j_bool(named_constants[i].truth) : af_j_none());
        ps->at++;
        return node;
    }
    j_node *node = af_j_parse_node(ps, N_NAME);
    if (!node || !(node->name = af_j_parse_name(ps))) return NULL;
    note_use(ps, node->name);
    if (with_namespace && skip_op(ps, O_DOT)) {
        j_node *owner = node;
        node = af_j_parse_node(ps, N_NSREF);
        if (!node || !(node->name = af_j_parse_name(ps))) return NULL;
        node->a = owner;
        return node;
    }
    node->function = af_j_find_function(af_j_globals, node->name->p, node->name->n);
    return node;
}

static j_node *parse_list(j_parser *ps) {
    j_node *node = af_j_parse_node(ps, N_LIST);
    j_nodes items = {0};
    ps->at++;
    while (!is_op(ps, O_RBRACKET)) {
        if (items.n && !af_j_parse_expect(ps, O_COMMA)) return NULL;
        if (is_op(ps, O_RBRACKET)) break;
        if (!af_j_parse_push(ps, &items, af_j_parse_expression(ps))) return NULL;
    }
    ps->at++;
    return take_items(node, items) ? node : NULL;
}

static j_node *parse_dict(j_parser *ps) {
    j_node *node = af_j_parse_node(ps, N_DICT);
    j_nodes items = {0};
    ps->at++;
    while (!is_op(ps, O_RBRACE)) {
        if (items.n && !af_j_parse_expect(ps, O_COMMA)) return NULL;
        if (is_op(ps, O_RBRACE)) break;
        if (!af_j_parse_push(ps, &items, af_j_parse_expression(ps))) return NULL;
        if (!af_j_parse_expect(ps, O_COLON)) return NULL;
        if (!af_j_parse_push(ps, &items, af_j_parse_expression(ps))) return NULL;
    }
    ps->at++;
    return take_items(node, items) ? node : NULL;
}

static j_node *parse_parentheses(j_parser *ps) {
    ps->at++;
    j_node *node;
    if (is_op(ps, O_RPAREN))
        node = af_j_parse_node(ps, N_TUPLE);
    else
        node = af_j_parse_tuple(ps, true, NULL);
    return node && af_j_parse_expect(ps, O_RPAREN) ? node : NULL;
}

static j_node *parse_primary(j_parser *ps, bool with_namespace) {
    const j_token *token = ps->at;
    if (token->kind == T_NAME) return parse_name(ps, with_namespace);
    if (token->kind == T_STRING) return parse_string(ps);
    if (token->kind == T_INT || token->kind == T_FLOAT) {
        j_node *node = constant(ps, token->kind == T_INT ? af_j_int(token->integer) : af_j_float(token->real));
        ps->at++;
        return node;
    }
    if (is_op(ps, O_LPAREN)) return parse_parentheses(ps);
    if (is_op(ps, O_LBRACKET)) return parse_list(ps);
    if (is_op(ps, O_LBRACE)) return parse_dict(ps);
    return af_j_parse_fail(ps, "expected an expression");
}

/* ---- Subscripts and calls ---- */

static j_node *parse_attribute(j_parser *ps, j_node *owner) {
    if (ps->at->kind == T_INT) {
        j_node *index = parse_primary(ps, false);
        return node_ab(ps, N_ITEM, owner, index);
    }
    j_node *node = af_j_parse_node(ps, N_ATTR);
    if (!node || !(node->name = af_j_parse_name(ps))) return NULL;
    node->a = owner;
    return node;
}

/* What is between brackets from the first ':' on, at which the parser stands. */
static j_node *parse_slice(j_parser *ps, j_node *owner, j_node *start) {
    j_node *node = af_j_parse_node(ps, N_SLICE);
    j_node **parts = af_j_parse_alloc(ps, 3, sizeof(j_node *));
    if (!node || !parts) return NULL;
    parts[0] = start;
    for (size_t i = 1; i < 3 && skip_op(ps, O_COLON); i++) {
        if (is_op(ps, O_COLON) || is_op(ps, O_RBRACKET)) continue;
        parts[i] = af_j_parse_expression(ps);
        if (!parts[i]) return NULL;
    }
    node->a = owner;
    node->items = parts;
    node->n = 3;
    return node;
}

static j_node *parse_subscript(j_parser *ps, j_node *owner) {
    j_node *node = NULL;
    if (!is_op(ps, O_COLON)) {
        node = af_j_parse_tuple(ps, true, NULL);
        if (!node) return NULL;
    }
    if (is_op(ps, O_COLON))
        node = parse_slice(ps, owner, node);
    else
        node = node_ab(ps, N_ITEM, owner, node);
    return node && af_j_parse_expect(ps, O_RBRACKET) ? node : NULL;
}

static bool parse_keyword(j_parser *ps, j_nodes *names, j_nodes *values) {
    j_node *name = af_j_parse_node(ps, N_NAME);
    if (!name || !(name->name = af_j_parse_name(ps))) return false;
    ps->at++;
    return af_j_parse_push(ps, names, name) && af_j_parse_push(ps, values, af_j_parse_expression(ps));
}

static bool parse_argument(j_parser *ps, j_call_args *args, j_nodes *items, j_nodes *names, j_nodes *values) {
    if (args->keyword_spread) return af_j_parse_fail(ps, "arguments after '**'");
    if (skip_op(ps, O_POW)) return (args->keyword_spread = af_j_parse_expression(ps)) != NULL;
    if (is_op(ps, O_MUL) && args->spread) return af_j_parse_fail(ps, "a second '*' argument");
    if (skip_op(ps, O_MUL)) return (args->spread = af_j_parse_expression(ps)) != NULL;
    bool is_keyword = ps->at->kind == T_NAME && ps->at[1].kind == T_OPERATOR && ps->at[1].op == O_ASSIGN;
    if (is_keyword) return parse_keyword(ps, names, values);
    if (args->spread || names->n) return af_j_parse_fail(ps, "a positional argument after others");
    return af_j_parse_push(ps, items, af_j_parse_expression(ps));
}

/* From '(' to past ')'. */
static j_call_args *parse_arguments(j_parser *ps) {
    j_call_args *args = af_j_parse_alloc(ps, 1, sizeof *args);
    if (!args || !af_j_parse_expect(ps, O_LPAREN)) return NULL;
    j_nodes items = {0}, names = {0}, values = {0};
    for (bool first = true; !is_op(ps, O_RPAREN); first = false) {
        if (!first && !af_j_parse_expect(ps, O_COMMA)) return NULL;
        if (!first && is_op(ps, O_RPAREN)) break;
        if (!parse_argument(ps, args, &items, &names, &values)) return NULL;
    }
    ps->at++;
    args->names = af_j_parse_alloc(ps, names.n, sizeof *args->names);
    if (!args->names) return NULL;
    for (size_t i = 0; i < names.n; i++) args->names[i] = names.items[i]->name;
    args->items = items.items;
    args->n = items.n;
    args->values = values.items;
    args->n_keywords = values.n;
    return args;
}

static j_node *parse_call(j_parser *ps, j_node *callee) {
    j_node *node = af_j_parse_node(ps, N_CALL);
    if (!node || !(node->arguments = parse_arguments(ps))) return NULL;
    node->a = callee;
    return node;
}

static j_node *parse_postfix(j_parser *ps, j_node *node) {
    while (node) {
        if (skip_op(ps, O_DOT))
            node = parse_attribute(ps, node);
        else if (skip_op(ps, O_LBRACKET))
            node = parse_subscript(ps, node);
        else if (is_op(ps, O_LPAREN))
            node = parse_call(ps, node);
        else
            break;
    }
    return node;
}

/* ---- Filters and tests ---- */

static j_node *parse_filter(j_parser *ps, j_node *input) {
    j_node *node = af_j_parse_node(ps, N_FILTER);
    if (!node || !(node->name = af_j_parse_name(ps))) return NULL;
    node->a = input;
    node->function = af_j_find_filter(node->name->p, node->name->n);
    if (is_op(ps, O_LPAREN))
        node->arguments = parse_arguments(ps);
    else
        node->arguments = af_j_parse_alloc(ps, 1, sizeof *node->arguments);
    return node->arguments ? node : NULL;
}

j_node *af_j_parse_filters(j_parser *ps, j_node *input, bool first_is_named) {
    j_node *node = input;
    if (first_is_named && !(node = parse_filter(ps, node))) return NULL;
    while (skip_op(ps, O_PIPE))
        if (!(node = parse_filter(ps, node))) return NULL;
    return node;
}

/* Whether what stands after a test's name is its argument, written without parentheses. */
static bool has_bare_argument(const j_parser *ps) {
    const j_token *t = ps->at;
    if (t->kind == T_NAME)
        return !af_j_parse_is_name(t, "else") && !af_j_parse_is_name(t, "or") && !af_j_parse_is_name(t, "and");
    return t->kind == T_STRING || t->kind == T_INT || t->kind == T_FLOAT || is_op(ps, O_LBRACKET) ||
           is_op(ps, O_LBRACE);
}

static j_call_args *parse_test_arguments(j_parser *ps) {
    if (is_op(ps, O_LPAREN)) return parse_arguments(ps);
    j_call_args *args = af_j_parse_alloc(ps, 1, sizeof *args);
    if (!args || !has_bare_argument(ps)) return args;
    if (af_j_parse_is_name(ps->at, "is")) return af_j_parse_fail(ps, "tests cannot be chained");
    j_nodes items = {0};
    if (!af_j_parse_push(ps, &items, parse_postfix(ps, parse_primary(ps, false)))) return NULL;
    args->items = items.items;
    args->n = 1;
    return args;
}

static j_node *parse_test(j_parser *ps, j_node *input) {
    bool negated = af_j_parse_skip_name(ps, "not");
    j_node *node = af_j_parse_node(ps, N_TEST);
    if (!node || !(node->name = af_j_parse_name(ps))) return NULL;
    node->a = input;
    node->function = af_j_find_test(node->name->p, node->name->n);
    node->arguments = parse_test_arguments(ps);
    if (!node->arguments) return NULL;
    return negated ? node_ab(ps, N_NOT, node, node) : node;
}

static j_node *parse_filters_and_tests(j_parser *ps, j_node *node) {
    while (node) {
        if (is_op(ps, O_PIPE))
            node = af_j_parse_filters(ps, node, false);
        else if (af_j_parse_skip_name(ps, "is"))
            node = parse_test(ps, node);
        else if (is_op(ps, O_LPAREN))
            node = parse_call(ps, node);
        else
            break;
    }
    return node;
}

/* ---- Operators ---- */

static j_node *parse_unary(j_parser *ps, bool with_filters) {
    if (!af_j_parse_enter(ps)) return NULL;
    j_node *node;
    if (is_op(ps, O_SUB) || is_op(ps, O_ADD)) {
        node = af_j_parse_node(ps, is_op(ps, O_SUB) ? N_NEG : N_POS);
        ps->at++;
        if (node && !(node->a = parse_unary(ps, false))) node = NULL;
    } else {
        node = parse_primary(ps, false);
    }
    node = parse_postfix(ps, node);
    if (with_filters) node = parse_filters_and_tests(ps, node);
    ps->depth--;
    return node;
}

/* Left-associative levels: the operators of each and the level below. */
static const j_operator power_ops[] = {O_POW, O_NONE};
static const j_operator product_ops[] = {O_MUL, O_DIV, O_FLOORDIV, O_MOD, O_NONE};
static const j_operator sum_ops[] = {O_ADD, O_SUB, O_NONE};

static bool is_one_of(const j_parser *ps, const j_operator *ops) {
    for (; *ops != O_NONE; ops++)
        if (is_op(ps, *ops)) return true;
    return false;
}

static j_node *parse_left(j_parser *ps, const j_operator *ops, j_node *(*below)(j_parser *)) {
    j_node *left = below(ps);
    while (left && is_one_of(ps, ops)) {
        uint8_t op = ps->at->op;
        ps->at++;
        left = node_ab(ps, N_BINARY, left, below(ps));
        if (left) left->op = op;
    }
    return left;
}

static j_node *parse_operand(j_parser *ps) {
    return parse_unary(ps, true);
}

static j_node *parse_power(j_parser *ps) {
    return parse_left(ps, power_ops, parse_operand);
}

static j_node *parse_product(j_parser *ps) {
    return parse_left(ps, product_ops, parse_power);
}

static j_node *parse_concat(j_parser *ps) {
    j_node *first = parse_product(ps);
    if (!first || !is_op(ps, O_TILDE)) return first;
    j_node *node = af_j_parse_node(ps, N_CONCAT);
    j_nodes items = {0};
    if (!af_j_parse_push(ps, &items, first)) return NULL;
    while (skip_op(ps, O_TILDE))
        if (!af_j_parse_push(ps, &items, parse_product(ps))) return NULL;
    return take_items(node, items) ? node : NULL;
}

static j_node *parse_sum(j_parser *ps) {
    return parse_left(ps, sum_ops, parse_concat);
}

/* Takes a comparison's operator, O_NONE if there is none. */
static j_operator take_comparison(j_parser *ps) {
    if (af_j_parse_skip_name(ps, "in")) return O_IN;
    if (af_j_parse_is_name(ps->at, "not") && af_j_parse_is_name(ps->at + 1, "in")) {
        ps->at += 2;
        return O_NOT_IN;
    }
    if (ps->at->kind != T_OPERATOR || ps->at->op < O_EQ || ps->at->op > O_GE) return O_NONE;
    return (j_operator)(ps->at++)->op;
}

static j_node *parse_compare(j_parser *ps) {
    j_node *first = parse_sum(ps);
    if (!first) return NULL;
    j_node *node = NULL;
    j_nodes items = {0};
    uint8_t ops[64];
    for (j_operator op; (op = take_comparison(ps)) != O_NONE;) {
        if (items.n == sizeof ops) return af_j_parse_fail(ps, "a chain of more than %zu comparisons", sizeof ops);
        if (!node && !(node = af_j_parse_node(ps, N_COMPARE))) return NULL;
        ops[items.n] = (uint8_t)op;
        if (!af_j_parse_push(ps, &items, parse_sum(ps))) return NULL;
    }
    if (ps->status) return NULL;
    if (!node) return first;
    node->a = first;
    node->ops = af_j_parse_alloc(ps, items.n, 1);
    if (!node->ops || !take_items(node, items)) return NULL;
    memcpy(node->ops, ops, items.n);
    return node;
}

static j_node *parse_not(j_parser *ps) {
    if (!af_j_parse_is_name(ps->at, "not")) return parse_compare(ps);
    if (!af_j_parse_enter(ps)) return NULL;
    j_node *node = af_j_parse_node(ps, N_NOT);
    ps->at++;
    if (node && !(node->a = parse_not(ps))) node = NULL;
    ps->depth--;
    return node;
}

static j_node *parse_and(j_parser *ps) {
    j_node *left = parse_not(ps);
    while (left && af_j_parse_skip_name(ps, "and")) left = node_ab(ps, N_AND, left, parse_not(ps));
    return left;
}

static j_node *parse_or(j_parser *ps) {
    j_node *left = parse_and(ps);
    while (left && af_j_parse_skip_name(ps, "or")) left = node_ab(ps, N_OR, left, parse_and(ps));
    return left;
}

j_node *af_j_parse_expression(j_parser *ps) {
    if (!af_j_parse_enter(ps)) return NULL;
    j_node *node = parse_or(ps);
    while (node && af_j_parse_skip_name(ps, "if")) {
        node = node_ab(ps, N_COND, parse_or(ps), node);
        if (node && af_j_parse_skip_name(ps, "else") && !(node->c = af_j_parse_expression(ps))) node = NULL;
    }
    ps->depth--;
    return node;
}

/* ---- Tuples and targets ---- */

/* Whether a tuple may end here, after a comma. */
static bool ends_tuple(const j_parser *ps, const char *end) {
    if (ps->at->kind == T_VARIABLE_END || ps->at->kind == T_BLOCK_END || is_op(ps, O_RPAREN)) return true;
    return end && af_j_parse_is_name(ps->at, end);
}

typedef j_node *(*parse_item)(j_parser *ps);

static j_node *parse_comma_list(j_parser *ps, parse_item item, const char *end) {
    j_node *first = item(ps);
    if (!first || !is_op(ps, O_COMMA)) return first;
    j_node *node = af_j_parse_node(ps, N_TUPLE);
    j_nodes items = {0};
    if (!af_j_parse_push(ps, &items, first)) return NULL;
    while (skip_op(ps, O_COMMA) && !ends_tuple(ps, end))
        if (!af_j_parse_push(ps, &items, item(ps))) return NULL;
    return take_items(node, items) ? node : NULL;
}

j_node *af_j_parse_tuple(j_parser *ps, bool with_condition, const char *end) {
    return parse_comma_list(ps, with_condition ? af_j_parse_expression : parse_or, end);
}

static j_node *parse_plain_target(j_parser *ps) {
    return parse_primary(ps, false);
}

static j_node *parse_namespace_target(j_parser *ps) {
    return parse_primary(ps, true);
}

static bool can_assign(const j_node *node) {
    if (node->kind == N_NAME || node->kind == N_NSREF) return true;
    if (node->kind != N_TUPLE && node->kind != N_LIST) return false;
    for (size_t i = 0; i < node->n; i++)
        if (!can_assign(node->items[i])) return false;
    return true;
}

j_node *af_j_parse_target(j_parser *ps, bool with_namespace, const char *end) {
    if (!af_j_parse_enter(ps)) return NULL;
    j_node *node = parse_comma_list(ps, with_namespace ? parse_namespace_target : parse_plain_target, end);
    ps->depth--;
    if (node && !can_assign(node)) return af_j_parse_fail(ps, "cannot assign to this");
    return node;
}

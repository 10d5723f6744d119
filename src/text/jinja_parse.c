/* jinja_parse.c - statements to a tree, and the life of a parsed template.
 *
 * A table maps each tag's name to the function that parses it. There is no import, include, extends or block: a chat
 * template is one text.
 */
#include "base/map.h"
#include "base/utf8.h"
#include "text/jinja_ast.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_SOURCE = 4 << 20, /* bytes of a template */
    MAX_TREE = 256 << 20, /* bytes of its tokens and nodes */
    MAX_NESTING = 200,    /* of brackets, operators and blocks together */
    MAX_NAMES = 10000     /* different ones: scopes are lists of variables */
};

/* ---- Helpers shared with expressions ---- */

void *af_j_parse_fail(j_parser *ps, const char *format, ...) {
    if (ps->status) return NULL;
    char what[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    const j_token *t = ps->at;
    const char *found = t->kind == T_EOF ? "the template's end" : "";
    if (t->kind == T_BLOCK_END) found = "%}";
    if (t->kind == T_VARIABLE_END) found = "}}";
    bool has_bytes = t->kind == T_NAME || t->kind == T_OPERATOR || t->kind == T_STRING;
    int n = has_bytes ? (int)(t->n < 40 ? t->n : 40) : (int)strlen(found);
    ps->status = af_fail(ps->error, AF_EFORMAT, "line %u, column %u: %s, at '%.*s'", t->line, t->column, what, n,
                         has_bytes ? t->p : found);
    return NULL;
}

void *af_j_parse_alloc(j_parser *ps, size_t count, size_t size) {
    void *p = af_arena_array(ps->jinja->arena, count, size);
    if (!p && !ps->status) ps->status = af_fail_memory(ps->error, count * size, "template");
    return p;
}

j_node *af_j_parse_node(j_parser *ps, j_node_kind kind) {
    j_node *node = af_j_parse_alloc(ps, 1, sizeof *node);
    if (!node) return NULL;
    node->kind = (uint8_t)kind;
    node->line = ps->at->line;
    node->column = ps->at->column;
    return node;
}

bool af_j_parse_push(j_parser *ps, j_nodes *nodes, j_node *node) {
    if (!node) return false;
    if (nodes->n == nodes->cap) {
        size_t cap = nodes->cap ? nodes->cap * 2 : 4;
        j_node **grown = af_j_parse_alloc(ps, cap, sizeof *grown);
        if (!grown) return false;
        if (nodes->n) memcpy(grown, nodes->items, nodes->n * sizeof *grown);
        nodes->items = grown;
        nodes->cap = cap;
    }
    nodes->items[nodes->n++] = node;
    return true;
}

bool af_j_parse_enter(j_parser *ps) {
    if (ps->depth >= MAX_NESTING) return af_j_parse_fail(ps, "nested more than %d deep", MAX_NESTING);
    ps->depth++;
    return true;
}

static const char *const operator_text[] = {
    [O_ASSIGN] = "=", [O_COLON] = ":",    [O_COMMA] = ",",  [O_LPAREN] = "(",
    [O_RPAREN] = ")", [O_RBRACKET] = "]", [O_RBRACE] = "}",
};

bool af_j_parse_expect(j_parser *ps, j_operator op) {
    if (ps->at->kind == T_OPERATOR && ps->at->op == op) {
        ps->at++;
        return true;
    }
    return af_j_parse_fail(ps, "expected '%s'", operator_text[op]);
}

bool af_j_parse_is_name(const j_token *token, const char *name) {
    return token->kind == T_NAME && strlen(name) == token->n && memcmp(token->p, name, token->n) == 0;
}

bool af_j_parse_skip_name(j_parser *ps, const char *name) {
    if (!af_j_parse_is_name(ps->at, name)) return false;
    ps->at++;
    return true;
}

static size_t bucket_of(const char *p, size_t n) {
    return af_hash(p, n) % J_SYMBOL_BUCKETS;
}

const j_string *af_j_symbol(const af_jinja *jinja, const char *p, size_t n) {
    for (const j_symbol *s = jinja->symbols[bucket_of(p, n)]; s; s = s->next)
        if (s->name.n == n && memcmp(s->name.p, p, n) == 0) return &s->name;
    return NULL;
}

const j_string *af_j_intern(af_jinja *jinja, const char *p, size_t n) {
    const j_string *known = af_j_symbol(jinja, p, n);
    if (known) return known;
    j_symbol *s = af_arena_zalloc(jinja->arena, sizeof *s);
    char *copy = af_arena_copy(jinja->arena, p, n);
    if (!s || !copy) return NULL;
    size_t bucket = bucket_of(p, n);
    s->name = (j_string){.p = copy, .n = n};
    s->next = jinja->symbols[bucket];
    jinja->symbols[bucket] = s;
    jinja->symbol_count++;
    return &s->name;
}

const j_string *af_j_parse_name(j_parser *ps) {
    const j_token *t = ps->at;
    if (t->kind != T_NAME || (t->p[0] >= '0' && t->p[0] <= '9')) return af_j_parse_fail(ps, "expected a name");
    const j_string *name = af_j_intern(ps->jinja, t->p, t->n);
    if (ps->jinja->symbol_count > MAX_NAMES) return af_j_parse_fail(ps, "more than %d different names", MAX_NAMES);
    if (!name) ps->status = af_fail_memory(ps->error, t->n, "template");
    ps->at++;
    return name;
}

/* ---- Bodies ---- */

static j_node *parse_statement(j_parser *ps);

static j_node *text_node(j_parser *ps) {
    j_node *node = af_j_parse_node(ps, N_TEXT);
    j_string *s = af_j_parse_alloc(ps, 1, sizeof *s);
    if (!node || !s) return NULL;
    *s = (j_string){.p = ps->at->p, .n = ps->at->n};
    node->value = af_j_of_string(s);
    ps->at++;
    return node;
}

static j_node *output_node(j_parser *ps) {
    j_node *node = af_j_parse_node(ps, N_OUTPUT);
    ps->at++;
    j_nodes items = {0};
    if (!node || !af_j_parse_push(ps, &items, af_j_parse_tuple(ps, true, NULL))) return NULL;
    if (ps->at->kind != T_VARIABLE_END) return af_j_parse_fail(ps, "expected '}}'");
    ps->at++;
    node->items = items.items;
    node->n = items.n;
    return node;
}

/* Whether the tag that begins here is one of `ends`, a list of names apart by '|' such as "elif|else|endif". */
static bool is_end_tag(const j_parser *ps, const char *ends) {
    const j_token *name = ps->at + 1;
    if (ps->at->kind != T_BLOCK_BEGIN || name->kind != T_NAME) return false;
    for (const char *p = ends; *p;) {
        size_t n = strcspn(p, "|");
        if (name->n == n && memcmp(name->p, p, n) == 0) return true;
        p += n + (p[n] ? 1 : 0);
    }
    return false;
}

static j_node *parse_piece(j_parser *ps) {
    if (ps->at->kind == T_TEXT) return text_node(ps);
    if (ps->at->kind == T_VARIABLE_BEGIN) return output_node(ps);
    return parse_statement(ps);
}

/* Statements up to a tag of `ends`, whose name is then the current token; with NULL up to the template's end. */
static bool parse_until(j_parser *ps, const char *ends, j_node **out) {
    j_node **tail = out;
    *out = NULL;
    for (;;) {
        if (ends && is_end_tag(ps, ends)) {
            ps->at++;
            return true;
        }
        if (ps->at->kind == T_EOF) {
            if (ends) af_j_parse_fail(ps, "a block without its end (%s)", ends);
            return !ends;
        }
        j_node *node = parse_piece(ps);
        if (!node) return false;
        *tail = node;
        tail = &node->next;
    }
}

static bool expect_block_end(j_parser *ps) {
    if (ps->at->kind == T_BLOCK_END) {
        ps->at++;
        return true;
    }
    return af_j_parse_fail(ps, "expected '%%}'");
}

/* A block's body, from the end of its opening tag to the name of its closing one. */
static bool parse_body(j_parser *ps, const char *ends, j_node **out) {
    if (ps->at->kind == T_OPERATOR && ps->at->op == O_COLON) ps->at++;
    if (!expect_block_end(ps) || !af_j_parse_enter(ps)) return false;
    bool good = parse_until(ps, ends, out);
    ps->depth--;
    return good;
}

/* ... whose closing tag is simple. */
static bool parse_whole_body(j_parser *ps, const char *end, j_node **out) {
    if (!parse_body(ps, end, out)) return false;
    ps->at++;
    return true;
}

/* ---- Tags. Each function starts after the tag's name and stops before its "%}". ---- */

/* An elif is an if of its own in the else of the one before. */
static bool parse_if(j_parser *ps, j_node *node) {
    for (;;) {
        node->a = af_j_parse_tuple(ps, false, NULL);
        if (!node->a || !parse_body(ps, "elif|else|endif", &node->body)) return false;
        if (af_j_parse_skip_name(ps, "endif")) return true;
        if (af_j_parse_skip_name(ps, "else")) return parse_whole_body(ps, "endif", &node->orelse);
        ps->at++;
        j_node *inner = node->orelse = af_j_parse_node(ps, N_IF);
        if (!inner) return false;
        node = inner;
    }
}

static bool parse_for(j_parser *ps, j_node *node) {
    node->target = af_j_parse_target(ps, false, "in");
    if (!node->target) return false;
    if (!af_j_parse_skip_name(ps, "in")) return af_j_parse_fail(ps, "expected 'in'");
    if (!(node->a = af_j_parse_tuple(ps, false, "recursive"))) return false;
    if (af_j_parse_skip_name(ps, "if") && !(node->b = af_j_parse_expression(ps))) return false;
    node->recursive = af_j_parse_skip_name(ps, "recursive");
    ps->in_loop++;
    bool good = parse_body(ps, "endfor|else", &node->body);
    ps->in_loop--;
    if (!good) return false;
    if (af_j_parse_skip_name(ps, "endfor")) return true;
    ps->at++;
    return parse_whole_body(ps, "endfor", &node->orelse);
}

static bool parse_set(j_parser *ps, j_node *node) {
    node->target = af_j_parse_target(ps, true, NULL);
    if (!node->target) return false;
    if (ps->at->kind == T_OPERATOR && ps->at->op == O_ASSIGN) {
        ps->at++;
        return (node->a = af_j_parse_tuple(ps, true, NULL)) != NULL;
    }
    node->kind = N_SET_BLOCK;
    node->a = af_j_parse_filters(ps, NULL, false);
    return !ps->status && parse_whole_body(ps, "endset", &node->body);
}

static bool push_parameter(j_parser *ps, j_signature *signature, size_t *cap) {
    if (signature->n == *cap) {
        size_t wide = *cap ? *cap * 2 : 8;
        const j_string **names = af_j_parse_alloc(ps, wide, sizeof *names);
        j_node **defaults = af_j_parse_alloc(ps, wide, sizeof *defaults);
        if (!names || !defaults) return false;
        for (size_t i = 0; i < signature->n; i++) {
            names[i] = signature->names[i];
            defaults[i] = signature->defaults[i];
        }
        signature->names = names;
        signature->defaults = defaults;
        *cap = wide;
    }
    signature->names[signature->n] = af_j_parse_name(ps);
    return signature->names[signature->n++] != NULL;
}

/* From '(' to past ')'. */
static bool parse_signature(j_parser *ps, j_signature *signature) {
    if (!af_j_parse_expect(ps, O_LPAREN)) return false;
    size_t cap = 0;
    while (ps->at->kind != T_OPERATOR || ps->at->op != O_RPAREN) {
        if (signature->n && !af_j_parse_expect(ps, O_COMMA)) return false;
        if (!push_parameter(ps, signature, &cap)) return false;
        size_t last = signature->n - 1;
        if (ps->at->kind == T_OPERATOR && ps->at->op == O_ASSIGN) {
            ps->at++;
            if (!(signature->defaults[last] = af_j_parse_expression(ps))) return false;
        } else if (last > 0 && signature->defaults[last - 1]) {
            return af_j_parse_fail(ps, "a parameter without default after one with");
        }
    }
    ps->at++;
    return true;
}

/* A body that is called: it does not see the loop around it for break and continue. */
static bool parse_callable_body(j_parser *ps, j_node *node, const char *end) {
    j_signature *outer = ps->macro;
    unsigned in_loop = ps->in_loop;
    ps->macro = node->signature;
    ps->in_loop = 0;
    bool good = parse_whole_body(ps, end, &node->body);
    if (outer) { /* what an inner macro mentions, the outer one does too */
        outer->uses_caller |= node->signature->uses_caller;
        outer->uses_varargs |= node->signature->uses_varargs;
        outer->uses_kwargs |= node->signature->uses_kwargs;
    }
    ps->macro = outer;
    ps->in_loop = in_loop;
    return good;
}

static bool parse_macro(j_parser *ps, j_node *node) {
    node->signature = af_j_parse_alloc(ps, 1, sizeof *node->signature);
    return node->signature && (node->name = af_j_parse_name(ps)) && parse_signature(ps, node->signature) &&
           parse_callable_body(ps, node, "endmacro");
}

static bool parse_call_block(j_parser *ps, j_node *node) {
    node->signature = af_j_parse_alloc(ps, 1, sizeof *node->signature);
    if (!node->signature) return false;
    node->name = ps->jinja->caller;
    if (ps->at->kind == T_OPERATOR && ps->at->op == O_LPAREN && !parse_signature(ps, node->signature)) return false;
    node->a = af_j_parse_expression(ps);
    if (!node->a) return false;
    if (node->a->kind != N_CALL) return af_j_parse_fail(ps, "expected a call");
    return parse_callable_body(ps, node, "endcall");
}

static bool parse_filter_block(j_parser *ps, j_node *node) {
    return (node->a = af_j_parse_filters(ps, NULL, true)) && parse_whole_body(ps, "endfilter", &node->body);
}

static bool parse_with(j_parser *ps, j_node *node) {
    j_nodes items = {0};
    while (ps->at->kind != T_BLOCK_END) {
        if (items.n && !af_j_parse_expect(ps, O_COMMA)) return false;
        j_node *target = af_j_parse_node(ps, N_NAME);
        if (!target || !(target->name = af_j_parse_name(ps)) || !af_j_parse_push(ps, &items, target)) return false;
        if (!af_j_parse_expect(ps, O_ASSIGN)) return false;
        if (!af_j_parse_push(ps, &items, af_j_parse_expression(ps))) return false;
    }
    node->items = items.items;
    node->n = items.n;
    return parse_whole_body(ps, "endwith", &node->body);
}

static bool parse_generation(j_parser *ps, j_node *node) {
    return parse_whole_body(ps, "endgeneration", &node->body);
}

static bool parse_jump(j_parser *ps, j_node *node) {
    if (!ps->in_loop) return af_j_parse_fail(ps, "%s outside of a loop", node->kind == N_BREAK ? "break" : "continue");
    return true;
}

static bool parse_print(j_parser *ps, j_node *node) {
    j_nodes items = {0};
    while (ps->at->kind != T_BLOCK_END) {
        if (items.n && !af_j_parse_expect(ps, O_COMMA)) return false;
        if (!af_j_parse_push(ps, &items, af_j_parse_expression(ps))) return false;
    }
    node->items = items.items;
    node->n = items.n;
    return true;
}

static const struct {
    const char *name;
    j_node_kind kind;
    bool (*parse)(j_parser *ps, j_node *node);
} tags[] = {
    {"if", N_IF, parse_if},
    {"for", N_FOR, parse_for},
    {"set", N_SET, parse_set},
    {"macro", N_MACRO, parse_macro},
    {"call", N_CALL_BLOCK, parse_call_block},
    {"filter", N_FILTER_BLOCK, parse_filter_block},
    {"with", N_WITH, parse_with},
    {"generation", N_SCOPE, parse_generation},
    {"break", N_BREAK, parse_jump},
    {"continue", N_CONTINUE, parse_jump},
    {"print", N_OUTPUT, parse_print},
};

static j_node *parse_statement(j_parser *ps) {
    ps->at++;
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        if (!af_j_parse_is_name(ps->at, tags[i].name)) continue;
        j_node *node = af_j_parse_node(ps, tags[i].kind);
        ps->at++;
        return node && tags[i].parse(ps, node) && expect_block_end(ps) ? node : NULL;
    }
    return af_j_parse_fail(ps, "unknown tag");
}

/* ---- The parsed template ---- */

static bool intern_known(af_jinja *jinja) {
    const struct {
        const j_string **out;
        const char *name;
    } known[] = {{&jinja->caller, "caller"}, {&jinja->varargs, "varargs"}, {&jinja->kwargs, "kwargs"},
                 {&jinja->loop, "loop"},     {&jinja->bos, "bos_token"},   {&jinja->eos, "eos_token"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!(*known[i].out = af_j_intern(jinja, known[i].name, strlen(known[i].name)))) return false;
    return true;
}

static int parse_template(af_jinja *jinja, const char *source, size_t n, af_error *error) {
    jinja->source = af_arena_copy(jinja->arena, source, n);
    jinja->source_n = n;
    if (!jinja->source || !intern_known(jinja)) return af_fail_memory(error, sizeof *jinja, "template");
    j_tokens tokens;
    int status = af_j_lex(jinja->arena, source, n, &tokens, error);
    if (status) return status;
    j_parser ps = {.jinja = jinja, .at = tokens.items, .error = error};
    parse_until(&ps, NULL, &jinja->body);
    return ps.status;
}

int af_jinja_parse(const char *source, size_t n, af_jinja **out, af_error *error) {
    if (n > MAX_SOURCE) return af_fail(error, AF_EFORMAT, "template: %zu bytes, at most %d", n, MAX_SOURCE);
    if (!af_utf8_valid(source, n)) return af_fail(error, AF_EFORMAT, "template: not valid UTF-8");
    af_jinja *jinja = calloc(1, sizeof *jinja);
    if (!jinja || !(jinja->arena = af_arena_open(MAX_TREE))) {
        free(jinja);
        return af_fail_memory(error, sizeof *jinja, "template");
    }
    int status = parse_template(jinja, source, n, error);
    if (status) {
        af_jinja_close(jinja);
        return status;
    }
    *out = jinja;
    return 0;
}

bool af_jinja_mentions(const af_jinja *jinja, const char *word) {
    return memmem(jinja->source, jinja->source_n, word, strlen(word)) != NULL;
}

void af_jinja_close(af_jinja *jinja) {
    if (!jinja) return;
    af_arena_close(jinja->arena);
    free(jinja);
}

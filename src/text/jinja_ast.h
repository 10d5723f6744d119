/* jinja_ast.h - a template's tokens and its tree.
 *
 * The lexer turns the whole source into an array of tokens at once, white space control already applied; the parser
 * turns them into nodes. Both live in the arena of the af_jinja. Names are interned: two nodes with the same name hold
 * the same pointer, which is how variables are looked up.
 */
#ifndef AF_JINJA_AST_H
#define AF_JINJA_AST_H

#include "text/jinja_value.h"

typedef enum j_token_kind {
    T_TEXT, /* between tags */
    T_BLOCK_BEGIN,
    T_BLOCK_END,
    T_VARIABLE_BEGIN,
    T_VARIABLE_END,
    T_NAME,
    T_STRING,
    T_INT,
    T_FLOAT,
    T_OPERATOR,
    T_EOF
} j_token_kind;

typedef enum j_operator {
    O_NONE,
    O_ADD,
    O_SUB,
    O_MUL,
    O_DIV,
    O_FLOORDIV,
    O_MOD,
    O_POW,
    O_TILDE,
    O_EQ,
    O_NE,
    O_LT,
    O_LE,
    O_GT,
    O_GE,
    O_IN,
    O_NOT_IN,
    O_ASSIGN,
    O_DOT,
    O_COLON,
    O_COMMA,
    O_SEMICOLON,
    O_PIPE,
    O_LPAREN,
    O_RPAREN,
    O_LBRACKET,
    O_RBRACKET,
    O_LBRACE,
    O_RBRACE
} j_operator;

typedef struct j_token {
    uint8_t kind, op;
    uint32_t line, column;
    const char *p; /* T_TEXT, T_NAME: slice; T_STRING: unescaped */
    size_t n;
    int64_t integer;
    double real;
} j_token;

typedef struct j_tokens {
    j_token *items;
    size_t n;
} j_tokens;

int af_j_lex(af_arena *arena, const char *source, size_t n, j_tokens *out, af_error *error);

typedef enum j_node_kind {
    /* expressions */
    N_CONST,   /* value */
    N_NAME,    /* name, global */
    N_LIST,    /* items */
    N_TUPLE,   /* items */
    N_DICT,    /* items: key, value, key, value ... */
    N_ATTR,    /* a . name */
    N_ITEM,    /* a [ b ] */
    N_SLICE,   /* a [ items[0] : items[1] : items[2] ], each may be NULL */
    N_CALL,    /* a ( arguments ) */
    N_FILTER,  /* a | name (arguments), function; in filter blocks a may be NULL */
    N_TEST,    /* a is name (arguments), function */
    N_NOT,     /* a */
    N_NEG,     /* a */
    N_POS,     /* a */
    N_BINARY,  /* a op b */
    N_AND,     /* a, b */
    N_OR,      /* a, b */
    N_COMPARE, /* a, then items[i] by ops[i] */
    N_CONCAT,  /* items */
    N_COND,    /* b if a else c; c may be NULL */
    /* targets of assignments, beside N_NAME and N_TUPLE */
    N_NSREF, /* variable a . name */
    /* statements; `next` chains them */
    N_TEXT,         /* value, a string */
    N_OUTPUT,       /* items */
    N_IF,           /* a: test, body, orelse */
    N_FOR,          /* target, a: iterable, b: filter or NULL, body, orelse, recursive */
    N_SET,          /* target, a */
    N_SET_BLOCK,    /* target, a: filter chain or NULL, body */
    N_MACRO,        /* name, signature, body */
    N_CALL_BLOCK,   /* a: the call, signature, body */
    N_FILTER_BLOCK, /* a: filter chain, body */
    N_WITH,         /* items: target, value, target, value ...; body */
    N_SCOPE,        /* body with variables of its own: generation blocks */
    N_BREAK,
    N_CONTINUE
} j_node_kind;

/* The arguments of a call: positional ones, keywords, *spread and **spread. */
typedef struct j_call_args {
    j_node **items;
    const j_string **names;
    j_node **values;
    size_t n, n_keywords;
    j_node *spread, *keyword_spread;
} j_call_args;

/* The parameters of a macro or call block, and what its body mentions. */
typedef struct j_signature {
    const j_string **names;
    j_node **defaults; /* NULL for parameters without */
    size_t n;
    bool uses_caller, uses_varargs, uses_kwargs;
} j_signature;

struct j_node {
    uint8_t kind, op;
    bool recursive;
    uint32_t line, column;
    j_node *next;
    j_node *a, *b, *c;
    j_node *target;
    j_node *body, *orelse;
    j_node **items;
    uint8_t *ops;
    size_t n;
    const j_string *name;
    const j_function *function;
    j_call_args *arguments;
    j_signature *signature;
    j_value value;
};

/* Names by their bytes. */
typedef struct j_symbol {
    j_string name;
    struct j_symbol *next;
} j_symbol;

enum { J_SYMBOL_BUCKETS = 1024 };

struct af_jinja {
    af_arena *arena;
    const char *source;
    size_t source_n;
    j_node *body;
    j_symbol *symbols[J_SYMBOL_BUCKETS];
    size_t symbol_count;
    const j_string *caller, *varargs, *kwargs, *loop, *bos, *eos; /* names with a meaning */
};

/* The interned name, or NULL when out of memory or, without `add`, where the template has no such name. */
const j_string *af_j_intern(af_jinja *jinja, const char *p, size_t n);
const j_string *af_j_symbol(const af_jinja *jinja, const char *p, size_t n);

/* ---- The parser: statements in jinja_parse.c, expressions in jinja_parse_expr.c ---- */

typedef struct j_parser {
    af_jinja *jinja;
    const j_token *at;
    af_error *error;
    int status;
    unsigned depth;     /* of nesting */
    unsigned in_loop;   /* break and continue are allowed */
    j_signature *macro; /* being parsed, or NULL */
} j_parser;

/* These return NULL and leave parser->status negative after an error. */
j_node *af_j_parse_node(j_parser *parser, j_node_kind kind);
void *af_j_parse_alloc(j_parser *parser, size_t count, size_t size);
void *af_j_parse_fail(j_parser *parser, const char *format, ...) AF_PRINTF(2, 3);
bool af_j_parse_enter(j_parser *parser); /* left with --parser->depth */
bool af_j_parse_expect(j_parser *parser, j_operator op);
bool af_j_parse_is_name(const j_token *token, const char *name);
bool af_j_parse_skip_name(j_parser *parser, const char *name);
const j_string *af_j_parse_name(j_parser *parser);

j_node *af_j_parse_expression(j_parser *parser);
/* Expressions apart by commas make a tuple. `end` is a name that may follow a comma. */
j_node *af_j_parse_tuple(j_parser *parser, bool with_condition, const char *end);
j_node *af_j_parse_target(j_parser *parser, bool with_namespace, const char *end);
/* name | name(...) ...; with `input` NULL the innermost filter takes a block's text. */
j_node *af_j_parse_filters(j_parser *parser, j_node *input, bool first_is_named);

/* A list of nodes that grows while it is parsed. */
typedef struct j_nodes {
    j_node **items;
    size_t n, cap;
} j_nodes;
bool af_j_parse_push(j_parser *parser, j_nodes *nodes, j_node *node);

/* ---- The evaluator: expressions in jinja_eval.c, statements in jinja_exec.c ---- */

typedef struct j_variable {
    const j_string *name; /* interned */
    j_value value;
    struct j_variable *next;
} j_variable;

struct j_scope {
    j_scope *parent;
    j_variable *variables;
};

struct j_macro {
    const j_string *name;
    const j_signature *signature;
    const j_node *body;
    j_scope *scope; /* where it was defined */
    bool is_caller; /* a call block's body */
};

struct j_loop {
    const j_list *items;
    size_t at;
    unsigned depth; /* of recursion, from 0 */
    const j_node *node;
    j_scope *scope;  /* around the loop */
    j_list *changed; /* arguments of the last loop.changed() */
};

int af_j_eval(j_run *run, j_scope *scope, const j_node *node, j_value *out);
int af_j_eval_filters(j_run *run, j_scope *scope, const j_node *chain, const j_value *input, j_value *out);
/* With `caller` a call block's body. */
int af_j_eval_call(j_run *run, j_scope *scope, const j_node *node, const j_value *caller, j_value *out);

/* What a statement may end with, beside 0 and errors. */
enum { J_BREAK = 1, J_CONTINUE = 2 };
int af_j_exec(j_run *run, j_scope *scope, const j_node *body);
/* What a body prints, as a string. */
int af_j_capture(j_run *run, j_scope *scope, const j_node *body, j_value *out);
int af_j_exec_for(j_run *run, j_scope *scope, const j_node *node, const j_value *items, unsigned depth);
j_scope *af_j_scope_new(j_run *run, j_scope *parent);
int af_j_scope_set(j_run *run, j_scope *scope, const j_string *name, j_value value);
bool af_j_scope_get(j_run *run, const j_scope *scope, const j_string *name, j_value *out);

#endif

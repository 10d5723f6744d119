/* jinja_lex.c - from source to tokens, in one pass over the bytes.
 *
 * White space control is Jinja2's with trim_blocks and lstrip_blocks on: a line break right after a block or comment
 * tag is dropped, white space between a line's start and such a tag too, '-' beside a tag strips all white space on
 * that side, '+' keeps it. Line breaks are first made "\n" and one at the very end is dropped. A tag's end counts only
 * where brackets are balanced, so that `{{ {'a': {}} }}` works.
 */
#include "base/utf8.h"
#include "text/jinja_ast.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BRACKETS = 256 };

typedef struct lexer {
    const char *start, *at, *end;
    uint32_t line, column; /* of `at`; columns count characters, from 1 */
    af_arena *arena;
    af_error *error;
    j_token *tokens;
    size_t n, cap;
    bool line_starting; /* what was matched last ended with a line break */
    char brackets[MAX_BRACKETS];
    size_t open;
} lexer;

static int fail_at(lexer *lx, const char *what) {
    return af_fail(lx->error, AF_EFORMAT, "line %u, column %u: %s", lx->line, lx->column, what);
}

static void advance(lexer *lx, size_t n) {
    for (const char *stop = lx->at + n; lx->at < stop; lx->at++) {
        if (*lx->at == '\n') {
            lx->line++;
            lx->column = 1;
        } else if ((*lx->at & 0xC0) != 0x80) {
            lx->column++;
        }
    }
}

static bool starts(const lexer *lx, const char *p, const char *text) {
    size_t n = strlen(text);
    return (size_t)(lx->end - p) >= n && memcmp(p, text, n) == 0;
}

static j_token *push(lexer *lx, j_token_kind kind) {
    if (lx->n == lx->cap) {
        size_t cap = lx->cap ? lx->cap * 2 : 256;
        j_token *grown = af_arena_array(lx->arena, cap, sizeof *grown);
        if (!grown) {
            af_fail_memory(lx->error, cap * sizeof *grown, "template");
            return NULL;
        }
        if (lx->n) memcpy(grown, lx->tokens, lx->n * sizeof *grown);
        lx->tokens = grown;
        lx->cap = cap;
    }
    j_token *token = &lx->tokens[lx->n++];
    *token = (j_token){.kind = (uint8_t)kind, .line = lx->line, .column = lx->column, .p = lx->at};
    return token;
}

/* How many bytes of white space start at p. */
static size_t space_at(const char *p, const char *end) {
    const char *from = p;
    uint32_t c;
    for (size_t n; p < end && (n = af_utf8_decode(p, (size_t)(end - p), &c)) > 0 && af_j_is_space(c); p += n) {
    }
    return (size_t)(p - from);
}

/* ---- Text between tags ---- */

static const char *next_tag(const lexer *lx) {
    for (const char *p = lx->at; p + 1 < lx->end; p++)
        if (*p == '{' && (p[1] == '{' || p[1] == '%' || p[1] == '#')) return p;
    return lx->end;
}

static bool all_space(const char *p, size_t n) {
    return space_at(p, p + n) == n;
}

/* The length of [p, tag) once the tag's sign and lstrip_blocks are applied. */
static size_t stripped_length(const lexer *lx, const char *p, const char *tag, char sign, bool is_variable) {
    size_t n = (size_t)(tag - p);
    if (sign == '-') {
        const j_string text = {.p = p, .n = n};
        size_t from, to;
        af_j_strip(&text, NULL, false, true, &from, &to);
        return to;
    }
    if (sign == '+' || is_variable) return n;
    size_t line = n;
    while (line > 0 && p[line - 1] != '\n') line--;
    bool at_line_start = line > 0 || lx->line_starting;
    return at_line_start && all_space(p + line, n - line) ? line : n;
}

static int push_text(lexer *lx, const char *p, size_t n) {
    if (n == 0) return 0;
    j_token *token = push(lx, T_TEXT);
    if (!token) return AF_ENOMEM;
    token->p = p;
    token->n = n;
    return 0;
}

static char sign_at(const lexer *lx, const char *p) {
    return p < lx->end && (*p == '-' || *p == '+') ? *p : 0;
}

/* The length of a tag's end at p ("%}", "-%}", "+%}" and what they swallow), or 0. `plus` allows the third form. */
static size_t tag_end(const lexer *lx, const char *p, const char *close, bool trim, bool plus) {
    char sign = sign_at(lx, p);
    if (sign == '+' && !plus) return 0;
    const char *q = p + (sign ? 1 : 0);
    if (!starts(lx, q, close)) return 0;
    q += 2;
    if (sign == '-') return (size_t)(q - p) + space_at(q, lx->end);
    if (!sign && trim && q < lx->end && *q == '\n') q++;
    return (size_t)(q - p);
}

static void consume(lexer *lx, size_t n) {
    advance(lx, n);
    lx->line_starting = n > 0 && lx->at[-1] == '\n';
}

static int lex_comment(lexer *lx) {
    for (const char *p = lx->at + (sign_at(lx, lx->at + 2) ? 3 : 2); p < lx->end; p++) {
        size_t n = tag_end(lx, p, "#}", true, true);
        if (n) {
            consume(lx, (size_t)(p - lx->at) + n);
            return 0;
        }
    }
    return fail_at(lx, "comment without end ('#}')");
}

/* The length of `{%- raw -%}` at lx->at, or 0. */
static size_t raw_begin(const lexer *lx) {
    const char *p = lx->at + 2;
    if (sign_at(lx, p)) p++;
    p += space_at(p, lx->end);
    if (!starts(lx, p, "raw")) return 0;
    p += 3;
    p += space_at(p, lx->end);
    size_t n = tag_end(lx, p, "%}", false, false);
    return n ? (size_t)(p - lx->at) + n : 0;
}

/* The length of `{%- endraw -%}` at p, or 0. */
static size_t raw_end(const lexer *lx, const char *p) {
    if (!starts(lx, p, "{%")) return 0;
    const char *q = p + 2;
    if (sign_at(lx, q)) q++;
    q += space_at(q, lx->end);
    if (!starts(lx, q, "endraw")) return 0;
    q += 6;
    q += space_at(q, lx->end);
    size_t n = tag_end(lx, q, "%}", true, true);
    return n ? (size_t)(q - p) + n : 0;
}

static int lex_raw(lexer *lx, size_t begin) {
    consume(lx, begin);
    for (const char *p = lx->at; p < lx->end; p++) {
        size_t n = raw_end(lx, p);
        if (!n) continue;
        size_t length = stripped_length(lx, lx->at, p, sign_at(lx, p + 2), false);
        if (push_text(lx, lx->at, length)) return AF_ENOMEM;
        consume(lx, (size_t)(p - lx->at) + n);
        return 0;
    }
    return fail_at(lx, "raw block without end ('{% endraw %}')");
}

/* ---- Inside tags ---- */

static const struct {
    char text[3];
    uint8_t op;
} operators[] = {
    /* the longer first */
    {"//", O_FLOORDIV}, {"**", O_POW},   {"==", O_EQ},    {"!=", O_NE},    {"<=", O_LE},      {">=", O_GE},
    {"+", O_ADD},       {"-", O_SUB},    {"*", O_MUL},    {"/", O_DIV},    {"%", O_MOD},      {"~", O_TILDE},
    {"<", O_LT},        {">", O_GT},     {"=", O_ASSIGN}, {".", O_DOT},    {":", O_COLON},    {",", O_COMMA},
    {";", O_SEMICOLON}, {"|", O_PIPE},   {"(", O_LPAREN}, {")", O_RPAREN}, {"[", O_LBRACKET}, {"]", O_RBRACKET},
    {"{", O_LBRACE},    {"}", O_RBRACE},
};

static int balance(lexer *lx, char c) {
    if (c == '(' || c == '[' || c == '{') {
        if (lx->open == MAX_BRACKETS) return fail_at(lx, "brackets nested too deeply");
        lx->brackets[lx->open++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
        if (lx->open == 0) return fail_at(lx, "closing bracket without an opening one");
        if (lx->brackets[--lx->open] != c) return fail_at(lx, "closing bracket of another kind than the opening one");
    }
    return 0;
}

static int lex_operator(lexer *lx) {
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (!starts(lx, lx->at, operators[i].text)) continue;
        int status = balance(lx, *lx->at);
        if (status) return status;
        j_token *token = push(lx, T_OPERATOR);
        if (!token) return AF_ENOMEM;
        token->op = operators[i].op;
        token->n = strlen(operators[i].text);
        advance(lx, token->n);
        return 0;
    }
    return fail_at(lx, "unexpected character");
}

static bool is_name_byte(unsigned char c) {
    return c == '_' || c >= 0x80 || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

static bool is_digit_of(char c, int base) {
    int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : 99;
    return digit < base;
}

/* The end of digits, with single underscores between, from p; copies the digits. */
static const char *digits(const char *p, const char *end, int base, char *out, size_t *n, size_t room) {
    while (p < end && (is_digit_of(*p, base) || (*p == '_' && p + 1 < end && is_digit_of(p[1], base)))) {
        if (*p != '_' && *n + 1 < room) out[(*n)++] = *p;
        p++;
    }
    out[*n] = 0;
    return p;
}

static int finish_number(lexer *lx, const char *p, const char *text, int base, bool is_float) {
    j_token *token = push(lx, is_float ? T_FLOAT : T_INT);
    if (!token) return AF_ENOMEM;
    errno = 0;
    if (is_float)
        token->real = strtod(text, NULL);
    else
        token->integer = strtoll(text, NULL, base);
    if (!is_float && errno == ERANGE) return fail_at(lx, "integer beyond 64 bits");
    advance(lx, (size_t)(p - lx->at));
    return 0;
}

static int lex_number(lexer *lx) {
    char text[400];
    size_t n = 0;
    const char *p = lx->at, *end = lx->end;
    char second = end - p > 2 ? (char)(p[1] | 32) : 0;
    int base = *p != '0' ? 10 : second == 'x' ? 16 : second == 'o' ? 8 : second == 'b' ? 2 : 10;
    if (base != 10) return finish_number(lx, digits(p + 2, end, base, text, &n, sizeof text), text, base, false);
    p = digits(p, end, 10, text, &n, sizeof text - 40);
    bool is_float = false, is_index = lx->at > lx->start && lx->at[-1] == '.';
    if (!is_index && p + 1 < end && *p == '.' && is_digit_of(p[1], 10)) {
        text[n++] = '.';
        p = digits(p + 1, end, 10, text, &n, sizeof text - 30);
        is_float = true;
    }
    if (!is_index && p < end && (*p | 32) == 'e') {
        const char *q = p + 1;
        char sign = q < end && (*q == '-' || *q == '+') ? *q++ : '+';
        if (q < end && is_digit_of(*q, 10)) {
            text[n++] = 'e';
            text[n++] = sign;
            p = digits(q, end, 10, text, &n, sizeof text);
            is_float = true;
        }
    }
    return finish_number(lx, p, text, 10, is_float);
}

/* ---- Strings, with Python's escapes ---- */

static const struct {
    char letter, byte;
} simple_escapes[] = {{'n', '\n'}, {'t', '\t'}, {'r', '\r'}, {'\\', '\\'}, {'\'', '\''},
                      {'"', '"'},  {'a', '\a'}, {'b', '\b'}, {'f', '\f'},  {'v', '\v'}};

/* Up to `most` digits at p as a character; *used is their number. */
static uint32_t code_digits(const char *p, const char *end, int base, size_t most, size_t *used) {
    uint32_t c = 0;
    for (*used = 0; *used < most && p < end && is_digit_of(*p, base); p++, (*used)++)
        c = c * (uint32_t)base + (uint32_t)(*p <= '9' ? *p - '0' : (*p | 32) - 'a' + 10);
    return c;
}

/* Writes what the escape at p (after the backslash) stands for; returns the end of it, or NULL if it is malformed. */
static const char *unescape(const char *p, const char *end, char **out) {
    for (size_t i = 0; i < sizeof simple_escapes / sizeof *simple_escapes; i++) {
        if (*p != simple_escapes[i].letter) continue;
        *(*out)++ = simple_escapes[i].byte;
        return p + 1;
    }
    if (*p == '\n') return p + 1;
    size_t used, want = *p == 'x' ? 2 : *p == 'u' ? 4 : *p == 'U' ? 8 : 0;
    uint32_t c;
    if (want) {
        c = code_digits(p + 1, end, 16, want, &used);
        if (used != want || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return NULL;
        p += 1 + used;
    } else if (*p >= '0' && *p <= '7') {
        c = code_digits(p, end, 8, 3, &used);
        p += used;
    } else if (*p == 'N') {
        return NULL;
    } else {
        *(*out)++ = '\\';
        return p;
    }
    *out += af_utf8_encode(c, *out);
    return p;
}

static int lex_string(lexer *lx) {
    char quote = *lx->at;
    const char *close = lx->at + 1;
    while (close < lx->end && *close != quote) close += *close == '\\' ? 2 : 1;
    if (close >= lx->end) return fail_at(lx, "string without end");
    /* No escape is longer written out than written as an escape. */
    char *text = af_arena_alloc(lx->arena, (size_t)(close - lx->at) + 4), *out = text;
    j_token *token = push(lx, T_STRING);
    if (!text || !token) return af_fail_memory(lx->error, (size_t)(close - lx->at), "template");
    for (const char *p = lx->at + 1; p < close;) {
        if (*p != '\\') {
            *out++ = *p++;
            continue;
        }
        p = unescape(p + 1, close, &out);
        if (!p) return fail_at(lx, "string with a malformed escape");
    }
    token->p = text;
    token->n = (size_t)(out - text);
    advance(lx, (size_t)(close + 1 - lx->at));
    return 0;
}

static int lex_name(lexer *lx) {
    j_token *token = push(lx, T_NAME);
    if (!token) return AF_ENOMEM;
    while (lx->at + token->n < lx->end && is_name_byte((unsigned char)lx->at[token->n])) token->n++;
    advance(lx, token->n);
    return 0;
}

static int lex_one(lexer *lx) {
    unsigned char c = (unsigned char)*lx->at;
    if (c == '\'' || c == '"') return lex_string(lx);
    if (c >= '0' && c <= '9') return lex_number(lx);
    if (is_name_byte(c)) return lex_name(lx);
    return lex_operator(lx);
}

/* From after a tag's opening to past its end. */
static int lex_tag(lexer *lx, bool is_variable) {
    uint32_t line = lx->line;
    while (lx->at < lx->end) {
        size_t n = 0;
        if (lx->open == 0) n = tag_end(lx, lx->at, is_variable ? "}}" : "%}", !is_variable, !is_variable);
        if (n) {
            if (!push(lx, is_variable ? T_VARIABLE_END : T_BLOCK_END)) return AF_ENOMEM;
            consume(lx, n);
            return 0;
        }
        n = space_at(lx->at, lx->end);
        if (n) {
            advance(lx, n);
            continue;
        }
        int status = lex_one(lx);
        if (status) return status;
    }
    return af_fail(lx->error, AF_EFORMAT, "line %u: tag without end ('%s')", line, is_variable ? "}}" : "%}");
}

/* One stretch of text and the tag behind it. */
static int lex_stretch(lexer *lx) {
    const char *tag = next_tag(lx);
    bool is_variable = tag < lx->end && tag[1] == '{';
    char sign = tag < lx->end ? sign_at(lx, tag + 2) : 0;
    size_t n = tag < lx->end ? stripped_length(lx, lx->at, tag, sign, is_variable) : (size_t)(tag - lx->at);
    if (push_text(lx, lx->at, n)) return AF_ENOMEM;
    advance(lx, (size_t)(tag - lx->at));
    if (tag == lx->end) return 0;
    if (tag[1] == '#') return lex_comment(lx);
    size_t raw = is_variable ? 0 : raw_begin(lx);
    if (raw) return lex_raw(lx, raw);
    if (!push(lx, is_variable ? T_VARIABLE_BEGIN : T_BLOCK_BEGIN)) return AF_ENOMEM;
    consume(lx, sign ? 3 : 2);
    return lex_tag(lx, is_variable);
}

/* A copy with "\n" for every line break and without one at the very end. */
static char *normalized(af_arena *arena, const char *source, size_t n, size_t *out_n) {
    char *copy = af_arena_alloc(arena, n + 1);
    if (!copy) return NULL;
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        if (source[i] == '\n' && i > 0 && source[i - 1] == '\r') continue;
        copy[m++] = source[i];
        if (source[i] == '\r') copy[m - 1] = '\n';
    }
    if (m > 0 && copy[m - 1] == '\n') m--;
    copy[m] = 0;
    *out_n = m;
    return copy;
}

int af_j_lex(af_arena *arena, const char *source, size_t n, j_tokens *out, af_error *error) {
    lexer lx = {.arena = arena, .error = error, .line = 1, .column = 1, .line_starting = true};
    char *copy = normalized(arena, source, n, &n);
    if (!copy) return af_fail_memory(error, n, "template");
    lx.start = lx.at = copy;
    lx.end = copy + n;
    while (lx.at < lx.end) {
        int status = lex_stretch(&lx);
        if (status) return status;
    }
    if (!push(&lx, T_EOF)) return AF_ENOMEM;
    out->items = lx.tokens;
    out->n = lx.n;
    return 0;
}

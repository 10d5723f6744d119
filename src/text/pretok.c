/* pretok.c - patterns compiled, and the walk over a text.
 *
 * `\s` and `\S` are rewritten before compiling: PCRE2 counts U+180E among the spaces and has the property White_Space
 * only since 10.40, while the tokenizers these patterns come from mean exactly Unicode's White_Space.
 */
#include "text/pretok.h"

#include "base/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* Unicode's White_Space, as the inside of a class. */
#define WHITE_SPACE                                                                                                    \
    "\\x09-\\x0d\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

/* Steps PCRE2 may take: what linear patterns need, many times over. */
#define LIMIT_BASE     100000
#define LIMIT_PER_BYTE 32

struct af_pretok {
    const af_pretok_rule *rule;
    size_t count;
    pcre2_code *codes[AF_PRETOK_PATTERNS]; /* NULL for those run by hand */
};

static bool by_hand(const char *pattern) {
    return strcmp(pattern, AF_PRETOK_THOUSANDS) == 0 || strcmp(pattern, AF_PRETOK_THOUSANDS_WORD) == 0;
}

/* Copies `pattern` with \s and \S spelled out. */
static bool expand(const char *pattern, af_buf *out) {
    bool in_class = false;
    for (const char *p = pattern; *p; p++) {
        if (*p == '\\' && (p[1] == 's' || p[1] == 'S')) {
            if (!in_class) af_buf_text(out, p[1] == 's' ? "[" : "[^");
            af_buf_text(out, WHITE_SPACE);
            if (!in_class) af_buf_byte(out, ']');
            p++;
            continue;
        }
        af_buf_byte(out, *p);
        if (*p == '\\' && p[1])
            af_buf_byte(out, *++p);
        else if (*p == '[')
            in_class = true;
        else if (*p == ']')
            in_class = false;
    }
    return !out->failed;
}

static int compile(const char *pattern, pcre2_code **out, af_error *error) {
    af_buf text = {0};
    int status = AF_OK;
    if (!expand(pattern, &text)) {
        status = af_fail_memory(error, strlen(pattern), "a pre-tokenizer's pattern");
        goto done;
    }
    int code;
    PCRE2_SIZE at;
    *out = pcre2_compile((PCRE2_SPTR)text.p, text.len, PCRE2_UTF | PCRE2_UCP, &code, &at, NULL);
    if (!*out) {
        status = af_fail(error, AF_EUNSUPPORTED, "pre-tokenizer pattern %s: PCRE2 error %d at %zu", text.p, code, at);
        goto done;
    }
    pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE); /* where it fails, the interpreter serves */
done:
    af_buf_clear(&text);
    return status;
}

int af_pretok_open(const af_pretok_rule *rule, af_pretok **out, af_error *error) {
    af_pretok *pre = calloc(1, sizeof *pre);
    if (!pre) return af_fail_memory(error, sizeof *pre, "a pre-tokenizer");
    pre->rule = rule;
    for (; pre->count < AF_PRETOK_PATTERNS && rule->patterns[pre->count]; pre->count++) {
        if (by_hand(rule->patterns[pre->count])) continue;
        const int status = compile(rule->patterns[pre->count], &pre->codes[pre->count], error);
        if (status) {
            af_pretok_close(pre);
            return status;
        }
    }
    *out = pre;
    return AF_OK;
}

void af_pretok_close(af_pretok *pre) {
    if (!pre) return;
    for (size_t i = 0; i < AF_PRETOK_PATTERNS; i++) pcre2_code_free(pre->codes[i]);
    free(pre);
}

/* ---- The walk ---- */

int af_pretok_start(af_pretok_walk *walk, const af_pretok *pre, const char *text, size_t n, af_error *error) {
    *walk = (af_pretok_walk){.pre = pre, .text = text};
    walk->levels[0] = (af_pretok_level){.end = n};
    pcre2_match_context *limits = pcre2_match_context_create(NULL);
    walk->limits = limits;
    walk->match = pcre2_match_data_create(1, NULL);
    if (!walk->match || !limits) return af_fail_memory(error, n, "a pre-tokenizer's match");
    const size_t most = (UINT32_MAX - LIMIT_BASE) / LIMIT_PER_BYTE;
    pcre2_set_match_limit(limits, LIMIT_BASE + LIMIT_PER_BYTE * (uint32_t)(n < most ? n : most));
    return AF_OK;
}

void af_pretok_finish(af_pretok_walk *walk) {
    pcre2_match_data_free(walk->match);
    pcre2_match_context_free(walk->limits);
    *walk = (af_pretok_walk){0};
}

/* The character at `at`: its length, 0 at the end, and its category. */
static size_t character(const char *text, size_t at, size_t end, utf8proc_category_t *category) {
    uint32_t c;
    const size_t n = at < end ? af_utf8_decode(text + at, end - at, &c) : 0;
    if (n) *category = utf8proc_category((utf8proc_int32_t)c);
    return n;
}

/* A letter, mark, number or connector. */
static bool is_word(utf8proc_category_t category) {
    return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NO) || category == UTF8PROC_CATEGORY_PC;
}

/* Skips up to `most` digits from `at` on; returns how many. */
static size_t skip_digits(const char *text, size_t *at, size_t end, size_t most) {
    size_t count = 0;
    for (; count < most; count++) {
        utf8proc_category_t category;
        const size_t n = character(text, *at, end, &category);
        if (!n || category != UTF8PROC_CATEGORY_ND) break;
        *at += n;
    }
    return count;
}

/* Finds the next digits from `at` on that are to be cut: how many come before the first three, or three; 0: none. */
static size_t find_digits(const char *text, af_pretok_level *level, size_t *at, bool alone) {
    utf8proc_category_t category;
    for (size_t n; (n = character(text, *at, level->end, &category)); *at += n) {
        if (category != UTF8PROC_CATEGORY_ND) continue;
        level->digits_end = *at;
        const size_t count = skip_digits(text, &level->digits_end, level->end, SIZE_MAX);
        if (!alone || !character(text, level->digits_end, level->end, &category) || !is_word(category)) {
            return (count - 1) % 3 + 1;
        }
        *at = level->digits_end;
        n = 0;
    }
    return 0;
}

/* Looks for the level's next group of digits. */
static void find_group(const char *text, af_pretok_level *level, bool alone) {
    size_t at = level->at;
    const size_t count = at < level->digits_end ? 3 : find_digits(text, level, &at, alone);
    level->match_at = at;
    skip_digits(text, &at, level->end, count);
    level->match_end = at;
    level->matched = true;
}

/* Looks for the level's next match; none is as one of no bytes at the end. */
static int find(af_pretok_walk *walk, af_pretok_level *level, af_error *error) {
    if (!walk->pre->codes[walk->depth]) {
        const char *pattern = walk->pre->rule->patterns[walk->depth];
        find_group(walk->text, level, strcmp(pattern, AF_PRETOK_THOUSANDS_WORD) == 0);
        return AF_OK;
    }
    const char *from = walk->text + level->at;
    const size_t n = level->end - level->at;
    const int rc = pcre2_match(walk->pre->codes[walk->depth], (PCRE2_SPTR)from, n, 0,
                               PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, walk->match, walk->limits);
    if (rc < 0 && rc != PCRE2_ERROR_NOMATCH) {
        return af_fail(error, AF_ENOMEM, "pre-tokenizer %s: pattern %zu gave up on %zu bytes (PCRE2 error %d)",
                       walk->pre->rule->names, walk->depth + 1, n, rc);
    }
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(walk->match);
    level->match_at = rc < 0 ? level->end : level->at + span[0];
    level->match_end = rc < 0 ? level->end : level->at + span[1];
    level->matched = true;
    return AF_OK;
}

/* Takes the next gap or match off a level that is not at its end. */
static int take(af_pretok_walk *walk, af_pretok_level *level, af_pretok_level *piece, af_error *error) {
    if (!level->matched) {
        const int status = find(walk, level, error);
        if (status) return status;
    }
    const bool gap = level->at < level->match_at;
    *piece = (af_pretok_level){.at = level->at, .end = gap ? level->match_at : level->match_end};
    level->matched = gap && level->match_at < level->end;
    level->at = piece->end;
    return AF_OK;
}

int af_pretok_next(af_pretok_walk *walk, af_slice *piece, af_error *error) {
    for (;;) {
        af_pretok_level *level = &walk->levels[walk->depth];
        if (level->at == level->end) {
            if (walk->depth == 0) break;
            walk->depth--;
            continue;
        }
        af_pretok_level part;
        const int status = take(walk, level, &part, error);
        if (status) return status;
        if (walk->depth + 1 == walk->pre->count) {
            *piece = af_slice_of(walk->text + part.at, part.end - part.at);
            return AF_OK;
        }
        walk->levels[++walk->depth] = part;
    }
    *piece = af_slice_of(NULL, 0);
    return AF_OK;
}

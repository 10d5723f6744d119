/* pretok.h - how byte-level BPE vocabularies cut text before merging: the rules that tokenizer.ggml.pre names.
 *
 * A rule is a list of patterns. The first cuts the text, each later one cuts the pieces left by the one before; matches
 * and the text between them are both pieces, and a piece is all that a pattern's look-ahead sees. The names, patterns
 * and flags are one table (pretok_rules.c). Patterns run through PCRE2 with Unicode properties, JIT where the machine
 * allows it, and a match limit that grows with the text, so that a pattern costs linear time or an error.
 */
#ifndef AF_PRETOK_H
#define AF_PRETOK_H

#include "base/buf.h"

#define AF_PRETOK_PATTERNS 6

/* Digits in threes, counted from the right, as 1|234|567; the second only where no letter follows. These two patterns
 * are run by hand: a pattern looks to the end of all the digits for each three of them. */
#define AF_PRETOK_THOUSANDS      "\\d{1,3}(?=(?:\\d{3})*(?!\\d))"
#define AF_PRETOK_THOUSANDS_WORD "\\d{1,3}(?=(?:\\d{3})*\\b)"

typedef struct af_pretok_rule {
    const char *names;                        /* values of tokenizer.ggml.pre, apart by spaces */
    const char *patterns[AF_PRETOK_PATTERNS]; /* NULL after the last */
    bool ignore_merges;                       /* a piece that is a token is that token, whatever the merges say */
    bool compose;                             /* the text is put in NFC first */
    bool mask_takes_space;                    /* the mask token takes the white space before it */
    bool add_bos;                             /* where tokenizer.ggml.add_bos_token is absent */
} af_pretok_rule;

/* The rule of that name, or NULL. */
const af_pretok_rule *af_pretok_find(af_slice name);
/* The rule at `index`, NULL past the last: for checks of the whole table. */
const af_pretok_rule *af_pretok_at(size_t index);
/* What stands in for an unknown or absent name. */
const af_pretok_rule *af_pretok_default(void);

typedef struct af_pretok af_pretok; /* compiled; used by several threads at once */

int af_pretok_open(const af_pretok_rule *rule, af_pretok **out, af_error *error);
void af_pretok_close(af_pretok *pre);

/* One thread's walk over one text, depth first through the patterns, so that it needs no list of pieces. */
typedef struct af_pretok_level {
    size_t at, end;             /* what is left of this level's piece */
    size_t match_at, match_end; /* a match found beyond the gap that begins at `at` */
    bool matched;
    size_t digits_end; /* of the digits that are being cut in threes */
} af_pretok_level;

typedef struct af_pretok_walk {
    const af_pretok *pre;
    const char *text;
    size_t depth;
    af_pretok_level levels[AF_PRETOK_PATTERNS];
    void *match; /* PCRE2's match data */
    void *limits;
} af_pretok_walk;

/* `text` must be valid UTF-8. af_pretok_finish is due also after a failure. */
int af_pretok_start(af_pretok_walk *walk, const af_pretok *pre, const char *text, size_t n, af_error *error);
/* The next piece, never empty; p NULL at the end. */
int af_pretok_next(af_pretok_walk *walk, af_slice *piece, af_error *error);
void af_pretok_finish(af_pretok_walk *walk);

#endif

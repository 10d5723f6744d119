/* jinja_unicode.c - Python's classes of characters and changes of case, on utf8proc's tables.
 *
 * utf8proc maps one character to one; those that become several in capitals are in a table of their own.
 */
#include "base/utf8.h"
#include "text/jinja_value.h"

#include <string.h>
#include <utf8proc.h>

static utf8proc_category_t category(uint32_t c) {
    return utf8proc_category((utf8proc_int32_t)c);
}

/* str.isspace: the bidirectional types WS, B and S, and category Zs. */
bool af_j_is_space(uint32_t c) {
    if (c < 128) return c == ' ' || (c >= 9 && c <= 13) || (c >= 28 && c <= 31);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

bool af_j_is_printable(uint32_t c) {
    if (c < 127) return c >= 32;
    utf8proc_category_t k = category(c);
    return k != UTF8PROC_CATEGORY_CN && k < UTF8PROC_CATEGORY_ZS;
}

bool af_j_is_alpha(uint32_t c) {
    utf8proc_category_t k = category(c);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool af_j_is_decimal(uint32_t c) {
    return category(c) == UTF8PROC_CATEGORY_ND;
}

/* Decimals, and the digits in circles, superscripts and the like. */
bool af_j_is_digit(uint32_t c) {
    static const uint32_t ranges[][2] = {{0xB2, 0xB3},     {0xB9, 0xB9},     {0x1369, 0x1371}, {0x19DA, 0x19DA},
                                         {0x2070, 0x2070}, {0x2074, 0x2079}, {0x2080, 0x2089}, {0x2460, 0x2468},
                                         {0x2474, 0x247C}, {0x2488, 0x2490}, {0x24EA, 0x24EA}, {0x24F5, 0x24FD},
                                         {0x24FF, 0x24FF}, {0x2776, 0x277E}, {0x2780, 0x2788}, {0x278A, 0x2792}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (c >= ranges[i][0] && c <= ranges[i][1]) return true;
    return af_j_is_decimal(c);
}

bool af_j_is_numeric(uint32_t c) {
    utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}

bool af_j_is_title(uint32_t c) {
    return category(c) == UTF8PROC_CATEGORY_LT;
}

bool af_j_is_upper(uint32_t c) {
    return category(c) == UTF8PROC_CATEGORY_LU || (c >= 0x2160 && c <= 0x216F) || (c >= 0x24B6 && c <= 0x24CF);
}

bool af_j_is_lower(uint32_t c) {
    return category(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA || (c >= 0x2B0 && c <= 0x2B8) ||
           (c >= 0x2170 && c <= 0x217F) || (c >= 0x24D0 && c <= 0x24E9);
}

/* ---- Case ---- */

/* Capitals of more than one character (Unicode's SpecialCasing.txt); second column: at the start of a title word. */
static const struct {
    uint32_t from;
    const char *upper, *title;
} special[] = {
    {0xDF, "SS", "Ss"},
    {0x149, "\u02BCN", "\u02BCN"},
    {0x1F0, "J\u030C", "J\u030C"},
    {0x390, "\u0399\u0308\u0301", "\u0399\u0308\u0301"},
    {0x3B0, "\u03A5\u0308\u0301", "\u03A5\u0308\u0301"},
    {0x587, "\u0535\u0552", "\u0535\u0582"},
    {0x1E96, "H\u0331", "H\u0331"},
    {0x1E97, "T\u0308", "T\u0308"},
    {0x1E98, "W\u030A", "W\u030A"},
    {0x1E99, "Y\u030A", "Y\u030A"},
    {0x1E9A, "A\u02BE", "A\u02BE"},
    {0xFB00, "FF", "Ff"},
    {0xFB01, "FI", "Fi"},
    {0xFB02, "FL", "Fl"},
    {0xFB03, "FFI", "Ffi"},
    {0xFB04, "FFL", "Ffl"},
    {0xFB05, "ST", "St"},
    {0xFB06, "ST", "St"},
    {0xFB13, "\u0544\u0546", "\u0544\u0576"},
    {0xFB14, "\u0544\u0535", "\u0544\u0565"},
    {0xFB15, "\u0544\u053B", "\u0544\u056B"},
    {0xFB16, "\u054E\u0546", "\u054E\u0576"},
    {0xFB17, "\u0544\u053D", "\u0544\u056D"},
};

static bool put_special(j_text *t, uint32_t c, bool title, uint8_t origin) {
    for (size_t i = 0; c >= 0x80 && i < sizeof special / sizeof *special; i++) {
        if (special[i].from != c) continue;
        af_j_text_c(t, title ? special[i].title : special[i].upper, origin);
        return true;
    }
    return false;
}

static void put_upper(j_text *t, uint32_t c, uint8_t origin) {
    if (!put_special(t, c, false, origin)) af_j_text_code(t, (uint32_t)utf8proc_toupper((utf8proc_int32_t)c), origin);
}

static void put_title(j_text *t, uint32_t c, uint8_t origin) {
    if (!put_special(t, c, true, origin)) af_j_text_code(t, (uint32_t)utf8proc_totitle((utf8proc_int32_t)c), origin);
}

static bool is_cased(uint32_t c) {
    return af_j_is_upper(c) || af_j_is_lower(c) || af_j_is_title(c);
}

/* Whether the capital sigma in [at, at + 2) stands at a word's end: a cased letter before, none after. */
static bool is_final_sigma(const j_string *s, size_t at) {
    uint32_t c = 0;
    size_t before = at;
    while (before > 0 && (s->p[--before] & 0xC0) == 0x80) {
    }
    if (at == 0 || !af_utf8_decode(s->p + before, at - before, &c) || !is_cased(c)) return false;
    size_t after = at + 2;
    return after >= s->n || !af_utf8_decode(s->p + after, s->n - after, &c) || !is_cased(c);
}

static void put_lower(j_text *t, const j_string *s, size_t at, uint32_t c, uint8_t origin) {
    if (c == 0x130)
        af_j_text_c(t, "i\u0307", origin);
    else if (c == 0x3A3)
        af_j_text_code(t, is_final_sigma(s, at) ? 0x3C2 : 0x3C3, origin);
    else
        af_j_text_code(t, (uint32_t)utf8proc_tolower((utf8proc_int32_t)c), origin);
}

static void put_folded(j_text *t, const j_string *s, size_t at, uint32_t c, uint8_t origin) {
    if (c == 0xDF || c == 0x1E9E)
        af_j_text_c(t, "ss", origin);
    else if (c == 0x3C2)
        af_j_text_code(t, 0x3C3, origin);
    else
        put_lower(t, s, at, c, origin);
}

int af_j_change_case(j_run *run, const j_string *s, j_case how, j_value *out) {
    j_text t;
    af_j_text_open(&t, run);
    bool in_word = false;
    for (size_t at = 0, n; at < s->n && !run->status; at += n) {
        uint32_t c = 0;
        n = af_utf8_decode(s->p + at, s->n - at, &c);
        if (n == 0) break;
        uint8_t origin = af_j_origin_at(s, at);
        bool starts_word = how == J_TITLE ? !in_word : at == 0;
        if (how == J_UPPER || (how == J_SWAP && af_j_is_lower(c)))
            put_upper(&t, c, origin);
        else if ((how == J_TITLE || how == J_CAPITALIZE) && starts_word)
            put_title(&t, c, origin);
        else if (how == J_SWAP && !af_j_is_upper(c))
            af_j_text_code(&t, c, origin);
        else if (how == J_FOLD)
            put_folded(&t, s, at, c, origin);
        else
            put_lower(&t, s, at, c, origin);
        in_word = is_cased(c);
    }
    t.markup = s->markup;
    return af_j_text_done(&t, out);
}

/* ---- Stripping ---- */

static bool is_stripped(const j_string *s, size_t at, size_t n, const j_string *chars) {
    uint32_t c;
    if (!chars) return af_utf8_decode(s->p + at, n, &c) && af_j_is_space(c);
    return memmem(chars->p, chars->n, s->p + at, n) != NULL;
}

void af_j_strip(const j_string *s, const j_string *chars, bool left, bool right, size_t *from, size_t *to) {
    *from = 0;
    *to = s->n;
    while (left && *from < *to) {
        size_t n = af_utf8_lead((unsigned char)s->p[*from]);
        if (n == 0 || n > *to - *from || !is_stripped(s, *from, n, chars)) break;
        *from += n;
    }
    while (right && *from < *to) {
        size_t at = *to - 1;
        while (at > *from && (s->p[at] & 0xC0) == 0x80) at--;
        if (!is_stripped(s, at, *to - at, chars)) break;
        *to = at;
    }
}

/* jinja_methods_string.c - the methods of strings. What they count, they count in characters. */
#include "base/utf8.h"
#include "text/jinja_value.h"

#include <string.h>

enum { MAX_PADDING = 1 << 20 };

static const j_string *self(const j_args *args) {
    return args->self.string;
}

static int need_text(j_run *run, const j_args *args, size_t place, const j_string **out) {
    return af_j_need_string(run, &args->bound[place], "argument", out);
}

static int optional_int(j_run *run, const j_value *v, int64_t otherwise, int64_t *out) {
    *out = otherwise;
    return af_j_given(v) && v->kind != J_NONE ? af_j_need_int(run, v, "argument", out) : 0;
}

/* ---- Case ---- */

static int method_upper(j_run *run, const j_args *args, j_value *out) {
    return af_j_change_case(run, self(args), J_UPPER, out);
}

static int method_lower(j_run *run, const j_args *args, j_value *out) {
    return af_j_change_case(run, self(args), J_LOWER, out);
}

static int method_title(j_run *run, const j_args *args, j_value *out) {
    return af_j_change_case(run, self(args), J_TITLE, out);
}

static int method_capitalize(j_run *run, const j_args *args, j_value *out) {
    return af_j_change_case(run, self(args), J_CAPITALIZE, out);
}

static int method_swapcase(j_run *run, const j_args *args, j_value *out) {
    return af_j_change_case(run, self(args), J_SWAP, out);
}

static int method_casefold(j_run *run, const j_args *args, j_value *out) {
    return af_j_change_case(run, self(args), J_FOLD, out);
}

/* ---- Stripping ---- */

int af_j_strip_string(j_run *run, const j_string *s, const j_value *chars, bool left, bool right, j_value *out) {
    const j_string *set = NULL;
    if (af_j_given(chars) && chars->kind != J_NONE && af_j_need_string(run, chars, "strip", &set)) return run->status;
    if (af_j_work(run, s->n / 16 + (set ? s->n / 4 + s->n * (set->n / 64) : 0))) return run->status;
    size_t from, to;
    af_j_strip(s, set, left, right, &from, &to);
    return af_j_string_part(run, s, from, to, out);
}

static int method_strip(j_run *run, const j_args *args, j_value *out) {
    return af_j_strip_string(run, self(args), &args->bound[0], true, true, out);
}

static int method_lstrip(j_run *run, const j_args *args, j_value *out) {
    return af_j_strip_string(run, self(args), &args->bound[0], true, false, out);
}

static int method_rstrip(j_run *run, const j_args *args, j_value *out) {
    return af_j_strip_string(run, self(args), &args->bound[0], false, true, out);
}

static bool has_prefix(const j_string *s, const j_string *part) {
    return part->n <= s->n && memcmp(s->p, part->p, part->n) == 0;
}

static bool has_suffix(const j_string *s, const j_string *part) {
    return part->n <= s->n && memcmp(s->p + s->n - part->n, part->p, part->n) == 0;
}

static int method_removeprefix(j_run *run, const j_args *args, j_value *out) {
    const j_string *part;
    if (need_text(run, args, 0, &part) || af_j_work(run, part->n / 64)) return run->status;
    return af_j_string_part(run, self(args), has_prefix(self(args), part) ? part->n : 0, self(args)->n, out);
}

static int method_removesuffix(j_run *run, const j_args *args, j_value *out) {
    const j_string *part;
    if (need_text(run, args, 0, &part) || af_j_work(run, part->n / 64)) return run->status;
    size_t cut = has_suffix(self(args), part) ? part->n : 0;
    return af_j_string_part(run, self(args), 0, self(args)->n - cut, out);
}

/* ---- Beginnings and ends; a tuple stands for any of its strings ---- */

typedef bool (*affix)(const j_string *s, const j_string *part);

/* self[start:end] for a search. As in Python a start behind the string's end finds nothing, not even "". */
static int search_window(j_run *run, const j_args *args, const j_string **out) {
    int64_t start;
    size_t n;
    j_value part;
    const j_value step = {.kind = J_ABSENT};
    if (optional_int(run, &args->bound[1], 0, &start) || af_j_length(run, &args->self, &n)) return run->status;
    *out = NULL;
    if (start > (int64_t)n) return 0;
    if (af_j_slice(run, &args->self, &args->bound[1], &args->bound[2], &step, &part)) return run->status;
    *out = part.string;
    return 0;
}

static int has_affix(j_run *run, const j_args *args, affix has, j_value *out) {
    const j_value *wanted = &args->bound[0];
    const j_string *window;
    if (search_window(run, args, &window)) return run->status;
    const j_list one = {.items = (j_value *)wanted, .n = 1};
    const j_list *list = wanted->kind == J_TUPLE ? wanted->list : &one;
    bool found = false;
    for (size_t i = 0; i < list->n && !found; i++) {
        const j_string *text;
        if (af_j_need_string(run, &list->items[i], "argument", &text)) return run->status;
        if (af_j_work(run, 1 + text->n / 64)) return run->status;
        found = window && has(window, text);
    }
    *out = af_j_bool(found);
    return 0;
}

static int method_startswith(j_run *run, const j_args *args, j_value *out) {
    return has_affix(run, args, has_prefix, out);
}

static int method_endswith(j_run *run, const j_args *args, j_value *out) {
    return has_affix(run, args, has_suffix, out);
}

/* ---- Finding ---- */

typedef size_t (*finder)(j_run *run, const j_string *s, const j_string *part, size_t from, size_t to);

/* The character index of args[0] within [start, end), -1 if it is not there. */
static int find_index(j_run *run, const j_args *args, finder find, int64_t *out) {
    const j_string *part, *window;
    if (need_text(run, args, 0, &part) || search_window(run, args, &window)) return run->status;
    size_t at = window ? find(run, window, part, 0, window->n) : SIZE_MAX;
    *out = -1;
    if (at != SIZE_MAX) {
        size_t before = (size_t)(window->p - self(args)->p) + at;
        *out = (int64_t)af_utf8_count(self(args)->p, before);
    }
    return run->status;
}

static int find_or_fail(j_run *run, const j_args *args, finder find, bool must, j_value *out) {
    int64_t at = -1;
    if (find_index(run, args, find, &at)) return run->status;
    if (must && at < 0) return af_j_fail(run, "index: substring not found");
    *out = af_j_int(at);
    return 0;
}

static int method_find(j_run *run, const j_args *args, j_value *out) {
    return find_or_fail(run, args, af_j_find, false, out);
}

static int method_rfind(j_run *run, const j_args *args, j_value *out) {
    return find_or_fail(run, args, af_j_find_last, false, out);
}

static int method_index(j_run *run, const j_args *args, j_value *out) {
    return find_or_fail(run, args, af_j_find, true, out);
}

static int method_rindex(j_run *run, const j_args *args, j_value *out) {
    return find_or_fail(run, args, af_j_find_last, true, out);
}

static int method_count(j_run *run, const j_args *args, j_value *out) {
    const j_string *part, *s;
    if (need_text(run, args, 0, &part) || search_window(run, args, &s)) return run->status;
    int64_t n = s && !part->n ? (int64_t)af_j_char_count(run, s) + 1 : 0;
    for (size_t at = 0; s && part->n && (at = af_j_find(run, s, part, at, s->n)) != SIZE_MAX; at += part->n) {
        if (af_j_work(run, 1)) break;
        n++;
    }
    *out = af_j_int(n);
    return run->status;
}

/* ---- Replacing ---- */

/* An empty `old` is found before every character and at the end. */
static int interleave(j_run *run, const j_string *s, const j_string *with, int64_t count, j_value *out) {
    j_text t;
    af_j_text_open(&t, run);
    for (size_t at = 0, n; at <= s->n && !af_j_work(run, 1); at += n) {
        if (count != 0) af_j_text_string(&t, with);
        if (count > 0) count--;
        n = at < s->n ? af_utf8_lead((unsigned char)s->p[at]) : 1;
        if (at < s->n) af_j_text_part(&t, s, at, at + n);
    }
    return af_j_text_done(&t, out);
}

int af_j_replace(j_run *run, const j_string *s, const j_string *old, const j_string *with, int64_t count,
                 j_value *out) {
    if (old->n == 0) return interleave(run, s, with, count, out);
    j_text t;
    af_j_text_open(&t, run);
    size_t from = 0;
    while (count != 0 && !run->status) {
        size_t at = af_j_find(run, s, old, from, s->n);
        if (at == SIZE_MAX || af_j_work(run, 1)) break;
        af_j_text_part(&t, s, from, at);
        af_j_text_string(&t, with);
        from = at + old->n;
        count--;
    }
    af_j_text_part(&t, s, from, s->n);
    t.markup = s->markup;
    return af_j_text_done(&t, out);
}

static int method_replace(j_run *run, const j_args *args, j_value *out) {
    const j_string *old, *with;
    int64_t count;
    if (need_text(run, args, 0, &old) || need_text(run, args, 1, &with)) return run->status;
    if (optional_int(run, &args->bound[2], -1, &count)) return run->status;
    return af_j_replace(run, self(args), old, with, count, out);
}

/* ---- Splitting ---- */

static int push_part(j_run *run, j_list *list, const j_string *s, size_t from, size_t to) {
    j_value part;
    if (af_j_string_part(run, s, from, to, &part)) return run->status;
    return af_j_list_push(run, list, part);
}

static void reverse_list(j_list *list) {
    for (size_t i = 0; i < list->n / 2; i++) {
        j_value v = list->items[i];
        list->items[i] = list->items[list->n - 1 - i];
        list->items[list->n - 1 - i] = v;
    }
}

static int split_by(j_run *run, const j_string *s, const j_string *separator, int64_t most, j_list *list) {
    size_t from = 0;
    for (size_t at; most != 0 && (at = af_j_find(run, s, separator, from, s->n)) != SIZE_MAX; most--) {
        if (push_part(run, list, s, from, at)) return run->status;
        from = at + separator->n;
    }
    return run->status ? run->status : push_part(run, list, s, from, s->n);
}

static int split_by_from_end(j_run *run, const j_string *s, const j_string *separator, int64_t most, j_list *list) {
    size_t to = s->n;
    for (size_t at; most != 0 && (at = af_j_find_last(run, s, separator, 0, to)) != SIZE_MAX; most--) {
        if (push_part(run, list, s, at + separator->n, to)) return run->status;
        to = at;
    }
    if (run->status || push_part(run, list, s, 0, to)) return run->status;
    reverse_list(list);
    return 0;
}

/* Where a word ends after `at`, or where white space does. */
static size_t skip(const j_string *s, size_t at, bool space) {
    uint32_t c;
    for (size_t n; at < s->n && (n = af_utf8_decode(s->p + at, s->n - at, &c)) > 0 && af_j_is_space(c) == space;)
        at += n;
    return at;
}

static int split_words(j_run *run, const j_string *s, int64_t most, j_list *list) {
    af_j_work(run, s->n / 16);
    for (size_t at = skip(s, 0, true); at < s->n && !run->status; most--) {
        size_t end = most == 0 ? s->n : skip(s, at, false);
        if (push_part(run, list, s, at, end)) return run->status;
        at = skip(s, end, true);
    }
    return run->status;
}

static int split_words_from_end(j_run *run, const j_string *s, int64_t most, j_list *list) {
    size_t from, to;
    j_string rest = *s;
    for (; !af_j_work(run, 1); most--) {
        af_j_strip(&rest, NULL, false, true, &from, &to);
        rest.n = to;
        if (to == 0) break;
        size_t at = to;
        for (size_t c = to; most != 0 && c > 0; at = c) {
            do c--;
            while (c > 0 && (s->p[c] & 0xC0) == 0x80);
            uint32_t code;
            if (!af_utf8_decode(s->p + c, to - c, &code) || af_j_is_space(code)) break;
        }
        if (most == 0) at = 0;
        if (push_part(run, list, s, at, to)) return run->status;
        rest.n = at;
    }
    reverse_list(list);
    return run->status;
}

static int split(j_run *run, const j_args *args, bool from_end, j_value *out) {
    const j_string *separator = NULL;
    int64_t most;
    bool words = !af_j_given(&args->bound[0]) || args->bound[0].kind == J_NONE;
    if (!words && need_text(run, args, 0, &separator)) return run->status;
    if (optional_int(run, &args->bound[1], -1, &most)) return run->status;
    if (separator && separator->n == 0) return af_j_fail(run, "split: an empty separator");
    j_list *list = af_j_list_new(run, 0);
    if (!list) return run->status;
    int status;
    if (words)
        status = (from_end ? split_words_from_end : split_words)(run, self(args), most, list);
    else
        status = (from_end ? split_by_from_end : split_by)(run, self(args), separator, most, list);
    *out = af_j_of_list(J_LIST, list);
    return status;
}

static int method_split(j_run *run, const j_args *args, j_value *out) {
    return split(run, args, false, out);
}

static int method_rsplit(j_run *run, const j_args *args, j_value *out) {
    return split(run, args, true, out);
}

/* The length of the line break at p, 0 if there is none. */
static size_t line_break(const char *p, size_t n) {
    uint32_t c;
    size_t length = af_utf8_decode(p, n, &c);
    if (length == 0) return 0;
    if (c == '\r' && n > 1 && p[1] == '\n') return 2;
    bool breaks = (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
    return breaks ? length : 0;
}

int af_j_split_lines(j_run *run, const j_string *s, bool keep_ends, j_list **out) {
    *out = af_j_list_new(run, 0);
    if (!*out || af_j_work(run, s->n / 4)) return run->status;
    size_t from = 0;
    for (size_t at = 0; at < s->n;) {
        size_t n = line_break(s->p + at, s->n - at);
        if (n && push_part(run, *out, s, from, keep_ends ? at + n : at)) return run->status;
        at += n ? n : af_utf8_lead((unsigned char)s->p[at]);
        if (n) from = at;
    }
    return from < s->n ? push_part(run, *out, s, from, s->n) : 0;
}

static int method_splitlines(j_run *run, const j_args *args, j_value *out) {
    j_list *lines;
    int status = af_j_split_lines(run, self(args), af_j_truth(&args->bound[0]), &lines);
    *out = af_j_of_list(J_LIST, lines);
    return status;
}

/* Three parts: before, separator, after. Without the separator the whole is first, or last from the end. */
static int partition(j_run *run, const j_args *args, bool from_end, j_value *out) {
    const j_string *separator, *s = self(args);
    if (need_text(run, args, 0, &separator)) return run->status;
    if (separator->n == 0) return af_j_fail(run, "partition: an empty separator");
    size_t at = (from_end ? af_j_find_last : af_j_find)(run, s, separator, 0, s->n);
    j_list *list = af_j_list_new(run, 3);
    if (!list) return run->status;
    size_t cuts[4] = {0, at, at + separator->n, s->n};
    if (at == SIZE_MAX) cuts[1] = cuts[2] = from_end ? 0 : s->n;
    for (size_t i = 0; i < 3; i++)
        if (push_part(run, list, s, cuts[i], cuts[i + 1])) return run->status;
    *out = af_j_of_list(J_TUPLE, list);
    return 0;
}

static int method_partition(j_run *run, const j_args *args, j_value *out) {
    return partition(run, args, false, out);
}

static int method_rpartition(j_run *run, const j_args *args, j_value *out) {
    return partition(run, args, true, out);
}

/* ---- Joining, padding, formatting ---- */

static int method_join(j_run *run, const j_args *args, j_value *out) {
    const j_list *list;
    if (af_j_to_list(run, &args->bound[0], &list)) return run->status;
    j_text t;
    af_j_text_open(&t, run);
    for (size_t i = 0; i < list->n; i++) {
        const j_string *item;
        if (af_j_work(run, 1) || af_j_need_string(run, &list->items[i], "join", &item)) return run->status;
        if (i) af_j_text_string(&t, self(args));
        af_j_text_string(&t, item);
    }
    return af_j_text_done(&t, out);
}

int af_j_pad(j_run *run, const j_string *s, int64_t width, char align, const j_string *fill, j_value *out) {
    int64_t n = (int64_t)af_j_char_count(run, s), pad = width > n ? width - n : 0;
    if (pad > MAX_PADDING) return af_j_fail(run, "a width of %lld, at most %d", (long long)width, MAX_PADDING);
    int64_t left = align == '>' ? pad : align == '<' ? 0 : pad / 2 + (pad & width & 1);
    j_text t;
    af_j_text_open(&t, run);
    af_j_text_fill(&t, fill->p, fill->n, fill->origin, (size_t)left);
    af_j_text_string(&t, s);
    af_j_text_fill(&t, fill->p, fill->n, fill->origin, (size_t)(pad - left));
    t.markup = s->markup;
    return af_j_text_done(&t, out);
}

static int pad_method(j_run *run, const j_args *args, char align, j_value *out) {
    static const j_string space = {.p = " ", .n = 1};
    const j_string *fill = &space;
    int64_t width;
    if (af_j_need_int(run, &args->bound[0], "width", &width)) return run->status;
    if (af_j_given(&args->bound[1]) && need_text(run, args, 1, &fill)) return run->status;
    if (af_utf8_count(fill->p, fill->n) != 1) return af_j_fail(run, "fill: expected one character");
    return af_j_pad(run, self(args), width, align, fill, out);
}

static int method_ljust(j_run *run, const j_args *args, j_value *out) {
    return pad_method(run, args, '<', out);
}

static int method_rjust(j_run *run, const j_args *args, j_value *out) {
    return pad_method(run, args, '>', out);
}

static int method_center(j_run *run, const j_args *args, j_value *out) {
    return pad_method(run, args, '^', out);
}

static int method_zfill(j_run *run, const j_args *args, j_value *out) {
    static const j_string zero = {.p = "0", .n = 1};
    const j_string *s = self(args);
    int64_t width;
    if (af_j_need_int(run, &args->bound[0], "width", &width)) return run->status;
    size_t sign = s->n && (s->p[0] == '-' || s->p[0] == '+') ? 1 : 0;
    j_value rest, padded;
    if (af_j_string_part(run, s, sign, s->n, &rest)) return run->status;
    if (af_j_pad(run, rest.string, width < 1 ? 0 : width - (int64_t)sign, '>', &zero, &padded)) return run->status;
    j_text t;
    af_j_text_open(&t, run);
    af_j_text_part(&t, s, 0, sign);
    af_j_text_string(&t, padded.string);
    return af_j_text_done(&t, out);
}

static int method_expandtabs(j_run *run, const j_args *args, j_value *out) {
    int64_t size, column = 0;
    if (optional_int(run, &args->bound[0], 8, &size)) return run->status;
    if (size > 1000) return af_j_fail(run, "expandtabs: found %lld, at most 1000", (long long)size);
    const j_string *s = self(args);
    j_text t;
    af_j_text_open(&t, run);
    af_j_work(run, s->n / 4);
    for (size_t at = 0, n; at < s->n && !run->status; at += n) {
        n = af_utf8_lead((unsigned char)s->p[at]);
        int64_t spaces = size > 0 ? size - column % size : 0;
        if (s->p[at] == '\t')
            af_j_text_fill(&t, " ", 1, af_j_origin_at(s, at), (size_t)spaces);
        else
            af_j_text_part(&t, s, at, at + n);
        column = s->p[at] == '\n' || s->p[at] == '\r' ? 0 : column + (s->p[at] == '\t' ? spaces : 1);
    }
    return af_j_text_done(&t, out);
}

static int method_format(j_run *run, const j_args *args, j_value *out) {
    return af_j_brace_format(run, self(args), args, out);
}

/* ---- Questions about every character ---- */

typedef bool (*predicate)(uint32_t c);

static bool is_alnum(uint32_t c) {
    return af_j_is_alpha(c) || af_j_is_digit(c) || af_j_is_numeric(c);
}

static bool is_ascii(uint32_t c) {
    return c < 128;
}

/* Characters for which each of two predicates holds, and all of them. */
typedef struct tally {
    size_t all, first, second;
} tally;

static tally count_characters(j_run *run, const j_string *s, predicate first, predicate second) {
    tally n = {0};
    af_j_work(run, s->n);
    for (size_t at = 0, length; at < s->n; at += length, n.all++) {
        uint32_t c;
        length = af_utf8_decode(s->p + at, s->n - at, &c);
        if (length == 0) break;
        n.first += first(c);
        n.second += second(c);
    }
    return n;
}

static int all_are(j_run *run, const j_args *args, predicate holds, bool when_empty, j_value *out) {
    tally n = count_characters(run, self(args), holds, holds);
    *out = af_j_bool(n.all ? n.first == n.all : when_empty);
    return run->status;
}

/* At least one letter with case, and every one of them of this case. */
static int case_is(j_run *run, const j_args *args, predicate holds, j_value *out) {
    tally n = count_characters(run, self(args), holds, af_j_is_cased);
    *out = af_j_bool(n.second > 0 && n.first == n.second);
    return run->status;
}

static int method_isalpha(j_run *run, const j_args *args, j_value *out) {
    return all_are(run, args, af_j_is_alpha, false, out);
}

static int method_isdigit(j_run *run, const j_args *args, j_value *out) {
    return all_are(run, args, af_j_is_digit, false, out);
}

static int method_isdecimal(j_run *run, const j_args *args, j_value *out) {
    return all_are(run, args, af_j_is_decimal, false, out);
}

static int method_isnumeric(j_run *run, const j_args *args, j_value *out) {
    return all_are(run, args, af_j_is_numeric, false, out);
}

static int method_isalnum(j_run *run, const j_args *args, j_value *out) {
    return all_are(run, args, is_alnum, false, out);
}

static int method_isspace(j_run *run, const j_args *args, j_value *out) {
    return all_are(run, args, af_j_is_space, false, out);
}

static int method_isascii(j_run *run, const j_args *args, j_value *out) {
    return all_are(run, args, is_ascii, true, out);
}

static int method_isprintable(j_run *run, const j_args *args, j_value *out) {
    return all_are(run, args, af_j_is_printable, true, out);
}

static int method_isupper(j_run *run, const j_args *args, j_value *out) {
    return case_is(run, args, af_j_is_upper, out);
}

static int method_islower(j_run *run, const j_args *args, j_value *out) {
    return case_is(run, args, af_j_is_lower, out);
}

/* A capital begins each word, and only words. */
static int method_istitle(j_run *run, const j_args *args, j_value *out) {
    const j_string *s = self(args);
    bool titled = true, any = false, in_word = false;
    af_j_work(run, s->n / 4);
    for (size_t at = 0, length; at < s->n && titled; at += length) {
        uint32_t c;
        length = af_utf8_decode(s->p + at, s->n - at, &c);
        if (length == 0) break;
        const bool cased = af_j_is_cased(c);
        if (cased) titled = af_j_is_lower(c) == in_word;
        any |= cased;
        in_word = cased;
    }
    *out = af_j_bool(titled && any);
    return run->status;
}

const j_function af_j_string_methods[] = {
    {"strip", "chars?", method_strip},
    {"split", "sep? maxsplit?", method_split},
    {"startswith", "prefix start? end?", method_startswith},
    {"endswith", "suffix start? end?", method_endswith},
    {"format", NULL, method_format},
    {"replace", "old new count?", method_replace},
    {"lstrip", "chars?", method_lstrip},
    {"rstrip", "chars?", method_rstrip},
    {"rsplit", "sep? maxsplit?", method_rsplit},
    {"splitlines", "keepends?", method_splitlines},
    {"join", "iterable", method_join},
    {"upper", "", method_upper},
    {"lower", "", method_lower},
    {"title", "", method_title},
    {"capitalize", "", method_capitalize},
    {"swapcase", "", method_swapcase},
    {"casefold", "", method_casefold},
    {"removeprefix", "prefix", method_removeprefix},
    {"removesuffix", "suffix", method_removesuffix},
    {"find", "sub start? end?", method_find},
    {"rfind", "sub start? end?", method_rfind},
    {"index", "sub start? end?", method_index},
    {"rindex", "sub start? end?", method_rindex},
    {"count", "sub start? end?", method_count},
    {"partition", "sep", method_partition},
    {"rpartition", "sep", method_rpartition},
    {"ljust", "width fillchar?", method_ljust},
    {"rjust", "width fillchar?", method_rjust},
    {"center", "width fillchar?", method_center},
    {"zfill", "width", method_zfill},
    {"expandtabs", "tabsize?", method_expandtabs},
    {"isalpha", "", method_isalpha},
    {"isdigit", "", method_isdigit},
    {"isdecimal", "", method_isdecimal},
    {"isnumeric", "", method_isnumeric},
    {"isalnum", "", method_isalnum},
    {"isspace", "", method_isspace},
    {"isascii", "", method_isascii},
    {"isprintable", "", method_isprintable},
    {"isupper", "", method_isupper},
    {"islower", "", method_islower},
    {"istitle", "", method_istitle},
    {0},
};

/* special.c - see special.h. */
#include "text/special.h"

#include "text/lowline.h"

#include <stdlib.h>
#include <string.h>

/* By bytes, a token before those it begins; equal ones by id. */
static int by_bytes(const void *left, const void *right) {
    const af_special *a = left, *b = right;
    const size_t shared = a->bytes.n < b->bytes.n ? a->bytes.n : b->bytes.n;
    const int order = memcmp(a->bytes.p, b->bytes.p, shared);
    if (order) return order;
    if (a->bytes.n != b->bytes.n) return a->bytes.n < b->bytes.n ? -1 : 1;
    return a->id < b->id ? -1 : 1;
}

static void collect(af_specials *s, const af_vocab *v) {
    for (uint32_t id = 0; id < v->count; id++) {
        const af_slice bytes = af_vocab_bytes(v, id);
        if (!af_vocab_whole(v, id) || bytes.n == 0 || bytes.n > AF_SPECIAL_LONGEST) continue;
        s->list[s->count++] = (af_special){bytes, (int32_t)id, v->type[id] == AF_TOKEN_USER};
    }
}

/* Of tokens with the same bytes the first id stays. */
static void drop_repeats(af_specials *s) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        if (kept && af_slice_equal(s->list[kept - 1].bytes, s->list[i].bytes)) continue;
        s->list[kept++] = s->list[i];
    }
    s->count = kept;
}

static void index_first_bytes(af_specials *s) {
    uint32_t at = 0;
    for (unsigned byte = 0; byte < 256; byte++) {
        s->first[byte] = at;
        while (at < s->count && (unsigned char)*s->list[at].bytes.p == byte) at++;
    }
    s->first[256] = at;
}

int af_specials_open(af_specials *s, const af_vocab *v, bool low_lines, af_error *error) {
    s->low_lines = low_lines;
    size_t most = 0;
    for (uint32_t id = 0; id < v->count; id++) most += af_vocab_whole(v, id);
    s->list = malloc((most + 1) * sizeof *s->list);
    if (!s->list) return af_fail_memory(error, most * sizeof *s->list, "special tokens");
    collect(s, v);
    qsort(s->list, s->count, sizeof *s->list, by_bytes);
    drop_repeats(s);
    index_first_bytes(s);
    return AF_OK;
}

void af_specials_close(af_specials *s) {
    free(s->list);
    *s = (af_specials){0};
}

/* The first of list[low..high), all longer than `depth`, whose byte at `depth` is at least `byte`. */
static uint32_t lower_bound(const af_special *list, uint32_t low, uint32_t high, size_t depth, unsigned byte) {
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if ((unsigned char)list[middle].bytes.p[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool from_template(const uint8_t *origin, size_t at, size_t n) {
    for (size_t i = 0; origin && i < n; i++) {
        if (origin[at + i]) return false;
    }
    return true;
}

/* Tokens that have the same first `depth` bytes as the text at hand. */
typedef struct range {
    uint32_t low, high;
} range;

static range narrow(const af_specials *s, range r, size_t depth, unsigned byte) {
    if (depth == 0) return (range){s->first[byte], s->first[byte + 1]};
    const uint32_t low = lower_bound(s->list, r.low, r.high, depth, byte);
    return (range){low, lower_bound(s->list, low, r.high, depth, byte + 1u)};
}

/* Narrows the range by the text's next byte, or by a space where "▁" stands there and a token has one. Returns the
 * bytes of text that takes. */
static size_t step(const af_specials *s, range *r, size_t depth, const char *p, size_t n) {
    if (s->low_lines && af_lowline_at(p, n)) {
        const range spaced = narrow(s, *r, depth, ' ');
        if (spaced.low < spaced.high) {
            *r = spaced;
            return AF_LOWLINE_LENGTH;
        }
    }
    *r = narrow(s, *r, depth, (unsigned char)*p);
    return 1;
}

/* The longest token allowed at `at`. */
static af_special_match match_at(const af_specials *s, const char *text, size_t n, size_t at, const uint8_t *origin,
                                 bool parse) {
    af_special_match best = {.at = at, .id = -1};
    range r = {0, s->count};
    size_t end = at;
    for (size_t depth = 0; end < n; depth++) {
        end += step(s, &r, depth, text + end, n - end);
        if (r.low == r.high) break;
        const af_special *shortest = &s->list[r.low];
        if (shortest->bytes.n > depth + 1) continue;
        if (shortest->user || (parse && from_template(origin, at, end - at))) {
            best.length = end - at;
            best.id = shortest->id;
        }
        if (++r.low == r.high) break;
    }
    return best;
}

af_special_match af_specials_find(const af_specials *s, const char *text, size_t n, size_t from, const uint8_t *origin,
                                  bool parse) {
    for (size_t at = from; s->count && at < n; at++) {
        const unsigned char byte = (unsigned char)text[at];
        const bool low_line = s->low_lines && byte == (unsigned char)AF_LOWLINE[0];
        if (s->first[byte] == s->first[byte + 1] && !low_line) continue;
        const af_special_match found = match_at(s, text, n, at, origin, parse);
        if (found.length) return found;
    }
    return (af_special_match){.at = n, .id = -1};
}

int32_t af_specials_exact(const af_specials *s, af_slice bytes) {
    const af_special key = {bytes, -1, false};
    if (!bytes.n) return -1;
    uint32_t low = s->first[(unsigned char)*bytes.p], high = s->first[(unsigned char)*bytes.p + 1];
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (by_bytes(&s->list[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->count && af_slice_equal(s->list[low].bytes, bytes) ? s->list[low].id : -1;
}

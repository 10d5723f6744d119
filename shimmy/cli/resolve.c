/* resolve.c - MODEL on the command line: a file, or the name of a discovered model (discover.h).
 *
 * People type what they remember: a name without its tag or its folders, or how it begins. The best kind of match wins
 * if a single model has it; several are an error that lists them, never a guess.
 */
#include "base/buf.h"
#include "cli/finder.h"
#include "cli/options.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define LISTED 8 /* names in an error */

typedef enum match {
    NO_MATCH,
    BEGINS,      /* the name, or its last component, begins with the word */
    BASE_NAME,   /* last component without its tag */
    TAGGED_NAME, /* last component */
    LATEST,      /* the word and ":latest" */
    EXACT
} match;

static bool same(const char *text, size_t n, const char *word, size_t word_length) {
    return n == word_length && strncasecmp(text, word, n) == 0;
}

/* n bytes of `word`: the caller has cut off an extension. */
static match compare(const char *name, const char *word, size_t n) {
    const char *slash = strrchr(name, '/');
    const char *base = slash ? slash + 1 : name;
    const char *tag = base + strcspn(base, ":");
    if (strlen(name) == n && memcmp(name, word, n) == 0) return EXACT;
    if (strcasecmp(tag, ":latest") == 0 && same(name, (size_t)(tag - name), word, n)) return LATEST;
    if (same(base, strlen(base), word, n)) return TAGGED_NAME;
    if (same(base, (size_t)(tag - base), word, n) || same(name, (size_t)(tag - name), word, n)) return BASE_NAME;
    return strncasecmp(name, word, n) == 0 || strncasecmp(base, word, n) == 0 ? BEGINS : NO_MATCH;
}

static match best_match(const char *name, const char *word) {
    const size_t n = strlen(word);
    const match whole = compare(name, word, n);
    if (n < 6 || strcasecmp(word + n - 5, ".gguf") != 0) return whole;
    const match cut = compare(name, word, n - 5);
    return cut > whole ? cut : whole;
}

static const char *catalog_name(const void *user, size_t index) {
    const shimmy_catalog *c = user;
    return index < c->found_count ? c->found[index].name : NULL;
}

/* ", a, b and 3 more": names of the matches of one kind (or all, for NO_MATCH). */
static void append_names(af_buf *text, const shimmy_catalog *c, const char *word, match kind) {
    size_t listed = 0, more = 0;
    for (size_t i = 0; i < c->found_count; i++) {
        if (kind != NO_MATCH && best_match(c->found[i].name, word) != kind) continue;
        if (listed == LISTED)
            more++;
        else
            af_buf_printf(text, "%s%s", listed++ ? ", " : "", c->found[i].name);
    }
    if (more) af_buf_printf(text, " and %zu more", more);
}

static int fail_unknown(const shimmy_catalog *c, const char *word, af_error *error) {
    if (!c->found_count)
        return af_fail(error, AF_EINVAL, "%s: no such file, and no models were found on this machine", word);
    const char *near = shimmy_nearest(word, catalog_name, c);
    if (near) return af_fail(error, AF_EINVAL, "%s: no such file or model; did you mean %s?", word, near);
    af_buf names = {0};
    append_names(&names, c, word, NO_MATCH);
    const int status = af_fail(error, AF_EINVAL, "%s: no such file or model; models here: %s", word, names.p);
    af_buf_clear(&names);
    return status;
}

static int fail_several(const shimmy_catalog *c, const char *word, match kind, af_error *error) {
    af_buf names = {0};
    append_names(&names, c, word, kind);
    const int status = af_fail(error, AF_EINVAL, "%s: several models are meant: %s", word, names.p);
    af_buf_clear(&names);
    return status;
}

static int pick(const shimmy_catalog *c, const char *word, const shimmy_found **out, af_error *error) {
    match best = NO_MATCH;
    size_t with_best = 0;
    for (size_t i = 0; i < c->found_count; i++) {
        const match kind = best_match(c->found[i].name, word);
        if (kind < best || kind == NO_MATCH) continue;
        with_best = kind == best ? with_best + 1 : 1;
        if (with_best == 1) *out = &c->found[i];
        best = kind;
    }
    if (best == NO_MATCH) return fail_unknown(c, word, error);
    return with_best > 1 ? fail_several(c, word, best, error) : 0;
}

static int hand_out(const char *from_path, const char *from_name, char **path, char **name, af_error *error) {
    char *p = strdup(from_path), *n = strdup(from_name);
    if (!p || !n) {
        free(p);
        free(n);
        return af_fail_memory(error, strlen(from_path), "a path");
    }
    *path = p;
    *name = n;
    return 0;
}

int shimmy_resolve(const char *model, const char *model_dirs, char **path, char **name, af_error *error) {
    const af_file_kind kind = af_os_stat(model).kind;
    if (kind == AF_FILE_REGULAR || kind == AF_FILE_OTHER) {
        char stem[SHIMMY_PATH];
        shimmy_model_stem(model, stem);
        const char *slash = strrchr(stem, '/');
        return hand_out(model, slash ? slash + 1 : stem, path, name, error);
    }
    if (!*model) return af_fail(error, AF_EINVAL, "MODEL: found an empty name");
    shimmy_catalog catalog;
    int status = shimmy_discover(model_dirs, &catalog, error);
    if (status) return status;
    const shimmy_found *found = NULL;
    status = pick(&catalog, model, &found, error);
    if (!status) status = hand_out(found->path, found->name, path, name, error);
    shimmy_catalog_clear(&catalog);
    return status;
}

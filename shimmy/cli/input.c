/* input.c - see input.h. */
#include "cli/input.h"

#include "base/os.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_CEILING     ((size_t)1 << 30)
#define TEMPLATE_CEILING ((size_t)16 << 20)
#define BETWEEN          " \t\r\n,"

int shimmy_input_file(const char *path, char **text, size_t *length, af_error *error) {
    return af_os_read_file(path, TEXT_CEILING, text, length, error);
}

int shimmy_input_argument(const char *argument, char **owned, af_slice *text, af_error *error) {
    *owned = NULL;
    *text = af_slice_text(argument);
    if (strcmp(argument, "-") != 0) return 0;
    const int status = shimmy_input_file("-", owned, &text->n, error);
    if (!status) text->p = *owned;
    return status;
}

int shimmy_input_template(const char *path, af_template **out, af_error *error) {
    char *source;
    size_t length;
    int status = af_os_read_file(path, TEMPLATE_CEILING, &source, &length, error);
    if (status) return status;
    status = af_template_open(source, length, out, error);
    af_free(source);
    return status ? af_fail_within(error, status, "%s", path) : 0;
}

/* `p` is at an id; moves *p past it. */
static int parse_id(const char **p, const char *where, af_ids *out, af_error *error) {
    char *end;
    errno = 0;
    const long id = strtol(*p, &end, 10);
    const bool ends = end != *p && (!*end || strchr(BETWEEN "]", *end));
    if (!ends || errno == ERANGE || id < 0 || id > INT32_MAX)
        return af_fail(error, AF_EINVAL, "%s: token %zu: found '%.*s', allowed: a whole number from 0", where, out->len,
                       (int)strcspn(*p, BETWEEN), *p);
    if (!af_ids_push(out, (int32_t)id)) return af_fail_memory(error, out->len * sizeof *out->p, "token ids");
    *p = end;
    return 0;
}

int shimmy_parse_ids(af_slice text, const char *where, af_ids *out, af_error *error) {
    const char *p = text.p + strspn(text.p, BETWEEN);
    const bool bracket = *p == '[';
    p += bracket;
    for (p += strspn(p, BETWEEN); *p && *p != ']'; p += strspn(p, BETWEEN)) {
        const int status = parse_id(&p, where, out, error);
        if (status) return status;
    }
    if (bracket && *p == ']') p += 1 + strspn(p + 1, BETWEEN);
    if ((size_t)(p - text.p) == text.n) return 0;
    return af_fail(error, AF_EINVAL,
                   "%s: found byte 0x%02x after token %zu, allowed: ids apart by commas or white space", where,
                   (unsigned char)*p, out->len);
}

/* Both a list and a file's name are allowed; numbers alone are taken as ids (a file named 12 is ./12). */
static bool looks_like_ids(const char *text) {
    return strcmp(text, "-") != 0 && text[strspn(text, "-0123456789" BETWEEN)] == 0;
}

int shimmy_input_ids(const char *text, af_ids *out, af_error *error) {
    const bool inline_ids = looks_like_ids(text);
    char *contents = NULL;
    af_slice slice = af_slice_text(text);
    int status = inline_ids ? 0 : shimmy_input_file(text, &contents, &slice.n, error);
    if (status) return status;
    if (contents) slice.p = contents;
    af_ids ids = {0};
    status = shimmy_parse_ids(slice, inline_ids ? "--tokens" : text, &ids, error);
    if (!status && !ids.len) status = af_fail(error, AF_EINVAL, "--tokens: found no ids, allowed: at least one");
    af_free(contents);
    if (status)
        af_ids_clear(&ids);
    else
        *out = ids;
    return status;
}

/* gguf_reader.c - see gguf_reader.h. Every byte that is taken from a file while it is opened is taken here. */
#include "gguf/gguf_reader.h"

#include <stdio.h>
#include <string.h>

#define NAME_SHOWN 96 /* bytes of a name in a message */

/* "key general.name: ", or nothing without an item. */
static void describe(const gguf_reader *r, char *out, size_t size) {
    out[0] = '\0';
    if (!r->item) return;
    if (!r->name.p) {
        snprintf(out, size, "%s %llu of %llu: ", r->item, (unsigned long long)r->index + 1,
                 (unsigned long long)r->count);
        return;
    }
    int shown = r->name.n < NAME_SHOWN ? (int)r->name.n : NAME_SHOWN;
    snprintf(out, size, "%s %.*s: ", r->item, shown, r->name.p);
}

int gguf_fail(const gguf_reader *r, int code, const char *format, ...) {
    char item[NAME_SHOWN + 64], message[320];
    describe(r, item, sizeof item);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return af_fail(r->error, code, "%s: %s%s", r->path, item, message);
}

void gguf_item(gguf_reader *r, const char *item, uint64_t index, uint64_t count) {
    r->item = item;
    r->index = index;
    r->count = count;
    r->name = (af_slice){0};
}

int gguf_take(gguf_reader *r, uint64_t n, const char *what, const unsigned char **out) {
    if (n > gguf_left(r))
        return gguf_fail(r, AF_EFORMAT, "%s takes %llu bytes at byte %llu, but the file ends after %llu more", what,
                         (unsigned long long)n, (unsigned long long)r->at, (unsigned long long)gguf_left(r));
    *out = r->p + r->at;
    r->at += n;
    return 0;
}

int gguf_take_u32(gguf_reader *r, const char *what, uint32_t *out) {
    const unsigned char *p = NULL;
    int status = gguf_take(r, sizeof *out, what, &p);
    if (!status) memcpy(out, p, sizeof *out);
    return status;
}

int gguf_take_u64(gguf_reader *r, const char *what, uint64_t *out) {
    const unsigned char *p = NULL;
    int status = gguf_take(r, sizeof *out, what, &p);
    if (!status) memcpy(out, p, sizeof *out);
    return status;
}

int gguf_take_string(gguf_reader *r, const char *what, af_slice *out) {
    uint64_t n = 0;
    const unsigned char *p = NULL;
    int status = gguf_take_u64(r, what, &n);
    if (!status) status = gguf_take(r, n, what, &p);
    if (!status) *out = af_slice_of((const char *)p, n);
    return status;
}

int gguf_take_name(gguf_reader *r, uint64_t longest) {
    af_slice name = {0};
    int status = gguf_take_string(r, "its name", &name);
    if (status) return status;
    if (name.n < 1 || name.n > longest)
        return gguf_fail(r, AF_EFORMAT, "its name has %zu bytes, allowed 1 to %llu", name.n,
                         (unsigned long long)longest);
    r->name = name;
    return 0;
}

int gguf_check_count(const gguf_reader *r, uint64_t count, uint64_t least, uint64_t most, const char *what) {
    const uint64_t room = gguf_left(r) / least;
    if (most > room) most = room;
    if (count <= most) return 0;
    return gguf_fail(r, AF_EFORMAT, "%llu %s, but there is room for %llu", (unsigned long long)count, what,
                     (unsigned long long)most);
}

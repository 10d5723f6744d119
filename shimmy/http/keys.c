/* keys.c - see keys.h. Keys stand in rows of one width, so that a comparison reads all bytes of all rows and never ends
 * early: how long it takes tells nothing about how much of a key was right.
 */
#include "http/keys.h"

#include "base/os.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BYTES = 256, KEYS = 4096, FILE_BYTES = 2 * 1024 * 1024 };

typedef struct key {
    size_t length;
    unsigned char bytes[KEY_BYTES];
} key;

struct shimmy_keys {
    size_t count, capacity;
    key *rows;
};

static int add_key(shimmy_keys *keys, af_slice text, const char *where, af_error *error) {
    if (!text.n || text.n > KEY_BYTES)
        return af_fail(error, AF_EINVAL, "%s: found a key of %zu bytes, allowed is 1 to %d", where, text.n, KEY_BYTES);
    for (size_t i = 0; i < text.n; i++)
        if (isspace((unsigned char)text.p[i]))
            return af_fail(error, AF_EINVAL, "%s: found white space in a key", where);
    if (keys->count == KEYS) return af_fail(error, AF_EINVAL, "%s: more than %d keys", where, KEYS);
    if (keys->count == keys->capacity) {
        const size_t capacity = keys->capacity ? keys->capacity * 2 : 4;
        key *rows = realloc(keys->rows, capacity * sizeof *rows);
        if (!rows) return af_fail_memory(error, capacity * sizeof *rows, "API keys");
        keys->rows = rows;
        keys->capacity = capacity;
    }
    key *row = &keys->rows[keys->count++];
    *row = (key){.length = text.n};
    memcpy(row->bytes, text.p, text.n);
    return 0;
}

static int add_lines(shimmy_keys *keys, const char *text, const char *path, af_error *error) {
    int rc = 0;
    while (rc == 0 && *text) {
        size_t n = strcspn(text, "\r\n");
        const char *next = text + n + strspn(text + n, "\r\n");
        while (n > 0 && isblank((unsigned char)text[n - 1])) n--;
        if (n > 0 && *text != '#') rc = add_key(keys, af_slice_of(text, n), path, error);
        text = next;
    }
    if (rc == 0 && !keys->count) rc = af_fail(error, AF_EINVAL, "%s: holds no key", path);
    return rc;
}

static int add_file(shimmy_keys *keys, const char *path, af_error *error) {
    char *text;
    size_t size;
    int rc = af_os_read_file(path, FILE_BYTES, &text, &size, error);
    if (rc < 0) return rc;
    rc = add_lines(keys, text, path, error);
    af_free(text);
    return rc;
}

int shimmy_keys_open(const char *given, const char *path, shimmy_keys **out, af_error *error) {
    *out = NULL;
    if (!given && !path) return 0;
    shimmy_keys *keys = calloc(1, sizeof *keys);
    if (!keys) return af_fail_memory(error, sizeof *keys, "API keys");
    int rc = given ? add_key(keys, af_slice_text(given), "--api-key", error) : 0;
    if (rc == 0 && path) rc = add_file(keys, path, error);
    if (rc < 0) {
        shimmy_keys_close(keys);
        return rc;
    }
    *out = keys;
    return 0;
}

void shimmy_keys_close(shimmy_keys *keys) {
    if (!keys) return;
    free(keys->rows);
    free(keys);
}

bool shimmy_keys_hold(const shimmy_keys *keys, af_slice given) {
    unsigned char padded[KEY_BYTES] = {0};
    unsigned held = 0;
    memcpy(padded, given.p ? given.p : "", given.n < KEY_BYTES ? given.n : KEY_BYTES);
    for (size_t k = 0; k < keys->count; k++) {
        unsigned different = keys->rows[k].length != given.n;
        for (size_t i = 0; i < KEY_BYTES; i++) different |= padded[i] ^ keys->rows[k].bytes[i];
        held |= !different;
    }
    return held;
}

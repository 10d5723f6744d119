/* charsmap.c - see charsmap.h. */
#include "text/charsmap.h"

#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

#define CHARSMAP    "tokenizer.ggml.precompiled_charsmap"
#define SIZE_BYTES  4
#define LONGEST     256 /* bytes of a text to replace or replacing; NFKC's are under 40. Bounds the work at one byte */
#define REPLACEMENT "\xEF\xBF\xBD"

/* ---- Reading ---- */

static int copy_bytes(const af_gguf_array *array, unsigned char *out, af_error *error) {
    for (size_t i = 0; i < af_gguf_array_count(array); i++) {
        int64_t byte;
        if (!af_gguf_array_i64(array, i, &byte) || byte < -128 || byte > 255) {
            return af_fail(error, AF_EFORMAT, CHARSMAP ": not an array of bytes");
        }
        out[i] = (unsigned char)byte;
    }
    return AF_OK;
}

/* Splits the bytes into units and strings. */
static int split(af_charsmap *map, const unsigned char *bytes, size_t n, af_error *error) {
    uint32_t size;
    memcpy(&size, bytes, sizeof size);
    if (size % sizeof *map->units || size > n - SIZE_BYTES) {
        return af_fail(error, AF_EFORMAT, CHARSMAP ": %u bytes of units in %zu bytes", size, n);
    }
    map->unit_count = size / sizeof *map->units;
    map->string_bytes = n - SIZE_BYTES - size;
    map->units = malloc(size ? size : 1);
    map->strings = malloc(map->string_bytes + 1);
    if (!map->units || !map->strings) return af_fail_memory(error, n, CHARSMAP);
    memcpy(map->units, bytes + SIZE_BYTES, size);
    memcpy(map->strings, bytes + SIZE_BYTES + size, map->string_bytes);
    map->strings[map->string_bytes] = '\0';
    return AF_OK;
}

int af_charsmap_open(af_charsmap *map, const af_gguf *file, af_error *error) {
    const af_gguf_array *array = af_gguf_get_array(file, CHARSMAP);
    if (!array) {
        return af_gguf_has(file, CHARSMAP) ? af_fail(error, AF_EFORMAT, CHARSMAP ": not an array of bytes") : AF_OK;
    }
    const size_t n = af_gguf_array_count(array);
    if (n < SIZE_BYTES) return af_fail(error, AF_EFORMAT, CHARSMAP ": %zu bytes, at least 4 are needed", n);
    unsigned char *bytes = malloc(n);
    if (!bytes) return af_fail_memory(error, n, CHARSMAP);
    int status = copy_bytes(array, bytes, error);
    if (!status) status = split(map, bytes, n, error);
    free(bytes);
    return status;
}

void af_charsmap_close(af_charsmap *map) {
    free(map->units);
    free(map->strings);
    *map = (af_charsmap){0};
}

/* ---- Looking up ---- */

#define HAS_VALUE(unit) ((unit) >> 8 & 1)
#define VALUE(unit)     ((unit)&0x7FFFFFFFu)
#define LABEL(unit)     ((unit)&0x800000FFu) /* the high bit is set in values, which no byte leads to */
#define OFFSET(unit)    ((unit) >> 10 << ((unit) >> 6 & 8))

/* The longest text that the trie knows at p: its length, 0 if there is none, and its value. */
static size_t longest(const af_charsmap *map, const char *p, size_t n, uint32_t *value) {
    size_t found = 0;
    if (!map->unit_count) return 0;
    uint32_t at = OFFSET(map->units[0]);
    for (size_t i = 0; i < n && i < LONGEST; i++) {
        at ^= (unsigned char)p[i];
        if (at >= map->unit_count || LABEL(map->units[at]) != (unsigned char)p[i]) break;
        const uint32_t unit = map->units[at];
        at ^= OFFSET(unit);
        if (!HAS_VALUE(unit) || at >= map->unit_count) continue;
        *value = VALUE(map->units[at]);
        found = i + 1;
    }
    return found;
}

size_t af_charsmap_next(const af_charsmap *map, const char *p, size_t n, af_slice *out) {
    uint32_t value = 0, unused;
    const size_t replaced = longest(map, p, n, &value);
    const size_t bytes =
        replaced && value < map->string_bytes ? strnlen(map->strings + value, LONGEST + 1) : LONGEST + 1;
    if (bytes <= LONGEST) {
        *out = af_slice_of(map->strings + value, bytes);
        return replaced;
    }
    const size_t length = af_utf8_decode(p, n, &unused);
    *out = length ? af_slice_of(p, length) : af_slice_of(REPLACEMENT, 3);
    return length ? length : 1;
}

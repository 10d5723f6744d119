/* bytemap.c - see bytemap.h. */
#include "text/bytemap.h"

#include "base/utf8.h"

static bool stands_for_itself(unsigned byte) {
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

void af_bytemap_init(af_bytemap *map) {
    for (size_t i = 0; i < AF_BYTEMAP_LETTERS; i++) map->byte_of[i] = -1;
    uint32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; byte++) {
        map->byte_of[stands_for_itself(byte) ? byte : next++] = (int16_t)byte;
    }
}

bool af_bytemap_decode(const af_bytemap *map, af_slice text, char *out, size_t *n) {
    size_t written = 0;
    for (size_t at = 0, length; at < text.n; at += length) {
        uint32_t letter = (unsigned char)text.p[at];
        length = letter < 0x80 ? 1 : af_utf8_decode(text.p + at, text.n - at, &letter);
        if (!length || letter >= AF_BYTEMAP_LETTERS || map->byte_of[letter] < 0) return false;
        out[written++] = (char)map->byte_of[letter];
    }
    *n = written;
    return true;
}

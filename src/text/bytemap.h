/* bytemap.h - the letters that byte-level BPE vocabularies write bytes with.
 *
 * GPT-2's files are lists of printable strings, so each of the 256 bytes has a printable character: bytes 0x21-0x7E,
 * 0xA1-0xAC and 0xAE-0xFF stand for themselves (as code points), the other 68 take U+0100, U+0101, ... in rising order
 * (a space is U+0120, "Ġ"). Source: openai/gpt-2, encoder.py, bytes_to_unicode.
 */
#ifndef AF_BYTEMAP_H
#define AF_BYTEMAP_H

#include "base/buf.h"

#define AF_BYTEMAP_LETTERS 0x144 /* code points below this may be letters */

typedef struct af_bytemap {
    int16_t byte_of[AF_BYTEMAP_LETTERS]; /* -1: no letter of the map */
} af_bytemap;

void af_bytemap_init(af_bytemap *map);
/* Writes the bytes that `text` spells to `out`, which has room for text.n, and their number to *n. False if a character
 * of `text` is no letter of the map. */
bool af_bytemap_decode(const af_bytemap *map, af_slice text, char *out, size_t *n);

#endif

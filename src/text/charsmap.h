/* charsmap.h - tokenizer.ggml.precompiled_charsmap: SentencePiece's table of what text is replaced by what first.
 *
 *     size        u32     bytes of the units
 *     units       u32[]   a double-array trie (Darts) over the texts to replace
 *     strings     ...     the replacements, each ended by a NUL; a trie value is an offset among them
 *
 *     unit        bits 0-7 label; 8 whether the node has a value; 9 whether the offset is shifted by 8;
 *                 10-30 offset; in a value's own unit bits 0-30 are the value
 *
 * Source: google/sentencepiece, src/normalizer.cc and third_party/darts_clone. Every offset is checked when it is used.
 */
#ifndef AF_CHARSMAP_H
#define AF_CHARSMAP_H

#include "gguf/gguf.h"

typedef struct af_charsmap {
    uint32_t *units;
    size_t unit_count;
    char *strings; /* ends with a NUL */
    size_t string_bytes;
} af_charsmap;

/* Copies the table; without the key it stays empty and replaces nothing. *map must be zero; the caller closes it also
 * after a failure. */
int af_charsmap_open(af_charsmap *map, const af_gguf *file, af_error *error);
void af_charsmap_close(af_charsmap *map);
/* The longest text at p (n bytes, at least one) that is replaced: its length, and by what. Where nothing is: the
 * character itself; a byte that is no UTF-8 becomes U+FFFD. */
size_t af_charsmap_next(const af_charsmap *map, const char *p, size_t n, af_slice *out);

#endif

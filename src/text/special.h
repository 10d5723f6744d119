/* special.h - finds the tokens that stand whole in a text: control, unknown and user-defined ones.
 *
 * The tokens lie sorted by their bytes, so that those with a common beginning are neighbours: a match narrows that
 * range byte by byte and remembers the longest token passed. The leftmost match wins, then the longest, as the models'
 * own tokenizers have it. A byte of text costs a table look-up unless a token begins with it. In vocabularies that
 * write spaces as "▁", one in the text matches a token's space.
 */
#ifndef AF_SPECIAL_H
#define AF_SPECIAL_H

#include "text/vocab.h"

/* Bounds the work at one byte of text. Longer tokens are not matched; the longest seen in a real file has 44 bytes. */
#define AF_SPECIAL_LONGEST 512

typedef struct af_special {
    af_slice bytes;
    int32_t id;
    bool user; /* found in any text; the others only where the caller parses specials */
} af_special;

typedef struct af_specials {
    af_special *list;
    uint32_t count;
    uint32_t first[257]; /* tokens that begin with byte b: list[first[b]] .. list[first[b + 1] - 1] */
    bool low_lines;      /* "▁" in a text is a space */
} af_specials;

typedef struct af_special_match {
    size_t at, length; /* length 0: none, at is the text's end */
    int32_t id;
} af_special_match;

int af_specials_open(af_specials *s, const af_vocab *v, bool low_lines, af_error *error);
void af_specials_close(af_specials *s);
/* The next match at or after `from`. parse: control and unknown tokens count too, in bytes whose origin (may be NULL)
 * is 0. */
af_special_match af_specials_find(const af_specials *s, const char *text, size_t n, size_t from, const uint8_t *origin,
                                  bool parse);
/* The token with exactly these bytes, -1 if none. */
int32_t af_specials_exact(const af_specials *s, af_slice bytes);

#endif

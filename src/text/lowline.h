/* lowline.h - what the kinds that write a space as "▁" (U+2581) share: llama, gemma4, t5, bert.
 *
 * Their tokens are spelled with the space itself, so that text is looked up as it stands; a "▁" that somebody wrote
 * counts as a space, as in SentencePiece.
 */
#ifndef AF_LOWLINE_H
#define AF_LOWLINE_H

#include "text/merge.h"
#include "text/vocab.h"

#define AF_LOWLINE        "\xE2\x96\x81"
#define AF_LOWLINE_LENGTH 3

static inline bool af_lowline_at(const char *p, size_t n) {
    return n >= AF_LOWLINE_LENGTH && p[0] == AF_LOWLINE[0] && p[1] == AF_LOWLINE[1] && p[2] == AF_LOWLINE[2];
}

/* Copies `text` with spaces for "▁"; `out` has room for text.n and may be text.p. Returns the bytes written. */
size_t af_lowline_unescape(af_slice text, char *out);
/* An af_spell_fn: spaces for "▁", "<0x0A>" as its byte, control tokens as they are. */
size_t af_lowline_spell(const void *user, af_slice text, af_token_kind type, char *out, bool *mergeable);
/* *text as tokens spell it, with a space before it if `prefix`. It becomes a slice of `copy` only where it differs.
 * False when out of memory. */
bool af_lowline_text(bool prefix, af_buf *copy, af_slice *text);
/* Gives out the symbols over `text`. One that nothing joined is a token of its own, or its byte tokens, or the unknown
 * token where one of those is missing. */
void af_lowline_emit(const af_vocab *v, const af_symbol *symbols, af_slice text, af_ids *out);

/* Where text can be cut before merging: a bit for each pair of bytes that some token holds side by side. With real
 * vocabularies that cuts before most words, which keeps the merger's heap small. */
typedef struct af_cuts {
    uint8_t adjacent[1 << 13];
} af_cuts;

void af_cuts_note(af_cuts *cuts, const af_vocab *v);
/* Links the characters from `p` (n bytes, at least one) up to the first place that no token crosses, their ids unknown.
 * Returns the bytes taken. */
size_t af_cuts_link(const af_cuts *cuts, af_merger *m, const char *p, size_t n);

#endif

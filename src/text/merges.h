/* merges.h - tokenizer.ggml.merges, the list of pairs that the kinds gpt2 and gemma4 join, best first. */
#ifndef AF_MERGES_H
#define AF_MERGES_H

#include "text/merge.h"
#include "text/pairs.h"
#include "text/vocab.h"

/* Writes the bytes that half a line of the list spells to `out`, which has room for text.n, and their number to *n.
 * False if it spells none. */
typedef bool (*af_half_fn)(const void *user, af_slice text, char *out, size_t *n);

/* Reads the list. Lines that name no tokens are skipped with one warning. On failure the caller closes *pairs, which
 * must be zero. */
int af_merges_read(af_pairs *pairs, const af_vocab *v, af_half_fn half, const void *user, af_error *error);
/* An af_pair_fn over symbols with known ids; `user` is the af_pairs. */
bool af_merges_pair(const void *user, const af_symbol *symbols, uint32_t left, uint32_t *rank, int32_t *id);

#endif

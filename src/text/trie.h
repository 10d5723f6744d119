/* trie.h - a vocabulary's tokens as a tree of bytes: all tokens that a place in a text begins with, in one walk.
 *
 * Nodes lie in level order, so that a node's children are neighbours and their range needs one number a node:
 *
 *     children of node i:  first[i] .. first[i + 1] - 1, by rising label; node 0 is the root
 *
 * Nine bytes a node. Tokens above AF_TRIE_LONGEST bytes are left out: they bound the work at one byte of text.
 */
#ifndef AF_TRIE_H
#define AF_TRIE_H

#include "text/vocab.h"

#define AF_TRIE_LONGEST 512

typedef struct af_trie {
    uint32_t *first; /* (count + 1) */
    uint8_t *label;  /* (count) the byte that leads to the node */
    int32_t *id;     /* (count) of the token that ends here, -1 if none */
    uint32_t count;
} af_trie;

/* Of the normal tokens. *trie must be zero; the caller closes it also after a failure. */
int af_trie_open(af_trie *trie, const af_vocab *v, af_error *error);
void af_trie_close(af_trie *trie);
/* Follows a byte from *node; false if no token goes on with it. */
bool af_trie_step(const af_trie *trie, uint32_t *node, unsigned char byte);

#endif

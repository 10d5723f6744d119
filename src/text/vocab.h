/* vocab.h - a vocabulary's tables, read from a GGUF file's tokenizer.ggml.* keys and validated.
 *
 *     bytes   |H e l l o|  w o r l d|...|      every token's bytes as they stand in running text, end to end
 *     start    0         5           11 ...    count + 1 offsets
 *     type     1         1           ...       an af_token_kind for each
 *     map      bytes -> id                     tokens that merging can make; the first of equal ones wins
 *
 * The kind of vocabulary says how the file writes bytes (`spell`). Tokens written whole in the text (control, unknown,
 * user-defined) are not in the map: special.h finds them, so that no merge of a user's letters can make one.
 */
#ifndef AF_VOCAB_H
#define AF_VOCAB_H

#include "base/arena.h"
#include "base/map.h"
#include "text/tokenizer.h"

#define AF_VOCAB_LARGEST ((size_t)1 << 24) /* tokens */

/* How a token's text in the file spells its bytes. Writes them to `out` (room for text.n), returns their number. Sets
 * *mergeable to whether merging can make the token; it is true on entry. */
typedef size_t (*af_spell_fn)(const void *user, af_slice text, af_token_kind type, char *out, bool *mergeable);

/* What a kind takes for granted where the file has no key; ids are -1 for none. */
typedef struct af_vocab_defaults {
    int32_t bos, eos, unknown;
    bool add_bos, add_eos, add_space_prefix;
} af_vocab_defaults;

typedef struct af_vocab {
    const af_gguf *file;
    const af_gguf_array *texts; /* tokenizer.ggml.tokens */
    uint32_t count;
    af_arena *arena;
    char *bytes;
    uint32_t *start;
    uint8_t *type;
    uint8_t *ends; /* not 0: the token ends generation */
    float *scores; /* NULL where the file has none */
    af_map *map;
    int32_t byte_id[256]; /* token of that single byte, -1 if none */
    int32_t bos, eos, unknown, mask;
    bool add_bos, add_eos, add_space_prefix;
    bool mask_takes_space; /* the mask token, found whole, takes the white space before it */
    bool clean_up_spaces;  /* decoded text has no space before . , ? and ! */
} af_vocab;

/* *v must be zero; the caller closes it also after a failure. */
int af_vocab_open(af_vocab *v, const af_gguf *file, const af_vocab_defaults *defaults, af_spell_fn spell,
                  const void *user, af_error *error);
void af_vocab_close(af_vocab *v);

static inline af_slice af_vocab_bytes(const af_vocab *v, uint32_t id) {
    return af_slice_of(v->bytes + v->start[id], v->start[id + 1] - v->start[id]);
}

af_slice af_vocab_text(const af_vocab *v, uint32_t id);
/* The token that merging makes of these bytes, -1 if none. */
int32_t af_vocab_find(const af_vocab *v, af_slice bytes);
/* Tokens found whole in the text: control, unknown, user-defined. */
bool af_vocab_whole(const af_vocab *v, uint32_t id);

#endif

/* tokenizer.h - text to token ids and back, for one vocabulary.
 *
 * A vocabulary's kind (tokenizer.ggml.model) picks the algorithm: spm.c (SentencePiece BPE with scores and byte
 * fallback), bpe.c (byte-level BPE after a pre-tokenizer's patterns, pretok.c), gemma4.c (BPE over raw characters),
 * wpm.c (WordPiece), ugm.c (unigram). All are linear-ish in the text: merges run on a heap over a linked list. NUL
 * bytes and invalid UTF-8 pass through (as the vocabulary's bytes) where the vocabulary has bytes; wpm.c and ugm.c have
 * none.
 *
 * Special tokens: user-defined ones are always found whole; control ones only with AF_PARSE_SPECIAL and only in bytes
 * whose origin is the template (origin NULL or 0 there).
 */
#ifndef AF_TOKENIZER_H
#define AF_TOKENIZER_H

#include "base/buf.h"
#include "gguf/gguf.h"

typedef struct af_tokenizer af_tokenizer;

typedef enum af_token_kind { /* tokenizer.ggml.token_type */
                             AF_TOKEN_NORMAL = 1,
                             AF_TOKEN_UNKNOWN = 2,
                             AF_TOKEN_CONTROL = 3,
                             AF_TOKEN_USER = 4,
                             AF_TOKEN_UNUSED = 5,
                             AF_TOKEN_BYTE = 6
} af_token_kind;

int af_tokenizer_open(const af_gguf *file, af_tokenizer **out, af_error *error);
void af_tokenizer_close(af_tokenizer *tok);

/* origin: NULL, or a byte for each of text as in af_prompt. flags: AF_ADD_SPECIAL | AF_PARSE_SPECIAL. Appends. */
int af_tokenizer_encode(const af_tokenizer *tok, const char *text, size_t n, const uint8_t *origin, unsigned flags,
                        af_ids *out, af_error *error);

uint32_t af_tokenizer_count(const af_tokenizer *tok);
af_token_kind af_tokenizer_kind(const af_tokenizer *tok, int32_t id);
/* The bytes an id stands for in running text ("▁" already a space, byte tokens their byte); control tokens give their
 * name if `special`, else nothing. Ids out of range give nothing. Belongs to the tokenizer. */
af_slice af_tokenizer_piece(const af_tokenizer *tok, int32_t id, bool special);
/* The token's text as the file has it, "" if out of range. */
af_slice af_tokenizer_text(const af_tokenizer *tok, int32_t id);
/* The token of these bytes of running text, those found whole first; -1 if none. */
int32_t af_tokenizer_id(const af_tokenizer *tok, af_slice bytes);
bool af_tokenizer_is_end(const af_tokenizer *tok, int32_t id); /* eos, eot, eom and well-known end names */
int32_t af_tokenizer_bos(const af_tokenizer *tok);             /* -1 if none */
int32_t af_tokenizer_eos(const af_tokenizer *tok);
bool af_tokenizer_adds_bos(const af_tokenizer *tok);

/* A token's bytes as they follow others: without the space that the vocabulary puts before a text, where one begins,
 * and without the one before a mark such as "." where the vocabulary's words all have one. */
af_slice af_tokenizer_running(const af_tokenizer *tok, af_slice bytes, bool begins);
/* ids to bytes, as af_detokenize states. Where the vocabulary puts a space before the text, it is taken off again. */
int af_tokenizer_decode(const af_tokenizer *tok, const int32_t *ids, size_t count, af_buf *out, af_error *error);

/* A stream of generated ids to text of whole UTF-8 characters. Bytes that never become a character are given out as
 * U+FFFD, one for each maximal bad part, as Python's errors="replace" does. Control tokens give no text, save that
 * those listed in `shown`, which the caller may set after the start, give their names. */
typedef struct af_detok {
    const af_tokenizer *tok;
    const int32_t *shown;
    size_t shown_count;
    char pending[8];
    uint32_t pending_count;
    bool started;
} af_detok;

/* For a text of its own: the space that the vocabulary puts before a text is taken off. */
void af_detok_start(af_detok *d, const af_tokenizer *tok);
/* For a text that goes on after the token `last` (-1: none): the space is taken off only where that token was written
 * whole, since after anything else it is the text's own. */
void af_detok_resume(af_detok *d, const af_tokenizer *tok, int32_t last);
bool af_detok_push(af_detok *d, int32_t id, af_buf *out); /* false when out of memory */
bool af_detok_finish(af_detok *d, af_buf *out);           /* gives out what is pending */

#endif

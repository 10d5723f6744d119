/* kind.h - what a kind of vocabulary (tokenizer.ggml.model) is to the tokenizer: a file, and a line of the table in
 * tokenizer.c.
 */
#ifndef AF_KIND_H
#define AF_KIND_H

#include "text/merge.h"
#include "text/vocab.h"

/* Memory that one call of the tokenizer works in, whatever the kind. */
typedef struct af_scratch {
    af_merger merger;
    af_buf text, steps;
} af_scratch;

typedef struct af_kind {
    bool low_lines; /* "▁" in a text is a space */
    /* Fills *v and makes the kind's own tables. On failure *state is NULL; the caller closes *v. */
    int (*open)(const af_gguf *file, af_vocab *v, void **state, af_error *error);
    void (*close)(void *state);
    /* Appends the ids of text in which no token stands whole. after_whole: one does before it, or nothing at all. */
    int (*encode)(const void *state, const af_vocab *v, af_scratch *scratch, af_slice text, bool after_whole,
                  af_ids *out, af_error *error);
} af_kind;

extern const af_kind af_kind_spm;    /* spm.c */
extern const af_kind af_kind_bpe;    /* bpe.c */
extern const af_kind af_kind_gemma4; /* gemma4.c */
extern const af_kind af_kind_wpm;    /* wpm.c */
extern const af_kind af_kind_ugm;    /* ugm.c */

#endif

/* vocab_ids.h - what a file's keys and well-known names say of single tokens. Internal to the vocabulary. */
#ifndef AF_VOCAB_IDS_H
#define AF_VOCAB_IDS_H

#include "text/vocab.h"

/* Fills bos, eos, unknown, the add_ flags and `ends`; marks mistyped end tokens as control. Types are read already. */
int af_vocab_read_ids(af_vocab *v, const af_vocab_defaults *defaults, af_error *error);

/* The id that `key` names, -1 if it says none; `otherwise`, if the vocabulary has it, without the key. */
int af_vocab_read_id(const af_vocab *v, const char *key, int32_t otherwise, int32_t *out, af_error *error);

#endif

/* input.h - what commands are given: texts, files of token ids, templates. "-" is standard input everywhere. */
#ifndef SHIMMY_INPUT_H
#define SHIMMY_INPUT_H

#include "base/buf.h"

/* The argument itself, or standard input for "-": then *owned holds it, to af_free; else *owned is NULL. */
int shimmy_input_argument(const char *argument, char **owned, af_slice *text, af_error *error);

/* Token ids: "1,2,3" itself, a file of them, or "-". At least one. Freed with af_ids_clear. */
int shimmy_input_ids(const char *text, af_ids *out, af_error *error);

/* Numbers apart by commas or white space, perhaps within the brackets of a JSON array; appended to *out. `where` names
 * the text in errors. */
int shimmy_parse_ids(af_slice text, const char *where, af_ids *out, af_error *error);

/* Parses a file as a chat template; errors name the file. */
int shimmy_input_template(const char *path, af_template **out, af_error *error);

/* A text file of at most 1 GiB, freed with af_free. */
int shimmy_input_file(const char *path, char **text, size_t *length, af_error *error);

#endif

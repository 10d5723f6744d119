/* output.h - what the commands print: one JSON object on one line, sizes for people, notes on standard error. */
#ifndef SHIMMY_OUTPUT_H
#define SHIMMY_OUTPUT_H

#include "base/buf.h"

#include <jansson.h>

/* Prints the object on one line of standard output and frees it. `object` NULL means that building it ran out of
 * memory. */
int shimmy_print_json(json_t *object, af_error *error);
/* A JSON string of bytes that may be no UTF-8 (a path, a model's text): what is none becomes U+FFFD. */
json_t *shimmy_json_text(const char *bytes, size_t n);
json_t *shimmy_json_string(const char *text);
/* null for what JSON has no number for: infinity, and what is no number. */
json_t *shimmy_json_real(double value);
json_t *shimmy_json_ids(const int32_t *ids, size_t count);
/* [1,2,3] and a line's end, as it goes: no tree for a million ids. */
void shimmy_print_ids(const int32_t *ids, size_t count);

/* "98.4 MB", "1.2 GB": decimal units, as disks and other programs' lists have them. */
#define SHIMMY_SIZE_TEXT 24
const char *shimmy_size(uint64_t bytes, char text[SHIMMY_SIZE_TEXT]);
/* "134.5 M", "7.2 B": counts of parameters. */
const char *shimmy_amount(uint64_t count, char text[SHIMMY_SIZE_TEXT]);

/* A message without the file's path at its beginning, for where the path stands beside it. */
const char *shimmy_without_path(const char *message, const char *path);

/* "shimmy: ..." on standard error. */
void shimmy_note(const char *format, ...) AF_PRINTF(1, 2);

#endif

/* fields.h - reading the fields of a request: null means absent, a wrong type names the field and what was found.
 *
 * A reader returns 0 and leaves *out alone where the field is absent, so that defaults are set beforehand.
 */
#ifndef SHIMMY_OPENAI_FIELDS_H
#define SHIMMY_OPENAI_FIELDS_H

#include "openai/error.h"

#include <jansson.h>

/* Parses a request's body: a JSON object in UTF-8, nested no deeper than 200 and of no more than a million values, so
 * that few bytes cannot claim much memory. The caller decrefs *out. */
int shimmy_parse_body(const char *body, size_t length, json_t **out, shimmy_refusal *refusal);

/* NULL where absent or null. Borrowed. */
json_t *shimmy_field(const json_t *object, const char *name);

int shimmy_read_bool(const json_t *object, const char *name, bool *out, shimmy_refusal *refusal);
/* Whole numbers, also written 3.0. */
int shimmy_read_int(const json_t *object, const char *name, int64_t low, int64_t high, int64_t *out,
                    shimmy_refusal *refusal);
int shimmy_read_real(const json_t *object, const char *name, double low, double high, double *out,
                     shimmy_refusal *refusal);
/* *out is borrowed from the object. */
int shimmy_read_text(const json_t *object, const char *name, const char **out, shimmy_refusal *refusal);

/* The 400 of a field that has another type than `wanted` ("a string"). */
int shimmy_wrong_type(const json_t *value, const char *param, const char *wanted, shimmy_refusal *refusal);

/* A token id of `vocabulary`, from an item of an array. */
int shimmy_read_id(const json_t *value, const char *param, uint32_t vocabulary, int32_t *out, shimmy_refusal *refusal);
/* All items of an array of ids; *ids is freed with af_free. */
int shimmy_read_ids(const json_t *array, const char *param, uint32_t vocabulary, int32_t **ids, size_t *count,
                    shimmy_refusal *refusal);

#endif

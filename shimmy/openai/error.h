/* error.h - refusals in OpenAI's shape: {"error":{"message","type","param","code"}}. */
#ifndef SHIMMY_OPENAI_ERROR_H
#define SHIMMY_OPENAI_ERROR_H

#include "base/buf.h"

typedef struct shimmy_refusal {
    int status;       /* HTTP */
    const char *code; /* "model_not_found", or NULL */
    char param[96];   /* "messages[0].content", or "" */
    char message[600];
    unsigned retry_after; /* seconds; 0: none */
} shimmy_refusal;

/* Fills *out and returns AF_EINVAL, so that a check is one statement. param may be NULL. */
int shimmy_refuse(shimmy_refusal *out, int status, const char *code, const char *param, const char *format, ...)
    AF_PRINTF(5, 6);

/* The refusal that an error of the library becomes. Returns AF_EINVAL. */
int shimmy_refuse_error(shimmy_refusal *out, const af_error *error, const char *param);

/* The JSON object, as a body or as the data of an SSE event. */
void shimmy_write_refusal(af_buf *out, const shimmy_refusal *refusal);

#endif

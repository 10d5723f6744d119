/* parse.h - HTTP/1.1 as bytes: the head of a request, and the chunked transfer coding of its body.
 *
 * Nothing here owns memory or knows of sockets: slices point into the caller's bytes, answers are consumed, incomplete
 * or an HTTP status to refuse with. RFC 9112, read strictly where two readers could disagree about where a message ends
 * (two lengths, length beside chunked, folded lines, white space before a colon), kindly where they could not (bare
 * LF).
 */
#ifndef SHIMMY_PARSE_H
#define SHIMMY_PARSE_H

#include "base/buf.h"

enum {
    SHIMMY_HEAD_BYTES = 32 * 1024, /* of a request line and its headers together */
    SHIMMY_HEADERS = 100
};

typedef struct shimmy_header {
    af_slice name, value;
} shimmy_header;

typedef struct shimmy_head {
    af_slice method;
    af_slice path; /* still percent-encoded; without authority and query */
    af_slice query;
    int minor; /* of HTTP/1.minor */
    shimmy_header headers[SHIMMY_HEADERS];
    size_t header_count;
    bool keep_alive;
    bool chunked;    /* the body's framing; */
    uint64_t length; /* where not chunked: bytes of body, 0 where there is none */
    bool expects_continue;
} shimmy_head;

/* Parses the head at the start of `bytes`. Returns 1 and its length in *consumed, 0 if more bytes are needed, or minus
 * the status to refuse it with and a line for the client in *why. */
int shimmy_parse_head(af_slice bytes, shimmy_head *out, size_t *consumed, const char **why);

/* The value of a header, without regard to case, or an empty slice with p NULL. */
af_slice shimmy_header_find(const shimmy_head *head, const char *name);

/* The chunked coding, fed in pieces of any size. All zero is the start. */
typedef struct shimmy_chunks {
    int state;
    uint64_t left; /* of the chunk at hand */
    size_t line;   /* bytes of the line at hand, and of all trailers */
} shimmy_chunks;

/* Decodes from `bytes` into `body` (whose ceiling bounds it). Returns 1 when the last chunk and trailers are read, 0 if
 * more is needed, or minus a status; *consumed counts the bytes used. */
int shimmy_parse_chunks(shimmy_chunks *chunks, af_slice bytes, af_buf *body, size_t *consumed, const char **why);

/* Percent-decodes into a new string, freed with af_free; NULL if an escape is malformed, stands for NUL, or memory
 * ends. */
char *shimmy_percent_decode(af_slice text);

/* Equal without regard to the case of ASCII letters. */
bool shimmy_same_word(af_slice a, const char *b);

#endif

/* gguf_reader.h - a bounded cursor over one shard's bytes, and errors that say which file and which item of it. Used
 * inside src/gguf only. */
#ifndef AF_GGUF_READER_H
#define AF_GGUF_READER_H

#include "base/buf.h"
#include "base/status.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "GGUF is read in place, as little-endian");

typedef struct gguf_reader {
    const char *path;
    const unsigned char *p;
    uint64_t size, at; /* at <= size */
    /* The item being read: "key" or "tensor", its index and how many there are, its name once that is known. */
    const char *item;
    uint64_t index, count;
    af_slice name;
    af_error *error;
} gguf_reader;

/* "PATH: key general.name: " and the message; "PATH: key 3 of 20: " while its name is not known; "PATH: " without item.
 */
int gguf_fail(const gguf_reader *r, int code, const char *format, ...) AF_PRINTF(3, 4);

/* Begins the next item. */
void gguf_item(gguf_reader *r, const char *item, uint64_t index, uint64_t count);

static inline uint64_t gguf_left(const gguf_reader *r) {
    return r->size - r->at;
}

/* Refuses a count of things that take `least` bytes each where they cannot be there, or there are more than `most`. */
int gguf_check_count(const gguf_reader *r, uint64_t count, uint64_t least, uint64_t most, const char *what);

/* Take bytes, a number or a string (length, then bytes; a slice of the file). `what` is for the message that says what
 * the file ends within. */
int gguf_take(gguf_reader *r, uint64_t n, const char *what, const unsigned char **out);
int gguf_take_u32(gguf_reader *r, const char *what, uint32_t *out);
int gguf_take_u64(gguf_reader *r, const char *what, uint64_t *out);
int gguf_take_string(gguf_reader *r, const char *what, af_slice *out);
/* The name of the item: a string of 1 to `longest` bytes. */
int gguf_take_name(gguf_reader *r, uint64_t longest);

#endif

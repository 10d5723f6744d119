/* gguf_writer.h - writes GGUF piece by piece into a buffer, right or wrong as a test wants it. */
#ifndef GGUF_WRITER_H
#define GGUF_WRITER_H

#include "gguf/gguf.h"

#include <string.h>

static inline void put_u32(af_buf *b, uint32_t value) {
    af_buf_append(b, &value, sizeof value);
}

static inline void put_u64(af_buf *b, uint64_t value) {
    af_buf_append(b, &value, sizeof value);
}

static inline void put_string(af_buf *b, const char *text) {
    put_u64(b, strlen(text));
    af_buf_text(b, text);
}

static inline void put_header(af_buf *b, uint32_t version, uint64_t tensors, uint64_t entries) {
    af_buf_text(b, "GGUF");
    put_u32(b, version);
    put_u64(b, tensors);
    put_u64(b, entries);
}

/* A key with its type; the value follows. */
static inline void put_key(af_buf *b, const char *key, uint32_t type) {
    put_string(b, key);
    put_u32(b, type);
}

static inline void put_scalar(af_buf *b, const char *key, uint32_t type, const void *value, size_t n) {
    put_key(b, key, type);
    af_buf_append(b, value, n);
}

static inline void put_kv_u32(af_buf *b, const char *key, uint32_t value) {
    put_scalar(b, key, AF_GGUF_U32, &value, sizeof value);
}

static inline void put_kv_string(af_buf *b, const char *key, const char *value) {
    put_key(b, key, AF_GGUF_STRING);
    put_string(b, value);
}

/* A key with an array's head; the elements follow. */
static inline void put_kv_array(af_buf *b, const char *key, uint32_t type, uint64_t count) {
    put_key(b, key, AF_GGUF_ARRAY);
    put_u32(b, type);
    put_u64(b, count);
}

/* A tensor of up to two dimensions; rows 0: one dimension. */
static inline void put_tensor(af_buf *b, const char *name, uint32_t type, uint64_t cols, uint64_t rows,
                              uint64_t offset) {
    put_string(b, name);
    put_u32(b, rows ? 2 : 1);
    put_u64(b, cols);
    if (rows) put_u64(b, rows);
    put_u32(b, type);
    put_u64(b, offset);
}

/* Pads to the alignment, then writes n bytes of data. */
static inline void put_data(af_buf *b, size_t alignment, size_t n) {
    af_buf_fill(b, 0, (alignment - b->len % alignment) % alignment);
    for (size_t i = 0; i < n; i++) af_buf_byte(b, (char)(i & 127));
}

#endif

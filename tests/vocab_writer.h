/* vocab_writer.h - small vocabularies for tests: a table of tokens becomes a GGUF file and a tokenizer. */
#ifndef VOCAB_WRITER_H
#define VOCAB_WRITER_H

#include "gguf_writer.h"
#include "temp_file.h"
#include "text/tokenizer.h"

typedef struct written_token {
    const char *text;
    af_token_kind kind;
    float score;
} written_token;

/* Keys are added one by one; `entries` counts them for the header. */
typedef struct vocab_writer {
    af_buf body;
    uint64_t entries;
} vocab_writer;

static inline void write_string(vocab_writer *w, const char *key, const char *value) {
    put_kv_string(&w->body, key, value);
    w->entries++;
}

static inline void write_u32(vocab_writer *w, const char *key, uint32_t value) {
    put_kv_u32(&w->body, key, value);
    w->entries++;
}

static inline void write_bool(vocab_writer *w, const char *key, bool value) {
    put_key(&w->body, key, AF_GGUF_BOOL);
    af_buf_byte(&w->body, value);
    w->entries++;
}

static inline void write_strings(vocab_writer *w, const char *key, const char *const *values, size_t count) {
    put_kv_array(&w->body, key, AF_GGUF_STRING, count);
    for (size_t i = 0; i < count; i++) put_string(&w->body, values[i]);
    w->entries++;
}

static inline void write_u32s(vocab_writer *w, const char *key, const uint32_t *values, size_t count) {
    put_kv_array(&w->body, key, AF_GGUF_U32, count);
    for (size_t i = 0; i < count; i++) put_u32(&w->body, values[i]);
    w->entries++;
}

static inline void write_tokens(vocab_writer *w, const written_token *tokens, size_t count) {
    put_kv_array(&w->body, "tokenizer.ggml.tokens", AF_GGUF_STRING, count);
    for (size_t i = 0; i < count; i++) put_string(&w->body, tokens[i].text);
    put_kv_array(&w->body, "tokenizer.ggml.token_type", AF_GGUF_I32, count);
    for (size_t i = 0; i < count; i++) put_u32(&w->body, tokens[i].kind);
    put_kv_array(&w->body, "tokenizer.ggml.scores", AF_GGUF_F32, count);
    for (size_t i = 0; i < count; i++) af_buf_append(&w->body, &tokens[i].score, sizeof(float));
    w->entries += 3;
}

/* Writes a file of its own (others may still be mapped) and empties the writer. */
static inline const char *write_vocab(vocab_writer *w) {
    static unsigned written;
    char name[32];
    snprintf(name, sizeof name, "%u-vocab.gguf", written++);
    af_buf all = {0};
    put_header(&all, 3, 0, w->entries);
    af_buf_append(&all, w->body.p, w->body.len);
    const char *path = temp_write(name, all.p, all.len);
    af_buf_clear(&all);
    af_buf_clear(&w->body);
    w->entries = 0;
    return path;
}

/* A vocabulary opened; `status` and `error` say why not. */
typedef struct opened_vocab {
    af_gguf *file;
    af_tokenizer *tok;
    int status;
    af_error error;
} opened_vocab;

static inline opened_vocab open_vocab(vocab_writer *w) {
    opened_vocab o = {0};
    o.status = af_gguf_open(write_vocab(w), &o.file, &o.error);
    if (!o.status) o.status = af_tokenizer_open(o.file, &o.tok, &o.error);
    return o;
}

static inline void close_vocab(opened_vocab *o) {
    af_tokenizer_close(o->tok);
    af_gguf_close(o->file);
    *o = (opened_vocab){0};
}

/* ---- The two vocabularies most tests use ---- */

#define BYTE_TOKENS 256

/* A byte's token as byte-level vocabularies write it (bytemap.h). */
static inline void name_letter(char out[8], unsigned byte) {
    unsigned letter = byte;
    if (byte < 0x21) letter = 0x100 + byte;
    if (byte >= 0x7F && byte <= 0xA0) letter = 0x121 + byte - 0x7F;
    if (byte == 0xAD) letter = 0x143;
    if (letter < 0x80)
        snprintf(out, 8, "%c", (char)letter);
    else
        snprintf(out, 8, "%c%c", (char)(0xC0 | letter >> 6), (char)(0x80 | (letter & 0x3F)));
}

/* SentencePiece's, for the kind `model`: <unk> <s> </s>, the byte tokens (3 + byte), then `more`, whose first id is
 * 259. */
static inline void write_low_lines(vocab_writer *w, const char *model, const written_token *more, size_t count) {
    static char names[BYTE_TOKENS][8];
    written_token tokens[3 + BYTE_TOKENS + 64] = {
        {"<unk>", AF_TOKEN_UNKNOWN, 0}, {"<s>", AF_TOKEN_CONTROL, 0}, {"</s>", AF_TOKEN_CONTROL, 0}};
    for (unsigned i = 0; i < BYTE_TOKENS; i++) {
        snprintf(names[i], sizeof names[i], "<0x%02X>", i);
        tokens[3 + i] = (written_token){names[i], AF_TOKEN_BYTE, 0};
    }
    if (count > 64) abort();
    for (size_t i = 0; i < count; i++) tokens[3 + BYTE_TOKENS + i] = more[i];
    write_string(w, "tokenizer.ggml.model", model);
    write_tokens(w, tokens, 3 + BYTE_TOKENS + count);
}

static inline void write_spm(vocab_writer *w, const written_token *more, size_t count) {
    write_low_lines(w, "llama", more, count);
}

/* Byte-level: a token for each byte (its id is the byte), then `more`, whose first id is 256. */
static inline void write_bpe(vocab_writer *w, const char *pre, const written_token *more, size_t count,
                             const char *const *merges, size_t merge_count) {
    static char names[BYTE_TOKENS][8];
    written_token tokens[BYTE_TOKENS + 64];
    for (unsigned i = 0; i < BYTE_TOKENS; i++) {
        name_letter(names[i], i);
        tokens[i] = (written_token){names[i], AF_TOKEN_NORMAL, 0};
    }
    if (count > 64) abort();
    for (size_t i = 0; i < count; i++) tokens[BYTE_TOKENS + i] = more[i];
    write_string(w, "tokenizer.ggml.model", "gpt2");
    if (pre) write_string(w, "tokenizer.ggml.pre", pre);
    write_tokens(w, tokens, BYTE_TOKENS + count);
    write_strings(w, "tokenizer.ggml.merges", merges, merge_count);
}

#endif

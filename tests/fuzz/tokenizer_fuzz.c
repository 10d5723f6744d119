/* tokenizer_fuzz.c - the input is a vocabulary and a text:
 *
 *     kind        u8       which of the kinds below
 *     pre         u8       index of a pre-tokenizer's rule
 *     flags       u8       see the enum
 *     tokens      u8       count, then for each: type in 3 bits and length in 5, score u8, bytes
 *     merges      u8       count, then for each: two indexes of tokens, after which come those of the bytes
 *     charsmap    u8       length, then bytes
 *     text                 the rest
 *
 * Any vocabulary is refused or opened; any text becomes ids of the vocabulary, which can be decoded whole and streamed.
 * Where every byte has a token, the text comes back.
 */
#include "base/log.h"
#include "fuzz/fuzz.h"
#include "text/pretok.h"
#include "vocab_writer.h"

#define MOST 255

enum { WITH_BYTES = 1, SPACE_PREFIX = 2, EXTRA_SPACES = 4, ADD = 8, PARSE = 16, ORIGIN = 32 };

typedef struct input {
    const uint8_t *p;
    size_t n;
} input;

static unsigned take_u8(input *in) {
    if (!in->n) return 0;
    in->n--;
    return *in->p++;
}

static af_slice take(input *in, size_t n) {
    if (n > in->n) n = in->n;
    const af_slice taken = af_slice_of((const char *)in->p, n);
    in->p += n;
    in->n -= n;
    return taken;
}

typedef struct vocabulary {
    af_slice text[BYTE_TOKENS + MOST];
    uint32_t type[BYTE_TOKENS + MOST];
    float score[BYTE_TOKENS + MOST];
    size_t count;
} vocabulary;

static void add_token(vocabulary *v, af_slice text, uint32_t type, float score) {
    v->text[v->count] = text;
    v->type[v->count] = type;
    v->score[v->count++] = score;
}

/* A token for each byte, as the kind spells them. */
static void add_bytes(vocabulary *v, bool byte_level) {
    static char names[BYTE_TOKENS][8];
    for (unsigned i = 0; i < BYTE_TOKENS; i++) {
        if (byte_level)
            name_letter(names[i], i);
        else
            snprintf(names[i], sizeof names[i], "<0x%02X>", i);
        add_token(v, af_slice_text(names[i]), byte_level ? AF_TOKEN_NORMAL : AF_TOKEN_BYTE, 0);
    }
}

static void put_slice(af_buf *out, af_slice text) {
    put_u64(out, text.n);
    af_buf_append(out, text.p, text.n);
}

static void write_arrays(vocab_writer *w, const vocabulary *v) {
    put_kv_array(&w->body, "tokenizer.ggml.tokens", AF_GGUF_STRING, v->count);
    for (size_t i = 0; i < v->count; i++) put_slice(&w->body, v->text[i]);
    put_kv_array(&w->body, "tokenizer.ggml.token_type", AF_GGUF_U32, v->count);
    for (size_t i = 0; i < v->count; i++) put_u32(&w->body, v->type[i]);
    put_kv_array(&w->body, "tokenizer.ggml.scores", AF_GGUF_F32, v->count);
    af_buf_append(&w->body, v->score, v->count * sizeof *v->score);
    w->entries += 3;
}

static void write_merges(vocab_writer *w, const vocabulary *v, input *in) {
    const unsigned count = take_u8(in);
    put_kv_array(&w->body, "tokenizer.ggml.merges", AF_GGUF_STRING, count);
    for (unsigned i = 0; i < count; i++) {
        const af_slice left = v->text[take_u8(in) % v->count], right = v->text[take_u8(in) % v->count];
        put_u64(&w->body, left.n + 1 + right.n);
        af_buf_append(&w->body, left.p, left.n);
        af_buf_byte(&w->body, ' ');
        af_buf_append(&w->body, right.p, right.n);
    }
    w->entries++;
}

static void write_charsmap(vocab_writer *w, input *in) {
    const af_slice bytes = take(in, take_u8(in));
    if (!bytes.n) return;
    put_kv_array(&w->body, "tokenizer.ggml.precompiled_charsmap", AF_GGUF_U8, bytes.n);
    af_buf_append(&w->body, bytes.p, bytes.n);
    w->entries++;
}

static void write_rule(vocab_writer *w, const af_pretok_rule *rule) {
    char name[64] = {0};
    memcpy(name, rule->names, strcspn(rule->names, " "));
    write_string(w, "tokenizer.ggml.pre", name);
}

static const af_pretok_rule *rule_at(unsigned index) {
    size_t count = 0;
    while (af_pretok_at(count)) count++;
    return af_pretok_at(index % count);
}

/* Tokens found whole and composition change what comes back; a byte-level vocabulary without them loses nothing. */
static bool keeps_all(const vocabulary *v, const af_pretok_rule *rule, unsigned flags) {
    for (size_t i = 0; i < v->count; i++) {
        if (v->type[i] > AF_TOKEN_NORMAL) return false;
    }
    return (flags & WITH_BYTES) && !rule->compose;
}

static void check_text(const af_tokenizer *tok, af_slice text, unsigned flags, bool comes_back) {
    af_ids ids = {0};
    af_buf back = {0}, streamed = {0};
    uint8_t *origin = calloc(text.n + 1, 1);
    for (size_t i = 0; origin && i < text.n; i++) origin[i] = i % 7 == 0;
    const unsigned how = (flags & ADD ? AF_ADD_SPECIAL : 0u) | (flags & PARSE ? AF_PARSE_SPECIAL : 0u);
    if (!af_tokenizer_encode(tok, text.p, text.n, flags & ORIGIN ? origin : NULL, how, &ids, NULL)) {
        af_detok d;
        af_detok_start(&d, tok);
        for (size_t i = 0; i < ids.len; i++) {
            HOLDS(ids.p[i] >= 0 && (uint32_t)ids.p[i] < af_tokenizer_count(tok));
            HOLDS(af_detok_push(&d, ids.p[i], &streamed));
        }
        HOLDS(af_detok_finish(&d, &streamed));
        HOLDS(af_tokenizer_decode(tok, ids.p, ids.len, &back, NULL) == AF_OK);
        HOLDS(!comes_back || (back.len == text.n && (text.n == 0 || memcmp(back.p, text.p, text.n) == 0)));
    }
    free(origin);
    af_ids_clear(&ids);
    af_buf_clear(&back);
    af_buf_clear(&streamed);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    static const char *const kinds[] = {"llama", "gpt2", "gemma4", "bert", "t5"};
    static vocabulary v;
    input in = {bytes, n};
    vocab_writer w = {0};
    af_log_set_level(AF_LOG_ERROR);
    v.count = 0;
    const char *kind = kinds[take_u8(&in) % 5];
    const bool byte_level = strcmp(kind, "gpt2") == 0;
    write_string(&w, "tokenizer.ggml.model", kind);
    const af_pretok_rule *rule = rule_at(take_u8(&in));
    if (byte_level) write_rule(&w, rule);
    const unsigned flags = take_u8(&in);
    write_bool(&w, "tokenizer.ggml.add_space_prefix", flags & SPACE_PREFIX);
    write_bool(&w, "tokenizer.ggml.remove_extra_whitespaces", flags & EXTRA_SPACES);
    for (unsigned left = take_u8(&in); left > 0; left--) {
        const unsigned head = take_u8(&in), score = take_u8(&in);
        add_token(&v, take(&in, head & 31), head >> 5, -(float)score);
    }
    if (flags & WITH_BYTES) add_bytes(&v, byte_level);
    write_arrays(&w, &v);
    if (v.count) write_merges(&w, &v, &in);
    write_charsmap(&w, &in);
    opened_vocab o = open_vocab(&w);
    HOLDS(!o.status == !!o.tok);
    if (o.file) remove(af_gguf_path(o.file));
    if (o.tok) check_text(o.tok, take(&in, in.n), flags, byte_level && keeps_all(&v, rule, flags));
    close_vocab(&o);
    return 0;
}

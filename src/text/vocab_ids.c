/* vocab_ids.c - beginning, end and unknown tokens.
 *
 * A token ends generation if tokenizer.ggml.eos_token_id, eot_token_id or eom_token_id names it (one id or a list), or
 * if it has a name that models end a turn or a text with. The names are facts of the models' tokenizers, gathered in
 * llama.cpp (src/llama-vocab.cpp). Files often type such tokens wrongly: a name that nobody writes in running text is
 * then made a control token; one that is also ordinary text ("</s>" closes HTML's strike-through) must be typed so.
 */
#include "text/vocab_ids.h"

#include <string.h>

typedef struct end_name {
    const char *name;
    bool ordinary; /* also a string people write: believed only of control tokens */
} end_name;

static const end_name end_names[] = {
    {"[e~[", false},
    {"<|tool_response>", false},
    {"</s>", true},
    {"<eos>", true},
    {"[EOS]", true},
    {"[EOT]", true},
    {"<EOT>", false},
    {"_<EOT>", false},
    {"<|eot|>", false},
    {"<|EOT|>", true},
    {"<|eot_id|>", false},
    {"<|eom_id|>", false},
    {"<|im_end|>", false},
    {"<|end|>", false},
    {"<|return|>", false},
    {"<|call|>", false},
    {"<|calls|>", false},
    {"<|flush|>", false},
    {"<|endoftext|>", false},
    {"<|end_of_text|>", false},
    {"<|endofturn|>", false},
    {"<|END_OF_TURN_TOKEN|>", true},
    {"<end_of_turn>", false},
    {"<turn|>", true},
    {"<end_of_utterance>", false},
    {"<\xEF\xBD\x9C"
     "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
     false},
    {"<|fim_pad|>", true}, /* code models close an infilling, a file or a repository with these */
    {"<|repo_name|>", true},
    {"<|file_sep|>", true},
};

/* Names that say what is no end after all: where all of `with` end too, `name` stands inside a turn or a text. */
static const struct exception {
    const char *name, *with[2];
} exceptions[] = {
    {"<|end|>", {"<|return|>", "<|call|>"}}, /* gpt-oss ends messages with it */
    {"<|end|>", {"<|flush|>", "<|calls|>"}}, /* so does Solar Open */
    {"</s>", {"<|tool_response>", "<eos>"}}, /* HTML to Gemma 4 */
};

#define LONGEST_NAME 32

static const end_name *find_end_name(af_slice text) {
    if (text.n < 4 || text.n > LONGEST_NAME || !strchr("<[_", *text.p)) return NULL;
    for (size_t i = 0; i < sizeof end_names / sizeof *end_names; i++) {
        if (af_slice_is(text, end_names[i].name)) return &end_names[i];
    }
    return NULL;
}

/* The token that ends generation and has that name, -1 if none. */
static int32_t find_end(const af_vocab *v, const char *name) {
    for (uint32_t id = 0; id < v->count; id++) {
        if (v->ends[id] && af_slice_is(af_vocab_text(v, id), name)) return (int32_t)id;
    }
    return -1;
}

static void mark_names(af_vocab *v) {
    for (uint32_t id = 0; id < v->count; id++) {
        const end_name *name = find_end_name(af_vocab_text(v, id));
        if (!name || (name->ordinary && v->type[id] != AF_TOKEN_CONTROL)) continue;
        v->type[id] = AF_TOKEN_CONTROL;
        v->ends[id] = 1;
    }
    for (size_t i = 0; i < sizeof exceptions / sizeof *exceptions; i++) {
        const struct exception *e = &exceptions[i];
        const int32_t id = find_end(v, e->name);
        if (id >= 0 && find_end(v, e->with[0]) >= 0 && find_end(v, e->with[1]) >= 0) v->ends[id] = 0;
    }
}

static int check_id(const af_vocab *v, const char *key, int64_t id, af_error *error) {
    if (id >= 0 && id < v->count) return AF_OK;
    return af_fail(error, AF_EFORMAT, "%s: %lld, the vocabulary has %u tokens", key, (long long)id, v->count);
}

/* Some converters write "none" as -1 or as the largest u32. */
static bool says_none(int64_t id) {
    return id == -1 || id == UINT32_MAX;
}

int af_vocab_read_id(const af_vocab *v, const char *key, int32_t otherwise, int32_t *out, af_error *error) {
    const bool list = af_gguf_get_array(v->file, key);
    int64_t id = list || otherwise >= (int64_t)v->count ? -1 : otherwise;
    if (!af_gguf_i64(v->file, key, &id) && !list && af_gguf_has(v->file, key)) {
        return af_fail(error, AF_EFORMAT, "%s: not an integer", key);
    }
    if (says_none(id)) id = -1;
    *out = (int32_t)id;
    return id == -1 ? AF_OK : check_id(v, key, id, error);
}

/* Marks the ids of a key that holds one or a list; *first, if none is known yet, becomes the list's first. */
static int mark_ends(af_vocab *v, const char *key, int32_t *first, af_error *error) {
    int64_t id = -1;
    const af_gguf_array *list = af_gguf_get_array(v->file, key);
    const size_t n = list ? af_gguf_array_count(list) : af_gguf_i64(v->file, key, &id) && !says_none(id);
    for (size_t i = 0; i < n; i++) {
        if (list && !af_gguf_array_i64(list, i, &id)) return af_fail(error, AF_EFORMAT, "%s: not integers", key);
        const int status = check_id(v, key, id, error);
        if (status) return status;
        v->ends[id] = 1;
        if (*first < 0) *first = (int32_t)id;
    }
    return AF_OK;
}

static int read_ends(af_vocab *v, af_error *error) {
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eos_token_ids",
                                       "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
    mark_names(v);
    if (v->eos >= 0) v->ends[v->eos] = 1;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        int32_t unused = 0;
        const int status = mark_ends(v, keys[i], i < 2 ? &v->eos : &unused, error);
        if (status) return status;
    }
    return AF_OK;
}

/* What stands around an infilling is found whole only where the caller parses specials, whatever type the file gives
 * it: else a user's code could open one. */
static int mark_infill(af_vocab *v, af_error *error) {
    static const char *const keys[] = {
        "tokenizer.ggml.prefix_token_id",  "tokenizer.ggml.suffix_token_id",  "tokenizer.ggml.middle_token_id",
        "tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.fim_mid_token_id",
        "tokenizer.ggml.fim_pad_token_id", "tokenizer.ggml.fim_rep_token_id", "tokenizer.ggml.fim_sep_token_id",
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        int32_t id;
        const int status = af_vocab_read_id(v, keys[i], -1, &id, error);
        if (status) return status;
        if (id >= 0) v->type[id] = AF_TOKEN_CONTROL;
    }
    return AF_OK;
}

int af_vocab_read_ids(af_vocab *v, const af_vocab_defaults *defaults, af_error *error) {
    v->add_bos = defaults->add_bos;
    v->add_eos = defaults->add_eos;
    v->add_space_prefix = defaults->add_space_prefix;
    af_gguf_bool(v->file, "tokenizer.ggml.add_bos_token", &v->add_bos);
    af_gguf_bool(v->file, "tokenizer.ggml.add_eos_token", &v->add_eos);
    af_gguf_bool(v->file, "tokenizer.ggml.add_space_prefix", &v->add_space_prefix);
    int status = af_vocab_read_id(v, "tokenizer.ggml.bos_token_id", defaults->bos, &v->bos, error);
    if (!status) status = af_vocab_read_id(v, "tokenizer.ggml.eos_token_id", defaults->eos, &v->eos, error);
    if (!status) status = af_vocab_read_id(v, "tokenizer.ggml.unknown_token_id", defaults->unknown, &v->unknown, error);
    if (!status) status = af_vocab_read_id(v, "tokenizer.ggml.mask_token_id", -1, &v->mask, error);
    if (!status) status = mark_infill(v, error);
    return status ? status : read_ends(v, error);
}

/* wpm.c - the kind "bert": WordPiece. Text is cleaned and cut into words and single punctuation marks; each word takes
 * the longest token it begins with, then the longest that goes on from there, and is one unknown token if that leads
 * nowhere.
 *
 * Cleaning, classes of characters and the longest word are those of BERT's own tokenizer as Hugging Face's `tokenizers`
 * has it (normalizers/bert.rs, pre_tokenizers/bert.rs, models/wordpiece), quirks included: control characters go before
 * white space is looked for, so a vertical tab joins two words; one range of Han characters is left out.
 *
 * In the file a token that begins a word begins with "▁", here with a space, and the others have lost their "##".
 * Nothing gives the text back: decoding joins words with spaces.
 */
#include "text/kind.h"
#include "text/lowline.h"
#include "text/trie.h"
#include "text/vocab_ids.h"

#include "base/utf8.h"

#include <stdlib.h>
#include <utf8proc.h>

#define LONGEST_WORD  100 /* characters */
#define DECOMPOSITION 8   /* room for a character's; Unicode's longest canonical one has 4 */

typedef struct wpm {
    af_trie trie;
    bool lowercase, strip_accents;
} wpm;

/* ---- Opening ---- */

static void close_wpm(void *user) {
    wpm *state = user;
    if (!state) return;
    af_trie_close(&state->trie);
    free(state);
}

/* [CLS] goes before a text and [SEP] after it. tokenizer.ggml.add_eos_token speaks of another token, and
 * tokenizer.ggml.add_sep_token of what goes between the two texts of a pair. */
static int read_ends(af_vocab *v, af_error *error) {
    const int status = af_vocab_read_id(v, "tokenizer.ggml.cls_token_id", v->bos >= 0 ? v->bos : 101, &v->bos, error);
    v->add_eos = true;
    return status ? status : af_vocab_read_id(v, "tokenizer.ggml.seperator_token_id", 102, &v->eos, error);
}

static int open_wpm(const af_gguf *file, af_vocab *v, void **out, af_error *error) {
    static const af_vocab_defaults defaults = {.bos = -1, .eos = -1, .unknown = 100, .add_bos = true};
    *out = NULL;
    int status = af_vocab_open(v, file, &defaults, af_lowline_spell, NULL, error);
    if (!status) status = read_ends(v, error);
    if (status) return status;
    v->add_space_prefix = true; /* the first word's, which decoding takes off again */
    v->clean_up_spaces = true;
    wpm *state = calloc(1, sizeof *state);
    if (!state) return af_fail_memory(error, sizeof *state, "a vocabulary");
    state->lowercase = true;
    af_gguf_bool(file, "tokenizer.ggml.normalizer.lowercase", &state->lowercase);
    state->strip_accents = state->lowercase;
    af_gguf_bool(file, "tokenizer.ggml.normalizer.strip_accents", &state->strip_accents);
    status = af_trie_open(&state->trie, v, error);
    if (status)
        close_wpm(state);
    else
        *out = state;
    return status;
}

/* ---- Classes of characters ---- */

static utf8proc_category_t category(uint32_t c) {
    return utf8proc_category((utf8proc_int32_t)c);
}

/* Unicode's White_Space. */
static bool is_space(uint32_t c) {
    if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
    const utf8proc_category_t kind = category(c);
    return c == 0x85 || kind == UTF8PROC_CATEGORY_ZS || kind == UTF8PROC_CATEGORY_ZL || kind == UTF8PROC_CATEGORY_ZP;
}

static bool is_dropped(uint32_t c) {
    if (c == '\t' || c == '\n' || c == '\r') return false;
    if (c < 0x80) return c < ' ' || c == 0x7F;
    const utf8proc_category_t kind = category(c);
    return c == 0xFFFD || kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CF || kind == UTF8PROC_CATEGORY_CO;
}

static bool is_punctuation(uint32_t c) {
    if (c < 0x80)
        return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
    const utf8proc_category_t kind = category(c);
    return kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO;
}

static bool is_han(uint32_t c) {
    static const uint32_t ranges[][2] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},
                                         {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F},
                                         {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};
    for (size_t i = 0; c >= ranges[0][0] && i < sizeof ranges / sizeof *ranges; i++) {
        if (c >= ranges[i][0] && c <= ranges[i][1]) return true;
    }
    return false;
}

/* ---- Words ---- */

/* A text on its way: `word` holds a space and the characters of the word so far. */
typedef struct walk {
    const wpm *state;
    const af_vocab *v;
    af_buf *word;
    size_t characters; /* those beyond LONGEST_WORD are counted, not kept */
    af_ids *out;
} walk;

/* The longest token at `p`: its bytes, 0 if there is none. */
static size_t longest(const af_trie *trie, const char *p, size_t n, int32_t *id) {
    size_t found = 0;
    uint32_t node = 0;
    for (size_t i = 0; i < n && af_trie_step(trie, &node, (unsigned char)p[i]); i++) {
        if (trie->id[node] < 0) continue;
        found = i + 1;
        *id = trie->id[node];
    }
    return found;
}

static bool push_pieces(const walk *w) {
    for (size_t at = 0; at < w->word->len;) {
        int32_t id = -1;
        const size_t n = longest(&w->state->trie, w->word->p + at, w->word->len - at, &id);
        if (!n) return false;
        af_ids_push(w->out, id);
        at += n;
    }
    return true;
}

static void end_word(walk *w) {
    if (w->characters) {
        const size_t before = w->out->len;
        if (w->characters > LONGEST_WORD || !push_pieces(w)) {
            w->out->len = before;
            if (w->v->unknown >= 0) af_ids_push(w->out, w->v->unknown);
        }
    }
    w->characters = 0;
    w->word->len = 0;
}

static void add_to_word(walk *w, uint32_t c) {
    char bytes[4];
    if (w->characters++ >= LONGEST_WORD) return;
    if (w->word->len == 0) af_buf_byte(w->word, ' ');
    af_buf_append(w->word, bytes, af_utf8_encode(c, bytes));
}

static void add_alone(walk *w, uint32_t c) {
    end_word(w);
    add_to_word(w, c);
    end_word(w);
}

/* Takes a character that normalization is done with. */
static void take(walk *w, uint32_t c) {
    if (is_space(c))
        end_word(w);
    else if (is_punctuation(c))
        add_alone(w, c);
    else
        add_to_word(w, c);
}

static uint32_t lower(const wpm *state, uint32_t c) {
    if (!state->lowercase) return c;
    if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
}

/* Takes the letter without its accents. */
static void take_stripped(walk *w, uint32_t c) {
    utf8proc_int32_t parts[DECOMPOSITION];
    int boundary = 0;
    const utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)c, parts, DECOMPOSITION,
                                                       UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, &boundary);
    for (utf8proc_ssize_t i = 0; i < n && n <= DECOMPOSITION; i++) {
        const uint32_t part = (uint32_t)parts[i];
        if (category(part) != UTF8PROC_CATEGORY_MN) take(w, lower(w->state, part));
    }
}

static void take_raw(walk *w, uint32_t c) {
    if (is_dropped(c)) return;
    const bool han = is_han(c);
    if (han) end_word(w);
    if (w->state->strip_accents && c >= 0x80)
        take_stripped(w, c);
    else
        take(w, lower(w->state, c));
    if (han) end_word(w);
}

static int encode(const void *user, const af_vocab *v, af_scratch *scratch, af_slice text, bool after_whole,
                  af_ids *out, af_error *error) {
    (void)after_whole;
    walk w = {.state = user, .v = v, .word = &scratch->text, .out = out};
    w.word->len = 0;
    for (size_t at = 0, n; at < text.n; at += n) {
        uint32_t c = (unsigned char)text.p[at];
        n = c < 0x80 ? 1 : af_utf8_decode(text.p + at, text.n - at, &c);
        if (n)
            take_raw(&w, c);
        else
            n = 1; /* no character: dropped as U+FFFD is */
    }
    end_word(&w);
    return out->failed || w.word->failed ? af_fail_memory(error, text.n, "a text's tokens") : AF_OK;
}

const af_kind af_kind_wpm = {.open = open_wpm, .close = close_wpm, .encode = encode};

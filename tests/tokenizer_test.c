/* tokenizer_test.c - text to ids and back on small vocabularies whose answers can be worked out by hand.
 *
 * vocab_test.py does the same with real vocabularies and other people's answers.
 */
#include "base/log.h"
#include "base/os.h"
#include "vocab_writer.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define BOTH  (AF_ADD_SPECIAL | AF_PARSE_SPECIAL)
#define SPACE "\xE2\x96\x81"

static opened_vocab opened(vocab_writer *w) {
    opened_vocab o = open_vocab(w);
    if (o.status) fail_msg("%s", o.error.text);
    return o;
}

/* The ids as text, "1 2 3". */
static const char *encoded(const af_tokenizer *tok, const char *text, size_t n, const uint8_t *origin, unsigned flags) {
    static char shown[4096];
    af_ids ids = {0};
    af_error error = {0};
    if (af_tokenizer_encode(tok, text, n, origin, flags, &ids, &error)) fail_msg("%s", error.text);
    size_t at = 0;
    shown[0] = '\0';
    for (size_t i = 0; i < ids.len; i++) {
        at += (size_t)snprintf(shown + at, sizeof shown - at, i ? " %d" : "%d", ids.p[i]);
    }
    af_ids_clear(&ids);
    return shown;
}

#define ENCODES(tok, text, flags, expected)                                                                            \
    assert_string_equal(encoded(tok, text, sizeof text - 1, NULL, flags), expected)

static void decodes(const af_tokenizer *tok, const int32_t *ids, size_t count, const char *expected) {
    af_buf text = {0};
    assert_int_equal(af_tokenizer_decode(tok, ids, count, &text, NULL), AF_OK);
    assert_string_equal(text.p ? text.p : "", expected);
    af_buf_clear(&text);
}

static void comes_back(const af_tokenizer *tok, const char *text, size_t n, unsigned flags) {
    af_ids ids = {0};
    af_buf back = {0};
    assert_int_equal(af_tokenizer_encode(tok, text, n, NULL, flags, &ids, NULL), AF_OK);
    assert_int_equal(af_tokenizer_decode(tok, ids.p, ids.len, &back, NULL), AF_OK);
    assert_int_equal(back.len, n);
    if (n) assert_memory_equal(back.p, text, n);
    af_ids_clear(&ids);
    af_buf_clear(&back);
}

/* ---- SentencePiece ---- */

static const written_token spm_tokens[] = {
    {SPACE, AF_TOKEN_NORMAL, -9},       /* 259 */
    {"h", AF_TOKEN_NORMAL, -9},         /* 260 */
    {"e", AF_TOKEN_NORMAL, -9},         /* 261 */
    {"l", AF_TOKEN_NORMAL, -9},         /* 262 */
    {"o", AF_TOKEN_NORMAL, -9},         /* 263 */
    {"he", AF_TOKEN_NORMAL, -2},        /* 264 */
    {"el", AF_TOKEN_NORMAL, -1},        /* 265 */
    {"ll", AF_TOKEN_NORMAL, -3},        /* 266 */
    {"lo", AF_TOKEN_NORMAL, -3},        /* 267 */
    {SPACE "h", AF_TOKEN_NORMAL, -5},   /* 268 */
    {"<", AF_TOKEN_NORMAL, -9},         /* 269 */
    {"s", AF_TOKEN_NORMAL, -9},         /* 270 */
    {">", AF_TOKEN_NORMAL, -9},         /* 271 */
    {"<s", AF_TOKEN_NORMAL, -1},        /* 272 */
    {"<tag>", AF_TOKEN_USER, 0},        /* 273 */
    {"<tag><tag>", AF_TOKEN_USER, 0},   /* 274 */
    {SPACE SPACE, AF_TOKEN_NORMAL, -4}, /* 275 */
    {"h", AF_TOKEN_NORMAL, 5},          /* 276: repeats 260 */
};

static opened_vocab spm(bool prefix) {
    vocab_writer w = {0};
    write_spm(&w, spm_tokens, sizeof spm_tokens / sizeof *spm_tokens);
    write_bool(&w, "tokenizer.ggml.add_space_prefix", prefix);
    return opened(&w);
}

static void better_scores_join_first_and_equal_ones_from_the_left(void **unused) {
    opened_vocab o = spm(false);
    ENCODES(o.tok, "hel", 0, "260 265");
    ENCODES(o.tok, "llo", 0, "266 263");
    ENCODES(o.tok, "lll", 0, "266 262");
    ENCODES(o.tok, "", 0, "");
    close_vocab(&o);
}

static void the_first_of_repeated_tokens_counts(void **unused) {
    opened_vocab o = spm(false);
    ENCODES(o.tok, "h", 0, "260");
    assert_int_equal(af_tokenizer_id(o.tok, af_slice_text("h")), 260);
    close_vocab(&o);
}

static void a_space_goes_before_the_text_and_again_after_a_token_found_whole(void **unused) {
    opened_vocab o = spm(true);
    ENCODES(o.tok, "h", 0, "268");
    ENCODES(o.tok, " h", 0, "275 260");
    ENCODES(o.tok, "<s>h</s>h", BOTH, "1 1 268 2 268");
    ENCODES(o.tok, "h<tag>h", 0, "268 273 268");
    ENCODES(o.tok, "", 0, "");
    ENCODES(o.tok, "<s>", AF_PARSE_SPECIAL, "1");
    decodes(o.tok, (const int32_t[]){268}, 1, "h");
    decodes(o.tok, (const int32_t[]){1, 268, 268}, 3, "<s>h h");
    comes_back(o.tok, "hello<tag> h</s>h", 17, AF_PARSE_SPECIAL);
    close_vocab(&o);
}

static void without_the_prefix_nothing_is_added_or_taken(void **unused) {
    opened_vocab o = spm(false);
    ENCODES(o.tok, " h", 0, "268");
    decodes(o.tok, (const int32_t[]){268}, 1, " h");
    close_vocab(&o);
}

static void a_character_without_a_token_becomes_its_bytes(void **unused) {
    opened_vocab o = spm(false);
    ENCODES(o.tok, "\xC3\xA9", 0, "198 172");
    ENCODES(o.tok, "h\0h", 0, "260 3 260");
    ENCODES(o.tok, "\xFFh", 0, "258 260");
    comes_back(o.tok, "\xF0\x9F\x99\x82 \x80\xE2", 7, 0);
    close_vocab(&o);
}

static void a_written_low_line_is_a_space(void **unused) {
    opened_vocab o = spm(false);
    ENCODES(o.tok, SPACE "h", 0, "268");
    close_vocab(&o);
}

static void merging_never_makes_a_control_or_byte_token(void **unused) {
    opened_vocab o = spm(false);
    ENCODES(o.tok, "<s>", 0, "272 271");
    assert_string_equal(encoded(o.tok, "<0x0A>", 6, NULL, BOTH), "1 269 51 123 51 68 271");
    close_vocab(&o);
}

static void without_byte_tokens_the_unknown_token_stands_in(void **unused) {
    static const written_token tokens[] = {
        {"<unk>", AF_TOKEN_UNKNOWN, 0}, {"a", AF_TOKEN_NORMAL, 0}, {SPACE, AF_TOKEN_NORMAL, 0}};
    vocab_writer w = {0};
    write_string(&w, "tokenizer.ggml.model", "llama");
    write_tokens(&w, tokens, 3);
    write_bool(&w, "tokenizer.ggml.add_space_prefix", false);
    opened_vocab o = opened(&w);
    ENCODES(o.tok,
            "a\xC3\xA9"
            "a",
            0, "1 0 1");
    close_vocab(&o);
}

static void phi3_tokens_swallow_the_white_space_after_them(void **unused) {
    static const written_token more[] = {{"x", AF_TOKEN_NORMAL, 0}, {"<|user|>", AF_TOKEN_CONTROL, 0}};
    vocab_writer w = {0};
    write_string(&w, "general.name", "Phi3 mini");
    write_spm(&w, more, 2);
    write_bool(&w, "tokenizer.ggml.add_space_prefix", false);
    opened_vocab o = opened(&w);
    ENCODES(o.tok, "<|user|> \n x", AF_PARSE_SPECIAL, "260 259");
    ENCODES(o.tok, "<s> x", AF_PARSE_SPECIAL, "1 35 259");
    close_vocab(&o);
}

static void a_written_low_line_is_a_space_to_tokens_found_whole(void **unused) {
    static const written_token more[] = {
        {SPACE SPACE, AF_TOKEN_USER, 0}, {"x", AF_TOKEN_NORMAL, 0}, {SPACE, AF_TOKEN_NORMAL, 0}};
    vocab_writer w = {0};
    write_spm(&w, more, 3);
    write_bool(&w, "tokenizer.ggml.add_space_prefix", false);
    opened_vocab o = opened(&w);
    ENCODES(o.tok, "  x", 0, "259 260");
    ENCODES(o.tok, SPACE SPACE "x", 0, "259 260");
    ENCODES(o.tok, " " SPACE SPACE "x", 0, "259 261 260");
    ENCODES(o.tok, "x" SPACE, 0, "260 261");
    close_vocab(&o);
}

/* ---- BPE over raw characters ---- */

static opened_vocab gemma4(void) {
    static const written_token more[] = {
        {SPACE, AF_TOKEN_NORMAL, 0},      /* 259 */
        {"a", AF_TOKEN_NORMAL, 0},        /* 260 */
        {"b", AF_TOKEN_NORMAL, 0},        /* 261 */
        {"ab", AF_TOKEN_NORMAL, 0},       /* 262 */
        {"bb", AF_TOKEN_NORMAL, 0},       /* 263 */
        {SPACE "ab", AF_TOKEN_NORMAL, 0}, /* 264 */
        {"\xC3\xA9", AF_TOKEN_NORMAL, 0}, /* 265 */
        {"\xC3\xA9"
         "a",
         AF_TOKEN_NORMAL, 0}, /* 266 */
    };
    static const char *const merges[] = {"b b", "a b", SPACE " ab", "\xC3\xA9 a"};
    vocab_writer w = {0};
    write_low_lines(&w, "gemma4", more, sizeof more / sizeof *more);
    write_strings(&w, "tokenizer.ggml.merges", merges, 4);
    write_u32(&w, "tokenizer.ggml.bos_token_id", 1);
    write_bool(&w, "tokenizer.ggml.add_bos_token", false); /* as early conversions have it: not believed */
    return opened(&w);
}

static void the_merge_list_gives_the_order_whatever_the_scores(void **unused) {
    opened_vocab o = gemma4();
    ENCODES(o.tok, "abb", 0, "260 263");
    ENCODES(o.tok, " ab", 0, "264");
    ENCODES(o.tok, SPACE "ab", 0, "264");
    ENCODES(o.tok,
            "\xC3\xA9"
            "ab",
            0, "265 262");
    ENCODES(o.tok, "\xC3\xA8\xFF", 0, "198 171 258");
    ENCODES(o.tok, "a", AF_ADD_SPECIAL, "1 260");
    comes_back(o.tok, " ab  \xF0\x9F\x99\x82\0\xE2", 11, 0);
    close_vocab(&o);
}

static void some_files_call_that_kind_gpt2_with_a_name_of_their_own(void **unused) {
    vocab_writer w = {0};
    write_string(&w, "tokenizer.ggml.pre", "sarvam-moe");
    static const written_token more[] = {{SPACE, AF_TOKEN_NORMAL, 0}};
    write_low_lines(&w, "gpt2", more, 1);
    write_strings(&w, "tokenizer.ggml.merges", NULL, 0);
    opened_vocab o = opened(&w);
    ENCODES(o.tok, " ", 0, "259");
    close_vocab(&o);
}

/* ---- WordPiece ---- */

static opened_vocab wordpiece(bool lowercase) {
    static const written_token tokens[] = {
        {"[PAD]", AF_TOKEN_CONTROL, 0},             /* 0 */
        {"[UNK]", AF_TOKEN_UNKNOWN, 0},             /* 1 */
        {"[CLS]", AF_TOKEN_CONTROL, 0},             /* 2 */
        {"[SEP]", AF_TOKEN_CONTROL, 0},             /* 3 */
        {SPACE "token", AF_TOKEN_NORMAL, 0},        /* 4 */
        {"iz", AF_TOKEN_NORMAL, 0},                 /* 5 */
        {"izer", AF_TOKEN_NORMAL, 0},               /* 6 */
        {"s", AF_TOKEN_NORMAL, 0},                  /* 7 */
        {SPACE ".", AF_TOKEN_NORMAL, 0},            /* 8 */
        {SPACE "cafe", AF_TOKEN_NORMAL, 0},         /* 9 */
        {SPACE "\xE4\xB8\xAD", AF_TOKEN_NORMAL, 0}, /* 10 */
        {SPACE "a", AF_TOKEN_NORMAL, 0},            /* 11 */
        {"a", AF_TOKEN_NORMAL, 0},                  /* 12 */
        {SPACE "A", AF_TOKEN_NORMAL, 0},            /* 13 */
    };
    vocab_writer w = {0};
    write_string(&w, "tokenizer.ggml.model", "bert");
    write_tokens(&w, tokens, sizeof tokens / sizeof *tokens);
    write_u32(&w, "tokenizer.ggml.cls_token_id", 2);
    write_u32(&w, "tokenizer.ggml.seperator_token_id", 3);
    write_u32(&w, "tokenizer.ggml.unknown_token_id", 1);
    write_bool(&w, "tokenizer.ggml.add_eos_token", false);
    if (!lowercase) write_bool(&w, "tokenizer.ggml.normalizer.lowercase", false);
    return opened(&w);
}

static void words_take_the_longest_tokens_from_the_left(void **unused) {
    opened_vocab o = wordpiece(true);
    ENCODES(o.tok, "tokenizers", 0, "4 6 7");
    ENCODES(o.tok, "Tokeniz.TOKENS", 0, "4 5 8 4 7");
    ENCODES(o.tok, "tokenize token", 0, "1 4");
    ENCODES(o.tok, "", 0, "");
    close_vocab(&o);
}

static void cls_and_sep_go_around_the_text_whatever_the_file_says_of_eos(void **unused) {
    opened_vocab o = wordpiece(true);
    ENCODES(o.tok, "token", AF_ADD_SPECIAL, "2 4 3");
    ENCODES(o.tok, "a[SEP]a", BOTH, "2 11 3 11 3");
    close_vocab(&o);
}

static void accents_and_control_characters_go_and_han_stands_alone(void **unused) {
    opened_vocab o = wordpiece(true);
    ENCODES(o.tok, "CAF\xC3\x89 cafe\xCC\x81", 0, "9 9");
    ENCODES(o.tok,
            "ca\0f\x07"
            "e\xFF",
            0, "9");
    ENCODES(o.tok,
            "a\xE4\xB8\xAD"
            "a",
            0, "11 10 11");
    ENCODES(o.tok,
            "a\v"
            "a\ta",
            0, "11 12 11");
    close_vocab(&o);
}

static void case_stays_where_the_file_says_so(void **unused) {
    opened_vocab o = wordpiece(false);
    ENCODES(o.tok, "A a", 0, "13 11");
    ENCODES(o.tok, "cafe\xCC\x81", 0, "1");
    close_vocab(&o);
}

static void a_word_above_a_hundred_characters_is_unknown(void **unused) {
    opened_vocab o = wordpiece(true);
    char text[101];
    memset(text, 'a', sizeof text);
    af_ids ids = {0};
    assert_int_equal(af_tokenizer_encode(o.tok, text, 100, NULL, 0, &ids, NULL), AF_OK);
    assert_int_equal(ids.len, 100);
    af_ids_clear(&ids);
    assert_string_equal(encoded(o.tok, text, 101, NULL, 0), "1");
    close_vocab(&o);
}

static void words_are_decoded_with_spaces_between_but_before_marks(void **unused) {
    opened_vocab o = wordpiece(true);
    decodes(o.tok, (const int32_t[]){4, 6, 11, 8, 9}, 5, "tokenizer a. cafe");
    close_vocab(&o);
}

/* ---- Unigram ---- */

/* A table that makes "A" an "a" and a no-break space a space. Units: root, then where each byte leads. */
static void write_charsmap(vocab_writer *w) {
    enum { A = 0x41, FIRST = 0xC2, SECOND = 0x1A0, UNITS = 0x200 };
    uint32_t units[UNITS] = {0};
    const char strings[] = "a\0 ";
    units[0] = 0;                                          /* the root's offset is 0: its children lie at their bytes */
    units[A] = A | 1u << 8 | (A ^ 0x100u) << 10;           /* ends: its value lies at 0x100 */
    units[0x100] = 0x80000000u | 0;                        /* "a" */
    units[FIRST] = FIRST | (FIRST ^ SECOND ^ 0xA0u) << 10; /* goes on: 0xA0 leads to SECOND */
    units[SECOND] = 0xA0u | 1u << 8 | (SECOND ^ 0x101u) << 10;
    units[0x101] = 0x80000000u | 2; /* " " */
    put_kv_array(&w->body, "tokenizer.ggml.precompiled_charsmap", AF_GGUF_U8, 4 + sizeof units + sizeof strings);
    put_u32(&w->body, sizeof units);
    af_buf_append(&w->body, units, sizeof units);
    af_buf_append(&w->body, strings, sizeof strings);
    w->entries++;
}

static opened_vocab unigram(void) {
    static const written_token tokens[] = {
        {"<pad>", AF_TOKEN_CONTROL, 0},     /* 0 */
        {"</s>", AF_TOKEN_CONTROL, 0},      /* 1 */
        {"<unk>", AF_TOKEN_UNKNOWN, 0},     /* 2 */
        {SPACE, AF_TOKEN_NORMAL, -3},       /* 3 */
        {"a", AF_TOKEN_NORMAL, -3},         /* 4 */
        {"b", AF_TOKEN_NORMAL, -3},         /* 5 */
        {"ab", AF_TOKEN_NORMAL, -4},        /* 6 */
        {SPACE "a", AF_TOKEN_NORMAL, -4},   /* 7 */
        {"ba", AF_TOKEN_NORMAL, -4},        /* 8 */
        {SPACE "abab", AF_TOKEN_UNUSED, 9}, /* 9: never chosen */
        {"<mask>", AF_TOKEN_CONTROL, 0},    /* 10 */
    };
    vocab_writer w = {0};
    write_string(&w, "tokenizer.ggml.model", "t5");
    write_tokens(&w, tokens, sizeof tokens / sizeof *tokens);
    write_bool(&w, "tokenizer.ggml.remove_extra_whitespaces", true);
    write_u32(&w, "tokenizer.ggml.mask_token_id", 10);
    write_charsmap(&w);
    return opened(&w);
}

static void the_split_with_the_highest_sum_wins_and_of_equal_ones_the_first(void **unused) {
    opened_vocab o = unigram();
    ENCODES(o.tok, "ab", 0, "3 6"); /* -3 -4; " a" "b" has as much and ends later in the search */
    ENCODES(o.tok, "aab", 0, "7 6");
    ENCODES(o.tok, "abab", 0, "3 6 6");
    close_vocab(&o);
}

static void text_is_normalized_by_the_files_table_and_spaces_by_its_flag(void **unused) {
    opened_vocab o = unigram();
    ENCODES(o.tok, "A", 0, "7");
    ENCODES(o.tok, "  a  \xC2\xA0 a ", 0, "7 7");
    ENCODES(o.tok, "   ", 0, "");
    close_vocab(&o);
}

static void neighbours_without_a_token_are_one_unknown(void **unused) {
    opened_vocab o = unigram();
    ENCODES(o.tok, "axyza", 0, "7 2 4");
    ENCODES(o.tok, "a\xFF\0\xE4\xB8\xAD", 0, "7 2");
    close_vocab(&o);
}

static void an_end_is_added_and_the_mask_takes_the_space_before_it(void **unused) {
    opened_vocab o = unigram();
    ENCODES(o.tok, "a", AF_ADD_SPECIAL, "7 1");
    ENCODES(o.tok, "a  <mask>a", AF_PARSE_SPECIAL, "7 10 7");
    close_vocab(&o);
}

/* ---- Byte-level BPE ---- */

static const written_token bpe_tokens[] = {
    {"ab", AF_TOKEN_NORMAL, 0},  /* 256 */
    {"bc", AF_TOKEN_NORMAL, 0},  /* 257 */
    {"abc", AF_TOKEN_NORMAL, 0}, /* 258: no merge makes it */
    {"\xC4\xA0"
     "a",
     AF_TOKEN_NORMAL, 0},                 /* 259: " a" */
    {"<|im_end|>", AF_TOKEN_CONTROL, 0},  /* 260 */
    {"  ", AF_TOKEN_USER, 0},             /* 261 */
    {"<|im_end|><", AF_TOKEN_CONTROL, 0}, /* 262 */
    {"\xC3\xA9", AF_TOKEN_USER, 0},       /* 263: written whole, "é" and not the byte E9 */
};

static opened_vocab bpe(const char *pre) {
    static const char *const merges[] = {"b c", "a b", "\xC4\xA0 a", "b c", "a nowhere", "ab", "a  b", ""};
    vocab_writer w = {0};
    write_bpe(&w, pre, bpe_tokens, sizeof bpe_tokens / sizeof *bpe_tokens, merges, 8);
    write_u32(&w, "tokenizer.ggml.bos_token_id", 260);
    write_bool(&w, "tokenizer.ggml.add_eos_token", true);
    write_u32(&w, "tokenizer.ggml.eos_token_id", 262);
    return opened(&w);
}

static void earlier_merges_join_first_and_broken_ones_are_skipped(void **unused) {
    opened_vocab o = bpe("gpt-2");
    ENCODES(o.tok, "abc", 0, "97 257");
    ENCODES(o.tok, "ab a", 0, "256 259");
    close_vocab(&o);
}

static void some_families_take_a_piece_that_is_a_token_before_merging(void **unused) {
    opened_vocab o = bpe("llama-bpe");
    ENCODES(o.tok, "abc", 0, "258");
    ENCODES(o.tok, "abcc", 0, "97 257 99");
    close_vocab(&o);
}

static void beginning_and_end_are_added_where_the_vocabulary_asks(void **unused) {
    opened_vocab plain = bpe("gpt-2"), llama = bpe("llama-bpe");
    ENCODES(plain.tok, "a", AF_ADD_SPECIAL, "97 262");
    ENCODES(llama.tok, "a", AF_ADD_SPECIAL, "260 97 262");
    ENCODES(llama.tok, "", AF_ADD_SPECIAL, "260 262");
    assert_false(af_tokenizer_adds_bos(plain.tok));
    assert_true(af_tokenizer_adds_bos(llama.tok));
    assert_int_equal(af_tokenizer_bos(llama.tok), 260);
    assert_int_equal(af_tokenizer_eos(llama.tok), 262);
    close_vocab(&plain);
    close_vocab(&llama);
}

static void every_byte_string_comes_back_from_a_byte_level_vocabulary(void **unused) {
    opened_vocab o = bpe("gpt-2");
    uint32_t state = 5;
    for (int round = 0; round < 500; round++) {
        char text[48];
        const size_t n = (size_t)round % sizeof text;
        for (size_t i = 0; i < n; i++) {
            state = state * 1664525 + 1013904223;
            text[i] = "abc  <\xC3\xA9\xE2\x82\xAC\xFF\0\n'"[(state >> 8) % 15];
        }
        comes_back(o.tok, text, n, round & 1 ? AF_PARSE_SPECIAL : 0);
    }
    close_vocab(&o);
}

static void a_token_written_whole_is_not_the_bytes_its_letters_spell(void **unused) {
    opened_vocab o = bpe("gpt-2");
    ENCODES(o.tok, "\xC3\xA9", 0, "263");
    decodes(o.tok, (const int32_t[]){263, 0xE9}, 2, "\xC3\xA9\xE9");
    close_vocab(&o);
}

/* ---- Tokens found whole ---- */

static void user_defined_tokens_are_found_in_any_text_and_control_tokens_where_asked(void **unused) {
    opened_vocab o = bpe("gpt-2");
    ENCODES(o.tok, "a  b", 0, "97 261 98");
    ENCODES(o.tok, "   ", 0, "261 32");
    ENCODES(o.tok, "<|im_end|>", AF_PARSE_SPECIAL, "260");
    ENCODES(o.tok, "<|im_end|>", 0, "60 124 105 109 95 101 110 100 124 62");
    close_vocab(&o);
}

static void longer_names_win(void **unused) {
    opened_vocab o = bpe("gpt-2"), s = spm(false);
    ENCODES(o.tok, "<|im_end|><|im_end|>", AF_PARSE_SPECIAL, "262 124 105 109 95 101 110 100 124 62");
    ENCODES(s.tok, "<tag><tag><tag>", 0, "274 273");
    close_vocab(&o);
    close_vocab(&s);
}

static void what_a_user_wrote_is_no_control_token(void **unused) {
    opened_vocab o = bpe("gpt-2");
    const char text[] = "<|im_end|>";
    uint8_t origin[10] = {0};
    assert_string_equal(encoded(o.tok, text, 10, origin, AF_PARSE_SPECIAL), "260");
    for (size_t i = 0; i < 10; i++) { /* one byte of the user's is enough */
        origin[i] = 1;
        assert_string_not_equal(encoded(o.tok, text, 10, origin, AF_PARSE_SPECIAL), "260");
        origin[i] = 0;
    }
    const uint8_t after[11] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}; /* "<" of the user's: the shorter token stays */
    assert_string_equal(encoded(o.tok, "<|im_end|><", 11, after, AF_PARSE_SPECIAL), "260 60");
    close_vocab(&o);
}

/* ---- End tokens ---- */

static void any_of_the_end_tokens_ends(void **unused) {
    static const written_token more[] = {
        {"A", AF_TOKEN_NORMAL, 0},          /* 256 */
        {"<|turn|>", AF_TOKEN_CONTROL, 0},  /* 257 */
        {"<|eot_id|>", AF_TOKEN_NORMAL, 0}, /* 258: mistyped by its file */
        {"</s>", AF_TOKEN_NORMAL, 0},       /* 259: HTML here */
        {"<|eom_id|>", AF_TOKEN_USER, 0},   /* 260 */
    };
    vocab_writer w = {0};
    write_bpe(&w, "gpt-2", more, 5, NULL, 0);
    write_u32(&w, "tokenizer.ggml.eos_token_id", 256);
    write_u32(&w, "tokenizer.ggml.eot_token_id", 257);
    opened_vocab o = opened(&w);
    const bool ends[] = {true, true, true, false, true};
    for (int32_t i = 0; i < 5; i++) assert_int_equal(af_tokenizer_is_end(o.tok, 256 + i), ends[i]);
    assert_false(af_tokenizer_is_end(o.tok, 'a'));
    assert_false(af_tokenizer_is_end(o.tok, -1));
    assert_false(af_tokenizer_is_end(o.tok, 1 << 20));
    assert_int_equal(af_tokenizer_kind(o.tok, 258), AF_TOKEN_CONTROL);
    ENCODES(o.tok, "<|eot_id|>", AF_PARSE_SPECIAL, "258");
    close_vocab(&o);
}

static void tokens_around_an_infilling_are_not_found_in_users_text(void **unused) {
    static const written_token more[] = {{"<PRE>", AF_TOKEN_USER, 0}, {"<x>", AF_TOKEN_USER, 0}};
    vocab_writer w = {0};
    write_bpe(&w, "gpt-2", more, 2, NULL, 0);
    write_u32(&w, "tokenizer.ggml.prefix_token_id", 256);
    opened_vocab o = opened(&w);
    ENCODES(o.tok, "<PRE>", 0, "60 80 82 69 62");
    ENCODES(o.tok, "<PRE>", AF_PARSE_SPECIAL, "256");
    ENCODES(o.tok, "<x>", 0, "257");
    close_vocab(&o);
}

static void a_list_of_end_tokens_is_read_whole(void **unused) {
    vocab_writer w = {0};
    write_bpe(&w, "gpt-2", NULL, 0, NULL, 0);
    write_u32s(&w, "tokenizer.ggml.eos_token_id", (const uint32_t[]){7, 9}, 2);
    opened_vocab o = opened(&w);
    assert_int_equal(af_tokenizer_eos(o.tok), 7);
    assert_true(af_tokenizer_is_end(o.tok, 7));
    assert_true(af_tokenizer_is_end(o.tok, 9));
    close_vocab(&o);
}

static void harmony_messages_do_not_end_the_turn(void **unused) {
    static const written_token more[] = {
        {"<|end|>", AF_TOKEN_CONTROL, 0}, {"<|return|>", AF_TOKEN_CONTROL, 0}, {"<|call|>", AF_TOKEN_CONTROL, 0}};
    for (size_t count = 1; count <= 3; count += 2) {
        vocab_writer w = {0};
        write_bpe(&w, "gpt-2", more, count, NULL, 0);
        opened_vocab o = opened(&w);
        assert_int_equal(af_tokenizer_is_end(o.tok, 256), count == 1);
        close_vocab(&o);
    }
}

/* ---- Pieces ---- */

static void pieces_are_the_bytes_of_running_text(void **unused) {
    opened_vocab o = spm(false), b = bpe("gpt-2");
    assert_true(af_slice_is(af_tokenizer_piece(o.tok, 268, false), " h"));
    assert_true(af_slice_is(af_tokenizer_text(o.tok, 268), SPACE "h"));
    assert_true(af_slice_is(af_tokenizer_piece(o.tok, 3 + 'x', false), "x"));
    assert_true(af_slice_is(af_tokenizer_text(o.tok, 3 + 'x'), "<0x78>"));
    assert_true(af_slice_is(af_tokenizer_piece(o.tok, 1, true), "<s>"));
    assert_int_equal(af_tokenizer_piece(o.tok, 1, false).n, 0);
    assert_true(af_slice_is(af_tokenizer_piece(b.tok, 259, false), " a"));
    assert_int_equal(af_tokenizer_piece(b.tok, -1, true).n, 0);
    assert_int_equal(af_tokenizer_piece(b.tok, 1 << 20, true).n, 0);
    assert_int_equal(af_tokenizer_count(b.tok), 264);
    assert_int_equal(af_tokenizer_id(b.tok, af_slice_text(" a")), 259);
    assert_int_equal(af_tokenizer_id(b.tok, af_slice_text("<|im_end|>")), 260);
    assert_int_equal(af_tokenizer_id(b.tok, af_slice_text("nothing")), -1);
    close_vocab(&o);
    close_vocab(&b);
}

static void decoding_an_id_out_of_range_names_it(void **unused) {
    opened_vocab o = bpe("gpt-2");
    af_buf out = {0};
    af_error error = {0};
    assert_int_equal(af_tokenizer_decode(o.tok, (const int32_t[]){97, 264}, 2, &out, &error), AF_EINVAL);
    assert_string_equal(error.text, "id 1: 264, the vocabulary has 264 tokens");
    af_buf_clear(&out);
    close_vocab(&o);
}

/* ---- Vocabularies that are refused ---- */

static void refused(vocab_writer *w, int code, const char *expected) {
    opened_vocab o = open_vocab(w);
    assert_int_equal(o.status, code);
    assert_null(o.tok);
    const char *after = strstr(o.error.text, "vocab.gguf: ");
    assert_non_null(after);
    assert_string_equal(after + strlen("vocab.gguf: "), expected);
    close_vocab(&o);
}

static void a_vocabulary_that_cannot_be_used_is_refused_by_key(void **unused) {
    static const char *const one[] = {"a"};
    static const written_token two[] = {{"a", AF_TOKEN_NORMAL, 0}, {"b", 9, 0}};
    vocab_writer w = {0};
    refused(&w, AF_EFORMAT, "tokenizer.ggml.model: absent");
    write_string(&w, "tokenizer.ggml.model", "rwkv");
    refused(&w, AF_EUNSUPPORTED, "tokenizer.ggml.model: \"rwkv\", this build reads llama, gpt2, gemma4, bert and t5");
    write_string(&w, "tokenizer.ggml.model", "llama");
    refused(&w, AF_EFORMAT, "tokenizer.ggml.tokens: absent");
    write_string(&w, "tokenizer.ggml.model", "llama");
    write_strings(&w, "tokenizer.ggml.tokens", one, 0);
    refused(&w, AF_EFORMAT, "tokenizer.ggml.tokens: 0 tokens, allowed are 1 to 16777216");
    write_string(&w, "tokenizer.ggml.model", "llama");
    write_string(&w, "tokenizer.ggml.tokens", "a");
    refused(&w, AF_EFORMAT, "tokenizer.ggml.tokens: not an array of strings");
    write_string(&w, "tokenizer.ggml.model", "llama");
    write_u32s(&w, "tokenizer.ggml.tokens", (const uint32_t[]){1}, 1);
    refused(&w, AF_EFORMAT, "tokenizer.ggml.tokens: not strings");
    write_string(&w, "tokenizer.ggml.model", "t5");
    write_strings(&w, "tokenizer.ggml.tokens", one, 1);
    refused(&w, AF_EFORMAT, "tokenizer.ggml.scores: absent, the kind \"t5\" chooses by them");
    write_string(&w, "tokenizer.ggml.model", "t5");
    write_tokens(&w, two, 1);
    write_u32s(&w, "tokenizer.ggml.precompiled_charsmap", (const uint32_t[]){1, 2, 3}, 3);
    refused(&w, AF_EFORMAT, "tokenizer.ggml.precompiled_charsmap: 3 bytes, at least 4 are needed");
    write_string(&w, "tokenizer.ggml.model", "t5");
    write_tokens(&w, two, 1);
    write_u32s(&w, "tokenizer.ggml.precompiled_charsmap", (const uint32_t[]){8, 0, 0, 0, 0, 0}, 6);
    refused(&w, AF_EFORMAT, "tokenizer.ggml.precompiled_charsmap: 8 bytes of units in 6 bytes");
    write_string(&w, "tokenizer.ggml.model", "t5");
    write_tokens(&w, two, 1);
    write_u32s(&w, "tokenizer.ggml.precompiled_charsmap", (const uint32_t[]){8, 0, 999, 0, 0, 0}, 6);
    refused(&w, AF_EFORMAT, "tokenizer.ggml.precompiled_charsmap: not an array of bytes");
    write_string(&w, "tokenizer.ggml.model", "llama");
    write_strings(&w, "tokenizer.ggml.tokens", one, 1);
    refused(&w, AF_EFORMAT, "tokenizer.ggml.scores: absent, the kind \"llama\" merges by them");
    write_string(&w, "tokenizer.ggml.model", "gpt2");
    write_string(&w, "tokenizer.ggml.pre", "gpt-2");
    write_strings(&w, "tokenizer.ggml.tokens", one, 1);
    refused(&w, AF_EFORMAT, "tokenizer.ggml.merges: absent, the vocabulary merges by them");
    write_string(&w, "tokenizer.ggml.model", "llama");
    write_strings(&w, "tokenizer.ggml.tokens", one, 1);
    write_u32s(&w, "tokenizer.ggml.token_type", (const uint32_t[]){1, 1}, 2);
    refused(&w, AF_EFORMAT, "tokenizer.ggml.token_type: 2 elements, 1 tokens need as many");
    write_string(&w, "tokenizer.ggml.model", "llama");
    write_tokens(&w, two, 2);
    refused(&w, AF_EFORMAT, "tokenizer.ggml.token_type[1]: 9, allowed are 1 to 6");
    write_string(&w, "tokenizer.ggml.model", "llama");
    write_tokens(&w, two, 1);
    write_u32(&w, "tokenizer.ggml.bos_token_id", 1);
    refused(&w, AF_EFORMAT, "tokenizer.ggml.bos_token_id: 1, the vocabulary has 1 tokens");
    write_string(&w, "tokenizer.ggml.model", "llama");
    write_tokens(&w, two, 1);
    write_string(&w, "tokenizer.ggml.eos_token_id", "0");
    refused(&w, AF_EFORMAT, "tokenizer.ggml.eos_token_id: not an integer");
}

static void an_unknown_pre_tokenizer_still_opens_by_the_default_rules(void **unused) {
    opened_vocab o = bpe("from-the-future");
    ENCODES(o.tok, "ab", 0, "256");
    close_vocab(&o);
}

static void a_damaged_vocabulary_opens_or_is_refused(void **unused) {
    vocab_writer w = {0};
    write_bpe(&w, "gpt-2", bpe_tokens, 4, (const char *const[]){"a b"}, 1);
    const char *path = write_vocab(&w);
    char *bytes;
    size_t n;
    assert_int_equal(af_os_read_file(path, 1 << 20, &bytes, &n, NULL), AF_OK);
    uint32_t state = 9;
    for (int round = 0; round < 2000; round++) {
        state = state * 1664525 + 1013904223;
        const size_t at = (state >> 4) % n;
        const char kept = bytes[at];
        bytes[at] = (char)(state >> 24);
        af_gguf *file = NULL;
        af_tokenizer *tok = NULL;
        if (!af_gguf_open(temp_write("damaged.gguf", bytes, n), &file, NULL) && !af_tokenizer_open(file, &tok, NULL)) {
            encoded(tok, "ab <|im_end|>  \xFF", 16, NULL, BOTH);
        }
        af_tokenizer_close(tok);
        af_gguf_close(file);
        bytes[at] = kept;
    }
    af_free(bytes);
}

/* ---- Threads ---- */

#define THREADS 4

static void encode_often(void *user) {
    const af_tokenizer *tok = user;
    for (int i = 0; i < 200; i++) {
        af_ids ids = {0};
        assert_int_equal(af_tokenizer_encode(tok, "abc ab <|im_end|> a", 19, NULL, BOTH, &ids, NULL), AF_OK);
        assert_int_equal(ids.len, 8);
        af_ids_clear(&ids);
    }
}

static void one_tokenizer_serves_several_threads_at_once(void **unused) {
    opened_vocab o = bpe("gpt-2");
    assert_string_equal(encoded(o.tok, "abc ab <|im_end|> a", 19, NULL, BOTH), "97 257 32 256 32 260 259 262");
    af_thread *threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(af_thread_start(&threads[i], "encode", encode_often, o.tok, NULL), AF_OK);
    }
    for (size_t i = 0; i < THREADS; i++) af_thread_join(threads[i]);
    close_vocab(&o);
}

int main(void) {
    af_log_set_level(AF_LOG_ERROR); /* damaged vocabularies warn, as they should */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(better_scores_join_first_and_equal_ones_from_the_left),
        cmocka_unit_test(the_first_of_repeated_tokens_counts),
        cmocka_unit_test(a_space_goes_before_the_text_and_again_after_a_token_found_whole),
        cmocka_unit_test(without_the_prefix_nothing_is_added_or_taken),
        cmocka_unit_test(a_character_without_a_token_becomes_its_bytes),
        cmocka_unit_test(a_written_low_line_is_a_space),
        cmocka_unit_test(merging_never_makes_a_control_or_byte_token),
        cmocka_unit_test(without_byte_tokens_the_unknown_token_stands_in),
        cmocka_unit_test(phi3_tokens_swallow_the_white_space_after_them),
        cmocka_unit_test(a_written_low_line_is_a_space_to_tokens_found_whole),
        cmocka_unit_test(the_merge_list_gives_the_order_whatever_the_scores),
        cmocka_unit_test(some_files_call_that_kind_gpt2_with_a_name_of_their_own),
        cmocka_unit_test(words_take_the_longest_tokens_from_the_left),
        cmocka_unit_test(cls_and_sep_go_around_the_text_whatever_the_file_says_of_eos),
        cmocka_unit_test(accents_and_control_characters_go_and_han_stands_alone),
        cmocka_unit_test(case_stays_where_the_file_says_so),
        cmocka_unit_test(a_word_above_a_hundred_characters_is_unknown),
        cmocka_unit_test(words_are_decoded_with_spaces_between_but_before_marks),
        cmocka_unit_test(the_split_with_the_highest_sum_wins_and_of_equal_ones_the_first),
        cmocka_unit_test(text_is_normalized_by_the_files_table_and_spaces_by_its_flag),
        cmocka_unit_test(neighbours_without_a_token_are_one_unknown),
        cmocka_unit_test(an_end_is_added_and_the_mask_takes_the_space_before_it),
        cmocka_unit_test(earlier_merges_join_first_and_broken_ones_are_skipped),
        cmocka_unit_test(some_families_take_a_piece_that_is_a_token_before_merging),
        cmocka_unit_test(beginning_and_end_are_added_where_the_vocabulary_asks),
        cmocka_unit_test(every_byte_string_comes_back_from_a_byte_level_vocabulary),
        cmocka_unit_test(a_token_written_whole_is_not_the_bytes_its_letters_spell),
        cmocka_unit_test(user_defined_tokens_are_found_in_any_text_and_control_tokens_where_asked),
        cmocka_unit_test(longer_names_win),
        cmocka_unit_test(what_a_user_wrote_is_no_control_token),
        cmocka_unit_test(any_of_the_end_tokens_ends),
        cmocka_unit_test(tokens_around_an_infilling_are_not_found_in_users_text),
        cmocka_unit_test(a_list_of_end_tokens_is_read_whole),
        cmocka_unit_test(harmony_messages_do_not_end_the_turn),
        cmocka_unit_test(pieces_are_the_bytes_of_running_text),
        cmocka_unit_test(decoding_an_id_out_of_range_names_it),
        cmocka_unit_test(a_vocabulary_that_cannot_be_used_is_refused_by_key),
        cmocka_unit_test(an_unknown_pre_tokenizer_still_opens_by_the_default_rules),
        cmocka_unit_test(a_damaged_vocabulary_opens_or_is_refused),
        cmocka_unit_test(one_tokenizer_serves_several_threads_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* pretok_rules.c - the table of pre-tokenizers. A name is a word in a line.
 *
 * Patterns are facts of the models' own tokenizer.json files, names and flags those of llama.cpp's converter, which
 * writes them into tokenizer.ggml.pre (src/llama-vocab.cpp there). `\s` means Unicode's White_Space, see pretok.c.
 * Where a pattern is written differently from its source, it matches the same and is linear: the comment says why.
 */
#include "text/pretok.h"

#include <string.h>

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"

/* The family that began with GPT-4's cl100k_base: `digits` is how many digits stay together. */
#define CL100K(letter, digits)                                                                                         \
    "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\\r\\n\\p{L}\\p{N}]?[" letter "]+|\\p{N}" digits      \
    "| ?[^\\s" letter "\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

#define HAN_KANA_HANGUL "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+"

/* Letters of the scripts that have two cases, as DeepSeek's files list them. */
#define CASED_LETTERS                                                                                                                                                                                                         \
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\\x{1f7d}ᾀ-ᾴᾶ-ᾼ" \
    "\\x{1fbe}ῂ-ῄῆ-ῌῐ-\\x{1fd3}ῖ-\\x{1fdb}ῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\\x{2126}ℨ\\x{212a}-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛ"                     \
    "Ꜣ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"

static const af_pretok_rule rules[] = {
    {.names = "default", .patterns = {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {.names = "gpt-2 olmo jais", .patterns = {GPT2}},
    {.names = "mpt", .patterns = {GPT2}, .compose = true},
    {.names = "smollm starcoder refact codeshell", .patterns = {"\\p{N}", GPT2}},
    {.names = "command-r", .patterns = {"\\p{N}", GPT2}, .compose = true},
    {.names = "falcon", .patterns = {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"}},
    {.names = "llama-bpe llama3 llama-v3",
     .patterns = {CL100K("\\p{L}", "{1,3}")},
     .ignore_merges = true,
     .add_bos = true},
    {.names = "dbrx smaug-bpe", .patterns = {CL100K("\\p{L}", "{1,3}")}},
    {.names = "qwen2", .patterns = {CL100K("\\p{L}", "")}, .compose = true},
    {.names = "stablelm2 deepseek-r1-qwen", .patterns = {CL100K("\\p{L}", "")}},
    {.names = "qwen35", .patterns = {CL100K("\\p{L}\\p{M}", "")}, .compose = true},
    {.names = "deepseek-coder", .patterns = {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", HAN_KANA_HANGUL, "\\p{N}"}},
    /* The source's `\s+$` tries each start in a run of spaces that something follows: only the first can match. */
    {.names = "deepseek-llm",
     .patterns = {"[\\r\\n]", "\\s?[" CASED_LETTERS "]+",
                  "\\s?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+",
                  "(?<!\\s)\\s++$", HAN_KANA_HANGUL, "\\p{N}+"}},
};

/* Whether `name` is one of the words of `names`. */
static bool lists(const char *names, af_slice name) {
    for (const char *word = names; *word;) {
        const size_t length = strcspn(word, " ");
        if (af_slice_equal(af_slice_of(word, length), name)) return true;
        word += length + (word[length] == ' ');
    }
    return false;
}

const af_pretok_rule *af_pretok_at(size_t index) {
    return index < sizeof rules / sizeof *rules ? &rules[index] : NULL;
}

const af_pretok_rule *af_pretok_find(af_slice name) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (lists(rules[i].names, name)) return &rules[i];
    }
    return NULL;
}

const af_pretok_rule *af_pretok_default(void) {
    return &rules[0];
}

/* pretok_rules.c - the table of pre-tokenizers. A name is a word in a line.
 *
 * Patterns are facts of the models' own tokenizer.json files, names and flags those of llama.cpp's converter, which
 * writes them into tokenizer.ggml.pre (src/llama-vocab.cpp there). `\s` means Unicode's White_Space, see pretok.c.
 * Where a pattern is written differently from its source, it matches the same and is linear: the comment says why.
 * Where llama.cpp's pattern only comes near to the model's own, which its engine cannot run, the model's own stands
 * here.
 */
#include "text/pretok.h"

#include <string.h>

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"

#define CONTRACTION "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"

/* How most families end: line breaks with the white space before them, all but the last of several spaces. */
#define SPACES "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* The family that began with GPT-4's cl100k_base: words with the mark before them, and `digits` that stay together. */
#define WORDS(letter, digits)                                                                                          \
    "[^\\r\\n\\p{L}\\p{N}]?[" letter "]+|\\p{N}" digits "| ?[^\\s" letter "\\p{N}]+[\\r\\n]*" SPACES
#define CL100K(letter, digits) CONTRACTION "|" WORDS(letter, digits)

/* The family that began with GPT-4o's o200k_base: a word is capitals, then small letters; `tail` follows marks. */
#define O200K(upper, lower, contraction, digits, tail)                                                                 \
    "[^\\r\\n\\p{L}\\p{N}]?[" upper "]*[" lower "]+" contraction "|[^\\r\\n\\p{L}\\p{N}]?[" upper "]+[" lower          \
    "]*" contraction "|\\p{N}" digits "| ?[^\\s\\p{L}\\p{N}]+[" tail "]*" SPACES
#define UPPER "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}"
#define LOWER "\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"

/* Unicode 15.0's script Han. PCRE2's own changed its meaning with 10.40. */
#define HAN                                                                                                            \
    "\\x{2e80}-\\x{2e99}\\x{2e9b}-\\x{2ef3}\\x{2f00}-\\x{2fd5}\\x{3005}\\x{3007}\\x{3021}-\\x{3029}"                   \
    "\\x{3038}-\\x{303b}\\x{3400}-\\x{4dbf}\\x{4e00}-\\x{9fff}\\x{f900}-\\x{fa6d}\\x{fa70}-\\x{fad9}"                  \
    "\\x{16fe2}\\x{16fe3}\\x{16ff0}\\x{16ff1}\\x{20000}-\\x{2a6df}\\x{2a700}-\\x{2b739}\\x{2b740}-\\x{2b81d}"          \
    "\\x{2b820}-\\x{2cea1}\\x{2ceb0}-\\x{2ebe0}\\x{2f800}-\\x{2fa1d}\\x{30000}-\\x{3134a}\\x{31350}-\\x{323af}"
/* UPPER and LOWER without Han, as what neither is: PCRE2's classes cannot be intersected. */
#define UPPER_NOT_HAN "^\\p{Ll}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}" HAN
#define LOWER_NOT_HAN "^\\p{Lu}\\p{Lt}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}" HAN

#define HAN_KANA        "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{30ff}]+"
#define HAN_KANA_HANGUL "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+"
/* AFMoE's scripts without spaces between words: Han, kana, Thai, Lao, Khmer, Myanmar, Hangul. */
#define UNSPACED                                                                                                       \
    "[\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{f900}-\\x{faff}\\x{3040}-\\x{30ff}\\x{ff65}-\\x{ff9f}"                 \
    "\\x{2f00}-\\x{2fdf}\\x{e40}-\\x{e7f}\\x{e80}-\\x{eff}\\x{1780}-\\x{17ff}\\x{1000}-\\x{109f}"                      \
    "\\x{aa60}-\\x{aa7f}\\x{a9e0}-\\x{a9ff}\\x{ac00}-\\x{d7af}\\x{1100}-\\x{11ff}]+"
#define YOUTU                                                                                                          \
    "[\\x{ac00}-\\x{d7a3}\\x{3131}-\\x{318e}]+|[\\x{ff01}\\x{2026}\\x{201c}\\x{201d}\\x{2018}\\x{2019}\\x{2014}"       \
    "\\x{ff1a}\\x{ff1b}\\x{ff0c}\\x{3001}-\\x{303f}\\x{fe30}-\\x{fe4f}]+|[\\x{3105}-\\x{312f}]+|" HAN_KANA

/* Words with the ASCII mark before them, or with any character but letters, punctuation and symbols. */
#define DEEPSEEK3_WORDS                                                                                                \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"                \
    "| ?[\\p{P}\\p{S}]+"

/* BLOOM's words end at the marks of several scripts. */
#define BLOOM " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c})]+"

/* Letters of the scripts that have two cases, as DeepSeek's files list them. */
#define CASED_LETTERS                                                                                                                                                                                                         \
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\\x{1f7d}ᾀ-ᾴᾶ-ᾼ" \
    "\\x{1fbe}ῂ-ῄῆ-ῌῐ-\\x{1fd3}ῖ-\\x{1fdb}ῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\\x{2126}ℨ\\x{212a}-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛ"                     \
    "Ꜣ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"

static const af_pretok_rule rules[] = {
    {.names = "default", .patterns = {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},

    /* GPT-2's */
    {.names = "gpt-2 jais phi-2 gigachat a.x-4.0 mellum exaone4 trillion granite-docling jina-es jina-de",
     .patterns = {GPT2}},
    {.names = "roberta-bpe jina-v1-en jina-v2-es jina-v2-de jina-v2-code",
     .patterns = {GPT2},
     .mask_takes_space = true},
    {.names = "mpt olmo", .patterns = {GPT2}, .compose = true},
    {.names = "modern-bert", .patterns = {GPT2}, .compose = true, .mask_takes_space = true},
    {.names = "smollm starcoder refact codeshell exaone minerva-7b mellum2", .patterns = {"\\p{N}", GPT2}},
    {.names = "command-r", .patterns = {"\\p{N}", GPT2}, .compose = true},
    {.names = "falcon", .patterns = {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"}},
    {.names = "chameleon",
     .patterns = {"<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", "[\\t\\n]|    |  ", "\\p{N}", "[\\p{P}!-/:-@\\[-`{-~]",
                  GPT2},
     .add_bos = true},

    /* cl100k_base's */
    {.names = "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     .patterns = {CL100K("\\p{L}", "{1,3}")},
     .ignore_merges = true,
     .add_bos = true},
    {.names = "dbrx smaug-bpe glm4 chatglm-bpe", .patterns = {CL100K("\\p{L}", "{1,3}")}},
    {.names = "qwen2 f2llmv2", .patterns = {CL100K("\\p{L}", "")}, .compose = true},
    {.names = "stablelm2 deepseek-r1-qwen hunyuan megrez kormo solar-open grok-2", .patterns = {CL100K("\\p{L}", "")}},
    {.names = "qwen35", .patterns = {CL100K("\\p{L}\\p{M}", "")}, .compose = true},
    {.names = "ufakzeka", .patterns = {WORDS("\\p{L}", "")}},
    {.names = "laguna", .patterns = {"[^\\n]+|\\n+", CL100K("\\p{L}", "")}},
    {.names = "minicpm5", .patterns = {"\\p{N}{1,3}", CL100K("\\p{L}", "+")}, .ignore_merges = true},
    {.names = "bailingmoe bailingmoe2 llada-moe",
     .patterns = {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
                              "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    {.names = "seed-coder",
     .patterns = {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+" SPACES}},
    {.names = "jais-2",
     .patterns = {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+"
                              "|\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)"
                              "|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s"}},
    /* Several words in one piece. The source's `(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+`, without its two ways to one match.
     */
    {.names = "exaone-moe",
     .patterns = {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}\\p{M}*+(?: ?\\p{L}\\p{M}*+)*+|\\p{N}"
                              "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},

    /* o200k_base's */
    {.names = "gpt-4o llama4 kanana2 talkie minimax-m2",
     .patterns = {O200K(UPPER, LOWER, CONTRACTION "?", "{1,3}", "\\r\\n/")}},
    {.names = "granite-embed-multi-97m",
     .patterns = {O200K(UPPER, LOWER, CONTRACTION "?", "{1,3}", "\\r\\n/")},
     .ignore_merges = true},
    {.names = "tekken", .patterns = {O200K(UPPER, LOWER, "", "", "\\r\\n/")}, .ignore_merges = true, .add_bos = true},
    {.names = "youtu", .patterns = {YOUTU, O200K(UPPER, LOWER, CONTRACTION "?", "", "\\r\\n/")}, .ignore_merges = true},
    {.names = "tiny_aya cohere2moe",
     .patterns = {AF_PRETOK_THOUSANDS_WORD, O200K(UPPER, LOWER, CONTRACTION "?", "{1,3}", "\\r\\n/")}},
    {.names = "kimi-k2",
     .patterns = {"[" HAN "]+|" O200K(UPPER_NOT_HAN, LOWER_NOT_HAN, CONTRACTION "?", "{1,3}", "\\r\\n")}},

    /* DeepSeek's */
    {.names = "deepseek-coder", .patterns = {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", HAN_KANA_HANGUL, "\\p{N}"}},
    /* The source's `\s+$` tries each start in a run of spaces that something follows: only the first can match. */
    {.names = "deepseek-llm",
     .patterns = {"[\\r\\n]", "\\s?[" CASED_LETTERS "]+",
                  "\\s?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+",
                  "(?<!\\s)\\s++$", HAN_KANA_HANGUL, "\\p{N}+"}},
    {.names = "deepseek-v3 hunyuan-dense joyai-llm hy_v4",
     .patterns = {"\\p{N}{1,3}", HAN_KANA, DEEPSEEK3_WORDS "[\\r\\n]*" SPACES}},
    {.names = "spark2_5",
     .patterns = {"\\p{N}{1,3}", HAN_KANA, DEEPSEEK3_WORDS "|[\\r\\n]|\\s+(?!\\S)|\\s+", "\\p{N}"}},
    {.names = "afmoe", .patterns = {AF_PRETOK_THOUSANDS, UNSPACED, DEEPSEEK3_WORDS "[\\r\\n]*" SPACES}},

    /* Others */
    {.names = "bloom poro-chat gpt3-finnish", .patterns = {BLOOM}},
    {.names = "viking", .patterns = {BLOOM, "\\p{N}"}},
    /* The source cuts before each three digits that are followed by threes only, and so never between "½" and digits.
     */
    {.names = "superbpe", .patterns = {"\\p{N}+", AF_PRETOK_THOUSANDS}},
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

"""Vocabularies of GGUF files as tokenizers of the PyPI package `tokenizers`, built as the models' tokenizer.json say.

The patterns are written as those files write them, for another engine than ours, so that a slip in our table shows.
"""
import mmap
import struct

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
CL100K = CONTRACTION + (r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}"
O200K = (r"[^\r\n\p{L}\p{N}]?" + UPPER + "%s]*" + LOWER + "%s]+%s|"
         r"[^\r\n\p{L}\p{N}]?" + UPPER + "%s]+" + LOWER + r"%s]*%s"
         r"|\p{N}%s| ?[^\s\p{L}\p{N}]+[%s]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
             r"|\s*[\r\n]+|\s+(?!\S)|\s+")
CJK = "[一-龥぀-ゟ゠-ヿ]+"
BLOOM = " ?[^(\\s|[.,!?…。，、।۔،])]+"


def o200k(contraction, digits, tail=r"\r\n/", less=""):
    return O200K % (less, less, contraction, less, less, contraction, digits, tail)


# A pre-tokenizer's name: the patterns it cuts by, each the pieces left by the one before.
PATTERNS = {
    "gpt-2": [GPT2],
    "smollm": [r"\p{N}", GPT2],
    "llama-bpe": [CL100K % "{1,3}"],
    "qwen2": [CL100K % ""],
    "qwen35": [CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "gpt-4o": [o200k(CONTRACTION + "?", "{1,3}")],
    "tekken": [o200k("", "")],
    "kimi-k2": [r"[\p{Han}]+|" + o200k(CONTRACTION + "?", "{1,3}", r"\r\n", r"&&[^\p{Han}]")],
    "tiny_aya": [r"\d{1,3}(?=(?:\d{3})*\b)", o200k(CONTRACTION + "?", "{1,3}")],
    "superbpe": [r"\p{N}+", r"(?=(\d{3})+(?!\d))"],
    "deepseek-v3": [r"\p{N}{1,3}", CJK, DEEPSEEK3],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}"],
    "bailingmoe": [r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"],
    "seed-coder": [CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "exaone-moe": [CONTRACTION + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?"
                   r"|\s*[\r\n]|\s+(?!\S)|\s+"],
    "jais-2": [CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|"
               r"\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}"],
    "bloom": [BLOOM],
    "viking": [BLOOM, r"\p{N}"],
}

COMPOSED = {"qwen2", "qwen35", "mpt", "command-r"}


class Vocabulary:
    """The tokenizer.* keys of a GGUF file, read quickly."""
    SIZES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.at = 16
        count = self.number("Q")
        self.keys = {self.string(): self.value(self.number("I")) for _ in range(count)}

    def number(self, code):
        (value,) = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize(code)
        return value

    def string(self):
        size = self.number("Q")
        self.at += size
        return self.data[self.at - size:self.at].decode(errors="surrogateescape")

    def value(self, kind):
        if kind == 8:
            return self.string()
        if kind != 9:
            return self.number(self.SIZES[kind])
        kind, count = self.number("I"), self.number("Q")
        if kind == 8:
            return [self.string() for _ in range(count)]
        code = f"<{count}{self.SIZES[kind]}"
        values = struct.unpack_from(code, self.data, self.at)
        self.at += struct.calcsize(code)
        return list(values)

    def __getitem__(self, key):
        return self.keys.get("tokenizer.ggml." + key)


def cutter(name):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(p), "isolated") for p in PATTERNS[name]])


def add_tokens(tokenizer, vocabulary):
    """User-defined tokens, found whole in any text."""
    users = [t for t, kind in zip(vocabulary["tokens"], vocabulary["token_type"]) if kind == 4]
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in users])
    return tokenizer


def split_merges(vocabulary):
    return [(line[:line.index(" ", 1)], line[line.index(" ", 1) + 1:]) for line in vocabulary["merges"]]


def byte_level(vocabulary, name, patterns):
    model = models.BPE({t: i for i, t in enumerate(vocabulary["tokens"])}, split_merges(vocabulary),
                       ignore_merges=name == "llama-bpe")
    tokenizer = Tokenizer(model)
    if name in COMPOSED:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [*(pre_tokenizers.Split(Regex(p), "isolated") for p in PATTERNS[patterns]),
         pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return add_tokens(tokenizer, vocabulary)


def gemma4(vocabulary):
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(vocabulary["tokens"])}, split_merges(vocabulary),
                                     byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    return add_tokens(tokenizer, vocabulary)


def bert(vocabulary):
    def written(token):
        if token.startswith("[") and token.endswith("]"):
            return token
        return token[1:] if token.startswith("▁") else "##" + token
    tokenizer = Tokenizer(models.WordPiece({written(t): i for i, t in enumerate(vocabulary["tokens"])}, unk_token="[UNK]",
                                           max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer

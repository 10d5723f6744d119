"""Token ids and pre-tokenizers' cuts are those of the PyPI package `tokenizers`, on random texts.

The vectors of vocab_test.py are chosen texts; these are not.
"""
import json
import os
import pathlib
import random
import subprocess
import unicodedata

import pytest

import oracle_tokenizers as oracle
from support import ROOT, SHARED
from vocab_test import unpacked

LINES = pathlib.Path(os.environ.get("SHIMMY_BUILD", ROOT / "build/release")).resolve() / "tests/tokenizer_lines"
# The vocabulary, and whose patterns it is cut by.
BYTE_LEVEL = {"gpt-2": "gpt-2", "smollm2": "smollm", "starcoder": "smollm", "refact": "smollm", "mpt": "gpt-2",
              "llama-bpe": "llama-bpe", "qwen2": "qwen2", "qwen35": "qwen35", "deepseek-coder": "deepseek-coder"}

WORDS = ["the", "Hello", "WORLD", "HelloWorld", "it's", "I'LL", "don't", "naïve", "e\u0301t", "Straße", "ДОМ", "дом", "中文字",
         "カタカナ", "ひらがな", "한국어", "العربية", "हिन्दी", "ไทย", "ab12", "x_y", "𝒳", "ﬁ", "İ", "ñ"]
MARKS = [".", ",", "!", "?", "...", "(", ")", "[", "{", "}", "#", "/", "//", "--", "=", "+", "$", "'", "\"", "。", "、", "…",
         "«", "€", "🙂", "👍🏽", "|", "\\", "@", "_", "~", "/\n", ")\n\n"]
SPACES = [" ", " ", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n", "\n ", "\u00a0", "\u3000", " " * 9]
NUMBERS = ["1", "12", "123", "1234", "1234567", "3.14", "2024-01-02", "١٢٣", "½", "Ⅷ"]


def random_texts(seed, count, parts):
    draw = random.Random(seed)
    return ["".join(draw.choice(draw.choice(parts)) for _ in range(draw.randint(1, 40))) for _ in range(count)]


TEXTS = random_texts(1, 400, [WORDS, WORDS, MARKS, SPACES, SPACES, NUMBERS])


def ours(what, name, texts):
    done = subprocess.run([LINES, what, name], input=json.dumps(texts).encode(), capture_output=True, check=True)
    return json.loads(done.stdout)


def compare(texts, found, expected):
    for text, ours_, theirs in zip(texts, found, expected, strict=True):
        assert ours_ == theirs, f"{text!r}"


def compare_ids(name, tokenizer, texts=TEXTS):
    expected = [tokenizer.encode(t, add_special_tokens=False).ids for t in texts]
    compare(texts, ours("encode", unpacked(name), texts), expected)


@pytest.mark.parametrize("name", oracle.PATTERNS)
def test_rules_cut_as_the_patterns_of_the_models_own_files(name):
    cutter = oracle.cutter(name)
    texts = TEXTS
    if name == "superbpe":  # where a number that is no digit stands before digits, ours cuts between them
        texts = [t for t in texts if not set(t) & {"½", "Ⅷ"}]
    compare(texts, ours("cut", name, texts), [[piece for piece, _ in cutter.pre_tokenize_str(t)] for t in texts])


needs_shared = pytest.mark.skipif(not (SHARED / "vocab").exists(), reason="../shared/vocab is not there")


@needs_shared
@pytest.mark.parametrize("name", BYTE_LEVEL)
def test_byte_level_ids(name):
    compare_ids(name, oracle.byte_level(oracle.Vocabulary(unpacked(name)), name, BYTE_LEVEL[name]))


@needs_shared
def test_gemma_4_ids():
    compare_ids("gemma-4", oracle.gemma4(oracle.Vocabulary(unpacked("gemma-4"))))


def of_one_class(character):
    """The classes of other characters depend on the version of Unicode."""
    old, new = unicodedata.ucd_3_2_0.category(character), unicodedata.category(character)
    return old == new and old != "Cn"


@needs_shared
def test_bert_ids():
    controls = [chr(c) for c in (0, 7, 9, 11, 12, 0x85, 0x200b, 0x200d, 0xfeff, 0xfffd, 0x2028, 0xad, 0xe000)]
    any_letter = [c for c in map(chr, range(0x21, 0x3000)) if of_one_class(c)]
    texts = TEXTS + random_texts(3, 400, [WORDS, MARKS, SPACES, controls, any_letter])
    texts += ["a" * 100, "a" * 101, "é" * 100, "x" + "\u0301" * 200]
    compare_ids("bert-bge", oracle.bert(oracle.Vocabulary(unpacked("bert-bge"))), texts)

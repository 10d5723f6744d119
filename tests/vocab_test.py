"""Real vocabularies give other people's token ids, in linear time, and take any bytes (vocab_check.c does the work).

The vocabularies and the ids come from ../shared/vocab, which its README explains; they are unpacked into build/vocab.
"""
import json
import lzma
import os
import pathlib
import subprocess

import pytest

from support import ROOT, SANITIZED, SHARED

CHECK = pathlib.Path(os.environ.get("SHIMMY_BUILD", ROOT / "build/release")).resolve() / "tests/vocab_check"
UNPACKED = ROOT / "build/vocab"

SPM = ["llama-spm", "baichuan", "phi-3", "gemma-3"]
OTHER = ["gemma-4", "bert-bge", "nomic-bert-moe"]
BPE = ["gpt-2", "smollm2", "llama-bpe", "qwen2", "qwen35", "command-r", "deepseek-coder", "deepseek-llm", "falcon", "mpt",
       "refact", "starcoder", "gpt-neox"]
COMPOSING = ["command-r", "mpt", "qwen2", "qwen35"]
ALL = SPM + BPE + OTHER
# phi-3 swallows white space after its tokens, and composed text is not the text: these do not give random texts back.
RANDOM = [name for name in ALL if name not in ["phi-3", *COMPOSING]]
# phi-3's own ids are not known.
DISPUTED = [*COMPOSING, "gemma-3", "bert-bge", "nomic-bert-moe"]


pytestmark = pytest.mark.skipif(not (SHARED / "vocab").exists(), reason="../shared/vocab is not there")


def unpacked(name):
    packed = SHARED / f"vocab/ggml-vocab-{name}.gguf.xz"
    target = UNPACKED / f"{name}.gguf"
    if not target.exists():
        UNPACKED.mkdir(parents=True, exist_ok=True)
        made = target.with_suffix(f".{os.getpid()}")
        made.write_bytes(lzma.decompress(packed.read_bytes()))
        made.rename(target)
    return target


def check(name, what):
    done = subprocess.run([CHECK, unpacked(name), what], capture_output=True, text=True, errors="replace")
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ALL)
def test_ids_are_those_of_the_vectors_and_texts_come_back(name):
    check(name, SHARED / f"vocab/vectors/{name}.json")


@pytest.mark.parametrize("name", DISPUTED)
def test_where_others_differ_ids_are_those_of_the_model_s_own_tokenizer(name, tmp_path):
    cases = json.loads((SHARED / "vocab/differences.json").read_text())[name]["cases"]
    own = [{"text": case["text"], **case["own"]} for case in cases if case["own"]]
    assert own
    path = tmp_path / "own.json"
    path.write_text(json.dumps(own))
    check(name, path)


@pytest.mark.parametrize("name", RANDOM)
def test_any_bytes_come_back(name):
    check(name, "--random")


if not SANITIZED:  # whose times say nothing
    @pytest.mark.parametrize("name", ALL)
    def test_time_grows_with_the_text(name):
        check(name, "--time")

"""Real vocabularies give other people's token ids, in linear time, and take any bytes (vocab_check.c does the work).

The vocabularies and the ids come from ../shared/vocab, which its README explains; they are unpacked into build/vocab.
"""
import lzma
import os
import pathlib
import subprocess

import pytest

from support import ROOT, SANITIZED, SHARED

CHECK = pathlib.Path(os.environ.get("SHIMMY_BUILD", ROOT / "build/release")).resolve() / "tests/vocab_check"
UNPACKED = ROOT / "build/vocab"

SPM = ["llama-spm", "baichuan", "phi-3", "gemma-3"]
BPE = ["gpt-2", "smollm2", "llama-bpe", "qwen2", "qwen35", "command-r", "deepseek-coder", "deepseek-llm", "falcon", "mpt",
       "refact", "starcoder", "gpt-neox"]
# phi-3 swallows white space after its tokens, so that random texts do not come back.
RANDOM = [name for name in SPM + BPE if name != "phi-3"]


def unpacked(name):
    packed = SHARED / f"vocab/ggml-vocab-{name}.gguf.xz"
    if not packed.exists():
        pytest.skip(f"{packed} is not there")
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


@pytest.mark.parametrize("name", SPM + BPE)
def test_ids_are_those_of_the_vectors_and_texts_come_back(name):
    check(name, SHARED / f"vocab/vectors/{name}.json")


@pytest.mark.parametrize("name", RANDOM)
def test_any_bytes_come_back(name):
    check(name, "--random")


if not SANITIZED:  # whose times say nothing
    @pytest.mark.parametrize("name", SPM + BPE)
    def test_time_grows_with_the_text(name):
        check(name, "--time")

"""`shimmy verify` on lavapipe over every small file there is: each format and family; and once more every format, and the
families that have operations of their own, with subgroups off and weights cut into small bindings. Slow; gpu_test.py has
two of them.
"""
import pytest

import twins
from gpu_test import DEVICE, FORMATS, PRESETS
from support import MODELS, shimmy_json, vector

FILES = sorted({vector("logits", name)["preset"] for name in PRESETS})
# Of formats and shaders that others have.
MIXED = {"nano-llama-q4_k_m", "nano-llama-q5_k_m", "nano-llama-linear-f32", "nano-gemma3-f32"}
OPERATIONS = ["nano-qwen3moe-q4_0", "nano-gpt-oss-mxfp4", "nano-deepseek2-q8_0", "nano-qwen35-q8_0", "nano-bert-f32"]
# Neither is in the other's way: sums within a workgroup, and which rows of a matrix a dispatch has.
POOR_DEVICE = {"AIRFRAME_GPU_SUBGROUPS": "0", "AIRFRAME_GPU_WEIGHT_LIMIT": "65536"}


def verify(name, env):
    verify_file(MODELS / f"{name}.gguf", env)


def verify_file(path, env):
    result = shimmy_json("verify", path, "--device", DEVICE, env=env, check=False)
    assert result["excesses"] == 0, [r for r in result["rows"] if r["excess"]]


@pytest.mark.parametrize("name", FILES)
def test_verify_finds_no_excess(name):
    verify(name, {})


@pytest.mark.parametrize("name", sorted({*FORMATS} - MIXED) + OPERATIONS)
def test_verify_finds_no_excess_without_subgroups_and_with_small_bindings(name):
    verify(name, POOR_DEVICE)


# Rows of 16,384 logits and more come as lists of the best, where no more is wanted.
def test_verify_finds_no_excess_in_lists_of_the_best(tmp_path, monkeypatch):
    monkeypatch.setitem(twins.synth_gguf.NANO, "nano-wide", {**twins.synth_gguf.NANO["nano-llama3"], "vocab": 16400})
    twins.synth_gguf.write("nano-wide-q8_0", tmp_path / "wide.gguf", None, 1)
    verify_file(tmp_path / "wide.gguf", {})


@pytest.mark.parametrize("mix,seed", twins.FORMATS + twins.MIXES)
def test_verify_finds_no_excess_in_random_blocks(mix, seed, tmp_path):
    verify_file(twins.make(tmp_path, mix, seed), {})


@pytest.mark.parametrize("mix", twins.NATIVE)
def test_verify_finds_no_excess_in_random_blocks_without_subgroups_and_with_small_bindings(mix, tmp_path):
    verify_file(twins.make(tmp_path, mix, 1), POOR_DEVICE)

"""`shimmy verify` on lavapipe over every small file there is: each format and family; and every format with subgroups off.
Slow; gpu_test.py has two of them, and logits with weights split over small bindings (verify's own cache does not fit those).
"""
import pytest

import twins
from gpu_test import DEVICE, FORMATS, PRESETS
from support import MODELS, shimmy_json, vector

FILES = sorted({vector("logits", name)["preset"] for name in PRESETS})
VARIATIONS = {"no subgroups": {"AIRFRAME_GPU_SUBGROUPS": "0"}}


def verify(name, env):
    verify_file(MODELS / f"{name}.gguf", env)


def verify_file(path, env):
    result = shimmy_json("verify", path, "--device", DEVICE, env=env, check=False)
    assert result["excesses"] == 0, [r for r in result["rows"] if r["excess"]]


@pytest.mark.parametrize("name", FILES)
def test_verify_finds_no_excess(name):
    verify(name, {})


@pytest.mark.parametrize("variation", VARIATIONS)
@pytest.mark.parametrize("name", FORMATS)
def test_verify_finds_no_excess_with(variation, name):
    verify(name, VARIATIONS[variation])


# Rows of 16,384 logits and more come as lists of the best, where no more is wanted.
def test_verify_finds_no_excess_in_lists_of_the_best(tmp_path, monkeypatch):
    monkeypatch.setitem(twins.synth_gguf.NANO, "nano-wide", {**twins.synth_gguf.NANO["nano-llama3"], "vocab": 16400})
    twins.synth_gguf.write("nano-wide-q8_0", tmp_path / "wide.gguf", None, 1)
    verify_file(tmp_path / "wide.gguf", {})


@pytest.mark.parametrize("mix,seed", twins.FORMATS + twins.MIXES)
def test_verify_finds_no_excess_in_random_blocks(mix, seed, tmp_path):
    verify_file(twins.make(tmp_path, mix, seed), {})


@pytest.mark.parametrize("mix", twins.NATIVE)
def test_verify_finds_no_excess_in_random_blocks_without_subgroups(mix, tmp_path):
    verify_file(twins.make(tmp_path, mix, 1), {"AIRFRAME_GPU_SUBGROUPS": "0"})

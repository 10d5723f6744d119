"""tools/model_smoke_test: a table of the models here, and exit 1 where one does not work."""
import json
import os
import subprocess
import sys

import pytest

from support import EXE, MODELS, ROOT

SMOL, GEMMA = "SmolLM2-135M-Instruct.Q4_1", "gemma-3-270m-q4_k_m"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "models").mkdir()
    return tmp_path / "models"


def smoke(folder, *arguments):
    """Among the models of a folder and no others: HOME is where the rest would be looked for."""
    elsewhere = {name: str(folder.parent / "none") for name in ("HOME", "HF_HOME", "HF_HUB_CACHE", "OLLAMA_MODELS")}
    return subprocess.run([sys.executable, ROOT / "tools/model_smoke_test", "--model-dirs", folder, "--device", "cpu",
                           *arguments], capture_output=True, text=True, timeout=600,
                          env={**os.environ, **elsewhere, "SHIMMY_EXE": str(EXE)})


def rows(done):
    return {row["model"]: row for row in map(json.loads, done.stdout.splitlines())}


def take(folder, *names):
    for name in names:
        (folder / f"{name}.gguf").symlink_to(MODELS / f"{name}.gguf")


def test_the_two_real_models_work_and_know_the_city(folder):
    take(folder, SMOL, GEMMA)
    done = smoke(folder, "--json")
    found = rows(done)
    assert done.returncode == 0 and set(found) == {SMOL, GEMMA}
    for row in found.values():
        assert row["result"] == "ok" and row["keyword"] == "Paris" and "Paris" in row["text"]


def test_small_ones_need_not_know_it_and_encoders_embed(folder):
    take(folder, "nano-llama-f32", "nano-bert-f32", "nano-nomic-bert-f16")
    done = smoke(folder)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[0].split()[:3] == ["model", "architecture", "type"]
    assert lines[-1] == "3 of 3 work" and all(" ok " in line for line in lines[1:-1])
    assert all("64 numbers" in line for line in lines if "bert" in line)


def test_a_model_that_does_not_work_is_said_to_and_the_others_are_tried(folder):
    take(folder, "nano-llama-f32")
    data = (MODELS / "nano-qwen2-f32.gguf").read_bytes()
    assert b"blk.1.ffn_norm" in data
    (folder / "broken.gguf").write_bytes(data.replace(b"blk.1.ffn_norm", b"blk.1.FFN_NORM"))
    done = smoke(folder, "--json")
    found = rows(done)
    assert done.returncode == 1 and found["nano-llama-f32"]["result"] == "ok"
    assert found["broken"]["result"] == "FAILED" and "blk.1.ffn_norm.weight: missing" in found["broken"]["text"]


def test_models_can_be_named(folder):
    take(folder, "nano-llama-f32", "nano-qwen2-f32")
    assert set(rows(smoke(folder, "--json", "nano-qwen2-f32"))) == {"nano-qwen2-f32"}
    done = smoke(folder, "nosuch")
    assert done.returncode == 1 and "nosuch" in done.stderr and done.stdout == ""


def test_no_models_are_a_failure(folder):
    done = smoke(folder)
    assert done.returncode == 1 and "no models found" in done.stderr

"""A model on a GPU and the CPU together: --gpu-layers. Whatever the share of each, logits meet the vectors."""
import json
import re

import numpy as np
import pytest

from lavapipe import DEVICE
from support import MODELS, logits, shimmy, shimmy_json, vector

SMOL = MODELS / "SmolLM2-135M-Instruct.Q4_1.gguf"
COUNTED = ["generate", SMOL, "--prompt", "One, two, three, four,", "--raw", "--max-tokens", 8, "--temperature", 0, "--ctx",
           64, "--device", DEVICE]


def layers_of(name):
    return shimmy_json("probe", MODELS / f"{name}.gguf")["layers"]


def drift(name, layers, *arguments):
    spec = vector("logits", name)
    found = logits(MODELS / f"{name}.gguf", spec["tokens"], "--kv", "f32", "--ctx", spec["n_ctx"], "--device", DEVICE,
                   "--exact", "--gpu-layers", layers, *arguments, positions=",".join(map(str, spec["positions"])))
    return np.abs(np.array(list(found.values())) - np.array(spec["logits"])).max() / spec["tolerance"]["f32"]


@pytest.mark.parametrize("name", ["nano-llama-f32", "nano-gemma2-f32", "nano-phi2-f32"])
def test_every_split_meets_the_vectors(name):
    for layers in range(layers_of(name) + 2):  # one more than there are is all
        assert drift(name, layers) <= 1, layers


def test_a_split_takes_chunks_and_neighbours():
    assert drift("nano-llama-q4_k_m", 1, "--prefill-chunk", 7, "--neighbours", 3) <= 1
    assert drift("nano-gemma3-q8_0", 1, "--prefill-chunk", 1) <= 1


@pytest.mark.parametrize("layers", [0, 7, 30, "auto"])
def test_greedy_text_is_the_same_with_every_split(layers):
    assert shimmy_json(*COUNTED, "--gpu-layers", layers)["text"] == " five, six, seven, eight,"


def test_the_device_says_what_runs_where():
    def device(*arguments):
        return shimmy_json("bench", MODELS / "nano-llama-q4_0.gguf", "--prompt-tokens", 4, "--gen-tokens", 2, "--runs", 1,
                           "--ctx", 64, *arguments)["device"]
    layers = layers_of("nano-llama-q4_0")
    split = device("--device", DEVICE, "--gpu-layers", 1)
    assert DEVICE in split and f"with 1 of {layers} layers" in split and "cpu (" in split
    assert device("--device", DEVICE, "--gpu-layers", 0).startswith("cpu (")
    assert "cpu (" not in device("--device", DEVICE, "--gpu-layers", layers)


@pytest.mark.parametrize("layers", ["", "-1", "x", "3x", "65536", "1e1"])
def test_a_number_of_layers_that_is_none_is_refused(layers):
    done = shimmy(*COUNTED, "--gpu-layers", layers, check=False)
    assert done.returncode == 2 and b"--gpu-layers" in done.stderr and done.stdout == b""


def test_the_cpu_has_no_layers_of_a_gpu():
    done = shimmy("logits", MODELS / "nano-llama-q4_0.gguf", "--tokens", "1", "--device", "cpu", "--gpu-layers", 1,
                  check=False)
    assert done.returncode == 1 and b"gpu_layers" in done.stderr


# ---- Memory ----

def needed(name, *arguments):
    """Bytes that a model needs on the device, as the refusal says."""
    done = shimmy("logits", MODELS / f"{name}.gguf", "--tokens", "1", "--ctx", 64, "--device", DEVICE, "--gpu-layers", 99,
                  *arguments, env={"AIRFRAME_GPU_MEMORY": "1"}, check=False)
    assert done.returncode == 1 and b"--gpu-layers" in done.stderr and b"--ctx" in done.stderr
    return round(float(re.search(rb"([\d.]+) MB are needed", done.stderr)[1]) * 10) * 100_000


def test_a_model_that_does_not_fit_says_what_it_needs_and_what_there_is():
    whole = needed("SmolLM2-135M-Instruct.Q4_1")
    assert needed("SmolLM2-135M-Instruct.Q4_1", "--exact") > whole + 300_000_000  # 135 million numbers of four bytes
    done = shimmy("logits", SMOL, "--tokens", "1", "--ctx", 64, "--device", DEVICE, "--gpu-layers", 30,
                  env={"AIRFRAME_GPU_MEMORY": str(whole - 20_000_000)}, check=False)
    assert done.returncode == 1 and f"{whole / 1e6 - 20:.1f} MB free".encode() in done.stderr


@pytest.mark.parametrize("missing, most", [(20_000_000, 29), (60_000_000, 20), (10**12, 0)])
def test_auto_gives_the_gpu_as_many_layers_as_fit(missing, most):
    free = max(needed("SmolLM2-135M-Instruct.Q4_1") - missing, 1)
    done = shimmy(*COUNTED, "--json", env={"AIRFRAME_GPU_MEMORY": str(free)})
    assert json.loads(done.stdout)["text"] == " five, six, seven, eight,"
    layers = int(re.search(rb"It gets (\d+) of 30 layers", done.stderr)[1])
    assert layers <= most and (layers > 0) == (most > 0)


def test_what_no_binding_holds_is_named_before_anything_is_loaded():
    done = shimmy("logits", MODELS / "nano-llama-q4_0.gguf", "--tokens", "1", "--ctx", 256, "--device", DEVICE,
                  env={"AIRFRAME_GPU_BINDING_LIMIT": "8192"}, check=False)
    assert done.returncode == 1 and re.search(rb"gpu: a layer.s KV cache: [\d.]+ MB, .+ binds at most", done.stderr)


@pytest.mark.parametrize("kv", ["f16", "f32", "q8_0"])
@pytest.mark.parametrize("layers", ["auto", 1])
@pytest.mark.parametrize("name", ["nano-gemma3-q8_0", "nano-deepseek2-f32"])
def test_pages_of_a_device_come_back_from_disk(tmp_path, name, layers, kv):
    """On a GPU a prompt's numbers depend a little on how it was cut, so they are near and not equal."""
    tokens = [3 + i * 37 % 400 for i in range(200)]
    ids, rows = ",".join(map(str, tokens)), []
    for cached in 0, 160:
        out = shimmy("logits", MODELS / f"{name}.gguf", "--tokens", "-", "--positions", "190,199", "--device", DEVICE,
                     "--kv", kv, "--gpu-layers", layers, "--cache-dir", tmp_path / "cache", stdin=ids.encode())
        assert b"%d tokens came from the cache" % cached in out.stderr
        rows.append(np.array([json.loads(line)["logits"] for line in out.stdout.splitlines()]))
    assert np.abs(rows[0] - rows[1]).max() < 0.02 * np.abs(rows[0]).max()
    assert (rows[0].argmax(axis=1) == rows[1].argmax(axis=1)).all()

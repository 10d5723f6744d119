"""A model on a GPU and the CPU together: --gpu-layers. Whatever the share of each, logits meet the vectors."""
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

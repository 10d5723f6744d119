"""A token's logits on a GPU do not depend on what else is in the batch: the same bytes in any chunks, beside any neighbours.

Prompts alone: decoded tokens have kernels of their own. On lavapipe, or the device that SHIMMY_TEST_GPU names.
"""
import pytest

from lavapipe import DEVICE
from support import MODELS, VECTORS, shimmy, vector

DECODERS = sorted({v["preset"] for v in (vector("logits", p.stem) for p in (VECTORS / "logits").glob("*.json"))
                   if v["kind"] == "logits"})
FAMILIES = [name for name in DECODERS if name.endswith("-f32")]
# Every layout of a block (block.wgsl), experts' and recurrent layers' among them, and numbers of two bytes.
FORMATS = ["nano-llama-f16", "nano-llama-bf16", "nano-llama-q2_k", "nano-llama-q3_k", "nano-llama-q4_k_m",
           "nano-llama-q5_1", "nano-llama-q6_k", "nano-gemma3-q8_0", "nano-gpt-oss-mxfp4", "nano-deepseek2-q8_0",
           "nano-mixtral-q8_0", "nano-qwen35-q8_0"]
# Two blocks of keys of attend.wgsl and more than one tile of every product.
COUNT = 134
TOKENS = ",".join(str((37 * i * i + 11 * i + 5) % 250 + 3) for i in range(COUNT))


def printed(name, chunk, neighbours, **options):
    done = shimmy("logits", MODELS / f"{name}.gguf", "--tokens", "-", "--positions", "all", "--ctx", 256, "--device", DEVICE,
                  "--prefill-chunk", chunk, "--neighbours", neighbours, stdin=TOKENS.encode(), **options)
    assert done.stdout.count(b"\n") == COUNT
    return done.stdout


@pytest.mark.parametrize("name", FAMILIES)
def test_logits_are_the_same_in_chunks_beside_a_neighbour(name):
    assert printed(name, 29, 1) == printed(name, 512, 0)


@pytest.mark.parametrize("name", FORMATS)
def test_logits_of_quantized_weights_are_the_same_in_any_chunks_beside_any_neighbours(name):
    whole = printed(name, 512, 0)
    for chunk, neighbours in (7, 0), (33, 3):
        assert printed(name, chunk, neighbours) == whole, f"chunks of {chunk} beside {neighbours}"


def test_logits_are_the_same_token_by_token():
    assert printed("nano-gemma3-q8_0", 1, 0) == printed("nano-gemma3-q8_0", 64, 0)


# Sums through workgroup memory; products and attention by matrices of subgroups, whose tiles of each size are met here.
@pytest.mark.parametrize("variable", ["AIRFRAME_GPU_SUBGROUPS=0", "AIRFRAME_GPU_MATRICES=emulated"])
@pytest.mark.parametrize("name", ["nano-llama-q5_k_m", "nano-gemma3-q8_0", "nano-qwen3moe-q4_0"])
def test_logits_are_the_same_on_other_devices(name, variable):
    env = dict([variable.split("=")])
    whole = printed(name, 512, 0, env=env)
    assert printed(name, 7, 2, env=env) == whole
    assert printed(name, 40, 0, env=env) == whole

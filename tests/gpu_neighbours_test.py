"""A GPU gives a request the same answer whoever else is there, bit for bit, as the CPU does (promise 1).

Prompts of many lengths are answered alone, each to the last digit of its log probabilities, and then all together: more
than eight decode at once, while prompts come in between. What a cache gives is the same too.
"""
import concurrent.futures
import random
import subprocess
import sys

import pytest

from lavapipe import DEVICE
from server import EXE, Server
from support import MODELS, ROOT

LENGTHS = [1, 5, 90, 31, 64, 8, 33, 130, 17, 2, 70]  # of prompts, in tokens
# Quantized ones go by the kernels that GPUs are fast with; floats, attention of each kind, experts, recurrent states
PRESETS = ["llama-q4_k_m", "llama-q6_k", "llama-f32", "gemma3-q8_0", "phi3-q4_0", "gpt2-f32", "mixtral-q8_0",
           "gpt-oss-mxfp4", "qwen3moe-q4_0", "deepseek2-q8_0", "qwen35-q8_0"]


def start(model, *arguments, **options):
    return Server(EXE, "serve", "--model-path", model, "--bind", "127.0.0.1:0", "--device", DEVICE, "--parallel",
                  len(LENGTHS), "--ctx", 512, *arguments, **options)


def prompt_of(length, seed):
    draw = random.Random(seed)
    return [draw.randrange(3, 250) for _ in range(length)]


def answer(server, prompt, seed, **fields):
    body = {"prompt": prompt, "max_tokens": 6 + seed, "seed": seed, "ignore_eos": True, **fields}
    status, _, found = server.post("/v1/completions", body)
    assert status == 200, found
    return found


def all_of(server, **fields):
    return [lambda i=i, n=n: answer(server, prompt_of(n, i), i, **fields)["choices"] for i, n in enumerate(LENGTHS)]


def together(asks):
    with concurrent.futures.ThreadPoolExecutor(len(asks)) as pool:
        return [future.result() for future in [pool.submit(ask) for ask in asks]]


def check_together(server, **fields):
    asks = all_of(server, **fields)
    alone = [ask() for ask in asks]
    assert together(asks) == alone


@pytest.mark.parametrize("preset", PRESETS)
def test_answers_are_the_same_with_and_without_neighbours(preset):
    with start(MODELS / f"nano-{preset}.gguf", "--cache-ram", 0) as server:
        check_together(server, logprobs=2)


@pytest.mark.parametrize("how", [["--gpu-layers", 1], ["--kv", "q8_0"], ["--exact", "--kv", "f32"],
                                 ["AIRFRAME_GPU_SUBGROUPS"]], ids=lambda how: how[0])
def test_so_they_are_with_other_kernels(how):
    options = {"env": {how[0]: "0"}} if len(how) == 1 else {}
    arguments = [] if options else how
    with start(MODELS / "nano-llama-q4_k_m.gguf", "--cache-ram", 0, *arguments, **options) as server:
        check_together(server, logprobs=2)


@pytest.mark.parametrize("fields", [{"temperature": 0}, {}, {"top_k": 40}, {"temperature": 0.8, "top_p": 0.9}])
def test_tokens_chosen_by_the_device_are_the_same_too(fields):
    with start(MODELS / "nano-llama-q4_k_m.gguf", "--cache-ram", 0) as server:
        check_together(server, **fields)


def letters(server):
    """Tokens that are a letter, by it: an answer of such is known by its text."""
    found = {}
    for token in range(3, 250):
        text = server.post("/detokenize", {"tokens": [token]})[2]["content"]
        if len(text) == 1 and text.isascii() and text.isalpha():
            found[text] = token
    return found


@pytest.mark.parametrize("preset", ["llama-q4_k_m", "gemma3-q8_0"])
def test_a_prompt_with_an_answer_in_it_has_the_same_cold_and_warm(preset):
    model = MODELS / f"nano-{preset}.gguf"
    question, more = prompt_of(80, 1), prompt_of(40, 2)
    with start(model, "--cache-ram", 0) as cold, start(model) as warm:
        ids = letters(warm)
        said = answer(warm, question, 60, logit_bias={str(token): 100 for token in ids.values()})["choices"][0]["text"]
        told = question + [ids[letter] for letter in said] + more
        expected = answer(cold, told, 3, logprobs=2)["choices"]
        for cached in [64, (len(told) - 1) // 32 * 32]:  # whole pages of the question; then of all of it
            found = answer(warm, told, 3, logprobs=2)
            assert found["usage"]["prompt_tokens_details"]["cached_tokens"] == cached
            assert found["choices"] == expected


def test_texts_under_load_are_those_alone():
    """A real model and clients of every kind; on a GPU in software they get few answers in that time."""
    done = subprocess.run([sys.executable, "-B", ROOT / "tools/loadtest", MODELS / "SmolLM2-135M-Instruct.Q4_1.gguf",
                           "--shimmy", EXE, "--seconds", "20", "--questions", "5", "--words", "8", "--answer", "10",
                           "--clients", "10", "--growth", "1000", "--", "--device", DEVICE, "--parallel", "10", "--ctx",
                           "512"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "errors             none" in done.stdout

"""Promise 1: a sequence's logits do not depend on chunks, neighbours, threads or cached prefixes, bit for bit.

Prompts of 1,100 tokens cross page boundaries (32), Gemma's window (512) and the default chunk (512). Nine significant
digits tell every float from its neighbours, so equal text is equal bits.
"""
import hashlib
import random
import re

import pytest

from server import Server
from support import EXE, MODELS, SANITIZED, shimmy

REAL = ["SmolLM2-135M-Instruct.Q4_1.gguf", "gemma-3-270m-q4_k_m.gguf"]
NANO = ["nano-llama-q4_k_m.gguf", "nano-qwen35-q8_0.gguf", "nano-llama-f16.gguf", "nano-gemma3-q8_0.gguf"]
POSITIONS = "0,31,32,511,512,513,777,1023,1024,1099"
VARIANTS = {
    "chunks of 7": ["--prefill-chunk", 7],
    "one token at a time": ["--prefill-chunk", 1],
    "beside seven neighbours": ["--neighbours", 7],
    "beside neighbours in small chunks": ["--neighbours", 7, "--prefill-chunk", 48],
    "one thread": ["--threads", 1],
    "two threads": ["--threads", 2],
}


def logits(model, tokens, positions, *arguments):
    ids = ",".join(map(str, tokens))
    out = shimmy("logits", MODELS / model, "--tokens", "-", "--positions", positions, *arguments, stdin=ids.encode())
    assert out.stdout.count(b"\n") == positions.count(",") + 1
    return out


def digest(*arguments):
    return hashlib.sha256(logits(*arguments).stdout).hexdigest()


def cached_tokens(out):
    return int(re.search(rb"(\d+) tokens came from the cache", out.stderr)[1])


def random_tokens(count, vocabulary):
    return random.Random(11).choices(range(3, vocabulary), k=count)


@pytest.fixture(scope="module")
def reference():
    known = {}

    def of(model, tokens, positions, *arguments):
        key = (model, arguments)
        if key not in known:
            known[key] = digest(model, tokens, positions, *arguments)
        return known[key]
    return of


@pytest.mark.parametrize("kv", ["f16", "q8_0"])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("model", NANO)
def test_small_models(model, variant, kv, reference):
    tokens = random_tokens(500, 500)
    positions = "0,31,32,127,255,256,499"
    wanted = reference(model, tokens, positions, "--kv", kv)
    assert digest(model, tokens, positions, "--kv", kv, *VARIANTS[variant]) == wanted


@pytest.mark.parametrize("kv", ["f16", "f32"])
@pytest.mark.parametrize("model", NANO)
def test_exact_mode_keeps_the_promise_too(model, kv, reference):
    tokens = random_tokens(300, 500)
    plain = reference(model, tokens, "31,32,299", "--exact", "--kv", kv)
    assert digest(model, tokens, "31,32,299", "--exact", "--kv", kv, "--prefill-chunk", 7, "--neighbours", 3) == plain


WARM = {
    "as it is": [],
    "chunks of 48": ["--prefill-chunk", 48],
    "beside three neighbours": ["--neighbours", 3],
    "q8_0": ["--kv", "q8_0"],
    "exact": ["--exact"],
    "exact, f32": ["--exact", "--kv", "f32"],
}


def check_warm(model, tokens, positions, arguments):
    """Cold without a cache, then warm: all whole pages before the first position come from the cache."""
    sizes = [a for a in arguments if a in ("--kv", "q8_0", "f32", "--exact")]
    cold = logits(model, tokens, positions, "--cache-ram", 0, *sizes)
    warm = logits(model, tokens, positions, "--warm", "--cache-ram", "64M", *arguments)
    recurrent = "qwen35" in model
    assert cached_tokens(warm) == (0 if recurrent else int(positions.split(",")[0]) // 32 * 32)
    assert warm.stdout == cold.stdout


@pytest.mark.parametrize("variant", WARM)
@pytest.mark.parametrize("model", NANO)
def test_a_cached_prefix_changes_nothing(model, variant):
    check_warm(model, random_tokens(400, 500), "355,384,399", WARM[variant])


if not SANITIZED:
    @pytest.mark.parametrize("variant", WARM)
    @pytest.mark.parametrize("model", REAL)
    def test_a_thousand_cached_tokens_change_nothing(model, variant):
        tokens = random_tokens(1100, 40000)
        check_warm(model, tokens, "1030,1099", WARM[variant])

    @pytest.mark.parametrize("variant", VARIANTS)
    @pytest.mark.parametrize("model", REAL)
    def test_real_models_with_1100_tokens(model, variant, reference):
        tokens = random_tokens(1100, 40000)
        assert digest(model, tokens, POSITIONS, *VARIANTS[variant]) == reference(model, tokens, POSITIONS)


@pytest.mark.parametrize("model", ["SmolLM2-135M-Instruct.Q4_1.gguf", "nano-gemma3-q8_0.gguf", "nano-qwen35-q8_0.gguf"])
def test_a_shifted_context_says_what_the_shorter_text_says(model):
    """The context holds 64 tokens. Of the 65 that are known when it is full the first stays and the younger half."""
    ids, said = random_tokens(40, 500), 300
    with Server(EXE, "serve", "--model-path", MODELS / model, "--bind", "127.0.0.1:0", "--ctx", 64, "--device", "cpu",
                "--context-shift") as server:
        def answer(prompt, count):
            """How likely each token was, of an answer that says one token again and again."""
            status, _, said_back = server.post("/v1/completions", {
                "prompt": prompt, "max_tokens": count, "temperature": 0, "logit_bias": {said: 100}, "logprobs": 0})
            assert status == 200
            usage = said_back["usage"]
            assert (usage["prompt_tokens"], usage["completion_tokens"]) == (len(prompt), count)
            return said_back["choices"][0]["logprobs"]["token_logprobs"]

        likely = answer(ids, 45)
        text = ids + [said] * 25
        assert len(set(likely)) > 30 and likely[25:] == answer(text[:1] + text[33:], 20)
        assert answer([*ids, said], 20) == likely[1:21]

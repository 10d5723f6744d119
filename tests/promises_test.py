"""Promise 1: a sequence's logits do not depend on chunks, neighbours or threads, bit for bit.

Prompts of 1,100 tokens cross page boundaries (32), Gemma's window (512) and the default chunk (512). Nine significant
digits tell every float from its neighbours, so equal text is equal bits.
"""
import hashlib
import random

import pytest

from support import MODELS, SANITIZED, shimmy

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


def digest(model, tokens, positions, *arguments):
    ids = ",".join(map(str, tokens))
    out = shimmy("logits", MODELS / model, "--tokens", "-", "--positions", positions, *arguments, stdin=ids.encode())
    assert out.stdout.count(b"\n") == positions.count(",") + 1
    return hashlib.sha256(out.stdout).hexdigest()


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


if not SANITIZED:
    @pytest.mark.parametrize("variant", VARIANTS)
    @pytest.mark.parametrize("model", REAL)
    def test_real_models_with_1100_tokens(model, variant, reference):
        tokens = random_tokens(1100, 40000)
        assert digest(model, tokens, POSITIONS, *VARIANTS[variant]) == reference(model, tokens, POSITIONS)

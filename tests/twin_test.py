"""A quantized file is the model that its decoded numbers say: beside its twin in F32 (tools/f32_twin.py) it finds a text
as likely. What is recorded in docs/QUANTIZATION.md comes from here."""
import pathlib
import subprocess
import sys

import pytest

from support import MODELS, shimmy_json, vector

TWIN = pathlib.Path(__file__).parent / "tools/f32_twin.py"
REAL = {"smollm2-135m-instruct-q4_1": "SmolLM2-135M-Instruct.Q4_1.gguf",
        "gemma-3-270m-q4_k_m": "gemma-3-270m-q4_k_m.gguf"}
TOKENS = 192


@pytest.fixture(scope="module", params=REAL)
def pair(request, tmp_path_factory):
    """A real model, its twin, and the beginning of the text of vectors/real/drift.json in its tokens."""
    folder = tmp_path_factory.mktemp("twin")
    twin, text = folder / "twin.gguf", folder / "tokens"
    subprocess.run([sys.executable, TWIN, MODELS / REAL[request.param], twin], check=True)
    text.write_text(" ".join(map(str, vector("real", "drift")[request.param]["tokens"][:TOKENS])))
    yield MODELS / REAL[request.param], twin, text
    twin.unlink()  # a gigabyte


def perplexity(model, text, *arguments):
    found = shimmy_json("perplexity", model, "--device", "cpu", "--tokens", text, *arguments)
    assert found["tokens"] == TOKENS
    return found["perplexity"]


# Of so few tokens. Kernels that round otherwise, and drift no further from exact (`--kl`), gave from -0.9 to 0.02 %.
ROUNDING = 0.01


def test_the_file_and_its_twin_in_f32_find_a_text_as_likely(pair):
    model, twin, text = pair
    exact = perplexity(twin, text, "--exact", "--kv", "f32")
    assert perplexity(model, text, "--exact", "--kv", "f32") == pytest.approx(exact, rel=1e-6)
    assert perplexity(model, text) == pytest.approx(exact, rel=ROUNDING)
    assert perplexity(twin, text) == pytest.approx(exact, rel=ROUNDING)

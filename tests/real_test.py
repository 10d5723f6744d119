"""Two published models give the answers of the reference engine (vectors/real)."""
import json
import math

import pytest

from support import MODELS, logits, shimmy, shimmy_json, vector

MODEL_NAMES = ["smollm2-135m-instruct-q4_1", "gemma-3-270m-q4_k_m"]
CASES = [(name, i) for name in MODEL_NAMES for i in range(5)]


def spec_of(name):
    spec = vector("real", name)
    return spec, MODELS / spec["file"]


@pytest.mark.parametrize("name, i", CASES)
def test_prompts_have_the_reference_s_token_ids(name, i):
    spec, model = spec_of(name)
    case = spec["cases"][i]
    out = shimmy("tokenize", model, "--add-special", "--parse-special", "-", stdin=case["prompt"].encode())
    assert json.loads(out.stdout) == case["tokens"]
    assert shimmy("detokenize", model, "-", stdin=json.dumps(case["continuation"]).encode()).stdout.decode() == case["text"]


def greedy(model, prompt, *arguments):
    return shimmy_json("generate", model, "--raw", "--prompt", "-", "--temperature", 0, "--max-tokens", 48, "--ignore-eos",
                       *arguments, stdin=prompt.encode())["ids"]


@pytest.mark.parametrize("name, i", CASES)
def test_exact_greedy_text_is_the_reference_s_except_past_a_near_tie(name, i):
    spec, model = spec_of(name)
    case = spec["cases"][i]
    found = greedy(model, case["prompt"], "--exact", "--kv", "f32")
    for step, (ours, theirs) in enumerate(zip(found, case["continuation"], strict=True)):
        if ours != theirs:
            assert step in case["near_ties"], f"step {step}: {ours} instead of {theirs}, gap {case['gaps'][step]}"
            return


def log_probabilities(row):
    top = max(row)
    total = math.log(math.fsum(math.exp(v - top) for v in row)) + top
    return [v - total for v in row]


# The rounded kernels are held to their mean divergence below; here they must only know the answer.
@pytest.mark.parametrize("name, i", CASES)
@pytest.mark.parametrize("mode, allowed, count", [(["--exact", "--kv", "f32"], 0.01, 20), ([], 0.2, 1)])
def test_the_best_tokens_have_the_reference_s_log_probabilities(name, i, mode, allowed, count):
    spec, model = spec_of(name)
    case = spec["cases"][i]
    row, = logits(model, case["tokens"], *mode, positions="last").values()
    ours = log_probabilities(row)
    for token, expected in case["top"][:count]:
        assert ours[token] == pytest.approx(expected, abs=allowed)


@pytest.mark.parametrize("name", MODEL_NAMES)
def test_rounded_kernels_drift_no_further_than_the_peer_s(name, tmp_path):
    spec, model = spec_of(name)
    drift = vector("real", "drift")[name]
    tokens = tmp_path / "tokens"
    tokens.write_text(" ".join(map(str, drift["tokens"])))
    found = shimmy_json("perplexity", model, "--tokens", tokens, "--kl")
    assert found["tokens"] == len(drift["tokens"])
    assert found["mean_kl"] <= drift["llama_cpp_mean_kl"]
    exact = shimmy_json("perplexity", model, "--tokens", tokens, "--exact", "--kv", "f32")
    assert exact["mean_nll"] == pytest.approx(drift["exact_mean_nll"], abs=0.001)

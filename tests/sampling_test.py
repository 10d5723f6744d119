"""What a request may ask of the choice of tokens, and the log-probabilities that come back: a real model over HTTP."""
import json
import math

import pytest

from server import Server, events
from support import EXE, MODELS, logits, shimmy

MODEL = MODELS / "SmolLM2-135M-Instruct.Q4_1.gguf"
PROMPT = "The capital of France is"
GREEDY = {"temperature": 0, "max_tokens": 6}


@pytest.fixture(scope="module")
def server():
    with Server(EXE, "serve", "--model-path", MODEL, "--bind", "127.0.0.1:0", "--device", "cpu") as it:
        yield it


def complete(server, prompt=PROMPT, **fields):
    status, _, body = server.post("/v1/completions", {"prompt": prompt, **fields})
    assert status == 200, body
    return body


def ids_of(text):
    return json.loads(shimmy("tokenize", MODEL, text).stdout)


def log_softmax(row):
    best = max(row)
    norm = best + math.log(sum(math.exp(x - best) for x in row))
    return [x - norm for x in row]


# ---- Log-probabilities ----


def test_a_chosen_token_s_log_probability_is_the_model_s_own(server):
    answer = complete(server, logprobs=3, **GREEDY)["choices"][0]["logprobs"]
    ids = ids_of(PROMPT)
    row = log_softmax(logits(MODEL, ids, "--device", "cpu", positions="last")[len(ids) - 1])
    assert answer["token_logprobs"][0] == pytest.approx(max(row), abs=1e-4)
    assert sorted(answer["top_logprobs"][0].values(), reverse=True) == pytest.approx(sorted(row)[:-4:-1], abs=1e-4)
    assert len(answer["tokens"]) == 6 and answer["text_offset"][:2] == [0, len(answer["tokens"][0])]


def test_sampling_does_not_change_what_log_probabilities_say(server):
    plain = complete(server, logprobs=0, **GREEDY)["choices"][0]["logprobs"]
    cut = complete(server, logprobs=0, max_tokens=6, temperature=5, top_k=1)["choices"][0]["logprobs"]
    assert cut == plain


def test_chat_has_an_object_a_token_with_its_bytes(server):
    asked = {"messages": [{"role": "user", "content": "Say Zürich."}], "temperature": 0, "max_tokens": 8}
    answer = server.client().chat.completions.create(model="", logprobs=True, top_logprobs=2, **asked)
    tokens = answer.choices[0].logprobs.content
    text = b"".join(bytes(t.bytes) for t in tokens).decode(errors="replace")
    assert text == answer.choices[0].message.content
    assert all(t.top_logprobs[0].logprob == t.logprob and len(t.top_logprobs) == 2 for t in tokens)
    stream = server.client().chat.completions.create(model="", logprobs=True, top_logprobs=2, stream=True, **asked)
    streamed = [t for c in stream if c.choices[0].logprobs for t in c.choices[0].logprobs.content]
    assert streamed == tokens


def test_an_echoed_prompt_is_scored_as_evaluation_harnesses_read_it(server):
    """lm-evaluation-harness: a context and its continuation, echoed with logprobs, one token made."""
    context, continuation = ids_of("The capital of France is"), ids_of(" Paris.")
    body = complete(server, prompt=[context + continuation, context], echo=True, logprobs=1, max_tokens=1,
                    temperature=0)
    choice = body["choices"][0]
    scored = choice["logprobs"]
    every = logits(MODEL, context + continuation, "--device", "cpu")
    expected = [log_softmax(every[i - 1])[t] for i, t in enumerate(context + continuation) if i]
    assert scored["token_logprobs"][0] is None and scored["top_logprobs"][0] is None
    assert scored["token_logprobs"][1:-1] == pytest.approx(expected, abs=1e-3)
    is_greedy = [p == max(top.values()) for p, top in zip(scored["token_logprobs"][1:], scored["top_logprobs"][1:])]
    assert is_greedy[len(context) - 1:] == [True, True, True]
    text = choice["text"]
    for token, at in zip(scored["tokens"], scored["text_offset"]):
        assert text[at:at + len(token)] == token


def test_echo_alone_needs_no_answer(server):
    body = complete(server, prompt="One two three four", echo=True, logprobs=0, max_tokens=0)
    assert body["choices"][0]["text"] == "One two three four" and body["usage"]["completion_tokens"] == 0
    assert len(body["choices"][0]["logprobs"]["tokens"]) == body["usage"]["prompt_tokens"]
    streamed = map(json.loads, events(server.post("/v1/completions", {"prompt": "One two three four", "echo": True, "logprobs": 0,
                                                      "max_tokens": 0, "stream": True})[2])[:-1])
    tokens = [t for e in streamed if e["choices"][0]["logprobs"] for t in e["choices"][0]["logprobs"]["tokens"]]
    assert tokens == body["choices"][0]["logprobs"]["tokens"]


def test_a_long_echoed_prompt_is_scored_throughout(server):
    """Past the rows that one step gives."""
    body = complete(server, prompt=PROMPT * 60, echo=True, logprobs=0, max_tokens=1, temperature=0)
    scored = body["choices"][0]["logprobs"]["token_logprobs"]
    assert len(scored) == body["usage"]["prompt_tokens"] + 1 > 256
    assert all(p <= 0 for p in scored[1:])


# ---- Choices ----


def test_the_likeliest_of_best_of_are_shown_first(server):
    asked = {"max_tokens": 5, "temperature": 1.5, "seed": 11}
    every = complete(server, n=4, logprobs=0, **asked)["choices"]
    ranked = sorted(every, key=lambda c: -sum(c["logprobs"]["token_logprobs"]) / 5)
    best = complete(server, n=2, best_of=4, **asked)
    assert [c["text"] for c in best["choices"]] == [c["text"] for c in ranked[:2]]
    assert [c["index"] for c in best["choices"]] == [0, 1]
    assert best["usage"]["completion_tokens"] == 20


def test_a_bias_forces_and_forbids(server):
    plain = complete(server, **GREEDY)["choices"][0]["text"]
    assert plain.startswith(" Paris")
    forced = complete(server, logit_bias={str(ids_of(" Rome")[0]): 100}, temperature=0, max_tokens=3)
    assert forced["choices"][0]["text"] == " Rome Rome Rome"
    forbidden = complete(server, logit_bias=[[" Paris", False]], temperature=0, max_tokens=6, n=2)
    assert all("Paris" not in c["text"] for c in forbidden["choices"])


def test_stop_tokens_and_the_least_length(server):
    dot = ids_of(".")[0]
    body = complete(server, stop_token_ids=[dot], **GREEDY)
    assert body["choices"][0]["text"] == " Paris" and body["choices"][0]["finish_reason"] == "stop"
    assert body["usage"]["completion_tokens"] == 2
    longer = complete(server, stop_token_ids=[dot], min_tokens=6, temperature=0, max_tokens=6)
    assert longer["usage"]["completion_tokens"] == 6 and "." not in longer["choices"][0]["text"]


def test_dry_ends_a_loop(server):
    loop = "one two three four five six seven. " * 8
    plain = complete(server, prompt=loop + "one two three", temperature=0, max_tokens=8)["choices"][0]["text"]
    assert plain.startswith(" four five six")
    dry = complete(server, prompt=loop + "one two three", temperature=0, max_tokens=8, dry_multiplier=2)
    assert not dry["choices"][0]["text"].startswith(" four five six")


@pytest.mark.parametrize("fields", [
    {"mirostat": 1}, {"mirostat": 2, "mirostat_tau": 2}, {"typical_p": 0.3}, {"top_n_sigma": 0.5}, {"xtc_probability": 1},
    {"dynatemp_range": 0.5, "dynatemp_exponent": 2}, {"samplers": ["min_p", "temperature"], "min_p": 0.2},
    {"samplers": []},
])
def test_a_seed_repeats_the_text_under_every_chain(server, fields):
    asked = {"max_tokens": 12, "temperature": 1.2, "seed": 5, **fields}
    texts = [complete(server, **asked)["choices"][0]["text"] for _ in range(2)]
    assert texts[0] == texts[1] and texts[0]
    assert any(complete(server, **{**asked, "seed": s})["choices"][0]["text"] != texts[0] for s in (6, 7, 8))

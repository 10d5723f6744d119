"""/v1/embeddings, asked by the official client: numbers against an independent engine's, and what is refused how."""
import base64
import concurrent.futures
import json
import threading

import gguf
import numpy as np
import openai
import pytest

from server import Server, fake_server, server  # noqa: F401 (a fixture)
from support import EXE, MODELS, logits, shimmy, vector

ENCODERS = ["nano-bert-f32", "nano-nomic-bert-f32", "nano-nomic-bert-f16"]


def serve(name, *arguments):
    return Server(EXE, "serve", "--model-path", MODELS / f"{name}.gguf", "--bind", "127.0.0.1:0", "--device", "cpu",
                  *arguments)


def embed(server, inputs, **fields):
    return server.client().embeddings.create(model="", input=inputs, **fields)


def vectors(server, inputs, **fields):
    return np.array([d.embedding for d in embed(server, inputs, **fields).data])


def post(server, inputs, **fields):
    return server.post("/v1/embeddings", {"input": inputs, **fields})


def unit(v):
    return np.array(v) / np.linalg.norm(v)


@pytest.fixture(scope="module", params=ENCODERS)
def encoder(request):
    with serve(request.param, "--exact", "--kv", "f32") as server:
        server.spec = vector("logits", request.param)
        yield server


# ---- Numbers ----


def test_an_encoder_gives_the_vector_of_an_independent_engine(encoder):
    spec = encoder.spec
    found, expected = vectors(encoder, spec["tokens"])[0], np.array(spec["pooled"])
    assert np.abs(found * np.linalg.norm(expected) - expected).max() <= spec["tolerance"]["f32"]
    assert abs(np.linalg.norm(found) - 1) < 1e-6


def state_of(name, row):
    """The state that a decoder's head made a row of logits from."""
    tensors = {t.name: t.data for t in gguf.GGUFReader(MODELS / f"{name}.gguf").tensors}
    head = tensors.get("output.weight", tensors["token_embd.weight"])
    return np.linalg.lstsq(head.astype(np.float64), np.array(row), rcond=None)[0]


@pytest.mark.parametrize("name", ["nano-llama-f32", "nano-qwen3-f32", "nano-phi3-f32"])
def test_a_decoder_gives_the_state_behind_the_last_token_s_logits(name):
    spec = vector("logits", name)
    assert spec["positions"][-1] == len(spec["tokens"]) - 1
    expected = unit(state_of(name, spec["logits"][-1]))
    with serve(name, "--exact", "--kv", "f32", "--ctx", spec["n_ctx"]) as server:
        assert np.abs(vectors(server, spec["tokens"])[0] - expected).max() < 1e-3
        answer = server.post("/v1/completions", {"prompt": spec["tokens"], "max_tokens": 1, "temperature": 0})
        assert answer[0] == 200 and answer[2]["usage"]["completion_tokens"] == 1


def test_pooling_can_be_chosen():
    name, spec = "nano-bert-f32", vector("logits", "nano-bert-f32")
    rows = logits(MODELS / f"{name}.gguf", spec["tokens"], "--device", "cpu")
    rows = np.array([rows[i] for i in range(len(spec["tokens"]))])
    for how, expected in ("mean", rows.mean(axis=0)), ("cls", rows[0]), ("last", rows[-1]):
        with serve(name, "--pooling", how) as server:
            assert np.abs(vectors(server, spec["tokens"])[0] - unit(expected)).max() < 1e-6


def test_inputs_are_the_same_to_the_bit_alone_and_beside_others(encoder):
    tokens = encoder.spec["tokens"]
    inputs = [tokens[: 1 + i % len(tokens)] for i in range(100)] + [[7] * 256]
    together = vectors(encoder, inputs)
    alone = np.array([vectors(encoder, i)[0] for i in inputs[:40]])
    assert np.array_equal(together[:40], alone) and np.array_equal(together[40:80], alone)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for many in pool.map(lambda _: vectors(encoder, inputs), range(8)):
            assert np.array_equal(many, together)


def test_fewer_dimensions_are_the_first_ones_of_length_1_again(encoder):
    whole = vectors(encoder, [[1, 2, 3], [4, 5]])
    cut = vectors(encoder, [[1, 2, 3], [4, 5]], dimensions=16)
    assert cut.shape == (2, 16)
    for i in range(2):
        assert np.abs(cut[i] - unit(whole[i][:16])).max() < 1e-7
    assert np.array_equal(vectors(encoder, [[1, 2, 3], [4, 5]], dimensions=whole.shape[1]), whole)


# ---- Shapes ----


def test_an_answer_is_openai_s_to_the_field(server):
    status, headers, answer = post(server, ["a", "b"])
    assert status == 200 and headers["Content-Type"] == "application/json"
    assert answer["object"] == "list" and answer["model"] == "counter" and list(answer) == ["object", "data", "model", "usage"]
    assert [(d["object"], d["index"]) for d in answer["data"]] == [("embedding", 0), ("embedding", 1)]
    assert answer["usage"] == {"prompt_tokens": 4, "total_tokens": 4}


def test_base64_holds_the_numbers_that_floats_write_out(server):
    inputs = [f"text {i}" for i in range(5)]
    _, _, floats = post(server, inputs)
    _, _, coded = post(server, inputs, encoding_format="base64")
    for written, packed in zip(floats["data"], coded["data"], strict=True):
        decoded = np.frombuffer(base64.b64decode(packed["embedding"], validate=True), "<f4")
        assert np.array_equal(decoded, np.array(written["embedding"], np.float32))
    by_client = embed(server, inputs)  # asks for base64 by itself
    for given, written in zip(by_client.data, floats["data"], strict=True):
        assert np.array_equal(np.array(given.embedding, np.float32), np.array(written["embedding"], np.float32))


@pytest.mark.parametrize("inputs, count, tokens", [
    ("hi", 1, 3), (["hi"], 1, 3), (["hi", "h"], 2, 5), ([104, 105], 1, 2), ([[104, 105], [104]], 2, 3),
    (["hi", [104]], 2, 4), ("hi<|go|>", 1, 9)])
def test_inputs_come_as_texts_and_as_ids(server, inputs, count, tokens):
    answer = embed(server, inputs)
    assert len(answer.data) == count and [d.index for d in answer.data] == list(range(count))
    assert answer.usage.prompt_tokens == answer.usage.total_tokens == tokens


def test_more_texts_than_run_together_are_answered_in_order(server):
    texts = [f"{i}{chr(97 + i % 26)}" for i in range(500)]
    found = vectors(server, texts)
    assert np.array_equal(found[::50], np.array([vectors(server, t)[0] for t in texts[::50]]))


# ---- Refusals ----


@pytest.mark.parametrize("body, param", [
    ({}, "input"), ({"input": None}, "input"), ({"input": 7}, "input"), ({"input": {}}, "input"),
    ({"input": ""}, "input"), ({"input": []}, "input"), ({"input": [""]}, "input[0]"), ({"input": ["a", ""]}, "input[1]"),
    ({"input": ["a", 1]}, "input[1]"), ({"input": [1, "a"]}, "input[1]"), ({"input": [[]]}, "input[0]"),
    ({"input": [[1], [[1]]]}, "input[1][0]"), ({"input": [-1]}, "input[0]"), ({"input": [263]}, "input[0]"),
    ({"input": [[1, 999999]]}, "input[0][1]"), ({"input": [1.5]}, "input[0]"), ({"input": [True]}, "input[0]"),
    ({"input": ["x"] * 2049}, "input"), ({"input": "a", "encoding_format": "int8"}, "encoding_format"),
    ({"input": "a", "encoding_format": 1}, "encoding_format"), ({"input": "a", "dimensions": 0}, "dimensions"),
    ({"input": "a", "dimensions": -1}, "dimensions"), ({"input": "a", "dimensions": 1 << 20}, "dimensions"),
    ({"input": "a", "dimensions": "4"}, "dimensions"), ({"input": "a", "dimensions": 1.5}, "dimensions"),
    ({"input": "a" * 2100}, "input[0]"), ({"input": ["a", [5] * 2049]}, "input[1]"),
])
def test_what_is_wrong_is_a_400_that_names_it(server, body, param):
    status, _, answer = server.post("/v1/embeddings", body)
    error = answer["error"]
    assert (status, error["type"], error["param"]) == (400, "invalid_request_error", param)
    assert param.split("[")[0] in error["message"]


def test_the_client_raises_its_own_errors(server):
    with pytest.raises(openai.BadRequestError, match="2101 tokens"):
        embed(server, "a" * 2100)
    with pytest.raises(openai.NotFoundError):
        server.client().embeddings.create(model="other", input="a")
    status, headers, _ = server.get("/v1/embeddings")
    assert status == 405 and "POST" in headers["Allow"]


def test_an_input_may_fill_the_context(server):
    assert embed(server, [[5] * 2048]).usage.total_tokens == 2048


def test_a_model_without_a_head_does_not_answer():
    with serve("nano-bert-f32") as server:
        for path, body in ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}), \
                ("/v1/completions", {"prompt": "hi"}):
            status, _, answer = server.post(path, body)
            assert status == 400 and "gives embeddings, not text" in answer["error"]["message"]
    done = shimmy("generate", MODELS / "nano-bert-f32.gguf", "--prompt", "hi", "--raw", "--device", "cpu", check=False)
    assert done.returncode == 1 and b"the model gives embeddings, not text" in done.stderr


def test_a_model_that_ranks_texts_gives_no_embeddings():
    with fake_server("--model-path", "ranks.gguf") as server:
        status, _, answer = post(server, "a")
        assert status == 400 and "ranks texts" in answer["error"]["message"]


# ---- A busy server ----


def test_a_client_that_leaves_frees_its_places():
    with fake_server() as server:
        body = json.dumps({"input": ["#hang"] * 50}).encode()
        with server.connect() as s:
            s.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            while server.metric("shimmy_requests_running") < 4:
                pass
            assert server.metric("shimmy_requests_waiting") == 0  # no more than run together
        server.wait_idle()
        assert len(embed(server, ["a", "b"]).data) == 2


def test_a_text_that_fails_fails_its_request_and_no_other():
    with fake_server() as server:
        status, _, answer = post(server, ["a", "#fail=0", "#hang"])
        assert status == 500 and "failed as asked" in answer["error"]["message"]
        server.wait_idle()
        assert post(server, ["a"])[0] == 200


def test_a_full_queue_is_a_503_and_nothing_is_left_behind():
    with fake_server("--parallel", "2", "--queue", "0") as server:
        def ask(i):
            return post(server, [f"{i} {k}" for k in range(30)])
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(ask, range(64)))
        assert {status for status, _, _ in answers} <= {200, 503}
        assert any(status == 200 for status, _, _ in answers)
        for status, headers, answer in answers:
            if status == 200:
                assert len(answer["data"]) == 30
            else:
                assert answer["error"]["code"] == "queue_full" and headers["Retry-After"]
        server.wait_idle()


def test_a_server_that_ends_tells_those_who_wait():
    server = fake_server()
    answers = []
    asking = threading.Thread(target=lambda: answers.append(post(server, ["#slow=20"] * 200)))
    asking.start()
    while server.metric("shimmy_prompt_tokens_total") == 0:
        pass
    assert server.stop() == 0
    asking.join(10)
    assert answers and answers[0][0] == 200  # SIGTERM lets requests finish

"""A recurrent state belongs to one request: those before it, beside it and cut off in its slot change nothing.

On the CPU, and where there is a GPU on that, which has steps in flight beyond a request's end.
"""
import concurrent.futures
import json
import socket

import pytest

from lavapipe import DEVICE
from server import Server
from support import EXE, MODELS

MODEL = MODELS / "nano-qwen35-f32.gguf"


def serving(device, parallel):
    return Server(EXE, "serve", "--model-path", MODEL, "--bind", "127.0.0.1:0", "--device", device, "--parallel",
                  parallel)


def text_of(server, prompt, count=24):
    body = {"prompt": prompt, "max_tokens": count, "temperature": 0, "ignore_eos": True}
    status, _, answer = server.post("/v1/completions", body)
    assert status == 200, answer
    return answer["choices"][0]["text"]


def cut_off(server, prompt):
    """Begins a long streamed answer, and leaves after its first bytes."""
    body = json.dumps({"prompt": prompt, "max_tokens": 400, "temperature": 0, "stream": True,
                       "ignore_eos": True}).encode()
    with socket.create_connection((server.host, server.port)) as s:
        s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: "
                  + str(len(body)).encode() + b"\r\n\r\n" + body)
        assert s.recv(64)


@pytest.mark.parametrize("device", ["cpu", DEVICE])
def test_an_answer_is_the_same_fresh_after_others_and_beside_them(device):
    prompts = [f"number {i} " * (i + 1) for i in range(6)]
    alone = []
    for prompt in prompts:
        with serving(device, 1) as server:
            alone.append(text_of(server, prompt))
    assert len(set(alone)) > 3
    with serving(device, 3) as server:
        for prompt, expected in zip(prompts, alone):
            cut_off(server, "something else altogether")
            assert text_of(server, prompt) == expected
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            assert list(pool.map(lambda p: text_of(server, p), prompts)) == alone

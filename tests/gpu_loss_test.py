"""A GPU that is lost while the server runs: requests under way end with an error, the next is served, by the same model."""
import json

import pytest

from lavapipe import DEVICE
from server import Server
from support import EXE, MODELS

SMOL = MODELS / "SmolLM2-135M-Instruct.Q4_1.gguf"
ASKED = {"prompt": "One, two, three, four,", "max_tokens": 8, "temperature": 0}
ANSWER = " five, six, seven, eight,"


def ask(server, **more):
    return server.request("POST", "/v1/completions", json.dumps({**ASKED, **more}), {"Content-Type": "application/json"})


@pytest.mark.parametrize("arguments", [[], ["--gpu-layers", 12]], ids=["whole", "split"])
def test_a_lost_device_is_opened_again(arguments):
    server = Server(EXE, "serve", "--model-path", SMOL, "--bind", "127.0.0.1:0", "--ctx", 64, "--device", DEVICE, *arguments,
                    env={"AIRFRAME_GPU_LOSE_AFTER": "12"})
    try:
        status, _, body = ask(server)
        assert status == 200 and body["choices"][0]["text"] == ANSWER
        status, _, body = ask(server)
        assert status == 500 and "lost" in body["error"]["message"]
        for _ in range(2):
            status, _, body = ask(server)
            assert status == 200 and body["choices"][0]["text"] == ANSWER
    finally:
        server.stop()
    assert any("opened again" in line for line in server.errors)


def test_a_stream_under_way_ends_with_an_error_event():
    server = Server(EXE, "serve", "--model-path", SMOL, "--bind", "127.0.0.1:0", "--ctx", 64, "--device", DEVICE,
                    env={"AIRFRAME_GPU_LOSE_AFTER": "4"})
    try:
        body = json.dumps({**ASKED, "stream": True})
        said = server.raw((f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                           f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}").encode())
        assert b"200 OK" in said and b" five" in said and b'"error"' in said and b"lost" in said
        assert ask(server)[2]["choices"][0]["text"] == ANSWER
    finally:
        server.stop()

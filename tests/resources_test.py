"""What a running server costs: nothing while idle, little memory beyond the file and the cache, ready at once.

Absolute times are not asserted (machines differ); the bound on start-up leaves room for a loaded test machine and is
still far below what reading the model twice would take.
"""
import os
import pathlib
import re
import resource
import socket
import subprocess
import time

import pytest

from support import EXE, MODELS, SANITIZED, shimmy_json

SMOLLM2 = MODELS / "SmolLM2-135M-Instruct.Q4_1.gguf"
GEMMA3 = MODELS / "gemma-3-270m-q4_k_m.gguf"
MB = 1_000_000

if SANITIZED:
    pytest.skip("sanitizers change what is measured here", allow_module_level=True)


class Server:
    def __init__(self, model, *arguments, env=None):
        self.start = time.monotonic()
        self.process = subprocess.Popen([EXE, "serve", "--model-path", model, "--bind", "127.0.0.1:0", *map(str, arguments)],
                                        stdout=subprocess.PIPE, text=True, env={**os.environ, **(env or {})})
        self.url = re.search(r"http://\S+", self.process.stdout.readline())[0]
        self.ready_after = time.monotonic() - self.start

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        assert self.process.wait(35) == 0

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident(self):
        return int(re.search(r"VmRSS:\s+(\d+) kB", pathlib.Path(f"/proc/{self.process.pid}/status").read_text())[1]) * 1024

    def complete(self, tokens, model=""):
        import openai
        client = openai.OpenAI(base_url=self.url + "/v1", api_key="none")
        return client.completions.create(model=model, prompt="The sea", max_tokens=tokens, temperature=0)


def test_an_idle_server_uses_no_cpu():
    with Server(SMOLLM2) as server:
        server.complete(4)
        time.sleep(0.5)
        before = server.cpu_seconds()
        time.sleep(3)
        assert server.cpu_seconds() - before <= 0.01


@pytest.mark.parametrize("model", [SMOLLM2, GEMMA3])
def test_resident_memory_is_little_more_than_the_file(model):
    with Server(model, "--ctx", 1024, "--parallel", 1) as server:
        server.complete(64)
        kv = shimmy_json("probe", model)["kv_bytes"]
        allowed = 1.1 * model.stat().st_size + 60 * MB + min(kv, 1024 * 30000)
        assert server.resident() <= allowed


def test_a_thousand_idle_connections_cost_little():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 4096), hard), hard))
    with Server(SMOLLM2, "--ctx", 256, "--device", "cpu") as server:
        host, port = server.url.removeprefix("http://").split(":")

        def connect():
            s = socket.create_connection((host, int(port)), timeout=20)
            s.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200 OK" in s.recv(4096)
            return s
        server.complete(4)
        first = [connect() for _ in range(10)]
        before = server.resident()
        idle = [connect() for _ in range(1000)]
        cost = server.resident() - before
        print(f"{cost / 1000:.0f} bytes a connection")
        assert cost < 20 * MB
        for s in first + idle:
            s.close()


def test_a_small_model_is_ready_at_once():
    best = min(started(SMOLLM2) for _ in range(3))
    print(f"ready after {best * 1000:.0f} ms")
    assert best < 2


def started(model):
    with Server(model) as server:
        return server.ready_after


def test_what_is_unloaded_gives_its_memory_back(tmp_path):
    (tmp_path / "large.gguf").symlink_to(GEMMA3)
    (tmp_path / "small.gguf").symlink_to(MODELS / "nano-llama-f32.gguf")
    with Server("small", "--models-max", 2, "--model-idle", 1, "--ctx", 1024, "--device", "cpu",
                env={"SHIMMY_MODEL_PATHS": str(tmp_path)}) as server:
        before = server.resident()
        for _ in range(3):
            server.complete(16, "large")
            loaded = server.resident()
            assert loaded - before > 100 * MB
            while loaded - server.resident() < 0.9 * (loaded - before):
                assert time.monotonic() - server.start < 60
                time.sleep(0.1)

"""A server under test: the program itself on the counter model, or the same server over fake_airframe.c.

Both say the same ("green tea", see tools/counter_gguf.py); only the fake can be told to be slow, to fail or to hang.
"""
import http.client
import importlib.util
import json
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time

import pytest

from support import EXE, ROOT, SANITIZED

TIMEOUT = 60 if SANITIZED else 20
PIECES = ["gr", "een", " tea"]


def fake_exe():
    if build := os.environ.get("SHIMMY_BUILD"):
        return pathlib.Path(build, "tests/shimmy_fake_server")
    found = sorted(ROOT.glob("build/*/tests/shimmy_fake_server"), key=lambda p: p.stat().st_mtime)
    return found[-1] if found else ROOT / "build/check/tests/shimmy_fake_server"


def counter_model(folder, context=2048, step=24.0, pieces=PIECES, kind="bpe"):
    spec = importlib.util.spec_from_file_location("counter_gguf", ROOT / "tests/tools/counter_gguf.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    path = pathlib.Path(folder, "counter.gguf")
    module.write(str(path), module.Vocabulary(pieces, kind), context=context, step=step)
    return path


class Server:
    """A running process. Its address is read from the ready line."""

    def __init__(self, exe, *arguments, env=None, wait=True):
        self.process = subprocess.Popen([exe, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env={**os.environ, **(env or {})})
        self.errors = []
        self.reader = threading.Thread(target=lambda: self.errors.extend(self.process.stderr), daemon=True)
        self.reader.start()
        if wait:
            self.wait_ready()

    def wait_ready(self):
        line = self.process.stdout.readline().strip()
        assert line.startswith("shimmy: listening on "), (line, self.stop())
        self.address = line.removeprefix("shimmy: listening on ")
        if self.address.startswith("http"):
            host, port = self.address.split("://")[1].rsplit(":", 1)
            self.host, self.port = host.strip("[]"), int(port)
        return self

    # ---- Clients ----

    def connect(self):
        if self.address.startswith("unix:"):
            s = socket.socket(socket.AF_UNIX)
            s.connect(self.address.removeprefix("unix:"))
        else:
            s = socket.create_connection((self.host, self.port))
        s.settimeout(20)
        return s

    def raw(self, data, half_close=False):
        """Sends bytes, returns everything until the server closes."""
        with self.connect() as s:
            s.sendall(data)
            if half_close:
                s.shutdown(socket.SHUT_WR)
            return read_all(s)

    def request(self, method, path, body=None, headers=None):
        """(status, headers, body) with the body parsed where it is JSON."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=TIMEOUT)
        try:
            return exchange(connection, method, path, body, headers)
        finally:
            connection.close()

    def get(self, path):
        return self.request("GET", path)

    def post(self, path, body):
        return self.request("POST", path, body)

    def chat(self, content="hi", **fields):
        return self.post("/v1/chat/completions", {"messages": [{"role": "user", "content": content}], **fields})

    def client(self):
        import openai
        return openai.OpenAI(base_url=f"{self.address}/v1", api_key="none", max_retries=0, timeout=20)

    def metric(self, name, model=None):
        """Of one model, or of all together."""
        start = name + ('{model="%s"} ' % model if model else "")
        found = [line.split()[-1] for line in self.get("/metrics")[2].splitlines()
                 if line.startswith(start) and line[len(name)] in " {"]
        if not found:
            raise KeyError(name)
        return sum(map(int, found))

    def wait_idle(self, seconds=5):
        """Until no request runs or waits; the seconds it took."""
        start = time.monotonic()
        while self.metric("shimmy_requests_running") or self.metric("shimmy_requests_waiting"):
            assert time.monotonic() - start < seconds, "requests still run"
            time.sleep(0.005)
        return time.monotonic() - start

    # ---- The end ----

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def stop(self):
        """Ends it kindly; the exit code. A sanitizer's report fails here."""
        if self.process.poll() is None:
            self.signal()
        try:
            code = self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        self.reader.join(5)
        text = "".join(self.errors)
        assert "Sanitizer" not in text and "runtime error" not in text, text
        return code

    def failure(self):
        """The only line on stderr of a server that could not start."""
        assert self.process.wait(20) == 1
        self.reader.join(5)
        assert len(self.errors) == 1 and self.process.stdout.read() == "", self.errors
        return self.errors[0]

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        code = self.stop()
        assert kind or code == 0, (code, self.errors)


def exchange(connection, method, path, body=None, headers=None):
    if isinstance(body, (dict, list)):
        body = json.dumps(body).encode()
    connection.request(method, path, body, headers or {})
    response = connection.getresponse()
    text = response.read()
    is_json = response.headers.get("Content-Type") == "application/json" and text
    return response.status, response.headers, json.loads(text) if is_json else text.decode()


def read_all(s):
    data = b""
    try:
        while block := s.recv(65536):
            data += block
    except ConnectionResetError:
        data += b"<reset>"
    return data


def events(body):
    """The data of an SSE body's events, each checked to be one line and a blank one."""
    assert body.endswith("\n\n")
    found = body.removesuffix("\n\n").split("\n\n")
    assert all(e.startswith("data: ") and "\n" not in e for e in found), body
    return [e.removeprefix("data: ") for e in found]


def fake_server(*arguments, **options):
    exe = fake_exe()
    if not exe.exists():
        pytest.skip(f"{exe} is not built")
    return Server(exe, *arguments, **options)


def real_server(folder, *arguments, context=2048, **options):
    if not EXE.exists():
        pytest.skip(f"{EXE} is not built")
    model = counter_model(folder, context)
    return Server(EXE, "serve", "--model-path", model, "--bind", "127.0.0.1:0", *arguments, **options)


@pytest.fixture(scope="module")
def fake():
    with fake_server() as server:
        yield server


@pytest.fixture(scope="module", params=["fake", "real"])
def server(request, tmp_path_factory):
    if request.param == "fake":
        started = fake_server()
    else:
        started = real_server(tmp_path_factory.mktemp("counter"))
    with started:
        yield started

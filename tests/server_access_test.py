"""Who may ask the server, from where and how; and what it says of itself: keys, origins, TLS, logs, metrics, time limits."""
import contextlib
import json
import os
import shutil
import signal
import ssl
import stat
import time
import urllib.error
import urllib.request

import openai
import pytest

from server import Server, counter_model, events, fake_server
from support import EXE, ROOT, shimmy

CERTIFICATES = ROOT / "tests/tls"  # self-signed, for localhost, made for these tests alone


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return counter_model(tmp_path_factory.mktemp("model"))


def serve(model, *arguments, **options):
    return Server(EXE, "serve", "--model-path", model, "--bind", "127.0.0.1:0", "--device", "cpu", *arguments, **options)


def wait_for(condition, seconds=5):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# ---- Keys ----


def test_only_a_key_opens_the_api(model, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("# ours\n\nfirst-key\r\nsecond-key  \n")
    with serve(model, "--api-key", "given-key", "--api-keys", keys) as server:
        def status(key, header="Authorization", form="Bearer {}"):
            return server.request("GET", "/v1/models", headers={header: form.format(key)})[0]
        for key in ("given-key", "first-key", "second-key"):
            assert status(key) == 200
        assert status("first-key", "X-Api-Key", "{}") == 200 and status("first-key", form="bearer {}") == 200
        for wrong in ("", "first-ke", "first-keyy", "FIRST-KEY", "# ours", "x" * 10000, "first-key\tsecond-key"):
            assert status(wrong) == 401
        got, headers, body = server.get("/v1/models")
        assert got == 401 and headers["WWW-Authenticate"] == "Bearer" and body["error"]["code"] == "invalid_api_key"
        assert server.get("/metrics")[0] == 401 and server.post("/tokenize", {"content": "x"})[0] == 401
        assert server.get("/health")[0] == 200 and server.get("/")[0] == 200
        with pytest.raises(openai.AuthenticationError):
            server.client().models.list()
        assert server.client().with_options(api_key="first-key").models.list().data


def test_a_file_of_keys_is_read_again_on_sighup(model, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("old\n")
    with serve(model, "--api-keys", keys) as server:
        def opens(key):
            return server.request("GET", "/v1/models", headers={"Authorization": f"Bearer {key}"})[0] == 200
        keys.write_text("new\n")
        server.signal(signal.SIGHUP)
        wait_for(lambda: opens("new"))
        assert not opens("old")
        keys.write_text("a b\n")
        server.signal(signal.SIGHUP)
        wait_for(lambda: any("white space" in line for line in server.errors))
        assert opens("new")


@pytest.mark.parametrize("text, why", [("", "holds no key"), ("# nothing\n", "holds no key"), ("x" * 257, "257 bytes")])
def test_a_broken_file_of_keys_ends_the_start(model, tmp_path, text, why):
    keys = tmp_path / "keys"
    keys.write_text(text)
    done = shimmy("serve", "--model-path", model, "--api-keys", keys, check=False)
    assert done.returncode == 1 and why in done.stderr.decode()


# ---- Origins and paths ----


def test_pages_of_other_origins_may_call_as_far_as_they_are_named(model):
    def allowed(server, origin):
        return server.request("OPTIONS", "/v1/models", headers={"Origin": origin})[1].get("Access-Control-Allow-Origin")
    with serve(model) as server:
        assert allowed(server, "https://any.example") == "*"
    with serve(model, "--cors", "https://a.example, http://b.example:8080") as server:
        assert allowed(server, "https://a.example") == "https://a.example"
        assert allowed(server, "http://b.example:8080") == "http://b.example:8080"
        for other in ("https://a.example.evil", "https://a.exampl", "http://a.example", "https://a.example,"):
            assert allowed(server, other) is None
        assert server.get("/v1/models")[1]["Vary"] == "Origin"
    with serve(model, "--cors", "none") as server:
        assert allowed(server, "https://a.example") is None


def test_a_prefix_stands_before_every_route(model):
    with serve(model, "--path-prefix", "/llm") as server:
        assert server.get("/llm/v1/models")[0] == 200 and server.get("/llm/health")[0] == 200
        assert server.get("/llm")[0] == 200 and server.get("/llm/")[0] == 200
        for path in ("/v1/models", "/", "/llmv1/models", "/ll", "/llm2/v1/models"):
            assert server.get(path)[0] == 404
    assert shimmy("serve", "--path-prefix", "llm/", check=False).returncode == 2


def test_a_unix_socket_has_the_rights_it_is_given(model, tmp_path):
    path = tmp_path / "socket"
    with Server(EXE, "serve", "--model-path", model, "--bind", f"unix:{path}", "--unix-mode", "660", "--device", "cpu"):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o660
    assert shimmy("serve", "--unix-mode", "888", check=False).returncode == 2


# ---- TLS ----


def fetch(server, certificate, path="/v1/models"):
    context = ssl.create_default_context(cafile=CERTIFICATES / f"{certificate}.pem")
    with urllib.request.urlopen(f"{server.address}{path}", context=context, timeout=10) as answer:
        return json.load(answer)


def test_https_with_a_certificate_that_can_be_replaced(model, tmp_path):
    for end in ("pem", "key"):
        shutil.copy(CERTIFICATES / f"one.{end}", tmp_path / f"used.{end}")
    with serve(model, "--tls-cert", tmp_path / "used.pem", "--tls-key", tmp_path / "used.key") as server:
        assert server.address.startswith("https://")
        assert fetch(server, "one")["data"][0]["id"] == "counter"
        with pytest.raises(urllib.error.URLError):
            fetch(server, "two")
        with server.connect() as s:  # no TLS at all
            s.sendall(b"GET / HTTP/1.1\r\n\r\n")
            with contextlib.suppress(ConnectionResetError):
                assert b"HTTP" not in s.recv(100)
        shutil.copy(CERTIFICATES / "two.pem", tmp_path / "used.pem")  # does not fit the key yet: kept as it was
        server.signal(signal.SIGHUP)
        wait_for(lambda: any("the certificate in use stays" in line for line in server.errors))
        fetch(server, "one")
        shutil.copy(CERTIFICATES / "two.key", tmp_path / "used.key")
        server.signal(signal.SIGHUP)
        wait_for(lambda: any("read again: the certificate" in line for line in server.errors))
        assert fetch(server, "two")["data"]


def test_a_stream_over_https_arrives_whole(model):
    with serve(model, "--tls-cert", CERTIFICATES / "one.pem", "--tls-key", CERTIFICATES / "one.key") as server:
        context = ssl.create_default_context(cafile=CERTIFICATES / "one.pem")
        body = json.dumps({"messages": [{"role": "user", "content": "hi"}], "stream": True}).encode()
        with urllib.request.urlopen(f"{server.address}/v1/chat/completions", body, context=context, timeout=10) as answer:
            found = events(answer.read().decode())
        assert found[-1] == "[DONE]"
        assert "".join(json.loads(e)["choices"][0]["delta"].get("content", "") for e in found[:-1]) == "green tea"


def test_a_certificate_that_is_none_is_named(model, tmp_path):
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate")
    done = shimmy("serve", "--model-path", model, "--tls-cert", broken, "--tls-key", CERTIFICATES / "one.key", check=False)
    assert done.returncode == 1 and f"--tls-cert {broken}".encode() in done.stderr
    assert shimmy("serve", "--tls-cert", broken, check=False).returncode == 2


# ---- Logs and metrics ----


def test_a_request_is_a_line_of_the_log_without_what_was_said(model):
    with serve(model, "--log", "json") as server:
        _, headers, _ = server.chat("a secret matter")
        server.raw(b"GET /no/such\x1b[2Jpath HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        wait_for(lambda: sum(line.startswith("{") for line in server.errors) == 2)
        chat, missing = [json.loads(line) for line in server.errors if line.startswith("{")]
        assert chat["id"] == headers["X-Request-Id"] and (chat["method"], chat["status"]) == ("POST", 200)
        assert chat["path"] == "/v1/chat/completions" and chat["completion_tokens"] == 4 and chat["ms"] > 0
        assert missing["status"] in (400, 404)
        assert "secret" not in "".join(server.errors) and "green" not in "".join(server.errors)
    with serve(model) as server:
        server.get("/health")
        wait_for(lambda: any(" 200 GET /health " in line for line in server.errors))
    with serve(model, "--log", "off") as server:
        server.chat()
    assert not any("POST" in line for line in server.errors)


def samples(text):
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line[0] != "#"}


def test_metrics_count_requests_and_their_times(model):
    with serve(model) as server:
        for _ in range(3):
            server.chat()
        server.post("/v1/chat/completions", {"messages": []})
        server.get("/nowhere")
        found = samples(server.get("/metrics")[2])
        assert found['shimmy_requests_total{route="/v1/chat/completions",status="200"}'] == 3
        assert found['shimmy_requests_total{route="/v1/chat/completions",status="400"}'] == 1
        assert found['shimmy_requests_total{route="",status="404"}'] == 1
        assert found["shimmy_generated_tokens_total"] == 12
        assert found["shimmy_first_token_seconds_count"] == 3 and found["shimmy_between_tokens_seconds_count"] == 9
        assert found["shimmy_request_seconds_count"] == 3 and found["shimmy_request_seconds_sum"] > 0
        for name in ("first_token", "between_tokens", "request"):
            rows = [v for k, v in found.items() if k.startswith(f"shimmy_{name}_seconds_bucket")]
            assert rows == sorted(rows) and rows[-1] == found[f"shimmy_{name}_seconds_count"]
        assert found["shimmy_resident_bytes"] > 1e6
        assert any(k.startswith('shimmy_info{version="') and 'model="counter"' in k for k in found)


# ---- Time ----


def test_a_request_may_take_only_so_long():
    with fake_server("--request-timeout", 1) as server:
        start = time.monotonic()
        status, _, body = server.chat("#hang")
        assert status == 504 and body["error"]["code"] == "request_timeout" and 0.9 < time.monotonic() - start < 5
        server.wait_idle()
        status, _, text = server.chat("#slow=400", stream=True)
        assert status == 200 and '"code":"request_timeout"' in text.split("\n\n")[-2] and "[DONE]" not in text
        assert server.chat()[0] == 200

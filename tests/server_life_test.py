"""From start to end: loading, clients that leave, an engine that is full, slow or broken, and signals."""
import http.client
import json
import os
import signal
import socket
import threading
import time

import pytest

from server import exchange, events, fake, fake_server, read_all, real_server, server  # noqa: F401 (fixtures)

CHAT = "/v1/chat/completions"


def body(content, **fields):
    return json.dumps({"messages": [{"role": "user", "content": content}], **fields}).encode()


def send(server, content, **fields):
    """A request on a socket of its own, not read yet."""
    s = server.connect()
    data = body(content, **fields)
    s.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (CHAT.encode(), len(data), data))
    return s


def wait_for(condition, seconds=5):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def running(server):
    return server.metric("shimmy_requests_running")


# ---- Start ----


def test_the_ready_line_is_preceded_by_the_context_and_why(fake):
    assert fake.address.startswith("http://127.0.0.1:")
    wait_for(lambda: fake.errors)
    assert len(fake.errors) == 1 and "context 2048 tokens (the model's native length" in fake.errors[0]
    with fake_server("--ctx", 100) as small:
        wait_for(lambda: small.errors)
        assert "context 100 tokens (as asked by --ctx" in small.errors[0]
        status, _, answer = small.chat("x" * 91)
        assert status == 400 and "101" in answer["error"]["message"] and "100" in answer["error"]["message"]
        assert small.chat("x" * 80)[0] == 200


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def loading_server(milliseconds):
    port = free_port()
    server = fake_server("--bind", f"127.0.0.1:{port}", env={"FAKE_LOAD_MS": str(milliseconds)}, wait=False)
    server.host, server.port = "127.0.0.1", port

    def up():
        try:
            return server.get("/health")
        except OSError:
            return None
    wait_for(up)
    return server


def test_while_the_model_loads_the_answer_is_503():
    with loading_server(1500) as server:
        status, headers, answer = server.get("/health")
        assert (status, answer) == (503, {"status": "loading"}) and headers["Retry-After"]
        for path in (CHAT, "/v1/completions", "/tokenize"):
            status, headers, answer = server.post(path, {"messages": []})
            assert status == 503 and headers["Retry-After"] and answer["error"]["code"] == "loading"
        assert server.get("/v1/models")[0] == 503 and server.get("/")[0] == 200 and server.get("/nope")[0] == 404
        server.wait_ready()
        assert server.get("/health")[0] == 200 and server.chat()[0] == 200


def test_a_signal_while_loading_ends_at_once():
    server = loading_server(5000)
    start = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - start < 3


def test_a_model_that_does_not_open_is_one_line_and_exit_1():
    assert "/nowhere/missing.gguf" in fake_server("--model-path", "/nowhere/missing.gguf", wait=False).failure()


def test_an_idle_server_uses_no_processor(server):
    server.chat()
    with server.connect():
        before = cpu_seconds(server)
        time.sleep(1.5)
        assert cpu_seconds(server) - before <= 0.02


def cpu_seconds(server):
    with open(f"/proc/{server.process.pid}/stat") as f:
        fields = f.read().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# ---- Clients that leave ----


def leave_by_close(s):
    s.close()


def leave_by_reset(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    s.close()


def leave_by_half_close(s):
    s.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("leave", [leave_by_close, leave_by_reset, leave_by_half_close])
@pytest.mark.parametrize("fields", [{}, {"stream": True}, {"n": 3}, {"stream": True, "n": 3}])
def test_a_client_that_leaves_frees_its_slot(fake, leave, fields):
    for content in ("#hang", "#slow=20 #big=100000"):
        s = send(fake, content, **fields)
        wait_for(lambda: running(fake) == fields.get("n", 1))
        if fields.get("stream") and "big" in content:
            s.recv(10)
        leave(s)
        assert fake.wait_idle() < 0.5
        s.close()


def test_a_real_answer_is_cut_off_too(server):
    s = send(server, "hi", stream=True, ignore_eos=True)
    s.recv(10)
    s.close()
    server.wait_idle()
    assert server.chat()[0] == 200


def test_a_client_that_leaves_the_queue_is_forgotten():
    with fake_server("--parallel", 1) as server:
        first, second = send(server, "#hang"), None
        wait_for(lambda: running(server) == 1)
        second = send(server, "#hang")
        wait_for(lambda: server.metric("shimmy_requests_waiting") == 1)
        first.close()
        second.close()
        server.wait_idle()
        assert server.chat()[0] == 200


def test_a_client_that_leaves_while_its_prompt_is_read_costs_no_slot(fake):
    big = "x" * 5_000_000
    sockets = [send(fake, big) for _ in range(4)]
    for s in sockets:
        s.close()
    assert fake.chat()[0] == 200
    fake.wait_idle()


def test_nothing_leaks_with_clients_that_come_and_go(fake):
    def descriptors():
        return len(os.listdir(f"/proc/{fake.process.pid}/fd"))
    fake.chat()
    time.sleep(0.1)
    before = descriptors()
    for i in range(60):
        s = send(fake, "#hang" if i % 2 else "hi", stream=bool(i % 3))
        if i % 5 == 0:
            s.recv(1) if i % 2 == 0 else None
        s.close()
    fake.wait_idle()
    wait_for(lambda: descriptors() <= before + 1)


# ---- An engine in trouble ----


def test_a_full_queue_is_503_with_retry_after():
    with fake_server("--parallel", 1, "--queue", 2) as server:
        waiting = [send(server, "#hang", stream=True) for _ in range(3)]
        wait_for(lambda: server.metric("shimmy_requests_waiting") == 2)
        for stream in (False, True):
            status, headers, answer = server.chat(stream=stream)
            assert status == 503 and int(headers["Retry-After"]) > 0
            assert answer["error"]["code"] == "queue_full" and answer["error"]["type"] == "server_error"
        for s in waiting:
            s.close()
        server.wait_idle()
        assert server.chat()[0] == 200
        assert server.chat("#hang", n=4)[0] == 503  # one runs, two wait, the fourth is refused: none goes on
        assert server.wait_idle() < 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_failure_before_the_first_token_is_a_status(fake, stream):
    status, _, answer = fake.chat("#fail=0", stream=stream)
    assert status == 500 and answer["error"]["type"] == "server_error" and "as asked" in answer["error"]["message"]


def test_a_failure_later_is_the_last_event(fake):
    status, _, text = fake.chat("#fail=2 #slow=30", stream=True)
    found = events(text)
    assert status == 200 and "[DONE]" not in found
    assert "".join(json.loads(e)["choices"][0]["delta"].get("content", "") for e in found[:-1]) == "green"
    error = json.loads(found[-1])["error"]
    assert error["type"] == "server_error" and "as asked" in error["message"]
    assert fake.chat("#fail=2")[0] == 500
    import openai
    with pytest.raises(openai.APIError, match="as asked"):
        list(fake.client().chat.completions.create(
            model="", messages=[{"role": "user", "content": "#fail=2"}], stream=True))


def test_one_failing_choice_ends_its_siblings(fake):
    status, _, _ = fake.chat("#fail=1 #slow=5", n=4)
    assert status == 500
    assert fake.wait_idle() < 1


def test_a_templates_own_error_is_a_400_with_its_words(fake):
    status, _, answer = fake.post(CHAT, {"messages": [{"role": "raise", "content": ""}]})
    assert status == 400 and answer["error"]["message"] == "Conversation roles must alternate"


# ---- The end ----


def test_a_running_answer_is_finished_after_sigterm():
    with fake_server() as server:
        done = {}
        ask = lambda k: done.update({k: server.chat("#slow=150", stream=bool(k))})
        threads = [threading.Thread(target=ask, args=(k,)) for k in (0, 1)]
        for t in threads:
            t.start()
        wait_for(lambda: running(server) == 2)
        idle = server.connect()
        server.signal()
        assert idle.recv(1) == b""  # an idle connection is closed
        with pytest.raises(OSError):  # and no new one is taken
            server.connect().recv(1)
        for t in threads:
            t.join(20)
        assert server.process.wait(5) == 0
        assert done[0][2]["choices"][0]["message"]["content"] == "green tea"
        assert done[0][1]["Connection"] == "close"
        assert events(done[1][2])[-1] == "[DONE]"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_server_ends_at_once_with_0(number):
    server = fake_server()
    connection = http.client.HTTPConnection(server.host, server.port)
    assert exchange(connection, "GET", "/health")[0] == 200
    start = time.monotonic()
    server.signal(number)
    assert server.process.wait(5) == 0 and time.monotonic() - start < 1
    connection.close()


def test_a_second_signal_does_not_wait(tmp_path):
    path = tmp_path / "s.sock"
    server = fake_server("--bind", f"unix:{path}")
    s = send(server, "#hang")
    time.sleep(0.3)
    server.signal()
    time.sleep(0.3)
    assert server.process.poll() is None
    server.signal()
    assert server.process.wait(5) == 128 + signal.SIGTERM
    assert not path.exists()
    s.close()


def test_the_program_itself_ends_with_0(tmp_path):
    server = real_server(tmp_path)
    assert server.chat()[0] == 200
    assert server.stop() == 0

"""HTTP/1.1 as clients really speak it, and as attackers do: raw sockets against the server."""
import http.client
import json
import select
import socket
import threading
import time

import pytest

from server import events, exchange, fake, fake_server, read_all, server  # noqa: F401 (fixtures)

CHAT = json.dumps({"messages": [{"role": "user", "content": "hi"}]}).encode()
PATH = "/v1/chat/completions"


def post_bytes(body, *headers, path=PATH):
    lines = [f"POST {path} HTTP/1.1", "Host: x", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def with_length(body, *headers, path=PATH):
    return post_bytes(body, f"Content-Length: {len(body)}", *headers, path=path)


def in_chunks(body, size):
    cut = [body[i:i + size] for i in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in cut) + b"0\r\n\r\n"


def split_reply(data):
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split()[1]), head.decode().lower(), body


def refused(server, data, status):
    """The whole exchange ends with one JSON error of that status and a closed connection."""
    found, head, body = split_reply(server.raw(data))
    assert found == status and "connection: close" in head
    error = json.loads(body)["error"]
    assert error["message"] and error["type"] in ("invalid_request_error", "server_error")
    return error


# ---- Methods and routes ----


def test_unknown_routes_and_methods(server):
    status, _, body = server.get("/nope")
    assert status == 404 and "/nope" in body["error"]["message"]
    status, headers, body = server.get(PATH)
    assert status == 405 and headers["Allow"] == "POST, OPTIONS" and "error" in body
    status, headers, _ = server.request("POST", "/health", "{}")
    assert status == 405 and headers["Allow"] == "GET, HEAD, OPTIONS"
    assert server.request("BREW", "/health")[0] == 405


@pytest.mark.parametrize("path", ["/..%2f..%2fetc/passwd", "/../../etc/passwd", "/..\\..\\etc\\passwd",
                                  "/%2e%2e/etc/passwd", "//etc/passwd",
                                  "/v1/models/..%2f..%2fetc%2fpasswd", "/v1/models/%00", "/%zz"])
def test_no_path_leads_to_files(fake, path):
    status, _, body = split_reply(fake.raw(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()))
    assert status in (400, 404) and b"root:" not in body


def test_head_is_get_without_a_body(server):
    for path in ("/health", "/v1/models", "/", "/nope"):
        get = server.get(path)
        head = server.request("HEAD", path)
        assert head[0] == get[0] and head[2] == "" and head[1]["Content-Length"] == get[1]["Content-Length"]


def test_browsers_may_ask_from_any_page(server):
    status, headers, body = server.request("OPTIONS", PATH, headers={
        "Origin": "http://localhost:3000", "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,x-stainless-os"})
    assert (status, body) == (204, "")
    assert headers["Access-Control-Allow-Origin"] == "*" and "POST" in headers["Access-Control-Allow-Methods"]
    assert headers["Access-Control-Allow-Headers"] == "authorization,content-type,x-stainless-os"
    for status, headers, _ in (server.get("/health"), server.get("/nope"), server.chat(), server.chat(stream=True)):
        assert headers["Access-Control-Allow-Origin"] == "*" and headers["X-Request-Id"]


def test_the_root_says_what_this_is(server):
    status, headers, body = server.get("/")
    assert status == 200 and "/v1/chat/completions" in body and f"curl {server.address}" in body


def test_a_query_and_a_last_slash_change_nothing(server):
    for path in ("/health?x=1", "/health/", "/v1/models/?limit=5"):
        assert server.get(path)[0] == 200


# ---- Connections ----


def test_two_hundred_requests_on_one_connection(server):
    connection = http.client.HTTPConnection(server.host, server.port, timeout=20)
    for _ in range(200):
        assert exchange(connection, "GET", "/health")[0] == 200
        port = connection.sock.getsockname()
    assert connection.sock.getsockname() == port
    for stream in (True, False, True):
        status, _, _ = exchange(connection, "POST", PATH, {**json.loads(CHAT), "stream": stream})
        assert status == 200 and connection.sock.getsockname() == port
    assert exchange(connection, "GET", "/nope")[0] == 404 and exchange(connection, "POST", PATH, "{")[0] == 400
    assert exchange(connection, "GET", "/health")[0] == 200 and connection.sock.getsockname() == port
    connection.close()


def test_pipelined_requests_are_answered_in_order(server):
    get = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    last = b"GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    data = server.raw(get + with_length(CHAT) + get + last)
    at = [data.index(x) for x in (b'{"status":"ok"}', b"green tea", b'{"object":"list"')]
    assert at == sorted(at) and data.count(b"HTTP/1.1 200") == 4


def test_a_request_may_come_byte_by_byte(fake):
    with fake.connect() as s:
        for byte in with_length(CHAT, "Connection: close"):
            s.sendall(bytes([byte]))
        assert b"green tea" in read_all(s)


def test_http_1_0_gets_an_answer_and_a_closed_connection(server):
    status, head, body = split_reply(server.raw(b"GET /health HTTP/1.0\r\n\r\n"))
    assert status == 200 and body == b'{"status":"ok"}' and "connection: close" in head
    body = CHAT[:-1] + b',"stream":true}'
    data = server.raw(b"POST %s HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s" % (PATH.encode(), len(body), body))
    status, head, body = split_reply(data)
    assert status == 200 and "transfer-encoding" not in head and events(body.decode())[-1] == "[DONE]"


def test_a_client_that_says_it_is_done_still_gets_quick_answers(fake):
    assert b'{"status":"ok"}' in fake.raw(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n", half_close=True)
    many = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * 50
    assert fake.raw(many, half_close=True).count(b'{"status":"ok"}') == 50


def test_ipv6():
    if not socket.has_ipv6:
        pytest.skip("no IPv6")
    try:
        socket.socket(socket.AF_INET6).bind(("::1", 0))
    except OSError:
        pytest.skip("no address ::1")
    with fake_server("--bind", "[::1]:0") as server:
        assert server.address.startswith("http://[::1]:")
        assert server.chat()[0] == 200


def test_a_unix_socket_is_made_replaced_when_stale_and_removed(tmp_path):
    path = tmp_path / "shimmy.sock"
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(path))
    stale.close()
    with fake_server("--bind", f"unix:{path}") as server:
        assert server.address == f"unix:{path}"
        assert b"green tea" in server.raw(with_length(CHAT, "Connection: close"))
        assert "another server" in fake_server("--bind", f"unix:{path}", wait=False).failure()
    assert not path.exists()
    path.write_text("mine")
    assert "no socket" in fake_server("--bind", f"unix:{path}", wait=False).failure()
    assert path.read_text() == "mine"


@pytest.mark.parametrize("bind", ["nonsense", "127.0.0.1", "127.0.0.1:99999", "::1:80", "[::1:80", "unix:",
                                  "host.invalid:0"])
def test_a_bad_address_is_one_line_and_exit_1(bind):
    assert bind in fake_server("--bind", bind, wait=False).failure()


def test_a_taken_port_is_one_line_and_exit_1(fake):
    assert "in use" in fake_server("--bind", f"127.0.0.1:{fake.port}", wait=False).failure()


def test_many_connections_wait_quietly(fake):
    idle = [fake.connect() for _ in range(200)]
    half = [fake.connect() for _ in range(50)]
    for s in half:
        s.sendall(b"POST / HTTP/1.1\r\nX-Slow: ")
    assert fake.chat()[0] == 200
    for s in idle + half:
        s.close()


# ---- Bodies ----


@pytest.fixture(scope="module")
def small():
    with fake_server("--max-body", 100_000) as server:
        yield server


def test_a_body_over_the_limit_is_413_however_it_is_sent(small):
    big = b'{"x":"' + b"a" * 10_000_000 + b'"}'
    assert "100000" in refused(small, with_length(big), 413)["message"]
    assert "100000" in refused(small, post_bytes(in_chunks(big, 60_000), "Transfer-Encoding: chunked"), 413)["message"]
    refused(small, post_bytes(b"", "Content-Length: 100001"), 413)
    refused(small, post_bytes(b"", "Content-Length: 18446744073709551615"), 413)
    refused(small, post_bytes(b"", "Content-Length: 99999999999999999999999"), 413)
    refused(small, post_bytes(b"ffffffffffffffff\r\nx", "Transfer-Encoding: chunked"), 413)
    refused(small, post_bytes(b"", "Content-Length: 100001", "Expect: 100-continue"), 413)


def test_bodies_in_hand_are_bounded_together(small):
    """Sixteen times the limit of one: then 503, until some are given up."""
    sockets = [small.connect() for _ in range(20)]
    for s in sockets:
        s.sendall(post_bytes(b" " * 99_000, "Content-Length: 100000"))
    deadline = time.monotonic() + 5
    refused_now = []
    while len(refused_now) < 3:
        assert time.monotonic() < deadline
        refused_now = [s for s in sockets if s in select.select(sockets, [], [], 0.1)[0]]
    assert len(refused_now) <= 4 and all(split_reply(read_all(s))[0] == 503 for s in refused_now)
    for s in sockets:
        s.close()
    status = 503
    while status == 503:
        status = small.request("POST", PATH, CHAT + b" " * 90_000)[0]
        assert time.monotonic() < deadline
    assert status == 200


def test_a_body_at_the_limit_is_read(small):
    body = CHAT + b" " * (100_000 - len(CHAT))
    assert small.request("POST", PATH, body)[0] == 200
    data = small.raw(post_bytes(in_chunks(body, 7_777), "Transfer-Encoding: chunked", "Connection: close"))
    assert split_reply(data)[0] == 200


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_chunked_bodies(fake, size):
    data = fake.raw(post_bytes(in_chunks(CHAT, size), "Transfer-Encoding: chunked", "Connection: close"))
    assert b"green tea" in data
    trailed = in_chunks(CHAT, size)[:-2] + b"X-Sum: 1\r\n\r\n"
    assert b"green tea" in fake.raw(post_bytes(trailed, "Transfer-Encoding: chunked", "Connection: close"))


def test_expect_100_continue(server):
    with server.connect() as s:
        s.sendall(post_bytes(b"", f"Content-Length: {len(CHAT)}", "Expect: 100-continue", "Connection: close"))
        assert s.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        s.sendall(CHAT)
        assert b"green tea" in read_all(s)
    refused(server, post_bytes(b"", "Content-Length: 5", "Expect: a-miracle"), 417)


# ---- What is not HTTP ----


@pytest.mark.parametrize("data, status", [
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n\n", 400),
    (b"GET\r\n\r\n", 400),
    (b"GET / HTTP/1.1 extra\r\n\r\n", 400),
    (b"GET  / HTTP/1.1\r\n\r\n", 400),
    (b"G(T / HTTP/1.1\r\n\r\n", 400),
    (b"GET /\x01 HTTP/1.1\r\n\r\n", 400),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    (b"GET / HTTP/1.1\r\nNo colon\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nName : value\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\n: value\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nA: 1\r\n folded\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nA: \x00\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 101 + b"\r\n", 431),
    (b"GET / HTTP/1.1\r\nA: " + b"x" * 40_000, 431),
    (b"x" * 40_000, 431),
    (post_bytes(b"", "Content-Length: -5"), 400),
    (post_bytes(b"", "Content-Length: 0x10"), 400),
    (post_bytes(b"", "Content-Length: "), 400),
    (post_bytes(b"", "Content-Length: 5, 5"), 400),
    (post_bytes(b"", "Content-Length: 5", "Content-Length: 6"), 400),
    (post_bytes(b"", "Content-Length: 5", "Transfer-Encoding: chunked"), 400),
    (post_bytes(b"", "Transfer-Encoding: gzip, chunked"), 501),
    (post_bytes(b"", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked"), 501),
    (post_bytes(b"xyz\r\n", "Transfer-Encoding: chunked"), 400),
    (post_bytes(b"\r\n", "Transfer-Encoding: chunked"), 400),
    (post_bytes(b"-5\r\n", "Transfer-Encoding: chunked"), 400),
    (post_bytes(b"2\r\nabc\r\n", "Transfer-Encoding: chunked"), 400),
    (post_bytes(b"5;" + b"x" * 1000, "Transfer-Encoding: chunked"), 400),
    (post_bytes(b"0\r\nX: " + b"x" * 10_000, "Transfer-Encoding: chunked"), 431),
])
def test_what_is_not_http_is_refused(fake, data, status):
    refused(fake, data, status)
    assert fake.get("/health")[0] == 200


@pytest.mark.parametrize("body, place", [
    (b"", "empty"),
    (b"{", "line 1"),
    (b'{"messages":[],}', "line 1, column 16"),
    (b'{\n"a": tru}', "line 2"),
    (b"[1]", "not an object"),
    (b"null", "not an object"),
    (b'{"a":1}x', "line 1"),
    (b'{"a":"\xff"}', "line 1"),
    (b'{"a":"\xc3("}', "line 1"),
    (b'{"a":"\xed\xa0\x80"}', "line 1"),
    (b'{"a":"\\ud800"}', "line 1"),
    (b'{"a":1e999}', "line 1"),
    (b'{"a":' + b"[" * 100_000, "deeper than 200"),
    (b'{"a":' * 1000, "deeper than 200"),
    (b'{"a":[' + b"[]," * 1_100_000 + b"1]}", "values"),
    (b"\x00" * 100, "line 1"),
])
def test_what_is_not_json_is_refused_with_its_place(fake, body, place):
    status, _, answer = fake.request("POST", PATH, body)
    assert status == 400 and place in answer["error"]["message"]
    assert answer["error"]["code"] == "invalid_json"


def test_brackets_in_strings_are_no_nesting(fake):
    assert fake.chat('[[[[{{{{"' * 1000)[0] == 400  # 9,000 tokens: past the context, not past the nesting
    assert fake.chat('\\"[' * 100)[0] == 200


# ---- Slow and hostile readers ----


def test_a_reader_that_never_reads_is_given_up(fake):
    with fake.connect() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        body = json.dumps({"messages": [{"role": "user", "content": "#big=1000000"}], "stream": True}).encode()
        before = fake.metric("shimmy_generated_tokens_total")
        s.sendall(with_length(body))
        while fake.metric("shimmy_generated_tokens_total") == before:
            time.sleep(0.005)
        fake.wait_idle(20)
        assert fake.metric("shimmy_generated_tokens_total") - before < 500_000
    assert fake.get("/health")[0] == 200


def test_pipelining_without_reading_is_bounded(fake):
    get = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    with fake.connect() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        s.settimeout(1)
        sent = 0
        with pytest.raises(TimeoutError):  # the server stops reading
            while sent < 50_000_000:
                sent += s.send(get * 1000)
        assert fake.get("/health")[0] == 200


def test_a_stream_stalls_nobody(fake):
    """While a long prompt is tokenized and a slow answer runs, /health answers at once."""
    done = threading.Thread(target=lambda: fake.chat("#slow=100"))
    done.start()
    big = threading.Thread(target=lambda: fake.chat("x" * 8_000_000))
    big.start()
    start = time.monotonic()
    for _ in range(20):
        assert fake.get("/health")[0] == 200
    assert time.monotonic() - start < 3
    done.join()
    big.join()

"""Clients that are slow, on purpose or not: they hold no slot, and connection and memory only for a bounded time."""
import contextlib
import json
import socket
import time

import pytest

from server import fake_server, read_all
from support import SANITIZED

CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def hurried():
    """Limits of fake_server_main.c: idle 1.5 s, head 0.6, body 0.8, write 0.7, flush 1.2, drain 0.5."""
    with fake_server("--hurry", 1, "--parallel", 1) as server:
        yield server


def lasts(s, every=None, piece=b"x", most=6):
    """Seconds until the server closes, while a piece is sent from time to time."""
    start = time.monotonic()
    s.settimeout(every or most)
    while time.monotonic() - start < most:
        with contextlib.suppress(socket.timeout):
            try:
                if not s.recv(65536):
                    break
            except (ConnectionResetError, BrokenPipeError):
                break
        if every:
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                s.sendall(piece)
    return time.monotonic() - start


def near(seconds, limit):
    """Never early; late as far as a busy machine is."""
    return 0.9 * limit <= seconds < limit + (4 if SANITIZED else 2)


def test_an_idle_connection_is_closed_and_one_in_use_is_not(hurried):
    with hurried.connect() as s:
        for _ in range(4):
            time.sleep(0.7)
            s.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200 OK" in s.recv(4096)
        assert near(lasts(s), 1.5)
    with hurried.connect() as s:
        assert near(lasts(s), 1.5)


def test_a_head_must_arrive_in_time_however_it_trickles(hurried):
    with hurried.connect() as s:
        s.sendall(b"GET /health HTTP/1.1\r\nX: ")
        assert near(lasts(s, every=0.1), 0.6)


def test_a_body_that_stops_is_given_up(hurried):
    with hurried.connect() as s:
        s.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{" % CHAT.encode())
        assert near(lasts(s), 0.8)


@pytest.mark.parametrize("framing, piece", [("Content-Length: 1000", b" "), ("Transfer-Encoding: chunked", b"1\r\n \r\n")])
def test_a_body_that_trickles_is_given_up_too(hurried, framing, piece):
    with hurried.connect() as s:
        s.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\n{framing}\r\n\r\n".encode())
        assert near(lasts(s, every=0.1, piece=piece), 0.8)


def test_a_slow_body_that_comes_on_is_read(hurried):
    """At 40 KB a second it takes longer than the time without any byte."""
    body = json.dumps({"messages": [{"role": "user", "content": "hi"}]}).encode() + b" " * 60_000
    with hurried.connect() as s:
        s.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (CHAT.encode(), len(body)))
        for at in range(0, len(body), 4000):
            s.sendall(body[at:at + 4000])
            time.sleep(0.1)
        assert b"green tea" in read_all(s)


def test_a_refused_client_that_goes_on_sending_is_closed(hurried):
    with hurried.connect() as s:
        s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n")
        assert lasts(s, every=0.1, piece=b"x" * 1000) < 4


def small_window(server):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.connect((server.host, server.port))
    return s


def ask(s, content, **fields):
    body = json.dumps({"messages": [{"role": "user", "content": content}], **fields}).encode()
    s.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (CHAT.encode(), len(body), body))


def connections(server):
    return server.metric("shimmy_connections") - 1  # the one that asks


def gone(server, seconds):
    start = time.monotonic()
    while connections(server):
        assert time.monotonic() - start < seconds, connections(server)
        time.sleep(0.02)


@pytest.mark.parametrize("taken", [0, 1])
def test_a_reader_that_takes_nothing_or_little_holds_no_slot_and_soon_no_connection(hurried, taken):
    """One slot: the answer of a megabyte and more is made whether or not it is read."""
    gone(hurried, 5)
    with small_window(hurried) as s:
        ask(s, "#big=1500", stream=True)
        hurried.wait_idle(20)
        assert hurried.chat()[0] == 200
        deadline = time.monotonic() + (10 if SANITIZED else 4)
        while connections(hurried):
            assert time.monotonic() < deadline
            time.sleep(0.1)
            if taken:
                with contextlib.suppress(ConnectionResetError):
                    s.recv(taken)


def test_answers_that_nobody_reads_are_bounded_together():
    """Each is small enough to be kept; together they are not kept beyond 16 times the largest body."""
    with fake_server("--max-body", 1_000_000) as server:
        sockets = [small_window(server) for _ in range(8)]
        for i, s in enumerate(sockets):
            ask(s, "#big=1900", n=4)  # 8 MB, of which the system's own buffers take some
            while server.metric("shimmy_generated_tokens_total") < (i + 1) * 4 * 1900:
                time.sleep(0.01)
            server.wait_idle(20)
        assert 1 <= connections(server) <= 5
        with server.connect() as s:
            s.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert b"200 OK" in read_all(s)
        for s in sockets:
            s.close()
        gone(server, 5)

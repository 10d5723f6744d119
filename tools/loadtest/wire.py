"""HTTP/1.1 over plain sockets, in pieces: a client that can write and read as slowly as it likes, and leave anywhere."""
import asyncio
import json
import socket


class Broken(Exception):
    """The server closed, or sent what is no HTTP."""


class Answer:
    def __init__(self, status, headers):
        self.status, self.headers, self.body = status, headers, b""


class Pace:
    """How a client takes its time: bytes a piece, seconds between two; None: all at once."""

    def __init__(self, write=None, read=None):
        self.write, self.read = write, read


class Connection:
    @classmethod
    async def open(cls, target, small=False):
        """`small`: with little room for what was not read, so that a slow reader is felt by the server."""
        self = cls()
        self.host, self.prefix = target.host, target.prefix
        family, _, _, _, address = (await asyncio.get_running_loop().getaddrinfo(
            target.host, target.port, type=socket.SOCK_STREAM))[0]
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if small:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.buffer, self.pace = b"", Pace()
        await asyncio.get_running_loop().sock_connect(self.socket, address)
        return self

    def close(self):
        self.socket.close()

    def reset(self):
        """Leaves as a program that crashed does: with RST instead of FIN."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        self.socket.close()

    # ---- Bytes ----

    async def send(self, data):
        loop, pace = asyncio.get_running_loop(), self.pace.write
        size = pace[0] if pace else len(data)
        for at in range(0, len(data), size):
            await loop.sock_sendall(self.socket, data[at:at + size])
            if pace:
                await asyncio.sleep(pace[1])

    async def more(self):
        pace = self.pace.read
        data = await asyncio.get_running_loop().sock_recv(self.socket, pace[0] if pace else 65536)
        if not data:
            raise Broken("the server closed the connection")
        self.buffer += data
        if pace:
            await asyncio.sleep(pace[1])

    async def until(self, end):
        while end not in self.buffer:
            await self.more()
        part, self.buffer = self.buffer.split(end, 1)
        return part

    async def exactly(self, n):
        while len(self.buffer) < n:
            await self.more()
        part, self.buffer = self.buffer[:n], self.buffer[n:]
        return part

    # ---- Messages ----

    async def request(self, method, path, body):
        head = f"{method} {self.prefix}{path} HTTP/1.1\r\nHost: {self.host}\r\nContent-Length: {len(body)}\r\n\r\n"
        await self.send(head.encode() + body)

    async def head(self):
        lines = (await self.until(b"\r\n\r\n")).decode().split("\r\n")
        version, status, _ = lines[0].split(" ", 2)
        if version != "HTTP/1.1":
            raise Broken(f"found {lines[0]!r}")
        return Answer(int(status), {k.lower(): v.strip() for k, v in (line.split(":", 1) for line in lines[1:])})

    async def pieces(self, answer):
        """The body as it comes."""
        if "content-length" in answer.headers:
            yield await self.exactly(int(answer.headers["content-length"]))
            return
        while size := int(await self.until(b"\r\n"), 16):
            yield (await self.exactly(size + 2))[:size]
        await self.until(b"\r\n")

    async def exchange(self, method, path, body):
        await self.request(method, path, body)
        answer = await self.head()
        async for piece in self.pieces(answer):
            answer.body += piece
        return answer

    async def events(self, answer):
        """The objects of an event stream; ends after [DONE], which must be the last."""
        text, done = b"", False
        async for piece in self.pieces(answer):
            text += piece
            while b"\n\n" in text:
                event, text = text.split(b"\n\n", 1)
                if done or not event.startswith(b"data: "):
                    raise Broken(f"found {event!r} in the stream")
                done = event == b"data: [DONE]"
                if not done:
                    yield json.loads(event[6:])
        if not done or text:
            raise Broken("the stream ended without [DONE]")

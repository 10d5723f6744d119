"""One of many clients: draws questions and manners from its seed, asks until the time is up, and checks what it got."""
import asyncio
import json
import random
import time

from wire import Broken, Connection, Pace

WHOLE, STREAM, SLOW_WRITE, SLOW_READ, LEAVE = "whole", "stream", "slow writer", "slow reader", "leaves"
ANSWER_SECONDS = 300  # an answer that takes longer is lost


class Outcome:
    """What came of a request. `counted`: tokens as their log-probabilities show them; None where none were asked for."""

    def __init__(self, counted=False):
        self.text, self.finish, self.usage, self.counted = "", None, None, 0 if counted else None
        self.times = []  # of pieces of text; the first entry is when the request was sent

    def take(self, question, body):
        """A whole answer's object, or one event of a stream."""
        if "error" in body:
            raise Broken(f"the answer holds the error {body['error']}")
        self.usage = body.get("usage") or self.usage
        for choice in body["choices"]:
            part = choice.get("message") or choice.get("delta") or choice
            piece = part.get("content" if question.chat else "text") or ""
            self.text += piece
            self.finish = choice["finish_reason"] or self.finish
            if piece:
                self.times.append(time.monotonic())
            if logprobs := choice.get("logprobs"):
                self.counted += len(logprobs["content" if question.chat else "tokens"])

    @property
    def tokens(self):
        """Counted by the client: the token that ended the answer has no text."""
        return self.counted + (self.finish == "stop") if self.counted is not None else None


class Refused(Exception):
    def __init__(self, status, body):
        super().__init__(f"{status} {body.decode(errors='replace')[:300]}")
        self.status = status


async def receive(connection, question, outcome, stream, leave_after=None):
    """Reads an answer; True if all of it. `leave_after`: events of a stream."""
    answer = await connection.head()
    if answer.status != 200 or not stream:
        async for piece in connection.pieces(answer):
            answer.body += piece
        if answer.status != 200:
            raise Refused(answer.status, answer.body)
        outcome.take(question, json.loads(answer.body))
        return True
    seen = 0
    async for event in connection.events(answer):
        outcome.take(question, event)
        seen += 1
        if leave_after is not None and seen > leave_after:
            return False
    return True


async def ask(target, question, counted):
    """Alone, as a whole answer."""
    connection, outcome = await Connection.open(target), Outcome(counted)
    outcome.times.append(time.monotonic())
    await connection.request("POST", question.path, json.dumps(question.body(False, counted)).encode())
    await receive(connection, question, outcome, False)
    connection.close()
    return outcome


class Client:
    def __init__(self, number, target, plan, report, options):
        self.random = random.Random(f"{options.seed} client {number}")
        self.target, self.plan, self.report, self.options = target, plan, report, options
        self.connection = None

    def draw_manner(self):
        r = self.random.random()
        if r < self.options.leaving:
            return LEAVE
        if r < self.options.leaving + self.options.slow:
            return self.random.choice((SLOW_WRITE, SLOW_READ))
        return self.random.choice((WHOLE, STREAM))

    async def run(self):
        await asyncio.sleep(self.random.random())
        until = time.monotonic() + self.options.seconds
        while time.monotonic() < until:
            question, manner = self.random.choice(self.plan), self.draw_manner()
            outcome, why = Outcome(self.random.random() < 0.5), None
            try:
                await asyncio.wait_for(self.one(question, manner, outcome), ANSWER_SECONDS)
            except (Broken, Refused, OSError, ValueError, KeyError, asyncio.TimeoutError) as e:
                why = e
                self.drop()
            self.report.take(question, manner, outcome, why)
        self.drop()

    def drop(self, reset=False):
        if self.connection:
            self.connection.reset() if reset else self.connection.close()
        self.connection = None

    async def one(self, question, manner, outcome):
        """Some keep their connection, some take a new one each time."""
        if manner == SLOW_READ or self.random.random() < 0.25:
            self.drop()
        if not self.connection:
            self.connection = await Connection.open(self.target, manner == SLOW_READ)
        stream = manner not in (WHOLE, SLOW_WRITE)
        body = json.dumps(question.body(stream, outcome.counted is not None)).encode()
        self.connection.pace = Pace(write=(max(1, len(body) // 12), 0.05) if manner == SLOW_WRITE else None,
                                    read=(256, 0.01) if manner == SLOW_READ else None)
        outcome.times.append(time.monotonic())
        if manner == LEAVE:
            await self.leave(question, outcome, body)
            return
        await self.connection.request("POST", question.path, body)
        await receive(self.connection, question, outcome, stream)
        if manner == SLOW_READ:
            self.drop()

    async def leave(self, question, outcome, body):
        """In the middle of writing, before the answer, or some events into it."""
        when = self.random.randrange(3)
        if when == 0:
            self.connection.pace = Pace()
            head = f"POST {question.path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            await self.connection.send((head + body)[:len(head) + len(body) // 2])
        else:
            await self.connection.request("POST", question.path, body)
            if when == 1:
                await asyncio.sleep(self.random.random())
            else:
                await receive(self.connection, question, outcome, True, self.random.randrange(1, 20))
        self.drop(reset=self.random.random() < 0.5)

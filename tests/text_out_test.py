"""What a model says reaches the client whole: over random vocabularies whose tokens cut characters anywhere.

The counter model says its pieces one after the other; what must come of them is known: the bytes decoded as Python does
with errors="replace", which is the Unicode standard's substitution, up to the first stop string.
"""
import json
import random

import pytest

from server import EXE, Server, counter_model, events
from support import SANITIZED

SEEDS = range(3 if SANITIZED else 12)
LETTERS = "ab \n\"\\é߿ࠀ€한\U00010000🍵\U0010ffff\ufffd\u200d\0"
ILL = [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf0\x9f", b"\xe2\x82", b"\xf4\x90\x80\x80", b"\x80", b"\xc3", b"\xe0\x9f"]


def random_pieces(random_, kind):
    """Different pieces, cut from a text without regard to its characters; some are ill-formed on their own as well."""
    text = b"".join(random_.choice(ILL) if random_.random() < 0.15 else random_.choice(LETTERS).encode()
                    for _ in range(200))
    pieces, at = [], 0
    while at < len(text):
        n = random_.choice([2, 2, 3, 4, 7])
        pieces.append(text[at:at + n])
        at += n
    kept = list(dict.fromkeys(p for p in pieces if len(p) > 1 and p != b"\xff\xfe"))
    if kind == "spm":  # its pieces are texts; half characters are byte tokens, each there once
        kept = [p for p in kept if is_text(p) and b"\0" not in p and p.strip(b" ")]
        loose = random_.sample(range(0x80, 0x100), 40)
        return interleave(random_, [p.decode().replace("\\", "\\\\") for p in kept], [f"<0x{b:02X}>" for b in loose])
    return ["".join(f"\\x{b:02X}" for b in p) for p in kept]


def is_text(piece):
    try:
        piece.decode()
    except UnicodeDecodeError:
        return False
    return True


def interleave(random_, a, b):
    both = a + b
    random_.shuffle(both)
    return both


def say(pieces, kind):
    """The bytes of all pieces."""
    if kind == "bpe":
        return bytes.fromhex("".join(pieces).replace("\\x", ""))
    return b"".join(bytes.fromhex(p[3:5]) if p.startswith("<0x") else p.replace("\\\\", "\\").encode() for p in pieces)


def chunks(server, **fields):
    _, _, body = server.post("/v1/chat/completions",
                             {"messages": [{"role": "user", "content": "hi"}], "stream": True, **fields})
    return [json.loads(e)["choices"][0] for e in events(body) if e != "[DONE]"]


def cut(text, stops):
    """Text before the stop string that ends first; of those that end together, the longest."""
    ends = [(text.index(s) + len(s), -len(s)) for s in stops if s in text]
    end, length = min(ends, default=(len(text), 0))
    return text[:end + length]


@pytest.fixture(scope="module", params=[(kind, seed) for kind in ("bpe", "spm") for seed in SEEDS],
                ids=lambda p: f"{p[0]}-{p[1]}")
def case(request, tmp_path_factory):
    if not EXE.exists():
        pytest.skip(f"{EXE} is not built")
    kind, seed = request.param
    random_ = random.Random(seed)
    pieces = random_pieces(random_, kind)
    model = counter_model(tmp_path_factory.mktemp("random"), pieces=pieces, kind=kind)
    with Server(EXE, "serve", "--model-path", model, "--bind", "127.0.0.1:0", "--device", "cpu") as server:
        yield server, say(pieces, kind).decode(errors="replace"), len(pieces), random_


def check(server, wanted, reason, **fields):
    status, _, body = server.chat(**fields)
    assert status == 200, body
    choice = body["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == (wanted, reason)
    found = chunks(server, **fields)
    assert "".join(c["delta"].get("content", "") for c in found) == wanted
    assert [c["finish_reason"] for c in found if c["finish_reason"]] == [reason]


def test_deltas_join_to_the_whole_and_nothing_is_lost(case):
    server, text, count, _ = case
    check(server, text, "stop")


def test_an_answer_cut_short_is_a_beginning(case):
    server, text, count, random_ = case
    for n in random_.sample(range(1, count), 4):
        found = "".join(c["delta"].get("content", "") for c in chunks(server, max_tokens=n))
        whole = server.chat(max_tokens=n)[2]["choices"][0]
        assert (whole["message"]["content"], whole["finish_reason"]) == (found, "length")
        assert text.startswith(found.rstrip("\ufffd"))


def test_stop_strings_over_the_edges_of_tokens(case):
    server, text, _, random_ = case
    for _ in range(6):
        at = random_.randrange(len(text) - 6)
        stops = [text[at:at + random_.choice([1, 2, 5])], "never said", text[-3:]][:random_.choice([1, 3])]
        stops = [s for s in stops if "\0" not in s]
        check(server, cut(text, stops), "stop", stop=stops)

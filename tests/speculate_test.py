"""Speculation changes no text: SmolLM2's answers with and without it are the same, drawn or not, while tokens that were
guessed are accepted where the model copies.
"""
import pytest

from server import Server
from support import EXE, MODELS

SMOL = MODELS / "SmolLM2-135M-Instruct.Q4_1.gguf"
FILE = "".join(f"def {name}(value):\n    total = value + {i}\n    return total * {i + 2}\n\n\n"
               for i, name in enumerate(["first", "second", "third", "fourth", "fifth", "sixth"]))
COPY = f"{FILE}# The same file again, with total renamed to result:\n\n{FILE[:60]}"
PROMPTS = {"copy": COPY, "story": "Once upon a time, in a small village by the sea,", "list": "1, 2, 3, 4, 5, 6, 7, 8,"}
CHOICES = {"greedy": {"temperature": 0}, "drawn": {"temperature": 0.8, "seed": 5},
           "penalties": {"temperature": 0, "frequency_penalty": 0.4}, "two": {"temperature": 1, "seed": 6, "n": 2}}


@pytest.fixture(scope="module")
def servers():
    def start(how):
        return Server(EXE, "serve", "--model-path", SMOL, "--bind", "127.0.0.1:0", "--device", "cpu", "--ctx", 2048,
                      "--speculate", how)
    with start("ngram") as ngram, start("off") as off:
        yield ngram, off


def complete(server, prompt, **fields):
    """([(text, reason)], usage)"""
    answer = server.client().completions.create(model=SMOL.stem, prompt=prompt, max_tokens=80, **fields)
    return [(choice.text, choice.finish_reason) for choice in answer.choices], answer.usage


def guesses(usage):
    details = usage.completion_tokens_details
    return details.accepted_prediction_tokens, details.rejected_prediction_tokens


def totals(server):
    return tuple(server.metric(f"shimmy_{what}_tokens_total") for what in ("accepted", "rejected"))


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_text_is_the_same_with_and_without_guesses(servers, prompt, choice):
    ngram, off = (complete(server, PROMPTS[prompt], **CHOICES[choice]) for server in servers)
    assert ngram[0] == off[0]
    assert ngram[1].completion_tokens == off[1].completion_tokens
    assert guesses(off[1]) == (0, 0)


def test_copies_are_guessed_and_counted(servers):
    ngram, off = servers
    before = totals(ngram)
    _, usage = complete(ngram, COPY, temperature=0)
    accepted, rejected = guesses(usage)
    assert 20 < accepted < usage.completion_tokens
    assert totals(ngram) == (before[0] + accepted, before[1] + rejected)
    assert totals(off) == (0, 0)

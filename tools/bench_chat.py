#!/usr/bin/env python3
"""From messages to token ids: a conversation of 100 messages and 60 KB, rendered and tokenized.

    bench_chat.py PROMPT_LINES VOCABULARY.gguf=TEMPLATE.jinja ...

PROMPT_LINES is build/*/tests/prompt_lines. Prints the median of 20 runs for each pair; the aim is below 20 ms.
"""
import json
import pathlib
import statistics
import subprocess
import sys

MESSAGES, BYTES, RUNS = 100, 60_000, 20
TEXT = ("In 1815 the harvest failed, and the price of bread doubled; nobody knew why. "
        "def f(x):\n    return x ** 2 + 3.14\n\nDie Straße war naß, 東京は雨だった. ")


def conversation():
    text = (TEXT * (BYTES // MESSAGES // len(TEXT.encode()) + 1)).encode()[:BYTES // MESSAGES].decode(errors="ignore")
    return [{"role": ("user", "assistant")[i % 2], "content": f"{i}: {text}"} for i in range(MESSAGES - 1)]


def measure(program, vocabulary, template):
    line = {"template": pathlib.Path(template).read_bytes().decode(), "request": {"messages": conversation()}}
    lines = (json.dumps(line) + "\n").encode() * RUNS
    answers = subprocess.run([program, vocabulary], input=lines, capture_output=True, check=True).stdout.splitlines()
    found = [json.loads(a) for a in answers]
    if "error" in found[0]:
        raise SystemExit(f"{template}: {found[0]['error']}")
    return len(found[0]["ids"]), statistics.median(f["ms"] for f in found), max(f["ms"] for f in found)


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    for pair in sys.argv[2:]:
        vocabulary, template = pair.split("=")
        tokens, median, most = measure(sys.argv[1], vocabulary, template)
        print(f"{pathlib.Path(vocabulary).stem} with {pathlib.Path(template).stem}: {tokens} tokens, "
              f"{median:.2f} ms (most {most:.2f})")


if __name__ == "__main__":
    main()

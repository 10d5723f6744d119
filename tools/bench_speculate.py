#!/usr/bin/env python3
"""What speculation brings: the same answers with --speculate ngram and off, in alternating runs.

    bench_speculate.py SHIMMY MODEL [--rounds 5] [--tokens 256] [--task hot] [-- further options of serve]

Three tasks: to write a file again with one change (greedy), to go on with a list drawn at temperature 1, which repeats
itself in part, and a text drawn so hot that nothing repeats. Prints the tokens a second from an answer's first token to
its last, medians, the ratio of each round's pair, and how many guesses were accepted and rejected.
"""
import argparse
import http.client
import json
import statistics
import time

from serving import arguments, serving

FILE = '''import json
import sys


def read_config(path):
    """Reads settings from a JSON file; an empty file gives none."""
    with open(path) as file:
        text = file.read().strip()
    return json.loads(text) if text else {}


def merge(base, extra):
    """Settings of both, where the later ones win."""
    result = dict(base)
    for key, value in extra.items():
        if isinstance(value, dict) and key in result:
            result[key] = merge(result[key], value)
        else:
            result[key] = value
    return result


def write_report(rows, out=sys.stdout):
    width = max(len(name) for name, _ in rows)
    for name, count in sorted(rows):
        out.write(f"{name:<{width}} {count:>8}\\n")


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: report.py CONFIG...")
    config = {}
    for path in sys.argv[1:]:
        config = merge(config, read_config(path))
    write_report(config.get("rows", []))


if __name__ == "__main__":
    main()
'''
NAMES = "first second third fourth fifth sixth seventh eighth ninth tenth".split()
LINES = "".join(f"- {name} of May: sunny, {15 + i} degrees, light wind from the west\n" for i, name in enumerate(NAMES))
TASKS = {
    "copy, greedy": (f"report.py:\n```python\n{FILE}```\n\nThe same file, with read_config renamed to load_config:\n"
                     f"```python\n{FILE[:FILE.index('    with open')].replace('read_config', 'load_config')}",
                     {"temperature": 0}),
    "list, drawn": (f"The weather of the month:\n{LINES}", {"temperature": 1, "seed": 3}),
    "hot, drawn": ("Once upon a time, in a small village by the sea,", {"temperature": 1.5, "seed": 4}),
}


def complete(port, prompt, tokens, choice):
    """(tokens a second, text, details of the usage)"""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    body = {"prompt": prompt, "max_tokens": tokens, "stream": True, "stream_options": {"include_usage": True},
            "ignore_eos": True, **choice}
    connection.request("POST", "/v1/completions", json.dumps(body))
    text, usage, first, last = "", None, None, None
    for line in connection.getresponse():
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[6:])
        usage = event.get("usage") or usage
        if event.get("choices"):
            last = time.monotonic()
            first = first or last
            text += event["choices"][0]["text"]
    return (usage["completion_tokens"] - 1) / (last - first), text, usage["completion_tokens_details"]


def compare(ports, rounds, tokens, task):
    for name, (prompt, choice) in TASKS.items():
        if not name.startswith(task):
            continue
        rates, texts = {how: [] for how in ports}, set()
        for i in range(rounds + 1):
            for how in sorted(ports, reverse=i % 2 == 0):
                rate, text, details = complete(ports[how], prompt, tokens, choice)
                texts.add(text)
                if how == "ngram":
                    guessed = details
                if i > 0:  # the first warms up
                    rates[how].append(rate)
        if len(texts) > 1:
            raise SystemExit(f"{name}: the texts differ")
        ratio = statistics.median(a / b for a, b in zip(rates["ngram"], rates["off"]))
        print(f"{name:13} ngram {statistics.median(rates['ngram']):7.1f} off {statistics.median(rates['off']):7.1f} tokens/s, "
              f"ratio {ratio:.3f}, accepted {guessed['accepted_prediction_tokens']}, "
              f"rejected {guessed['rejected_prediction_tokens']} of {tokens}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shimmy")
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--task", default="", help="only those that begin so")
    ours, further = arguments()
    asked = parser.parse_args(ours)
    with serving(asked.shimmy, asked.model, "--speculate", "ngram", *further) as ngram, \
         serving(asked.shimmy, asked.model, "--speculate", "off", *further) as off:
        compare({"ngram": ngram, "off": off}, asked.rounds, asked.tokens, asked.task)


if __name__ == "__main__":
    main()

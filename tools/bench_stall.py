#!/usr/bin/env python3
"""How long a reader waits for the next token while others' long prompts run.

    bench_stall.py SHIMMY MODEL [--prompt-tokens 4000] [-- further options of serve]

Two clients stream long answers. After a while a third sends prompts of about so many tokens, three in a row, each new so
that nothing of it is cached. Prints the times between two pieces of the streams (median, 99th percentile, longest) before
and while the prompts run, how long a prompt took to its first token, and how long the last one takes again.
"""
import argparse
import http.client
import json
import random
import statistics
import threading
import time

from serving import arguments, serving

WORDS = "harvest price bread stone river winter letter window garden market engine silver summer corner paper".split()


class Stream(threading.Thread):
    """A client that reads a stream and notes when each piece came."""

    def __init__(self, port, text, tokens):
        super().__init__(daemon=True)
        self.port, self.times, self.usage = port, [], None
        self.body = {"messages": [{"role": "user", "content": text}], "max_tokens": tokens, "temperature": 0, "stream": True,
                     "stream_options": {"include_usage": True}, "ignore_eos": True}
        self.began = time.monotonic()
        self.start()

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("POST", "/v1/chat/completions", json.dumps(self.body))
        for line in connection.getresponse():
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            self.usage = event.get("usage") or self.usage
            if event.get("choices") and event["choices"][0]["delta"].get("content"):
                self.times.append(time.monotonic())


def describe(name, streams, begin, end):
    gaps = sorted(1e3 * (b - a) for s in streams for a, b in zip(s.times, s.times[1:]) if a >= begin and b <= end)
    if not gaps:
        raise SystemExit(f"{name}: no token came; ask for fewer prompt tokens")
    print(f"{name:9} {len(gaps):5} tokens, between two: median {statistics.median(gaps):.1f} ms, "
          f"99 % {gaps[int(len(gaps) * 0.99)]:.1f} ms, longest {gaps[-1]:.1f} ms")


def measure(port, prompt_tokens):
    readers = [Stream(port, f"Tell story number {i}.", 100000) for i in range(2)]
    while min(len(r.times) for r in readers) < 5:
        time.sleep(0.01)
    begin = time.monotonic()
    time.sleep(3)
    middle = time.monotonic()
    firsts, counts = [], []
    for i in range(3):
        prompt = " ".join(random.Random(i).choices(WORDS, k=prompt_tokens))
        one = Stream(port, prompt, 1)
        one.join()
        firsts.append(time.monotonic() - one.began)
        counts.append(one.usage["prompt_tokens"] - one.usage["prompt_tokens_details"]["cached_tokens"])
    end = time.monotonic()
    describe("alone", readers, begin, middle)
    describe("beside", readers, middle, end)
    print(f"prompts   {', '.join(map(str, counts))} tokens took {', '.join(f'{s:.2f}' for s in firsts)} s")
    again = Stream(port, prompt, 1)
    again.join()
    cached = again.usage["prompt_tokens_details"]["cached_tokens"]
    print(f"the last  again took {time.monotonic() - again.began:.2f} s, {cached} tokens came from the cache")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shimmy")
    parser.add_argument("model")
    parser.add_argument("--prompt-tokens", type=int, default=4000)
    ours, further = arguments()
    asked = parser.parse_args(ours)
    with serving(asked.shimmy, asked.model, *further) as port:
        measure(port, asked.prompt_tokens)


if __name__ == "__main__":
    main()

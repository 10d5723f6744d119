#!/usr/bin/env python3
"""Tokens a second of several requests that are decoded together, with any sampling.

    bench_together.py SHIMMY MODEL [--counts 1,4,8] [--tokens 300] [--fields '{"top_p": 0.9}'] [-- further options of serve]

For each count a server is started that runs so many at once; as many clients ask it for an answer of so many tokens, with
OpenAI's default sampling but for --fields, three times. The sums are those of the server's usage, over the time until the
last client has its answer.
"""
import argparse
import http.client
import json
import threading
import time

from serving import arguments, serving


def ask(port, number, fields):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    body = {"prompt": f"Once {number}", "seed": number, "ignore_eos": True, **fields}
    connection.request("POST", "/v1/completions", json.dumps(body))
    answer = json.loads(connection.getresponse().read())
    if "usage" not in answer:
        raise SystemExit(f"no answer: {answer}")
    return answer["usage"]["completion_tokens"]


def together(port, count, fields):
    sums = [0] * count

    def one(i):
        sums[i] = ask(port, i, fields)
    threads = [threading.Thread(target=one, args=(i,)) for i in range(count)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(sums) / (time.monotonic() - began)


def measure(asked, count, further):
    with serving(asked.shimmy, asked.model, "--parallel", str(count), *further) as port:
        ask(port, 0, {"max_tokens": 8})
        found = [together(port, count, {"max_tokens": asked.tokens, **asked.fields}) for _ in range(3)]
        print(f"{count:3} together  {', '.join(f'{rate:.0f}' for rate in found)} tokens/s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shimmy")
    parser.add_argument("model")
    parser.add_argument("--counts", type=lambda text: [int(n) for n in text.split(",")], default=[1, 4, 8])
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--fields", type=json.loads, default={})
    ours, further = arguments()
    asked = parser.parse_args(ours)
    for count in asked.counts:
        measure(asked, count, further)


if __name__ == "__main__":
    main()

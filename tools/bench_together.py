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
import subprocess
import sys
import threading
import time


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
    server = subprocess.Popen([asked.shimmy, "serve", "--model-path", asked.model, "--bind", "127.0.0.1:0", "--log", "off",
                               "--parallel", str(count), *further], stdout=subprocess.PIPE, text=True)
    try:
        port = int(server.stdout.readline().rsplit(":", 1)[1])
        ask(port, 0, {"max_tokens": 8})
        found = [together(port, count, {"max_tokens": asked.tokens, **asked.fields}) for _ in range(3)]
        print(f"{count:3} together  {', '.join(f'{rate:.0f}' for rate in found)} tokens/s", flush=True)
    finally:
        server.terminate()
        server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shimmy")
    parser.add_argument("model")
    parser.add_argument("--counts", type=lambda text: [int(n) for n in text.split(",")], default=[1, 4, 8])
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--fields", type=json.loads, default={})
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    asked = parser.parse_args(sys.argv[1:cut])
    for count in asked.counts:
        measure(asked, count, sys.argv[cut + 1:])


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Many clients at once, of every kind, for minutes: what a server must stand without an error.

    python3 tools/loadtest MODEL [--shimmy build/release/shimmy] [--seconds 600] [-- further options of serve]
    python3 tools/loadtest --url http://127.0.0.1:11435 [--pid N]

First every question of the plan is asked alone: that is the text, and the number of tokens, that it must have. Then all
clients ask at once, each the questions that its seed draws, as one of: reading whole answers, reading streams, writing
slowly, reading slowly, leaving early. At the end the server must be as it was. Needs nothing but Python.

Ends with 1 if any of these does not hold:
    errors    every answer is a 200 that arrives whole, but those that the client itself left
    texts     each text is the one that the question has alone; what arrived before a client left is its beginning
    tokens    usage sums up to the tokens that the clients counted, and the server's own sum is not less
    memory    resident memory at the end is that of the middle (once the KV cache has filled), within --growth
    rest      nothing runs or waits, no connection and no descriptor is left, and a question has its text once more

The plan depends on --seed alone, the order of events on the machine.
"""
import argparse
import asyncio
import json
import pathlib
import sys
import time

from client import Client, Refused, ask
from plan import questions
from report import Report
from target import Target

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def parse(arguments):
    parser = argparse.ArgumentParser(prog="loadtest", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help="a file or a name; the server is started")
    parser.add_argument("--shimmy", default=ROOT / "build/release/shimmy", help="the program (build/release/shimmy)")
    parser.add_argument("--url", help="a server that runs already")
    parser.add_argument("--pid", type=int, help="its process, to watch its memory")
    parser.add_argument("--seconds", type=float, default=600, help="how long the clients ask (600)")
    parser.add_argument("--clients", type=int, default=64, help="how many ask at once (64)")
    parser.add_argument("--questions", type=int, default=64, help="different ones (64)")
    parser.add_argument("--words", type=int, default=900, help="of the longest prompt (900)")
    parser.add_argument("--answer", type=int, default=96, help="tokens of the longest answer (96)")
    parser.add_argument("--leaving", type=float, default=0.1, help="share of requests whose client leaves early (0.1)")
    parser.add_argument("--slow", type=float, default=0.1, help="share that is written or read slowly (0.1)")
    parser.add_argument("--growth", type=float, default=8, help="MB by which memory may differ from the middle (8)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", help="write what was found to this file")
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:cut])
    options.serve = arguments[cut + 1:]
    if bool(options.model) == bool(options.url):
        parser.error("either MODEL or --url is needed")
    return options


async def ask_alone(target, plan, report):
    """The texts that the questions have, and how many tokens they took, counted by their log-probabilities."""
    before = await target.metrics()
    for question in plan:
        try:
            question.expected = await ask(target, question, counted=True)
        except Refused as refused:
            sys.exit(f"loadtest: a question has no answer even alone (--words and --answer make them shorter): {refused}")
        report.alone(question)
    report.alone_sums(before, await target.metrics(), plan)


async def watch(target, report):
    while True:
        report.memory(time.monotonic(), target.resident())
        await asyncio.sleep(0.5)


async def settle(target):
    """Until the server has noticed who left; the metrics then."""
    deadline = time.monotonic() + 30
    while True:
        found = await target.metrics()
        if not found["shimmy_requests_running"] + found["shimmy_requests_waiting"] or time.monotonic() > deadline:
            return found
        await asyncio.sleep(0.1)


async def run(options):
    plan = questions(options)
    with Target(options) as target:
        report = Report(options, target)
        await ask_alone(target, plan, report)
        report.begin(await target.metrics(), target.descriptors())
        watcher = asyncio.create_task(watch(target, report))
        clients = [Client(i, target, plan, report, options) for i in range(options.clients)]
        await asyncio.gather(*(c.run() for c in clients))
        watcher.cancel()
        report.end(await settle(target), target.descriptors())
        for question in plan[:4]:
            report.again(question, await ask(target, question, counted=True))
    report.ended(target.exit_code)
    return report


def main():
    options = parse(sys.argv[1:])
    report = asyncio.run(run(options))
    print(report.text())
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(report.values(), indent=1) + "\n")
    sys.exit(1 if report.violations else 0)


if __name__ == "__main__":
    main()

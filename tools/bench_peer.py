#!/usr/bin/env python3
"""make bench-peer: shimmy beside llama.cpp on a CPU, as a table in Markdown: tokens a second of each and their ratio.

    bench_peer.py [MODEL.gguf]...       default: the list below

    THREADS=2 ROUNDS=3 RUNS=1           rounds; and measured runs of a program in a round, after one to warm up
    BEFORE="COMMAND ..."                put before every run of a program, such as a lock or taskset

A shared machine's speed drifts by more than two programs differ, so the two take turns: ours, theirs, ours, theirs. The
numbers are the medians of the rounds, the ratios the medians of each round's ratio. llama.cpp is what peer/peer.sh sets
up. Models with random weights (speed depends on shapes and formats) are made once in the user's cache, 3 GB.
"""
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "shimmy-bench"
SHIMMY = os.environ.get("SHIMMY_EXE") or str(ROOT / "build/release/shimmy")
THREADS, ROUNDS, RUNS = (int(os.environ.get(name, default)) for name, default in
                         [("THREADS", 2), ("ROUNDS", 3), ("RUNS", 1)])
BEFORE = shlex.split(os.environ.get("BEFORE", ""))

# What is measured: prompt tokens, tokens decoded, sequences together, and which of the two rates is told.
PROMPT = ("prompt 512", 512, 128, 1, "prompt_tps")
DECODE = ("decode 128", 512, 128, 1, "decode_tps")
TOGETHER = ("decode 128, 8 together", 64, 128, 8, "decode_tps")
FIRST = ("first token of 2,000", 2000, 2, 1, "prompt_tps")
EACH = [PROMPT, DECODE]
# Each model with the ratios that issue "the fastest GGUF engine on a CPU" asks of it.
REAL = {"SmolLM2-135M-Instruct.Q4_1": {PROMPT: 2.0, DECODE: 1.4, FIRST: 1.5},
        "gemma-3-270m-q4_k_m": {PROMPT: 1.5, DECODE: 1.2, FIRST: 1.5}}
MADE = {"tinyllama-1.1b-q4_0": {PROMPT: 1.5, DECODE: 1.0},
        "llama-3.2-1b-q4_k_m": {PROMPT: 1.5, DECODE: 1.15, TOGETHER: 1.5, FIRST: 1.5},
        "qwen3-0.6b-q8_0": {PROMPT: 1.5, DECODE: 1.1},
        "qwen3-0.6b-q5_k_m": {PROMPT: 1.5, DECODE: 1.1},
        "qwen3-0.6b-q6_k": {PROMPT: 1.5, DECODE: 1.1}}


def run(*command):
    return subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE, text=True).stdout


def ours(model, prompt, generate, sequences):
    return json.loads(run(*BEFORE, SHIMMY, "bench", model, "--json", "--device", "cpu", "--threads", THREADS,
                          "--prompt-tokens", prompt, "--gen-tokens", generate, "--parallel", sequences, "--runs", RUNS))


def theirs(peer, model, prompt, generate, sequences):
    return json.loads(run(*BEFORE, peer, model, THREADS, prompt, generate, sequences, RUNS))


def rounds(peer, model, prompt, generate, sequences):
    """[(ours, theirs)] of the rounds; who begins changes, so that neither is always the one that finds a warm cache."""
    pairs = []
    for i in range(ROUNDS):
        sides = [lambda: ours(model, prompt, generate, sequences), lambda: theirs(peer, model, prompt, generate, sequences)]
        found = [side() for side in (sides if i % 2 == 0 else sides[::-1])]
        pairs.append(tuple(found if i % 2 == 0 else found[::-1]))
    return pairs


def rows(peer, model, wanted):
    """Prints a line for each of `wanted`; what needs the same runs shares them."""
    done = {}
    for what in wanted:
        label, prompt, generate, sequences, rate = what
        shape = (prompt, generate, sequences)
        if shape not in done:
            done[shape] = rounds(peer, model, *shape)
        pairs = [(a[rate], b[rate]) for a, b in done[shape]]
        mine, other = (statistics.median(side) for side in zip(*pairs))
        ratio = statistics.median(a / b for a, b in pairs)
        bar = f"{wanted[what]:.2f}" if wanted[what] else ""
        print(f"| {model.stem} | {label} | {mine:.1f} | {other:.1f} | {ratio:.2f} | {bar} |", flush=True)


def make(name):
    path = CACHE / f"{name}.gguf"
    if not path.exists():
        print(f"bench_peer.py: making {path}", file=sys.stderr)
        run(HERE / "check.sh", "venv")
        CACHE.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(".part")
        run(ROOT / "build/venv/bin/python", ROOT / "tests/tools/synth_gguf.py", name, aside)
        aside.rename(path)
    return path


def models():
    run(sys.executable, ROOT / "tests/models.py", "--real", ROOT / "build/models")
    for name, wanted in REAL.items():
        yield ROOT / "build/models" / f"{name}.gguf", wanted
    for name, wanted in MADE.items():
        yield make(name), wanted


def main():
    peer = run(HERE / "peer/peer.sh").strip()
    given = [(pathlib.Path(name), dict.fromkeys(EACH)) for name in sys.argv[1:]]
    print(f"{THREADS} threads, medians of {ROUNDS} rounds of {RUNS} run(s), tokens/s\n")
    print("| model | what | shimmy | llama.cpp | ratio | wanted |\n|---|---|---|---|---|---|")
    for model, wanted in given or models():
        rows(peer, model, wanted)


main()

#!/usr/bin/env python3
"""How fast text becomes tokens on one core, beside the PyPI package `tokenizers` in the same run.

    tools/bench_tokenizer.py [--build build/check] [NAME...]

NAME: vocabularies of ../shared/vocab; default: one of each pre-tokenizer's family. The text is this checkout's own:
prose, C and Python, and the texts of the vectors in many scripts. Processor time, best of five. Needs the tests' packages
(build/venv/bin/python) and a build with SHIMMY_TESTS.
"""
import argparse
import json
import os
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
os.environ["TOKENIZERS_PARALLELISM"] = "false"


def corpus(shared):
    kinds = ["*.md", "src/**/*.c", "src/**/*.h", "shimmy/**/*.c", "tests/*.c", "tests/*.py"]
    paths = [path for kind in kinds for path in ROOT.glob(kind)]
    texts = [p.read_text(encoding="utf-8") for p in sorted(paths)]
    vectors = json.loads((shared / "vocab/vectors/gpt-2.json").read_text())
    return texts + [case["text"] for case in vectors if len(case["text"]) < 500] * 20


def best_of_five(run):
    times = []
    for _ in range(5):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("names", nargs="*", metavar="NAME",
                         default=["gpt-2", "smollm2", "llama-bpe", "qwen2", "deepseek-coder"])
    options.add_argument("--build", default="build/check")
    chosen = options.parse_args()
    os.environ["SHIMMY_BUILD"] = chosen.build

    import oracle_tokenizers as oracle
    import tokenizers_test as driver
    from support import SHARED

    texts = corpus(SHARED)
    megabytes = sum(len(t.encode()) for t in texts) / 1e6
    print(f"{len(texts)} texts, {megabytes:.1f} MB")
    print(f"{'':16}{'airframe':>12}{'tokenizers':>12}")
    for name in chosen.names:
        peer = oracle.byte_level(oracle.Vocabulary(driver.unpacked(name)), name, driver.BYTE_LEVEL[name])
        theirs = best_of_five(lambda: [peer.encode(t, add_special_tokens=False) for t in texts])
        ours = driver.ours("time", driver.unpacked(name), texts)
        print(f"{name:16}{megabytes / ours:7.1f} MB/s{megabytes / theirs:7.1f} MB/s")


if __name__ == "__main__":
    main()

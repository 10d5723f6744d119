#!/usr/bin/env python3
"""What a token of the context costs each decoded token, at every length: flat, if attention is what it should be.

    bench_context.py SHIMMY MODEL [--contexts 1024,2048,...,32768] [--kv f16,q8_0] [--gen-tokens 32] [-- options of bench]

Decodes behind prompts of each length. The cost of a cached token is what a decoded token takes longer than behind the
shortest prompt, over the tokens that the prompt is longer by; a shared machine's noise is in that difference, so it says
little before the contexts are long. A model with a window shows where its window ends instead.
"""
import argparse
import json
import subprocess

from serving import arguments


def decode_ms(shimmy, model, context, kv, generate, more):
    done = subprocess.run([shimmy, "bench", model, "--json", "--runs", "1", "--prompt-tokens", str(context), "--gen-tokens",
                           str(generate), "--ctx", str(context + generate + 64), "--kv", kv, *more],
                          check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout)
    return 1e3 / found["decode_tps"], found["prompt_tps"]


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip())
    parser.add_argument("shimmy")
    parser.add_argument("model")
    parser.add_argument("--contexts", default="1024,2048,4096,8192,16384,32768")
    parser.add_argument("--kv", default="f16,q8_0")
    parser.add_argument("--gen-tokens", type=int, default=32)
    ours, further = arguments()
    options = parser.parse_args(ours)
    contexts = [int(n) for n in options.contexts.split(",")]
    print("| cache | context | prompt tok/s | ms a decoded token | us a cached token |\n|---|---|---|---|---|")
    for kv in options.kv.split(","):
        first = None
        for n in contexts:
            ms, prompt = decode_ms(options.shimmy, options.model, n, kv, options.gen_tokens, further)
            first = first or ms
            each = f"{(ms - first) * 1e3 / (n - contexts[0]):.3f}" if n > contexts[0] else ""
            print(f"| {kv} | {n} | {prompt:.0f} | {ms:.2f} | {each} |", flush=True)


main()

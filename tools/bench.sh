#!/usr/bin/env bash
# make bench: our speed on SmolLM2 (and Gemma 3, where the tests have fetched it). make bench-peer: both models, beside
# llama.cpp.
#
#   bench.sh [peer] [MODEL.gguf]...
#
#   THREADS=2  PROMPT=512  GENERATE=128  PARALLEL=1  ROUNDS=3
#
# A shared machine's speed drifts by more than two programs differ, so the two take turns: ours, theirs, ours, theirs.
# Each program prints the median of its own three runs; here are the medians of the rounds, and their ratio.
set -euo pipefail
cd "$(dirname "$0")/.."

threads=${THREADS:-2} prompt=${PROMPT:-512} generate=${GENERATE:-128} parallel=${PARALLEL:-1} rounds=${ROUNDS:-3}
shared=${AIRFRAME_SHARED:-../shared}
shimmy=${SHIMMY_EXE:-build/release/shimmy}
peer=
if [ "${1:-}" = peer ]; then
    shift
    [ -x "$shared/tools/peer/peer.sh" ] || { echo "bench.sh: no $shared/tools/peer/peer.sh to set llama.cpp up" >&2; exit 1; }
    peer=$("$shared/tools/peer/peer.sh" cpu)
    [ $# -gt 0 ] || python3 tests/models.py --real build/models
fi

models=("$@")
if [ ${#models[@]} = 0 ]; then
    for file in build/models/{SmolLM2-135M-Instruct.Q4_1,gemma-3-270m-q4_k_m}.gguf; do
        [ -f "$file" ] && models+=("$file")
    done
    [ ${#models[@]} = 0 ] && models=("$(tools/fetch_model.sh)")
fi

median() { sort -g | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }
number() { sed "s/.*\"$1\":\([0-9.eE+-]*\).*/\1/"; }

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

ours() {
    "$shimmy" bench "$1" --json --threads "$threads" --prompt-tokens "$prompt" --gen-tokens "$generate" --parallel "$parallel"
}
theirs() { "$peer" "$(dirname "$peer")" "$1" 0 "$threads" "$prompt" "$generate" "$parallel"; }

for model in "${models[@]}"; do
    rm -f "$results"/*
    for _ in $(seq "$rounds"); do
        line=$(ours "$model")
        number prompt_tps <<<"$line" >>"$results/our_prompt"
        number decode_tps <<<"$line" >>"$results/our_decode"
        number load_ms <<<"$line" >>"$results/load"
        number rss_bytes <<<"$line" >>"$results/rss"
        [ -z "$peer" ] && continue
        line=$(theirs "$model")
        sed 's/.*prompt \([0-9.]*\) tok.*/\1/' <<<"$line" >>"$results/peer_prompt"
        sed 's/.*generate \([0-9.]*\) tok.*/\1/' <<<"$line" >>"$results/peer_decode"
    done
    echo "$(basename "$model"): $threads threads, $parallel x $prompt prompt tokens, $generate generated, $rounds rounds"
    for phase in prompt decode; do
        mine=$(median <"$results/our_$phase")
        if [ -n "$peer" ]; then
            other=$(median <"$results/peer_$phase")
            awk -v p=$phase -v a="$mine" -v b="$other" 'BEGIN {printf "  %s  shimmy %8.1f tok/s   llama.cpp %8.1f tok/s   ratio %.2f\n", p, a, b, a / b}'
        else
            awk -v p=$phase -v a="$mine" 'BEGIN {printf "  %s  %8.1f tok/s\n", p, a}'
        fi
    done
    awk -v l="$(median <"$results/load")" -v r="$(median <"$results/rss")" 'BEGIN {printf "  load    %8.0f ms, resident %.0f MB\n", l, r / 1e6}'
done

#!/usr/bin/env bash
# make bench: our speed on SmolLM2 (and Gemma 3, where the tests have fetched it). bench_peer.py is what compares.
#
#   bench.sh [MODEL.gguf]...
#
#   THREADS=2  PROMPT=512  GENERATE=128  PARALLEL=1  ROUNDS=3
#
# A shared machine's speed drifts, so the median of some rounds is printed, each the median of its own three runs.
set -euo pipefail
cd "$(dirname "$0")/.."

threads=${THREADS:-2} prompt=${PROMPT:-512} generate=${GENERATE:-128} parallel=${PARALLEL:-1} rounds=${ROUNDS:-3}
shimmy=${SHIMMY_EXE:-build/release/shimmy}

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

for model in "${models[@]}"; do
    rm -f "$results"/*
    for _ in $(seq "$rounds"); do
        line=$("$shimmy" bench "$model" --json --threads "$threads" --prompt-tokens "$prompt" --gen-tokens "$generate" \
            --parallel "$parallel")
        for field in prompt_tps decode_tps load_ms rss_bytes; do number $field <<<"$line" >>"$results/$field"; done
    done
    echo "$(basename "$model"): $threads threads, $parallel x $prompt prompt tokens, $generate generated, $rounds rounds"
    awk -v p="$(median <"$results/prompt_tps")" -v d="$(median <"$results/decode_tps")" -v l="$(median <"$results/load_ms")" \
        -v r="$(median <"$results/rss_bytes")" 'BEGIN {
            printf "  prompt  %8.1f tok/s\n  decode  %8.1f tok/s\n  load    %8.0f ms, resident %.0f MB\n", p, d, l, r / 1e6}'
done

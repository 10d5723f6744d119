#!/usr/bin/env bash
# Sets llama.cpp up as the peer that bench_peer.py measures beside shimmy, and prints the path of its bench program.
#
#   peer.sh [FOLDER]      default: shimmy-bench/peer in the user's cache
#
# npm's node-llama-cpp (version pinned) brings llama.cpp's libraries, built for every x86-64 level with the best chosen at
# run time, and its source for the headers; peer_bench.c is compiled against them. Needs npm, git and a C compiler.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/shimmy-bench/peer}
version=3.21.1
program=$folder/peer_bench
[ -x "$program" ] && [ "$program" -nt "$here/peer_bench.c" ] && { echo "$program"; exit 0; }

for tool in npm git tar "${CC:-cc}"; do
    command -v "$tool" >/dev/null || { echo "peer.sh: $tool is needed to set llama.cpp up" >&2; exit 1; }
done
[ "$(uname -m)" = x86_64 ] || { echo "peer.sh: $(uname -m): only x86_64 is set up" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm pack --silent "node-llama-cpp@$version" "@node-llama-cpp/linux-x64@$version" >/dev/null
mkdir package libraries
tar xzf node-llama-cpp-[0-9]*.tgz -C package
tar xzf node-llama-cpp-linux-*.tgz -C libraries
git clone -q package/package/llama/gitRelease.bundle source 2>/dev/null
mkdir -p "$folder"
cp libraries/package/bins/*/*.so "$folder/"
rm -f "$folder"/libllama-common*.so
"${CC:-cc}" -O2 -std=c11 -Isource/include -Isource/ggml/include "$here/peer_bench.c" -o "$program.new" \
    "$folder"/libllama*.so "$folder"/libggml.*so "$folder/libggml-base.so" \
    -Wl,--allow-shlib-undefined -Wl,-rpath,'$ORIGIN'
mv "$program.new" "$program"
echo "$program"

#!/usr/bin/env bash
# What `make check` and, after that, `make check-all` run once setup.sh has installed what they need.
#
# check.sh fast: a virtual environment and the test models, then every test twice, but for a few that take minutes there:
#                the build with AddressSanitizer and UBSan, and the release build, whose ctest summary is the closing word.
# check.sh kernels: the time of every CPU kernel, beside what the machine's bounds allow (make bench-kernels).
# check.sh slow: the tests that AddressSanitizer was spared, clang, ThreadSanitizer, a minute of each fuzzer, aarch64 in
#                qemu, the sweeps marked slow, and the release build's unit tests again.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=$(nproc 2>/dev/null || echo 2)
python=build/venv/bin/python

began=$SECONDS
say() { printf '\n== %s\n' "$1"; }
took() { printf '   %d s\n' $((SECONDS - began)); began=$SECONDS; }

# What a step says goes to a log that is shown only if it fails; its errors and warnings are shown at once.
quietly() {
    local log=build/logs/$1.log
    shift
    "$@" >"$log" || { cat "$log"; echo "check.sh: failed: $*" >&2; exit 1; }
}

venv() {
    local stamp=build/venv/requirements.txt
    cmp -s tests/requirements.txt "$stamp" 2>/dev/null && return
    mkdir -p build/logs
    say "virtual environment for the tests"
    rm -rf build/venv
    quietly venv python3 -m venv build/venv
    quietly pip $python -m pip install --disable-pip-version-check -r tests/requirements.txt
    cp tests/requirements.txt "$stamp"
    took
}

models() {
    say "models for the tests"
    quietly models $python tests/models.py build/models
    took
}

build() { # preset [target]
    say "build: $1"
    quietly "configure-$1" cmake --preset "$1"
    quietly "build-$1" cmake --build "build/$1" -j "$jobs" --target "${2:-all}"
    took
}

around=() # a command that runs ctest
run_tests() { # preset [ctest arguments]
    local preset=$1
    shift
    say "tests: $preset $*"
    "${around[@]}" ctest --test-dir "build/$preset" --output-on-failure -j "$jobs" "$@" # its summary and times end the output
    began=$SECONDS
}

fast() {
    mkdir -p build/logs
    venv
    models
    build asan
    build check
    run_tests asan -LE 'slow|long'
    run_tests check -LE slow
}

# Only a Debian has the libraries of another architecture at hand.
aarch64() {
    if ! tools/fetch_aarch64.sh build/deps/aarch64; then
        say "aarch64: not checked"
        return
    fi
    build aarch64
    run_tests aarch64 -L qemu
}

kernels() {
    mkdir -p build/logs
    build check kernel_check
    build/check/tests/kernel_check --bench
}

slow() {
    run_tests asan -L long
    build clang
    run_tests clang -L unit
    build tsan
    # gcc 12's ThreadSanitizer does not cope with as much address randomization as newer kernels do.
    setarch "$(uname -m)" -R true 2>/dev/null && around=(setarch "$(uname -m)" -R)
    run_tests tsan -L threads
    around=()
    build fuzz fuzzers
    run_tests fuzz -R '_fuzz$'
    aarch64
    run_tests check -L 'slow|unit' # what is slow; and once more what threads may do in another order
}

"$1"

# The short way in. What each target needs from the system it installs first (tools/setup.sh), saying what.
#
#   make              the release executable, build/release/shimmy
#   make run          build, fetch a small model if there is none, serve it on 127.0.0.1:11435
#   make check        every test a newcomer should run; make check-all adds the slow ones
#   make bench        our speed; make bench-peer: beside llama.cpp; make bench-kernels: each CPU kernel beside its bound
#   make install      PREFIX=/usr/local
.PHONY: all run check check-all bench bench-peer bench-kernels format install clean setup
PREFIX ?= /usr/local
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

# Configuring talks a lot: shown only if it fails, but for what it says on stderr (webgpu.cmake).
all: setup
	@mkdir -p build/logs
	@cmake --preset release >build/logs/configure-release.log || { cat build/logs/configure-release.log; exit 1; }
	@cmake --build build/release -j $(JOBS) --target shimmy airframe

setup:
	@tools/setup.sh build

run: all
	@tools/run.sh

check:
	@tools/setup.sh build check
	@tools/check.sh fast

check-all: check
	@tools/setup.sh build check all
	@tools/check.sh slow

bench: all
	@tools/bench.sh

bench-peer: all
	@python3 tools/bench_peer.py

bench-kernels:
	@tools/setup.sh build check
	@tools/check.sh kernels

format:
	@tools/setup.sh format
	@git ls-files '*.c' '*.h' | xargs clang-format -i

install: all
	@cmake --install build/release --prefix $(PREFIX)

clean:
	rm -rf build

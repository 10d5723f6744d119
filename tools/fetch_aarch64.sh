#!/bin/sh
# Puts what the aarch64 build links (the libraries of cmake/static_libs.cmake, and cmocka) into a folder, from the arm64
# packages of the Debian release that runs here: unpacked there, never installed, the system's own package lists and
# architectures untouched. The cross compiler and qemu are setup.sh's.
#
#   fetch_aarch64.sh FOLDER
#
# Does nothing if the folder is there. Exit 1 with one line when they cannot be had.
set -eu

folder=$(realpath -m "$1")
packages="libcmocka-dev libcmocka0 libevent-dev libjansson-dev libpcre2-dev libssl-dev libutf8proc-dev"

[ ! -d "$folder/usr" ] || exit 0
command -v apt-get >/dev/null || { echo "fetch_aarch64.sh: not a Debian system: no arm64 packages" >&2; exit 1; }

mkdir -p "$(dirname "$folder")"
temporary=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$temporary"' EXIT
mkdir -p "$temporary/apt/lists/partial" "$temporary/apt/archives/partial" "$temporary/root"
: >"$temporary/apt/status"

apt() {
    apt-get -q -o Dir::State="$temporary/apt" -o Dir::State::status="$temporary/apt/status" \
        -o Dir::Cache="$temporary/apt" -o APT::Architecture=arm64 -o APT::Architectures::=arm64 \
        -o APT::Sandbox::User="$(id -un)" "$@" >"$temporary/log" 2>&1
}

cd "$temporary/root"
# shellcheck disable=SC2086 # a list
if ! apt update || ! apt download $packages; then
    echo "fetch_aarch64.sh: no arm64 packages: $(grep -m 1 '^[EW]:' "$temporary/log" || echo "apt-get failed")" >&2
    exit 1
fi
for package in *.deb; do
    dpkg-deb -x "$package" .
    rm "$package"
done
mv "$temporary/root" "$folder"

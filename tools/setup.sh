#!/bin/sh
# Installs what the build and the tests need from Debian's or Ubuntu's packages, only what is missing, saying which.
#
#   setup.sh build              to build and run shimmy
#   setup.sh build check        also for `make check`
#   setup.sh build check all    also for `make check-all`
#   setup.sh format             for `make format`
#
# Uses sudo only when not root. On other systems it names what is missing and goes on.
set -eu

build="cmake ninja-build pkg-config libc6-dev libevent-dev libjansson-dev libpcre2-dev libssl-dev libutf8proc-dev"
check="libcmocka-dev xz-utils libvulkan1 mesa-vulkan-drivers"
all="clang llvm gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user" # and clang's sanitizers, below
format="clang-format"

packages=
for group in "$@"; do
    case $group in
    build) packages="$packages $build" ;;
    check) packages="$packages $check" ;;
    all) packages="$packages $all" ;;
    format) packages="$packages $format" ;;
    *) echo "setup.sh: unknown group '$group': build, check, all or format" >&2; exit 2 ;;
    esac
done

installed() {
    dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed
}

if ! command -v dpkg-query >/dev/null; then
    for tool in cmake ninja pkg-config; do
        command -v $tool >/dev/null || echo "setup.sh: not a Debian system, please install: $tool" >&2
    done
    exit 0
fi

missing=
for package in $packages; do
    installed "$package" || missing="$missing $package"
done
command -v cc >/dev/null || command -v gcc >/dev/null || missing="$missing gcc"
python3 -c 'import pip' 2>/dev/null || missing="$missing python3-pip" # fetches the model and wgpu-native
case " $* " in *" check "*)
    python3 -c 'import ensurepip, venv' 2>/dev/null || missing="$missing python3-venv" ;;
esac

sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
log=$(mktemp)
trap 'rm -f "$log"' EXIT

apt_install() {
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >"$log" 2>&1
}

# The lists of packages may be old or not there at all: fetched only if they prove so.
install() {
    command -v "${sudo:-sh}" >/dev/null || { echo "setup.sh: no sudo here; as root: apt-get install $*" >&2; exit 1; }
    echo "setup: installing $*"
    apt_install "$@" || { $sudo apt-get update >"$log" 2>&1 && apt_install "$@"; } || { cat "$log" >&2; exit 1; }
}

[ -z "$missing" ] || install $missing

# The package of clang's sanitizers carries its version, where it is a package of its own.
case " $* " in *" all "*)
    runtime=libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev
    if ! installed "$runtime" && apt-cache show "$runtime" >/dev/null 2>&1; then install "$runtime"; fi ;;
esac

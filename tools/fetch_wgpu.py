#!/usr/bin/env python3
"""Puts wgpu-native (library and headers) into a folder, from the PyPI package wgpu 0.32.0, its checksum pinned.

    fetch_wgpu.py FOLDER

The package is a zip file that carries a prebuilt libwgpu_native and the webgpu.h it was built from; nothing of its
Python code is used. Exit 1 with one line when it cannot be had: the build then goes on without a GPU.
"""
import hashlib
import pathlib
import subprocess
import sys
import tempfile
import zipfile

VERSION = "0.32.0"
SHA256 = "6499a31b5a29a10b4f1089fea4a0806411f42605fa86b6c0b543a07ca0de8568"
PLATFORM = "manylinux_2_28_x86_64"
FILES = {"wgpu/resources/libwgpu_native-release.so": "libwgpu_native.so",
         "wgpu/resources/webgpu.h": "webgpu.h", "wgpu/resources/wgpu.h": "wgpu.h"}


def download(folder):
    """The wheel, for this build's platform whatever python runs here."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
               "--timeout=20", "--retries=2", "--only-binary=:all:", f"--platform={PLATFORM}", "--dest", folder,
               f"wgpu=={VERSION}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
        raise SystemExit(f"fetch_wgpu.py: cannot download wgpu {VERSION}: {why}")
    wheel, = pathlib.Path(folder).glob("*.whl")
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if found != SHA256:
        raise SystemExit(f"fetch_wgpu.py: {wheel.name}: checksum {found}, expected {SHA256}")
    return wheel


def main():
    target = pathlib.Path(sys.argv[1])
    if all((target / name).exists() for name in FILES.values()):
        return
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as tmp, zipfile.ZipFile(download(tmp)) as z:
        for inner, name in FILES.items():
            aside = target / (name + ".part")
            aside.write_bytes(z.read(inner))
            aside.rename(target / name)


if __name__ == "__main__":
    main()

"""`make install` gives a C programmer what the README promises: a program, a header, a library and its pkg-config file."""
import os
import pathlib
import re
import subprocess

import pytest

from server import counter_model
from support import EXE, ROOT

BUILD = pathlib.Path(os.environ.get("SHIMMY_BUILD", ROOT / "build/release"))
SYSTEM = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}  # parts of the C library


def run(*command, **options):
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True, **options).stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """An installation that was moved after it was made."""
    first = tmp_path_factory.mktemp("install") / "first"
    run("cmake", "--install", BUILD, "--prefix", first)
    return first.rename(first.with_name("moved"))


def pkg_config(prefix, *arguments):
    found, = prefix.rglob("airframe.pc")
    return run("pkg-config", *arguments, "airframe", env={**os.environ, "PKG_CONFIG_PATH": str(found.parent)}).split()


def test_the_example_is_built_with_pkg_config_and_answers(prefix, tmp_path):
    program = tmp_path / "chat"
    run("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", ROOT / "examples/chat.c", *pkg_config(prefix, "--cflags", "--libs"),
        "-o", program)
    model = counter_model(tmp_path)
    assert run(program, model, 'a "question"\n') == "green tea\n"
    missing = subprocess.run([program, tmp_path / "none.gguf", "x"], capture_output=True, text=True)
    assert missing.returncode == 1 and "none.gguf" in missing.stderr and missing.stdout == ""


def test_versions_agree(prefix):
    version, = pkg_config(prefix, "--modversion")
    assert run(prefix / "bin/shimmy", "--version").split()[-1] == version


def test_the_installed_program_answers(prefix, tmp_path):
    assert run(prefix / "bin/shimmy", "generate", counter_model(tmp_path), "--prompt", "x") == "green tea"


def test_the_program_needs_only_the_c_library():
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", EXE)))
    assert needed and needed <= SYSTEM

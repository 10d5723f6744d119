"""The source keeps its shape: includes point one way, the public header stands alone, families are not named in kernels."""
import re
import subprocess

import pytest

from support import ROOT

# design.md: base -> quant -> gguf | plan -> text | model | backend -> engine -> shimmy
MAY_INCLUDE = {
    "base": {"base"},
    "quant": {"base", "quant"},
    "gguf": {"base", "quant", "gguf"},
    "plan": {"base", "quant", "plan"},
    "text": {"base", "gguf", "quant", "text"},
    "model": {"base", "quant", "gguf", "plan", "model"},
    "backend": {"base", "quant", "plan", "backend"},
    "engine": {"base", "quant", "gguf", "plan", "text", "model", "backend", "engine"},
    "shimmy": {"base", "shimmy", "cli", "http", "openai"},
}
SYSTEM_HEADERS = re.compile(r"#include <(sys/|unistd|fcntl|pthread|sched|dirent|signal|linux/)")
FAMILIES = re.compile(r"\b(llama|gemma|qwen|phi3|mistral|falcon)", re.IGNORECASE)


def sources():
    for folder in ("src", "shimmy"):
        yield from sorted((ROOT / folder).rglob("*.[ch]"))


def layer(path):
    parts = path.relative_to(ROOT).parts
    return parts[1] if parts[0] == "src" else "shimmy"


def own_includes(path):
    return re.findall(r'#include "([^"]+)"', path.read_text())


def test_includes_point_one_way():
    wrong = []
    for path in sources():
        for name in own_includes(path):
            folder = name.split("/")[0] if "/" in name else None
            if folder and folder not in MAY_INCLUDE[layer(path)]:
                wrong.append(f"{path.relative_to(ROOT)} includes {name}")
    assert not wrong


def test_only_the_os_files_talk_to_the_system():
    allowed = lambda p: p.name.startswith("os_") or layer(p) == "shimmy"
    wrong = [str(p.relative_to(ROOT)) for p in sources() if not allowed(p) and SYSTEM_HEADERS.search(p.read_text())]
    assert not wrong


def test_backends_do_not_know_families():
    code = lambda text: re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
    wrong = [str(p.relative_to(ROOT)) for p in sources() if layer(p) in ("backend", "plan") and FAMILIES.search(code(p.read_text()))]
    assert not wrong


@pytest.mark.parametrize("compiler", [["cc", "-std=c11"], ["c++", "-x", "c++", "-std=c++11"]])
def test_the_public_header_compiles_alone(compiler, tmp_path):
    if compiler[0] == "c++" and subprocess.run(["which", "c++"], capture_output=True).returncode:
        compiler = ["cc", "-std=c99"]
    unit = tmp_path / ("unit.cc" if "c++" in compiler[-1] else "unit.c")
    unit.write_text('#include "airframe.h"\nint main(void) { return af_version() == 0; }\n')
    subprocess.run([*compiler, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", f"-I{ROOT / 'include'}", unit], check=True)


def test_every_source_opens_with_its_purpose():
    wrong = [str(p.relative_to(ROOT)) for p in sources() if not p.read_text().startswith("/* ")]
    assert not wrong

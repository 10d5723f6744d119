"""docs/QUANTIZATION.md: the table of weight formats is what format_table.py prints, to the digit; perplexities with each type
of cache are those that are measured.
"""
import os
import pathlib
import sys

import pytest

from support import MODELS, ROOT, SANITIZED, shimmy_json, vector

sys.path.insert(0, str(ROOT / "tests/tools"))
import format_table  # noqa: E402

PROGRAM = pathlib.Path(os.environ.get("SHIMMY_BUILD", ROOT / "build/release")) / "tests/format_sizes"


def test_sizes_and_errors_are_those_of_the_table():
    text = (ROOT / "docs/QUANTIZATION.md").read_text()
    names = list(format_table.sizes(PROGRAM))
    written = [line for line in text.splitlines() if line.split(" | ")[0][2:] in names]
    assert written == list(format_table.rows(PROGRAM, MODELS / "gemma-3-270m-q4_k_m.gguf"))


# The table of perplexities beside the twin repeats two of the lines that the test below measures.
def test_the_file_is_within_half_a_percent_of_its_twin():
    text = (ROOT / "docs/QUANTIZATION.md").read_text()
    rows = {line.split(" | ")[0][2:]: [float(cell.split()[0]) for cell in line.split(" | ")[1:]]
            for line in text.splitlines() if line.startswith(("| twin in F32", "| the file", "| f16 |", "| f32 |"))}
    twin = rows["twin in F32, `--exact --kv f32`"]
    assert rows["the file, `--exact --kv f32`"] == twin
    for what, measured in (("the file, `--kv f32`", rows["f32"]), ("the file, as it runs without options", rows["f16"])):
        assert rows[what] == measured[1:] == pytest.approx(twin, rel=5e-3)


CACHED = {"smollm2-135m-instruct-q4_1": "SmolLM2-135M-Instruct.Q4_1.gguf", "gemma-3-270m-q4_k_m": "gemma-3-270m-q4_k_m.gguf"}

if not SANITIZED:  # minutes
    @pytest.mark.parametrize("column, name", enumerate(CACHED))
    def test_perplexities_by_type_of_cache_are_those_of_the_table(tmp_path, column, name):
        text = (ROOT / "docs/QUANTIZATION.md").read_text()
        tokens = tmp_path / "tokens"
        tokens.write_text(" ".join(map(str, vector("real", "drift")[name]["tokens"])))
        for kv in ("f32", "f16", "q8_0"):
            row, = (line.split(" | ") for line in text.splitlines() if line.startswith(f"| {kv} |"))
            found = shimmy_json("perplexity", MODELS / CACHED[name], "--device", "cpu", "--tokens", tokens, "--kv", kv)
            assert float(row[2 + column].split()[0]) == pytest.approx(found["perplexity"], rel=5e-4)

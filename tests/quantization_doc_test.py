"""The table of weight formats in docs/QUANTIZATION.md is what format_table.py prints, to the digit."""
import os
import pathlib
import sys

from support import MODELS, ROOT

sys.path.insert(0, str(ROOT / "tests/tools"))
import format_table  # noqa: E402

PROGRAM = pathlib.Path(os.environ.get("SHIMMY_BUILD", ROOT / "build/release")) / "tests/format_sizes"


def test_sizes_and_errors_are_those_of_the_table():
    text = (ROOT / "docs/QUANTIZATION.md").read_text()
    names = list(format_table.sizes(PROGRAM))
    written = [line for line in text.splitlines() if line.split(" | ")[0][2:] in names]
    assert written == list(format_table.rows(PROGRAM, MODELS / "gemma-3-270m-q4_k_m.gguf"))

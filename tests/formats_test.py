"""Every weight format end to end: a small model of random blocks gives what its F32 twin gives, whose weights the gguf
package dequantized. Logits of the twin's kind of file are the independent engine's (logits_test.py).
"""
import sys

import numpy as np
import pytest

from support import ROOT, logits

sys.path.insert(0, str(ROOT / "tests/tools"))
import synth_gguf  # noqa: E402
from widen_gguf import widen  # noqa: E402

BLOCKS = ["iq4_nl", "iq4_xs", "mxfp4_all", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq1_s", "iq1_m", "tq1_0",
          "tq2_0"]
# As many mixes as it takes for each type to be an embedding or a head, and to lie beside others in q, k and v.
EVERY = [("every", seed) for seed in range(0, len(synth_gguf.EVERY), 2)]
TOKENS = [(7 * i * i + 3 * i + 11) % 509 for i in range(40)]
INT8_RMS = 0.03  # what the vectors of logits allow rounded activations


class Pair:
    """A file and its twin, and the logits of both by the CPU's exact mode."""

    def __init__(self, folder, mix, seed):
        self.file, self.twin = folder / f"{mix}-{seed}.gguf", folder / f"{mix}-{seed}-f32.gguf"
        synth_gguf.write(f"nano-llama-{mix}", self.file, None, seed)
        widen(self.file, self.twin)
        self.expected = rows_of(self.twin, "--exact")


def rows_of(model, *arguments):
    return np.array(list(logits(model, TOKENS, "--kv", "f32", *arguments).values()))


@pytest.fixture(scope="module", params=[(name, 1) for name in BLOCKS] + EVERY, ids=lambda p: f"{p[0]}-{p[1]}")
def pair(request, tmp_path_factory):
    return Pair(tmp_path_factory.mktemp("formats"), *request.param)


def test_exact_logits_are_those_of_the_f32_twin_bit_for_bit(pair):
    assert pair.expected.std() > 0.1  # a model that says something
    assert np.array_equal(rows_of(pair.file, "--exact"), pair.expected)


def test_fast_logits_are_within_the_tolerance_of_rounded_activations(pair):
    found = rows_of(pair.file)
    assert np.sqrt(np.mean((found - pair.expected) ** 2)) / pair.expected.std() <= INT8_RMS


def test_chunks_change_no_bit(pair):
    assert np.array_equal(rows_of(pair.file), rows_of(pair.file, "--prefill-chunk", 7))

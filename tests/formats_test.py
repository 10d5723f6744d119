"""Every weight format end to end: a small model of random blocks gives what its F32 twin gives, whose weights the gguf
package dequantized. That the twin's kind of file gives the right logits is logits_test.py's.
"""
import numpy as np
import pytest

from twins import FORMATS, INT8_RMS, MIXES, Pair, rows_of


@pytest.fixture(scope="module", params=FORMATS + MIXES, ids=lambda p: f"{p[0]}-{p[1]}")
def pair(request, tmp_path_factory):
    return Pair(tmp_path_factory.mktemp("formats"), *request.param)


def test_exact_logits_are_those_of_the_f32_twin_bit_for_bit(pair):
    assert pair.expected.std() > 0.1  # a model that says something
    assert np.array_equal(rows_of(pair.file, "--exact"), pair.expected)


def test_fast_logits_are_within_the_tolerance_of_rounded_activations(pair):
    assert pair.distance()[1] <= INT8_RMS


def test_chunks_change_no_bit(pair):
    assert np.array_equal(rows_of(pair.file), rows_of(pair.file, "--prefill-chunk", 7))

"""Every format's reference decode equals the gguf package's, bit for bit, on random blocks and on scales at the edges."""
import os
import pathlib
import subprocess

import gguf
import numpy
import pytest
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

DECODER = pathlib.Path(os.environ.get("SHIMMY_BUILD", "build/release")).resolve() / "tests/quant_decode"

# Where the half floats lie in a block, so that they can be set to values random bytes seldom give.
HALVES = {"F16": [0], "BF16": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
          "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "F32": [],
          "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": [],
          "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0], "IQ1_S": [0], "IQ1_M": [],
          "TQ1_0": [52], "TQ2_0": [64]}
EDGES = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0xFE01]


def decode(kind, blocks):
    block_elems, block_bytes = GGML_QUANT_SIZES[kind]
    count = len(blocks) // block_bytes * block_elems
    done = subprocess.run([DECODER], input=f"{int(kind)} {count}\n".encode() + blocks, stdout=subprocess.PIPE, check=True)
    return numpy.frombuffer(done.stdout, dtype=numpy.uint32)


def reference(kind, blocks):
    with numpy.errstate(all="ignore"):
        values = gguf.quants.dequantize(numpy.frombuffer(blocks, dtype=numpy.uint8), kind)
    return numpy.ascontiguousarray(values, dtype=numpy.float32).view(numpy.uint32)


def assert_same(kind, blocks):
    ours, theirs = decode(kind, blocks), reference(kind, blocks)
    assert ours.shape == theirs.shape
    nan = numpy.isnan(theirs.view(numpy.float32))  # which NaN an operation gives is nobody's promise
    assert numpy.array_equal(numpy.isnan(ours.view(numpy.float32)), nan)
    assert numpy.array_equal(ours[~nan], theirs[~nan])


def random_blocks(kind, count, seed):
    return numpy.random.default_rng(seed).integers(0, 256, (count, GGML_QUANT_SIZES[kind][1]), dtype=numpy.uint8)


@pytest.mark.parametrize("name", HALVES)
def test_random_bytes_decode_as_in_the_gguf_package(name):
    kind = GGMLQuantizationType[name]
    assert_same(kind, random_blocks(kind, 4096, seed=7).tobytes())


@pytest.mark.parametrize("name", [name for name, halves in HALVES.items() if halves])
def test_scales_at_the_edges_decode_as_in_the_gguf_package(name):
    kind = GGMLQuantizationType[name]
    blocks = random_blocks(kind, len(EDGES) ** 2, seed=11)
    for row, block in enumerate(blocks):
        for which, offset in enumerate(HALVES[name]):
            half = EDGES[row // len(EDGES) ** which % len(EDGES)]
            block[offset:offset + 2] = half & 255, half >> 8
    assert_same(kind, blocks.tobytes())


@pytest.mark.parametrize("name", ["F16", "BF16"])
def test_every_half_decodes_as_in_the_gguf_package(name):
    assert_same(GGMLQuantizationType[name], numpy.arange(65536, dtype="<u2").tobytes())

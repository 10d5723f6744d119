#!/usr/bin/env python3
"""The table of weight formats in docs/QUANTIZATION.md.

    format_table.py FORMAT_SIZES MODEL

FORMAT_SIZES is the program of that name in the build's tests, MODEL the Gemma 3 270M file. Prints the table's rows.
Errors are those of quantizing with the gguf package or, marked by a less-or-equal sign, with nearest.py: the RMS of the
differences over the RMS of the values.
"""
import subprocess
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T

import nearest

TENSOR = "blk.0.ffn_down.weight"
BLOCKS = 192  # that nearest.py is given of each: it searches


def sizes(program):
    """{name: (elements, bytes of a block, bits a weight in the file, on the CPU, on the GPU)}"""
    out = {}
    for line in subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines():
        name, *numbers = line.split()
        elements, bytes_, *totals = map(int, numbers)
        out[name] = (elements, bytes_, *(8 * n / 4096 ** 2 for n in totals))
    return out


def gaussian():
    return np.random.default_rng(1).standard_normal((256, 4096), dtype=np.float32)


def real(model):
    tensor = next(t for t in gguf.GGUFReader(model).tensors if t.name == TENSOR)
    return np.ascontiguousarray(gguf.quants.dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)


def relative(back, values):
    return float(np.sqrt(np.mean((back.reshape(values.shape) - values) ** 2) / np.mean(values ** 2)))


def error(name, values):
    """(RMS, whether it is only a bound)"""
    if name in nearest.QUANTIZERS:
        values = values.reshape(-1)[:256 * BLOCKS]
        return relative(nearest.QUANTIZERS[name](values), values), True
    blocks = gguf.quants.quantize(values, T[name])
    return relative(gguf.quants.dequantize(blocks.view(np.uint8) if name == "BF16" else blocks, T[name]), values), False


def number(bits):
    return f"{bits:.4f}".rstrip("0").rstrip(".")


def percent(e, bound):
    return "0" if e == 0 else f"{'≤ ' if bound else ''}{100 * e:.2g} %"


def rows(program, model):
    normal, weights = gaussian(), real(model)
    for name, (elements, _, file, cpu, gpu) in sizes(program).items():
        errors = (percent(*error(name, values)) for values in (normal, weights))
        yield f"| {name} | {elements} | {number(file)} | {cpu:.2f} | {gpu:.2f} | {' | '.join(errors)} |"


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    print("\n".join(rows(*sys.argv[1:])))

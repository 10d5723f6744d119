#!/usr/bin/env python3
"""Write a model's twin: the same GGUF file with every tensor decoded to F32.

    f32_twin.py MODEL.gguf TWIN.gguf

Metadata is copied byte by byte, so the twin differs in its weights' format alone. Decoding is the gguf package's, not
ours: where a format is exact (its decoded numbers are F32 numbers, which holds for all of GGML's), both files are the
same model, and what an engine makes of them differs only by its own rounding.
"""
import pathlib
import struct
import sys

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader
from gguf.quants import dequantize

ALIGNMENT = 32  # of tensors, general.alignment where it is not said


def tensor_infos(tensors):
    """The infos of all tensors in F32, one after another in the data section."""
    out, offset = bytearray(), 0
    for tensor in tensors:
        name = tensor.name.encode()
        shape = [int(n) for n in tensor.shape]
        out += struct.pack("<Q", len(name)) + name + struct.pack("<I", len(shape))
        out += struct.pack(f"<{len(shape)}QIQ", *shape, GGMLQuantizationType.F32, offset)
        offset += -(-tensor.n_elements * 4 // ALIGNMENT) * ALIGNMENT
    return bytes(out)


def write_twin(source, target):
    reader = GGUFReader(source)
    assert reader.alignment == ALIGNMENT, f"{source}: aligned by {reader.alignment}"
    head = pathlib.Path(source).open("rb").read(reader.tensors[0].field.offset)  # magic, counts, metadata
    with open(target, "wb") as out:
        def pad():
            out.write(bytes(-out.tell() % ALIGNMENT))
        out.write(head + tensor_infos(reader.tensors))
        for tensor in reader.tensors:
            pad()
            out.write(np.ascontiguousarray(dequantize(tensor.data, tensor.tensor_type), dtype="<f4").tobytes())
        pad()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    write_twin(sys.argv[1], sys.argv[2])

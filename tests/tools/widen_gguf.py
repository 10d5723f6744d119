#!/usr/bin/env python3
"""The F32 twin of a GGUF file: the same metadata, every tensor dequantized by the gguf package.

    widen_gguf.py SOURCE TARGET

What the twin gives is what the source's weights mean, by another reading of its blocks than ours.
"""
import sys

import gguf
import numpy as np

SKIPPED = ("GGUF.", "general.architecture", "general.alignment")  # the writer's own


def copy_metadata(reader, writer):
    for field in reader.fields.values():
        if field.name.startswith(SKIPPED):
            continue
        inner = field.types[1] if len(field.types) > 1 else None
        writer.add_key_value(field.name, field.contents(), field.types[0], inner)


def widen(source, target):
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    copy_metadata(reader, writer)
    for tensor in reader.tensors:
        if tensor.tensor_type == gguf.GGMLQuantizationType.BF16:
            values = gguf.quants.dequantize(tensor.data.view(np.uint8), tensor.tensor_type)
        else:
            values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        shape = [int(n) for n in reversed(tensor.shape)]
        writer.add_tensor(tensor.name, np.ascontiguousarray(values, dtype=np.float32).reshape(shape))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    widen(*sys.argv[1:])

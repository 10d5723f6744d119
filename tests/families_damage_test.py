"""Every family: a file without one of its tensors, or with one of another shape, is refused by that tensor's name.

One preset in F32 for each shape of model, each kind of tensor in it once: layers hold the same kinds, so the first that
has one stands for all.
"""
import re

import pytest

from support import MODELS, VECTORS, shimmy

PRESETS = sorted(path.stem for path in (VECTORS / "logits").glob("*-f32.json"))
# What a model can do without: biases, an output of its own, tables that another kind of file brings; and what tells
# StableLM's and Falcon's sizes from each other.
SPARE = re.compile(r"\.bias$|^output\.weight$|^rope_f|^token_types\.|stablelm.* blk\.\d+\.(ffn_norm|attn_[qk]_norm)\."
                   r"|falcon.* blk\.\d+\.attn_norm_2\.")
COUNTS = {"token_embd.weight", "token_types.weight"}  # their rows are as many as there are


def kinds(data):
    """The names of tensors in a file, of each kind the first, with where the name begins."""
    found = {}
    for m in re.finditer(rb"(?:blk\.\d+\.)?[a-z_0-9]+(?:\.weight|\.bias)(?=[\x01-\x04]\0\0\0)|blk\.\d+\.ssm_a(?=\x01\0\0\0)",
                         data):
        found.setdefault(re.sub(rb"\d+", b"", m.group()), (m.group().decode(), m.start()))
    return list(found.values())


def answer_to(path, data):
    path.write_bytes(data)
    done = shimmy("logits", path, "--tokens", "1,2,3", check=False)
    lines = [line for line in done.stderr.decode().splitlines() if "warning:" not in line]
    return done.returncode, lines


def shrunk(data, name, at, first):
    """The file with one less in the first or the last dimension of a tensor."""
    dims = at + len(name)
    place = dims + 4 + (0 if first else 8 * (data[dims] - 1))
    size = int.from_bytes(data[place:place + 8], "little")
    return data[:place] + (size - 1).to_bytes(8, "little") + data[place + 8:]


@pytest.mark.parametrize("preset", PRESETS)
def test_a_tensor_that_is_missing_is_named(tmp_path, preset):
    data = (MODELS / f"{preset}.gguf").read_bytes()
    named = kinds(data)
    assert len(named) > 8
    for name, at in named:
        code, lines = answer_to(tmp_path / "m.gguf", data[:at] + name.upper().encode() + data[at + len(name):])
        if code == 0:
            assert SPARE.search(name) or SPARE.search(f"{preset} {name}"), name
            continue
        wanted = name.replace("attn_qkv", "attn_q(kv)?").replace("attn_k_b", "attn_k(v)?_b")  # either would do
        assert len(lines) == 1 and re.search(f"tensor {wanted}: missing", lines[0]), (name, lines)


@pytest.mark.parametrize("first", [True, False], ids=["first", "last"])
@pytest.mark.parametrize("preset", PRESETS)
def test_a_tensor_of_another_shape_is_named(tmp_path, preset, first):
    data = (MODELS / f"{preset}.gguf").read_bytes()
    for name, at in kinds(data):
        if not first and name in COUNTS:
            continue
        code, lines = answer_to(tmp_path / "m.gguf", shrunk(data, name, at, first))
        assert code != 0 and len(lines) == 1 and name in lines[0], (name, lines)

"""Every family: its logits do not depend on how a prompt is cut; a file that disagrees with itself is refused by name.

Whether the logits are right is logits_test.py's question.
"""
import re

import numpy as np
import pytest

from support import MODELS, VECTORS, logits, shimmy, vector

PLAIN = sorted(path.stem for path in (VECTORS / "logits").glob("*-f32*.json"))


def rows_of(spec, *arguments, **options):
    positions = ",".join(map(str, spec["positions"]))
    return logits(MODELS / f"{spec['preset']}.gguf", spec["tokens"], "--ctx", spec["n_ctx"], *arguments,
                  positions=positions, **options)


@pytest.mark.parametrize("name", PLAIN)
def test_logits_are_the_same_to_the_bit_in_chunks_of_1_and_7(name):
    spec = vector("logits", name)
    whole = rows_of(spec)
    assert rows_of(spec, "--prefill-chunk", 1) == whole
    assert rows_of(spec, "--prefill-chunk", 7) == whole


def refusal_of(tmp_path, preset, change):
    """What `shimmy logits` says of the preset's file after a change of its bytes; always one line."""
    data = (MODELS / f"{preset}.gguf").read_bytes()
    changed = change(data)
    assert changed != data and len(changed) == len(data)
    (tmp_path / "changed.gguf").write_bytes(changed)
    done = shimmy("logits", tmp_path / "changed.gguf", "--tokens", "1,2,3", check=False)
    lines = [line for line in done.stderr.decode().splitlines() if "warning:" not in line]
    assert done.returncode != 0 and len(lines) == 1
    return lines[0]


# (preset, a tensor it cannot do without)
NEEDED = [
    ("nano-llama-f32", "blk.1.ffn_norm.weight"), ("nano-gemma2-f32", "blk.0.post_ffw_norm.weight"),
    ("nano-qwen3-f32", "blk.1.attn_k_norm.weight"), ("nano-olmo2-f32", "blk.0.attn_q_norm.weight"),
    ("nano-gpt2-f32", "position_embd.weight"), ("nano-falcon-f32", "blk.1.attn_norm.weight"),
    ("nano-cohere2-f32", "output_norm.weight"), ("nano-granite-f32", "blk.0.ffn_down.weight"),
    ("nano-bert-f32", "token_embd_norm.weight"), ("nano-bert-f32", "blk.1.attn_output_norm.weight"),
    ("nano-nomic-bert-f32", "blk.1.layer_output_norm.weight"),
]


@pytest.mark.parametrize("preset,tensor", NEEDED)
def test_a_missing_tensor_is_named(tmp_path, preset, tensor):
    said = refusal_of(tmp_path, preset, lambda data: data.replace(tensor.encode(), tensor.upper().encode()))
    assert f"tensor {tensor}: missing" in said


def with_u32(data, key, value):
    """The file with another number under a metadata key of type u32 (4)."""
    before = key.encode() + b"\x04\0\0\0"
    return re.sub(re.escape(before) + rb"....", before + value.to_bytes(4, "little"), data, flags=re.DOTALL)


@pytest.mark.parametrize("preset,key,value,tensor", [
    ("nano-llama-f32", "llama.feed_forward_length", 255, "blk.0.ffn_gate.weight|blk.0.ffn_up.weight"),
    ("nano-phi3-f32", "phi3.feed_forward_length", 95, "blk.0.ffn_up.weight"),
    ("nano-falcon-f32", "falcon.attention.head_count_kv", 2, "blk.0.attn_qkv.weight"),
    ("nano-stablelm12-f32", "stablelm.attention.head_count_kv", 1, "blk.0.attn_k_norm.weight|blk.0.attn_k.weight"),
    ("nano-gpt2-f32", "gpt2.context_length", 500, "position_embd.weight"),
    ("nano-bert-f32", "bert.context_length", 200, "position_embd.weight"),
])
def test_a_shape_that_disagrees_with_the_metadata_is_named(tmp_path, preset, key, value, tensor):
    said = refusal_of(tmp_path, preset, lambda data: with_u32(data, key, value))
    assert re.search(f"tensor ({tensor}): found .* expected", said)


def test_a_model_that_ranks_texts_is_refused(tmp_path):
    said = refusal_of(tmp_path, "nano-bert-f32", lambda data: with_u32(data, "bert.pooling_type", 4))
    assert "bert.pooling_type: found 4" in said and "rank" in said


# One that does not turn round gets its rows wrong but the last.
@pytest.mark.parametrize("name", ["nano-bert-f32", "nano-nomic-bert-f32"])
def test_an_encoder_sees_the_whole_of_a_text_and_nothing_of_its_neighbours(name):
    spec = vector("logits", name)
    whole = rows_of(spec)
    assert rows_of(spec, "--neighbours", 5) == whole
    one = logits(MODELS / f"{name}.gguf", spec["tokens"][:14], positions="0,13")
    assert one[0] != whole[0] and one[13] != whole[13]


def test_an_unknown_architecture_is_named_beside_those_that_run(tmp_path):
    length = b"\x05\0\0\0\0\0\0\0"
    said = refusal_of(tmp_path, "nano-llama-f32", lambda data: data.replace(length + b"llama", length + b"lhama"))
    assert 'found "lhama"' in said and "qwen2" in said


def test_a_context_past_a_table_of_positions_is_refused():
    done = shimmy("logits", MODELS / "nano-gpt2-f32.gguf", "--tokens", "1,2,3", "--ctx", 1024, check=False)
    assert done.returncode != 0 and b"the table of positions has 512" in done.stderr


# nano-qwen3-yarn asks for factor 4 of 128 positions. Without that metadata, and native to 128, it is a model that
# --ctx 512 extends by as much.
def test_a_context_past_the_native_one_turns_yarn_on(tmp_path):
    spec = vector("logits", "nano-qwen3-yarn-f32")
    data = (MODELS / "nano-qwen3-yarn-f32.gguf").read_bytes()
    for name in ("type", "factor", "original_context_length"):
        key = b"qwen3.rope.scaling." + name.encode()
        assert key in data
        data = data.replace(key, key.upper())
    (tmp_path / "short.gguf").write_bytes(with_u32(data, "qwen3.context_length", 128))
    positions = ",".join(map(str, spec["positions"]))
    found = logits(tmp_path / "short.gguf", spec["tokens"], "--ctx", 512, "--exact", "--kv", "f32", positions=positions)
    assert np.abs(np.array(list(found.values())) - np.array(spec["logits"])).max() <= spec["tolerance"]["f32"]
    native = logits(tmp_path / "short.gguf", spec["tokens"][:128], "--exact", "--kv", "f32", positions="127")
    assert np.abs(np.array(native[127]) - np.array(found[127])).max() > 10 * spec["tolerance"]["f32"]


def test_a_file_that_scales_its_rotation_itself_says_how_far_it_reaches():
    done = shimmy("logits", MODELS / "nano-llama-yarn-f32.gguf", "--tokens", "1,2,3", "--ctx", 1024, check=False)
    assert done.returncode != 0 and b"ctx: 1024 tokens asked, the model's context holds 512" in done.stderr

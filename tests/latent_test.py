"""Attention through a latent (deepseek2): files that hold the heads' matrices apart, and older ones with both in one."""
import gguf
import numpy as np
import pytest

from support import MODELS, logits, shimmy_json, vector

PLAIN, TURNING, VALUE, RANK = 32, 8, 32, 32  # synth_gguf.py's MLA


def older_form(source, target):
    """attn_k_b (heads, rank, plain) and attn_v_b (heads, value, rank) become attn_kv_b: a head's key rows, its values'."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, "deepseek2")
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        kind = field.types[0]
        sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub)
    found = {t.name: np.array(t.data).reshape(tuple(reversed([int(n) for n in t.shape]))) for t in reader.tensors}
    for name, data in found.items():
        if name.endswith("attn_v_b.weight"):
            continue
        if name.endswith("attn_k_b.weight"):
            keys = data.transpose(0, 2, 1)  # (heads, plain, rank)
            values = found[name.replace("k_b", "v_b")]
            assert keys.shape[1:] == (PLAIN, RANK) and values.shape[1:] == (VALUE, RANK)
            name, data = name.replace("k_b", "kv_b"), np.concatenate([keys, values], axis=1).reshape(-1, RANK)
        writer.add_tensor(name, np.ascontiguousarray(data))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def rows(model, spec, *arguments):
    return np.array(list(logits(model, spec["tokens"], "--ctx", spec["n_ctx"], *arguments).values()))


@pytest.mark.parametrize("device", ["cpu", "llvm"])
def test_older_files_give_the_logits_of_newer_ones(tmp_path, device):
    spec = vector("logits", "nano-deepseek2-f32")
    older_form(MODELS / "nano-deepseek2-f32.gguf", tmp_path / "older.gguf")
    older = rows(tmp_path / "older.gguf", spec, "--device", device)
    newer = rows(MODELS / "nano-deepseek2-f32.gguf", spec, "--device", device)
    assert np.abs(older - newer).max() < 1e-4 < newer.std()


def test_only_the_latent_is_kept():
    """A token takes rank + turning numbers a layer, whatever the number of heads."""
    probe = shimmy_json("probe", MODELS / "nano-deepseek2-f32.gguf")
    assert probe["kv_bytes"] == probe["context"] * probe["layers"] * (RANK + TURNING) * 2


@pytest.mark.parametrize("name", ["nano-deepseek2-f32", "nano-deepseek2-q8_0"])
@pytest.mark.parametrize("kv", ["f16", "q8_0"])
def test_long_prompts_are_the_same_in_every_chunk_and_beside_neighbours(name, kv):
    tokens = [(7 * i * i + 3 * i) % 500 + 3 for i in range(500)]  # their context is 512
    def ask(*arguments):
        return logits(MODELS / f"{name}.gguf", tokens, "--kv", kv, "--device", "cpu", *arguments,
                      positions="5,255,256,499")
    whole = ask()
    for arguments in (["--prefill-chunk", 1], ["--prefill-chunk", 7], ["--neighbours", 3], ["--threads", 1]):
        assert ask(*arguments) == whole

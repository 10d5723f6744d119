"""Promise 1 for every family and format: a prompt longer than the largest chunk has the same logits, bit for bit, in chunks
of 1, 7 and 512.

The small models know 512 positions, most of them; here each says that it knows 1024. What the vectors' own short
prompts give is families_test.py's question.
"""
import pytest

from families_test import with_u32
from support import MODELS, VECTORS, logits, shimmy_json, vector

NAMES = sorted(path.stem for path in (VECTORS / "logits").glob("*.json"))
DECODERS = sorted({vector("logits", name)["preset"] for name in NAMES if vector("logits", name)["kind"] == "logits"})
TABLE = {"nano-gpt2-f32"}  # a table of 512 positions, and no more of them


@pytest.mark.parametrize("preset", DECODERS)
def test_logits_of_a_long_prompt_are_the_same_to_the_bit_in_chunks_of_1_7_and_512(tmp_path, preset):
    known = shimmy_json("probe", MODELS / f"{preset}.gguf")
    data = (MODELS / f"{preset}.gguf").read_bytes()
    model, count = tmp_path / "long.gguf", 512 if preset in TABLE else 600
    model.write_bytes(data if preset in TABLE else with_u32(data, f"{known['architecture']}.context_length", 1024))
    tokens = [(7 * i * i + 3 * i + 11) % (known["vocabulary"] - 3) + 3 for i in range(count)]
    positions = ",".join(map(str, [0, 31, 32, 255, 256, 510, 511, 512, 599][:9 if count == 600 else 7]))
    one, seven, whole = (logits(model, tokens, "--prefill-chunk", chunk, positions=positions) for chunk in (1, 7, 512))
    assert len(whole) == positions.count(",") + 1
    assert one == whole
    assert seven == whole

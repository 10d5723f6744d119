"""Models of experts: what a token gets does not depend on which other tokens share its experts; files that disagree with
themselves are refused by name.

Whether the logits are right is logits_test.py's question.
"""
import re

import pytest

from families_test import refusal_of, rows_of, with_u32
from support import MODELS, shimmy_json, vector

# Weights in blocks, so that activations are rounded and packed kernels run; families_test.py does the others.
ROUNDED = ["nano-mixtral-q8_0", "nano-qwen3moe-q4_0", "nano-gpt-oss-mxfp4", "nano-deepseek2-q8_0"]


def rows_with(spec, isa, *arguments):
    return rows_of(spec, *arguments, env={"AF_CPU_ISA": isa})


@pytest.mark.parametrize("name", ROUNDED)
@pytest.mark.parametrize("isa", ["scalar", "avx2", "avx512", "amx"])
def test_logits_are_the_same_to_the_bit_in_all_chunks_and_instruction_sets(name, isa):
    spec = vector("logits", name)
    whole = rows_of(spec)
    for chunk in (1, 7, 16, 512):
        assert rows_with(spec, isa, "--prefill-chunk", chunk) == whole


@pytest.mark.parametrize("name", ROUNDED[:2])  # whose context --ctx extends
def test_logits_are_the_same_to_the_bit_past_512_tokens_and_with_any_number_of_threads(name):
    spec = vector("logits", name)
    tokens = (spec["tokens"] * 20)[:700]
    spec = {**spec, "tokens": tokens, "positions": [0, 255, 256, 511, 512, 699], "n_ctx": 1024}
    whole = rows_of(spec, "--threads", 1, "--prefill-chunk", 700)
    for chunk, threads in ((512, 2), (700, 7), (100, 3), (1, 2)):
        assert rows_of(spec, "--prefill-chunk", chunk, "--threads", threads) == whole


@pytest.mark.parametrize("preset,tensor", [
    ("nano-mixtral-f32", "blk.1.ffn_gate_inp.weight"), ("nano-qwen3moe-f32", "blk.1.ffn_up_exps.weight"),
    ("nano-qwen2moe-f32", "blk.0.ffn_gate_inp_shexp.weight"), ("nano-granitemoe-f32", "blk.1.ffn_down_shexp.weight"),
    ("nano-gpt-oss-f32", "blk.0.attn_sinks.weight"),
])
def test_a_missing_tensor_is_named(tmp_path, preset, tensor):
    said = refusal_of(tmp_path, preset, lambda data: data.replace(tensor.encode(), tensor.upper().encode()))
    assert f"tensor {tensor}: missing" in said


@pytest.mark.parametrize("preset,key,value,said", [
    ("nano-mixtral-f32", "llama.expert_count", 7, "tensor blk.0.ffn_gate_inp.weight: found 64 x 8, expected 64 x 7"),
    ("nano-mixtral-f32", "llama.expert_count", 4000, "llama.expert_count: found 4000, allowed 1 to 1024"),
    ("nano-mixtral-f32", "llama.expert_used_count", 9, "llama.expert_used_count: found 9, allowed 1 to 8"),
    ("nano-mixtral-f32", "llama.expert_used_count", 0, "llama.expert_used_count: found 0, allowed 1 to 8"),
    ("nano-qwen3moe-f32", "qwen3moe.expert_feed_forward_length", 31,
     "tensor blk.0.ffn_gate_exps.weight: found 64 x 32 x 16, expected 64 x 31 x 16"),
    ("nano-granitemoe-f32", "granitemoe.expert_shared_feed_forward_length", 47, "tensor blk.0.ffn_up_shexp.weight: "),
])
def test_what_disagrees_with_the_metadata_is_named(tmp_path, preset, key, value, said):
    assert said in refusal_of(tmp_path, preset, lambda data: with_u32(data, key, value))


def test_probe_counts_the_experts_and_the_parameters_that_a_token_uses():
    found = shimmy_json("probe", MODELS / "nano-mixtral-f32.gguf")
    stacks = 2 * 8 * 3 * 64 * 96  # layers, experts, gate up and down
    assert found["experts"] == 8 and found["experts_used"] == 2
    assert found["parameters"] - found["active_parameters"] == stacks * 6 // 8
    dense = shimmy_json("probe", MODELS / "nano-llama-f32.gguf")
    assert dense["experts"] == dense["experts_used"] == 0 and dense["active_parameters"] == dense["parameters"]

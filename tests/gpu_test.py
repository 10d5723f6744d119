"""The GPU backend on lavapipe, Mesa's Vulkan in software: slow, but it computes what a GPU computes.

Logits meet the vectors of an independent engine, with every variation of the device that changes which shaders run:
weights split over bindings, subgroups off. Needs the packages mesa-vulkan-drivers and libvulkan1 (tools/setup.sh).
"""
import os
import pathlib
import re

import numpy as np
import pytest

from lavapipe import ADAPTER, DEVICE, INFO, MATRICES
from support import MODELS, VECTORS, answers, logits, shimmy, shimmy_json, vector
from twins import F32, INT8_RMS, MIXES, NATIVE, Pair, make

PRESETS = sorted(path.stem for path in (VECTORS / "logits").glob("*.json"))
FORMATS = [name for name in PRESETS if name.startswith(("nano-llama-", "nano-gemma3-")) and "yarn" not in name]
UNROUNDED = {"f32", "f16", "bf16"}  # weights that are multiplied with f32 activations
SMOL = MODELS / "SmolLM2-135M-Instruct.Q4_1.gguf"
BROKEN = pathlib.Path(os.environ.get("SHIMMY_BUILD", "")) / "tests/shimmy_broken"


def adapters(**options):
    return shimmy_json("gpu-info", **options)


def rows_of(spec, *arguments, **options):
    positions = ",".join(map(str, spec["positions"]))
    found = logits(MODELS / f"{spec['preset']}.gguf", spec["tokens"], "--kv", "f32", "--ctx", spec["n_ctx"], "--device",
                   DEVICE, *arguments, positions=positions, **options)
    assert list(found) == spec["positions"]
    return np.array(list(found.values())), np.array(answers(spec))


def assert_exact(spec, *arguments, **options):
    found, expected = rows_of(spec, "--exact", *arguments, **options)
    assert np.abs(found - expected).max() <= spec["tolerance"]["f32"]


def assert_fast(spec, *arguments, **options):
    found, expected = rows_of(spec, *arguments, **options)
    if spec["preset"].rsplit("-", 1)[1] in UNROUNDED:
        assert np.abs(found - expected).max() <= spec["tolerance"]["f32"]
    else:
        assert np.sqrt(np.mean((found - expected) ** 2)) / expected.std() <= spec["tolerance"]["int8_rms"]


@pytest.mark.parametrize("name", PRESETS)
def test_exact_logits_are_within_the_f32_tolerance(name):
    assert_exact(vector("logits", name))


@pytest.mark.parametrize("name", PRESETS)
def test_fast_logits_are_within_the_tolerance_of_rounded_activations(name):
    assert_fast(vector("logits", name))


# 40 tokens in chunks of 13 take kernels for 8, 4 and 1 tokens at a time, where a whole prompt takes tiles.
@pytest.mark.parametrize("name", FORMATS)
def test_a_prompt_in_small_chunks_is_within_the_same_tolerance(name):
    assert_fast(vector("logits", name), "--prefill-chunk", 13)


# A small context, so that a layer's cache fits the small binding too. Matrices of subgroups, where a device has them, do
# not multiply what is split, and round otherwise.
@pytest.mark.parametrize("name", FORMATS)
def test_weights_split_by_rows_over_small_bindings_give_the_same_logits(name):
    spec = vector("logits", name)
    whole, _ = rows_of(spec, "--ctx", 64)
    split, _ = rows_of(spec, "--ctx", 64, env={"AIRFRAME_GPU_BINDING_LIMIT": "65536"})
    if MATRICES:
        assert np.sqrt(np.mean((whole - split) ** 2)) / whole.std() <= spec["tolerance"].get("int8_rms", INT8_RMS)
    else:
        assert np.array_equal(whole, split)


# A token's sum over its experts is then made in pieces, which rounds otherwise.
@pytest.mark.parametrize("name", ["nano-mixtral-f32", "nano-mixtral-q8_0"])
def test_stacks_of_experts_split_over_small_bindings_give_the_same_logits(name):
    spec = vector("logits", name)
    spec = {**spec, "tokens": spec["tokens"][:32], "positions": [0, 7, 31]}
    small = ("--ctx", 32, "--prefill-chunk", 8, "--exact")
    whole, _ = rows_of(spec, *small)
    split, _ = rows_of(spec, *small, env={"AIRFRAME_GPU_BINDING_LIMIT": "160000"})
    assert np.abs(whole - split).max() <= 1e-3


@pytest.mark.parametrize("name", ["nano-llama-q4_k_m", "nano-gemma3-q8_0", "nano-llama-f16"])
def test_without_subgroups_logits_are_within_the_same_tolerance(name):
    assert_fast(vector("logits", name), env={"AIRFRAME_GPU_SUBGROUPS": "0"})


# What a device with matrices of subgroups runs, with those in plain WGSL: products of every bit layout, and attention.
@pytest.mark.parametrize("name", ["nano-llama-q2_k", "nano-llama-q4_k_m", "nano-llama-q5_1", "nano-llama-q8_0"])
def test_prompts_by_matrices_of_subgroups_are_within_the_same_tolerance(name):
    spec = vector("logits", name)
    plain, _ = rows_of(spec)
    found, expected = rows_of(spec, env={"AIRFRAME_GPU_MATRICES": "emulated"})
    assert not np.array_equal(found, plain), "the matrices' shaders ran"
    assert np.sqrt(np.mean((found - expected) ** 2)) / expected.std() <= spec["tolerance"]["int8_rms"]


def test_verify_finds_no_excess_in_prompts_by_matrices_of_subgroups():
    result = shimmy_json("verify", MODELS / "nano-phi3-q4_0.gguf", "--device", DEVICE,
                         env={"AIRFRAME_GPU_MATRICES": "emulated"})
    assert result["excesses"] == 0, [r for r in result["rows"] if r["excess"]]


@pytest.mark.parametrize("name", ["nano-llama-q4_k_m", "nano-gemma3-q8_0"])
def test_neighbours_change_nothing_but_rounding(name):
    spec = vector("logits", name)
    alone, _ = rows_of(spec)
    beside, _ = rows_of(spec, "--neighbours", 3)
    assert np.sqrt(np.mean((alone - beside) ** 2)) / alone.std() <= spec["tolerance"]["int8_rms"]


# ---- Formats without a vector: their F32 twins say what is right (twins.py) ----

@pytest.fixture(scope="module", params=[(name, 1) for name in NATIVE + ["iq3_s", "tq1_0"]] + MIXES[::4],
                ids=lambda p: f"{p[0]}-{p[1]}")
def pair(request, tmp_path_factory):
    return Pair(tmp_path_factory.mktemp("formats"), *request.param)


def test_exact_logits_are_those_of_the_f32_twin(pair):
    assert pair.distance("--exact", "--device", DEVICE)[0] <= F32


def test_fast_logits_are_within_the_tolerance_of_rounded_activations_of_the_f32_twin(pair):
    assert pair.distance("--device", DEVICE)[1] <= INT8_RMS


def test_formats_that_no_shader_reads_are_widened_with_one_line_that_says_so(tmp_path):
    done = shimmy("logits", make(tmp_path, "iq2_s", 1), "--tokens", "1", "--device", DEVICE)
    lines = [line for line in done.stderr.decode().splitlines() if "widened" in line]
    assert lines == ["shimmy: warning: IQ2_S weights are widened to F16 on the GPU: 0.3 MB become 2.1 MB"]


# Counting on: a text without near ties, which rounding could decide either way.
def test_greedy_decoding_gives_the_cpus_tokens():
    arguments = ["generate", SMOL, "--prompt", "One, two, three, four,", "--raw", "--max-tokens", 8,
                 "--temperature", 0, "--ctx", 64]
    gpu = shimmy_json(*arguments, "--device", DEVICE)
    cpu = shimmy_json(*arguments, "--device", "cpu")
    assert gpu["text"] == " five, six, seven, eight," and gpu["ids"] == cpu["ids"]


# With no room for lists, every row is read whole after all, a step at a time; with room, steps are in flight.
@pytest.mark.parametrize("chain", [("--top-k", 40, "--temperature", 1.5), ("--top-k", 64, "--top-p", 0.9),
                                   ("--top-k", 5, "--min-p", 0.05, "--temperature", 3)])
def test_tokens_drawn_from_the_best_that_a_device_lists_are_those_of_whole_rows(chain):
    def run(env):
        return shimmy_json("generate", SMOL, "--prompt", "Once upon a time", "--raw", "--max-tokens", 12, "--seed", 7,
                           "--ctx", 64, "--device", DEVICE, *chain, env=env)["ids"]

    assert run({}) == run({"AIRFRAME_GPU_TOP": "0"})


def test_rows_come_as_lists_where_the_chain_takes_no_more():
    def kernels(*chain):
        done = shimmy("generate", SMOL, "--prompt", "One", "--raw", "--max-tokens", 4, "--ctx", 64, "--seed", 1,
                      "--device", DEVICE, *chain, env={"AIRFRAME_GPU_PROFILE": "1"})
        return {line.split()[0] for line in (done.stdout + done.stderr).splitlines() if line.split()}

    assert {b"top", b"draw"} <= kernels("--top-k", 40)
    assert not {b"top", b"draw"} & kernels("--top-k", 65)


# A millisecond is what few steps of a prompt take on lavapipe.
@pytest.mark.parametrize("name", ["nano-llama-q4_k_m", "nano-gemma3-q8_0"])
def test_a_prompt_cut_into_submits_by_a_time_budget_gives_the_same_logits(name):
    spec = vector("logits", name)
    trace = {"AIRFRAME_TRACE_SUBMITS": "1"}

    def run(env):
        done = shimmy("logits", MODELS / f"{name}.gguf", "--tokens", ",".join(map(str, spec["tokens"])), "--ctx", 64,
                      "--device", DEVICE, env={**trace, **env})
        return done.stdout, int(re.search(rb"in (\d+) submits", done.stderr)[1])
    whole, one = run({})
    cut, several = run({"SHIMMY_TDR_BUDGET_MS": "1"})
    assert whole == cut and one == 1 and several > 3


def test_bench_profiles_kernels_with_their_share_of_bandwidth():
    done = shimmy("bench", MODELS / "nano-llama-q4_0.gguf", "--prompt-tokens", 32, "--gen-tokens", 4, "--runs", 1, "--ctx",
                  64, "--device", DEVICE, "--profile")
    lines = done.stderr.decode().splitlines()
    at = next(i for i, line in enumerate(lines) if line.split()[:2] == ["kernel", "rows"])
    rows = [line.split() for line in lines[at + 1:-1]]
    kernels = {(row[0], row[2]) for row in rows}
    assert {("decode_one", "decode"), ("linear_mat", "general")} & kernels and "GB/s" in lines[-1]
    for row in rows:
        assert int(row[3]) > 0 and float(row[4]) >= 0
        assert (len(row) == 9) == (row[0].startswith(("linear", "decode_linear", "decode_one", "prompt_linear")))


# ---- verify ----

@pytest.mark.parametrize("name", ["nano-llama-q5_k_m", "nano-gemma3-q8_0"])
def test_verify_finds_no_excess(name):
    result = shimmy_json("verify", MODELS / f"{name}.gguf", "--device", DEVICE)
    assert result["excesses"] == 0 and result["passed_over"] is None and DEVICE in result["device"]
    rows = {(r["mode"], r["what"]) for r in result["rows"]}
    for mode in "exact", "fast":
        for what in "decode", "embed", "linear", "rope_store", "attend", "head", "choice", "logits":
            assert (mode, what) in rows
    assert all(r["rms"] <= r["rms_allowed"] and r["largest"] <= r["largest_allowed"] for r in result["rows"])


def test_verify_finds_a_shader_that_is_wrong():
    model = MODELS / "nano-llama-q8_0.gguf"
    done = shimmy("verify", model, "--device", DEVICE, exe=BROKEN, check=False)
    assert done.returncode == 1
    assert b"larger than allowed" in done.stderr
    wrong = {line.split()[1] for line in done.stdout.decode().splitlines() if "EXCESS" in line}
    assert "rope_store" in wrong and not wrong & {"decode", "embed", "linear", "head", "choice"}
    assert b"attn_rope" in done.stdout


# ---- Which GPU ----

def test_gpu_info_describes_each_adapter():
    for i, a in enumerate(INFO["adapters"]):
        assert a["device"] == f"gpu:{i}"
        assert a["type"] in {"discrete", "integrated", "other", "software"}
        assert a["name"] and a["driver"] and a["backend"] == "Vulkan"
        assert a["memory_bytes"] > 0 and 0 < a["binding_bytes"] <= a["buffer_bytes"]
        assert {f["name"] for f in a["features"]} >= {"subgroups", "shader-f16", "push-constants"}
    text = shimmy("gpu-info").stdout.decode()
    assert all(a["name"] in text and a["device"] in text for a in INFO["adapters"])


def test_software_is_never_taken_by_itself():
    assert not any(a["type"] == "software" and a["preferred"] for a in INFO["adapters"])
    if all(a["type"] == "software" for a in INFO["adapters"]):
        assert shimmy_json("bench", MODELS / "nano-llama-q4_0.gguf", "--prompt-tokens", 4, "--gen-tokens", 2, "--runs", 1,
                           "--ctx", 64, "--device", "auto")["device"].startswith("cpu")
        refused = shimmy("logits", MODELS / "nano-llama-q4_0.gguf", "--tokens", "1", "--device", "gpu", check=False)
        assert refused.returncode == 1 and ADAPTER["name"].encode() in refused.stderr


def test_an_unknown_device_is_refused_with_the_list():
    for device in "nosuch", "gpu:99", "gpu:", "gpu:0x", "gpu:-1":
        done = shimmy("logits", MODELS / "nano-llama-q4_0.gguf", "--tokens", "1", "--device", device, check=False)
        assert done.returncode == 1 and done.stdout == b""
        assert device.encode() in done.stderr and INFO["adapters"][0]["name"].encode() in done.stderr


def test_without_a_driver_there_is_no_gpu_and_the_cpu_is_used():
    bare = {"VK_ICD_FILENAMES": "/nonexistent", "VK_DRIVER_FILES": "/nonexistent"}
    info = adapters(env=bare)
    assert info["adapters"] == [] and "finds none" in info["why"]
    done = shimmy("gpu-info", env=bare)
    assert done.stdout.startswith(b"no GPU: ") and done.stdout.count(b"\n") == 1
    refused = shimmy("logits", MODELS / "nano-llama-q4_0.gguf", "--tokens", "1", "--device", "gpu", env=bare, check=False)
    assert refused.returncode == 1 and b"none" in refused.stderr
    shimmy("logits", MODELS / "nano-llama-q4_0.gguf", "--tokens", "1", "--device", "auto", env=bare)


def test_a_library_that_cannot_be_loaded_is_named():
    done = shimmy("gpu-info", env={"AIRFRAME_WEBGPU_LIB": "/nonexistent/libwebgpu.so"})
    assert done.stdout.startswith(b"no GPU: /nonexistent/libwebgpu.so")

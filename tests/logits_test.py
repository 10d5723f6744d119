"""The engine's logits are those of an independent engine, for small models of every weight format (vectors/logits).

Each file states its tolerances: `f32` with exact weights and f32 activations and cache, `int8_rms` for kernels that
round activations to eight bits.
"""
import numpy as np
import pytest

from support import MODELS, VECTORS, answers, logits, vector

PRESETS = sorted(path.stem for path in (VECTORS / "logits").glob("*.json"))
UNROUNDED = {"f32", "f16", "bf16"}  # weights that are multiplied with f32 activations


def rows_of(spec, *arguments, kv="f32"):
    """In the context that the vector was made in: some models choose their rotation by it."""
    positions = ",".join(map(str, spec["positions"]))
    found = logits(MODELS / f"{spec['preset']}.gguf", spec["tokens"], "--kv", kv, "--ctx", spec["n_ctx"], *arguments,
                   positions=positions)
    assert list(found) == spec["positions"]
    return np.array(list(found.values())), np.array(answers(spec))


@pytest.mark.parametrize("name", PRESETS)
def test_exact_logits_are_within_the_f32_tolerance(name):
    spec = vector("logits", name)
    found, expected = rows_of(spec, "--exact")
    assert np.abs(found - expected).max() <= spec["tolerance"]["f32"]


@pytest.mark.parametrize("name", PRESETS)
def test_fast_logits_are_within_the_tolerance_of_rounded_activations(name):
    spec = vector("logits", name)
    found, expected = rows_of(spec)
    if spec["preset"].rsplit("-", 1)[1] in UNROUNDED:
        assert np.abs(found - expected).max() <= spec["tolerance"]["f32"]
    else:
        relative = np.sqrt(np.mean((found - expected) ** 2)) / expected.std()
        assert relative <= spec["tolerance"]["int8_rms"]


@pytest.mark.parametrize("name", PRESETS)
def test_a_half_precision_cache_stays_within_the_f16_tolerance(name):
    spec = vector("logits", name)
    found, expected = rows_of(spec, "--exact", kv="f16")
    assert np.abs(found - expected).max() <= spec["tolerance"]["f16"]

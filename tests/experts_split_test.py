"""A mixture on a GPU whose experts stay on the CPU: --cpu-moe and --n-cpu-moe. Logits meet the vectors all the same."""
import pytest

from gpu_split_test import drift
from lavapipe import DEVICE
from support import MODELS, shimmy, shimmy_json


@pytest.mark.parametrize("name", ["nano-mixtral-q8_0", "nano-qwen2moe-f32", "nano-granitemoe-f32", "nano-gpt-oss-mxfp4"])
def test_experts_of_all_or_some_layers_may_stay_on_the_cpu(name):
    assert drift(name, "auto", "--cpu-moe") <= 1
    assert drift(name, "auto", "--n-cpu-moe", 1) <= 1
    assert drift(name, 1, "--cpu-moe", "--prefill-chunk", 7) <= 1


def device(*arguments):
    return shimmy_json("bench", MODELS / "nano-mixtral-q8_0.gguf", "--prompt-tokens", 4, "--gen-tokens", 2, "--runs", 1, "--ctx",
                       64, "--device", DEVICE, *arguments)["device"]


def test_the_device_says_whose_experts_are_on_the_cpu():
    assert "cpu (" in device("--cpu-moe") and device("--cpu-moe").endswith("with the experts of 2")
    assert device("--n-cpu-moe", 1).endswith("with the experts of 1")
    assert "cpu (" not in device("--n-cpu-moe", 0)


def test_a_number_of_layers_that_is_none_is_refused():
    done = shimmy("bench", MODELS / "nano-mixtral-q8_0.gguf", "--n-cpu-moe", "all", check=False)
    assert done.returncode == 2 and b"--n-cpu-moe" in done.stderr

"""Small models of random blocks, made here, and their F32 twins: what formats_test.py and the GPU's tests run on."""
import sys

import numpy as np

from support import ROOT, logits

sys.path.insert(0, str(ROOT / "tests/tools"))
from f32_twin import write_twin  # noqa: E402
import synth_gguf  # noqa: E402

NATIVE = ["iq4_nl", "iq4_xs", "mxfp4_all"]  # on the GPU; the others are widened there
WIDENED = ["iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq1_s", "iq1_m", "tq1_0", "tq2_0"]
FORMATS = [(name, 1) for name in NATIVE + WIDENED]
# Each matrix of another type. With so many first types each type is an embedding or a head once, and lies beside others
# in q, k and v.
MIXES = [("every", seed) for seed in range(0, len(synth_gguf.EVERY), 2)]
TOKENS = [(7 * i * i + 3 * i + 11) % 509 for i in range(40)]
INT8_RMS = 0.05  # what most vectors of logits allow rounded activations
F32 = 3e-3       # ... and another order of sums


def make(folder, mix, seed):
    path = folder / f"{mix}-{seed}.gguf"
    if not path.exists():
        synth_gguf.write(f"nano-llama-{mix}", path, None, seed)
    return path


def rows_of(model, *arguments):
    return np.array(list(logits(model, TOKENS, "--kv", "f32", *arguments).values()))


class Pair:
    """A file and its twin, and the twin's logits by the CPU's exact mode."""

    def __init__(self, folder, mix, seed):
        self.file, twin = make(folder, mix, seed), folder / f"{mix}-{seed}-f32.gguf"
        write_twin(self.file, twin)
        self.expected = rows_of(twin, "--exact")

    def distance(self, *arguments):
        """The largest difference of the file's logits, and the RMS of all in the spread of what is expected."""
        difference = rows_of(self.file, *arguments) - self.expected
        return np.abs(difference).max(), np.sqrt(np.mean(difference ** 2)) / self.expected.std()

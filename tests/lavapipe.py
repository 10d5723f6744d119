"""Lavapipe, Mesa's Vulkan in software, for tests of the GPU backend: importing this skips a module where it is absent.

SHIMMY_TEST_GPU names another adapter, by a part of its name: the same tests then run on a real GPU.
"""
import os

import pytest

from support import shimmy_json

DEVICE = os.environ.get("SHIMMY_TEST_GPU", "llvm")  # lavapipe calls itself llvmpipe
INFO = shimmy_json("gpu-info")

if INFO["library"] is None and "no GPU backend" in INFO["why"]:
    pytest.skip("this build has no GPU backend", allow_module_level=True)
if not any(DEVICE in a["name"] for a in INFO["adapters"]):
    pytest.skip(f"no adapter {DEVICE!r} (lavapipe: mesa-vulkan-drivers): {INFO['why']}", allow_module_level=True)

ADAPTER = next(a for a in INFO["adapters"] if DEVICE in a["name"])
MATRICES = any(f["name"] == "subgroup-matrices" and f["available"] for f in ADAPTER["features"])

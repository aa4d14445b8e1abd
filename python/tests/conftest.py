"""Nothing of PyTorch's stays enabled after a test."""

import os
import sys

import pytest

# Inductor compiles in the process itself: others would each import PyTorch first.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")


@pytest.fixture(autouse=True)
def disable_afterwards():
    yield
    module = sys.modules.get("gradnn.torch")
    if module is not None:
        module.disable()

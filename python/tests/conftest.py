"""Nothing of PyTorch's stays enabled after a test."""

import sys

import pytest


@pytest.fixture(autouse=True)
def disable_afterwards():
    yield
    module = sys.modules.get("gradnn.torch")
    if module is not None:
        module.disable()

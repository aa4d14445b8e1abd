"""For tests of torch.compile: `from torch_compiling import fresh`."""

import pytest
import torch
import torch._inductor.config

import gradnn.torch

# The vector instructions are those of /proc/cpuinfo: no program is compiled and
# run for each to see, which takes most of the time.
torch._inductor.config.cpp.vec_isa_ok = True


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    gradnn.torch.reset_status()
    yield
    torch._dynamo.reset()

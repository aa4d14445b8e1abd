"""What several tests of gradnn.torch do."""

import os
import subprocess
import sys

import torch
import torch.nn.functional as F


def step(dtype=torch.float32):
    """A small network's gradients."""
    generator = torch.Generator().manual_seed(1)
    x, w = (
        torch.randn(*shape, generator=generator).to(dtype).requires_grad_()
        for shape in ((2, 6, 11, 12), (8, 6, 3, 3))
    )
    y = F.interpolate(F.conv2d(x, w, padding=1), size=(20, 25), mode="bilinear")
    y.square().sum().backward()
    return x.grad, w.grad


def same_bits(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b))


def run_python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
    )
